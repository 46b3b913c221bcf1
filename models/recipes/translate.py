"""translate: an encoder-decoder learns to translate from your own sentence pairs, in any languages.

A pairs file has a source, a tab and its target on each line (minigrad/data/pairs.py). The model learns from
nine tenths of the sources. A hash of the source chooses them: all translations of a sentence are in the same
part, for every seed.
"""

import warnings
from functools import cached_property
from itertools import zip_longest

import numpy as np

from minigrad.data import TOKENS, PairDataset, Shuffled, remembered, vocabulary
from minigrad.data.pairs import FORMAT
from models.recipes.encoder_decoder import RESERVED, Pairs
from models.recipes.sequences import hash_of

FEWEST = 100  # pairs; a model would only memorize fewer
PARTS = {0: "test", 10: "validation"}  # the hash modulo 20; the rest is training


class Translate(Pairs):
    """Source and target share one vocabulary, from the training pairs. The metric is chrF, with sacrebleu."""

    name = "translate"
    help = (
        "an encoder-decoder translates: --pairs FILE.tsv, your own sentence pairs, "
        "a source, a tab and its target on each line"
    )
    defaults = dict(
        pairs=None, tokens="bpe", vocab_size=1000, context=64, steps=2000, batch_size=64, lr=2e-3, d_model=128, layers=2, heads=4,
        d_ff=512, dropout=0.1, norm="pre", label_smoothing=0.1, model="transformer",
    )  # fmt: skip
    choices = {**Pairs.choices, "tokens": TOKENS}
    evaluate_every = 200
    attention_title = "Attention of the decoder's last layer to the source while it writes each token"

    def __init__(self, settings):
        super().__init__(settings)
        known = "vocabulary" in self.settings  # a run keeps it: translating needs no pairs
        self.vocabulary = (
            remembered(self.settings["vocabulary"], RESERVED) if known else self._learn_vocabulary()
        )
        self.settings["vocabulary"] = self.vocabulary.to_json()
        self.vocab_size = len(self.vocabulary)
        self.max_len = self.max_new = self.settings["context"] + 1  # with the start, or the end
        if not known:
            self.note, self.settings["example"] = self._note(), min(self.held["validation"], key=hard_to_type)
            self.settings["seen"] = "".join(
                sorted({c for source, _ in self.parts["training"] for c in source})
            )
        self.example = self.settings.get("example", "")  # a run keeps it too

    @property
    def metric(self):
        return "chrF" if scorer() else "exact match"

    @property
    def share(self):
        return self.metric == "exact match"

    # -------- data

    @cached_property
    def all_parts(self):
        """{part: its pairs} of the file."""
        found = {name: [] for name in ("training", *PARTS.values())}
        for pair in read(self.settings["pairs"]):
            found[part_of(pair[0])].append(pair)
        return found

    def _learn_vocabulary(self):
        """All characters of the file, or BPE's symbols from the training pairs, each within one sentence."""
        tokens = self.settings["tokens"]
        known, between = (self.all_parts, "") if tokens == "characters" else (["training"], "\n")
        text = between.join(sentence for part in known for pair in self.all_parts[part] for sentence in pair)
        return vocabulary(tokens, text, self.settings["vocab_size"], RESERVED)

    @cached_property
    def parts(self):
        """{part: its pairs that are not too long}. Raises ValueError if they are too few, and says why."""
        short = {name: [pair for pair in part if self._fits(pair)] for name, part in self.all_parts.items()}
        count, left, path = total(self.all_parts), total(short), self.settings["pairs"]
        context = self.settings["context"]
        if count >= FEWEST and left < count / 2:
            raise ValueError(
                f"{count - left} of the {count} pairs in {path} are longer than {context} tokens; "
                f"shorten them, or take --context {2 * context}."
            )
        if left < FEWEST or not all(short.values()):
            sources = len({source for part in short.values() for source, _ in part})
            raise ValueError(
                f"{path} holds {left} pairs of {sources} different sources that can be used; "
                "to learn from nine tenths and be tested on the rest "
                f"takes at least {FEWEST} sources, and better thousands."
            )
        return short

    def _fits(self, pair):
        return max(len(self.vocabulary.encode(sentence)) for sentence in pair) <= self.settings["context"]

    @cached_property
    def held(self):
        """{part: {source: its targets}} of the parts that are not for training."""
        return {name: by_source(self.parts[name]) for name in PARTS.values()}

    def _note(self):
        held = " and ".join(f"{len(sources):,} sentences for {part}" for part, sources in self.held.items())
        note = (
            f"{len(self.parts['training']):,} pairs to learn from, {held}; {len(self.vocabulary):,} tokens."
        )
        if longer := total(self.all_parts) - total(self.parts):
            note += (
                f" {longer:,} pairs longer than {self.settings['context']} tokens are left out (--context)."
            )
        if not scorer():
            note += (
                " For chrF and BLEU install sacrebleu (pip install sacrebleu); "
                "without it the metric is exact match."
            )
        return note

    def batch(self, step):
        """(src (B, Ts), tgt (B, Tt)): all pairs in a random order, then all again in another order."""
        pairs = self.parts["training"]
        return self.rows([pairs[i] for i in self.order.batch(step, self.settings["batch_size"])])

    @cached_property
    def order(self):
        return Shuffled(len(self.parts["training"]))

    # -------- text and tokens

    def encode(self, text):
        """Convert a sentence to token ids. Raises ValueError if it is empty, too long or unreadable."""
        ids = self.vocabulary.encode(text.strip())
        if not len(ids):
            raise ValueError("There is no sentence to translate: the text is empty.")
        if len(ids) > self.settings["context"]:
            raise ValueError(
                f"A sentence of {len(ids)} tokens is too long for the model, which reads up to "
                f"{self.settings['context']}; divide it into parts."
            )
        return ids

    def stream(self, model, prompt, **options):
        """Yield the translation. Warns about characters that no training sentence has.

        BPE can spell them, but the model has not learned them."""
        seen = self.settings.get("seen", prompt)  # old runs lack it
        if unseen := sorted(set(prompt.strip()) - set(seen)):
            shown = " ".join(map(repr, unseen[:10])) + (" ..." if len(unseen) > 10 else "")
            warnings.warn(
                f"{shown} occurred in no sentence that the model learned from; its translation is a guess.",
                stacklevel=2,
            )
        yield from super().stream(model, prompt, **options)

    def decode(self, ids):
        return self.vocabulary.decode(ids)

    def label(self, token):
        return self.vocabulary.decode([token]).replace(" ", "␣")

    # -------- figures

    def shown(self, figure):
        return f"{figure:.1f}" if self.metric == "chrF" else super().shown(figure)

    def evaluate(self, model, final=False):
        """sacrebleu's chrF and BLEU, and the fraction of answers that exactly match a target of their source.

        For at most 1,000 test sentences at the end, 100 validation sentences before."""
        held = self.held["test" if final else "validation"]
        sources = [*held][: 1000 if final else 100]
        return scores(self.answers(model, sources), [held[source] for source in sources])

    def samples(self, model, count=3):
        """(source, prediction, target) rows; of several targets the one that matches, or the first."""
        held = self.held["validation"]
        sources = [*held][:count]
        answers = self.answers(model, sources)
        return [
            (s, answer, answer if answer in held[s] else held[s][0])
            for s, answer in zip(sources, answers, strict=True)
        ]


# ---------------------------------------------------------------- pairs


def read(path):
    """Read the [(source, target)] of a pairs file."""
    if path is None:
        raise ValueError(f"translate needs sentence pairs to learn from: --pairs FILE.tsv. {FORMAT}")
    return PairDataset(path).pairs


def part_of(source):
    """ "training", "validation" or "test": the same for every file, seed and machine."""
    return PARTS.get(hash_of(source) % 20, "training")


def total(parts):
    return sum(map(len, parts.values()))


def by_source(pairs):
    """{source: its targets}, ordered by hash: a file's own order is often from short to long."""
    found = {}
    for source, target in sorted(pairs, key=lambda pair: hash_of(pair[0])):
        found.setdefault(source, []).append(target)
    return found


def hard_to_type(source):
    """True if a shell would not take the source between quotation marks; as a sort key: such sources last."""
    return any(c in source for c in '"$`\\!')


# ---------------------------------------------------------------- scores


def scorer():
    """sacrebleu, or None where it is not installed."""
    try:
        import sacrebleu
    except ImportError:
        return None
    return sacrebleu


def scores(answers, targets):
    """Score answers against lists of targets: {"chrF", "BLEU", "exact match"}, the first two from 0 to 100.

    chrF compares character n-grams (Popović 2015), which works for any language; BLEU compares word n-grams
    (Papineni et al. 2002).
    """
    figures, sacrebleu = {}, scorer()
    if sacrebleu:
        # all first targets, all second ..., None where a source has fewer
        streams = [list(stream) for stream in zip_longest(*targets)]
        figures["chrF"] = sacrebleu.corpus_chrf(answers, streams).score
        # force: no advice about spaces before dots
        figures["BLEU"] = sacrebleu.corpus_bleu(answers, streams, force=True).score
    figures["exact match"] = float(
        np.mean([answer in those for answer, those in zip(answers, targets, strict=True)])
    )
    return figures
