"""translate: an encoder-decoder learns from your own sentence pairs, and translates. Knows files of pairs; not a single language.

A pairs file has a source, a tab and its target on each line (minigrad/data/pairs.py). Nine tenths of the sources are learned from. Which, is fixed by a hash of the source: a sentence
with several translations is on one side only, and no seed moves it to the other.
"""

import warnings
from functools import cached_property
from itertools import zip_longest

import numpy as np

from minigrad.data import TOKENS, PairDataset, Shuffled, remembered, vocabulary
from minigrad.data.pairs import FORMAT
from models.recipes.encoder_decoder import RESERVED, Pairs
from models.recipes.sequences import hash_of

FEWEST = 100  # pairs; of fewer there is nothing to learn but those themselves
PARTS = {0: "test", 10: "validation"}  # of 20, by the hash; the others are for training


class Translate(Pairs):
    """Source and target share one vocabulary, learned from the training pairs; the metric is chrF where sacrebleu is installed."""

    name = "translate"
    help = "an encoder-decoder translates: --pairs FILE.tsv, your own sentence pairs, a source, a tab and its target on each line"
    defaults = dict(
        pairs=None, tokens="bpe", vocab_size=1000, context=64, steps=2000, batch_size=64, lr=2e-3, d_model=128, layers=2, heads=4,
        d_ff=512, dropout=0.1, norm="pre", label_smoothing=0.1, model="transformer",
    )  # fmt: skip
    choices = {**Pairs.choices, "tokens": TOKENS}
    evaluate_every = 200
    attention_title = "What the decoder's last layer looks at in the source while it writes each token"

    def __init__(self, settings):
        super().__init__(settings)
        known = "vocabulary" in self.settings  # a run remembers it: to translate, its pairs are not needed
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
        self.example = self.settings.get("example", "")  # a run remembers it too

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
        """All characters there are; BPE's symbols from the training pairs only, none reaching from one sentence to the next."""
        tokens = self.settings["tokens"]
        known, between = (self.all_parts, "") if tokens == "characters" else (["training"], "\n")
        text = between.join(sentence for part in known for pair in self.all_parts[part] for sentence in pair)
        return vocabulary(tokens, text, self.settings["vocab_size"], RESERVED)

    @cached_property
    def parts(self):
        """{part: the pairs that are not too long}; a sentence if these are too few, and why."""
        short = {name: [pair for pair in part if self._fits(pair)] for name, part in self.all_parts.items()}
        count, left, path = total(self.all_parts), total(short), self.settings["pairs"]
        context = self.settings["context"]
        if count >= FEWEST and left < count / 2:
            raise ValueError(f"{count - left} of the {count} pairs in {path} are longer than {context} tokens; shorten them, or take --context {2 * context}.")  # fmt: skip
        if left < FEWEST or not all(short.values()):
            sources = len({source for part in short.values() for source, _ in part})
            raise ValueError(f"{path} holds {left} pairs of {sources} different sources that can be used; to learn from nine tenths and be tested on the rest takes {FEWEST} sources, and better thousands.")  # fmt: skip
        return short

    def _fits(self, pair):
        return max(len(self.vocabulary.encode(sentence)) for sentence in pair) <= self.settings["context"]

    @cached_property
    def held(self):
        """{part: {source: its targets}} of what is never learned from."""
        return {name: by_source(self.parts[name]) for name in PARTS.values()}

    def _note(self):
        held = " and ".join(f"{len(sources):,} sentences for {part}" for part, sources in self.held.items())
        said = (
            f"{len(self.parts['training']):,} pairs to learn from, {held}; {len(self.vocabulary):,} tokens."
        )
        if longer := total(self.all_parts) - total(self.parts):
            said += (
                f" {longer:,} pairs longer than {self.settings['context']} tokens are left out (--context)."
            )
        if not scorer():
            said += " For chrF and BLEU install sacrebleu (pip install sacrebleu); without it the metric is exact match."
        return said

    def batch(self, step):
        """(src (B, Ts), tgt (B, Tt)): all pairs in a random order, then all again in another."""
        pairs = self.parts["training"]
        return self.rows([pairs[i] for i in self.order.batch(step, self.settings["batch_size"])])

    @cached_property
    def order(self):
        return Shuffled(len(self.parts["training"]))

    # -------- text and tokens

    def encode(self, text):
        """The token numbers; an error for what the model cannot read."""
        numbers = self.vocabulary.encode(text.strip())
        if not len(numbers):
            raise ValueError("There is no sentence to translate: the text is empty.")
        if len(numbers) > self.settings["context"]:
            raise ValueError(f"A sentence of {len(numbers)} tokens is too long for the model, which reads up to {self.settings['context']}; give it in parts.")  # fmt: skip
        return numbers

    def stream(self, model, prompt, **options):
        """The translation; with a warning where it can only be a guess, because BPE spells any character, learned or not."""
        seen = self.settings.get("seen", prompt)  # a run of before did not remember it
        if unseen := sorted(set(prompt.strip()) - set(seen)):
            shown = " ".join(map(repr, unseen[:10])) + (" ..." if len(unseen) > 10 else "")
            warnings.warn(
                f"{shown} stood in no sentence that the model learned from; what it makes of that is a guess.",
                stacklevel=2,
            )
        yield from super().stream(model, prompt, **options)

    def decode(self, numbers):
        return self.vocabulary.decode(numbers)

    def label(self, number):
        return self.vocabulary.decode([number]).replace(" ", "␣")

    # -------- figures

    def shown(self, figure):
        return f"{figure:.1f}" if self.metric == "chrF" else super().shown(figure)

    def evaluate(self, model, final=False):
        """chrF and BLEU as sacrebleu counts them, and the share of sentences answered right to the last character: of up to
        1,000 of the test at the end, 100 of validation meanwhile, any of the targets of a source being right."""
        held = self.held["test" if final else "validation"]
        sources = [*held][: 1000 if final else 100]
        return scores(self.answers(model, sources), [held[source] for source in sources])

    def samples(self, model, count=3):
        """(source, prediction, target): of several targets the one that was met, or the first."""
        held = self.held["validation"]
        sources = [*held][:count]
        answers = self.answers(model, sources)
        return [
            (s, answer, answer if answer in held[s] else held[s][0])
            for s, answer in zip(sources, answers, strict=True)
        ]


# ---------------------------------------------------------------- pairs


def read(path):
    """[(source, target)] of a pairs file."""
    if path is None:
        raise ValueError(f"translate needs sentence pairs to learn from: --pairs FILE.tsv. {FORMAT}")
    return PairDataset(path).pairs


def part_of(source):
    """training, validation or test: the same for every file, seed and machine."""
    return PARTS.get(hash_of(source) % 20, "training")


def total(parts):
    return sum(map(len, parts.values()))


def by_source(pairs):
    """{source: its targets}, in an order that has nothing to do with the file's, which is often from short to long."""
    found = {}
    for source, target in sorted(pairs, key=lambda pair: hash_of(pair[0])):
        found.setdefault(source, []).append(target)
    return found


def hard_to_type(source):
    """Sorts what a shell would not take between quotation marks to the end."""
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
    """Figures of answers, each with a list of targets: {"chrF", "BLEU", "exact match"}, the first two from 0 to 100.

    chrF compares short strings of characters (Popović 2015), which works for any language; BLEU strings of words (Papineni
    et al. 2002).
    """
    figures, sacrebleu = {}, scorer()
    if sacrebleu:
        # all first targets, all second, None where there is none
        streams = [list(stream) for stream in zip_longest(*targets)]
        figures["chrF"] = sacrebleu.corpus_chrf(answers, streams).score
        # force: no advice about blanks before dots
        figures["BLEU"] = sacrebleu.corpus_bleu(answers, streams, force=True).score
    figures["exact match"] = float(
        np.mean([answer in those for answer, those in zip(answers, targets, strict=True)])
    )
    return figures
