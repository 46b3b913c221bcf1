"""Text as the token numbers that a published model knows, and a talk as the text it was trained on. Knows vocabularies, no weights.

Read by the package tokenizers from tokenizer.json, or put together from the vocabulary inside a GGUF file; a folder with a
vocab.txt needs no package: our WordPiece reads it.
"""

import numpy as np

from minigrad.saving import FileProblem, load_json
from models.pretrained.wordpiece import WordPiece

# how a GGUF file's vocabulary cuts the text before pairs are joined: its name for it, and whether digits stand alone
CUTS = {"smollm": True, "gpt-2": False, "gpt2": False, "default": False}
CONTROL = 3  # the type of a token in a GGUF file that is no text
KEPT = 8  # numbers that are decoded again with each new one: a blank may depend on what stands before
MOST = 1 << 27  # bytes of a tokenizer.json


class Tokenizer:
    """Text to numbers and back. `max_len` cuts what encode gives; `end` are the numbers that end an answer."""

    def __init__(self, inner, max_len=None, end=(), template=None, special=None):
        self.inner, self.end, self.template, self.special = inner, tuple(end), template, special or {}
        inner.no_padding()
        inner.no_truncation()
        if max_len:
            inner.enable_truncation(max_len)

    def encode(self, text, special=True):
        """The numbers of a text, an array (T,); special: with what the model wants around it."""
        return np.array(self.inner.encode(text, add_special_tokens=special).ids, dtype=np.int64)

    def decode(self, numbers):
        return self.inner.decode([int(n) for n in numbers])

    def chat(self, messages):
        """The text of a talk, [{"role": "user", "content": "..."}, ...], up to where the answer begins."""
        if not self.template:
            raise FileProblem(
                "This model has no chat template: it continues text, and was not trained to answer."
            )
        try:
            from jinja2 import TemplateError
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        except ImportError:
            raise FileProblem(
                "Chat templates are written for the package jinja2, which is not installed. Type: pip install jinja2"
            ) from None
        try:  # the template is a stranger's: the sandbox lets it write text and nothing else
            template = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(
                self.template
            )
            return template.render(messages=messages, add_generation_prompt=True, **self.special)
        except (TemplateError, TypeError, ValueError) as error:
            raise FileProblem(f"The model's chat template cannot be followed: {error}") from None


def streamed(tokenizer, numbers):
    """The text of numbers as they come, a piece for each: "" while a character is unfinished, which waits for the rest."""
    seen, shown, text = [], "", ""
    for number in numbers:
        seen.append(int(number))
        text = tokenizer.decode(seen)
        if text.endswith("�"):
            yield ""
            continue
        yield text[len(shown) :]
        # to decode all from the beginning would take the square of the length
        seen = seen[-KEPT:] if len(seen) > 4 * KEPT else seen
        shown = text = tokenizer.decode(seen)
    yield text[len(shown) :]


def tokenizer_of(source):
    """The tokenizer of a folder or a GGUF file."""
    return of_gguf(source) if source.is_gguf else of_folder(source)


def of_folder(source):
    path = source.path
    settings = load_json(path / "tokenizer_config.json") if (path / "tokenizer_config.json").exists() else {}
    limit = (
        load_json(path / "sentence_bert_config.json").get("max_seq_length")
        if (path / "sentence_bert_config.json").exists()
        else None
    )
    limit = limit or (
        source.config.get("max_position_embeddings") if source.config.get("model_type") == "bert" else None
    )
    if (path / "tokenizer.json").exists() and package():
        special = {
            key: text_of(settings.get(key))
            for key in ("bos_token", "eos_token", "unk_token", "pad_token")
            if settings.get(key)
        }
        end = source.config.get("eos_token_id")
        return Tokenizer(
            read(path / "tokenizer.json"),
            limit,
            end if isinstance(end, list) else [end] * (end is not None),
            template_of(path, settings),
            special,
        )
    if (path / "vocab.txt").exists():
        return WordPiece(path / "vocab.txt", settings.get("do_lower_case", True), limit)
    if (path / "tokenizer.json").exists():
        raise FileProblem(
            f"{path / 'tokenizer.json'} is read by the package tokenizers, which is not installed. Type: pip install tokenizers"
        )
    raise FileProblem(
        f"{path} holds no tokenizer.json and no vocab.txt, so text cannot become tokens; download them beside the weights."
    )


def text_of(token):
    return token.get("content") if isinstance(token, dict) else token


def template_of(path, settings):
    """The chat template: a file of its own or a setting; of several the first."""
    if (path / "chat_template.jinja").exists():
        return (path / "chat_template.jinja").read_text(encoding="utf-8")
    template = settings.get("chat_template")
    return template[0].get("template") if isinstance(template, list) and template else template


def package():
    try:
        import tokenizers
    except ImportError:
        return None
    return tokenizers


def read(path):
    try:
        if path.stat().st_size > MOST:
            raise ValueError(f"it is {path.stat().st_size:,} bytes long")
        return package().Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises bare Exceptions
        raise FileProblem(f"{path} is not a whole tokenizer.json ({error}); download it again.") from None


# ---------------------------------------------------------------- from a GGUF file


def of_gguf(source):
    kind, tokens = source.get("tokenizer.ggml.model"), source.get("tokenizer.ggml.tokens")
    if not tokens:
        raise FileProblem(f"{source.path} holds no vocabulary, so text cannot become tokens.")
    if kind == "bert":
        return WordPiece(
            [unspaced(token) for token in tokens], True, source.config.get("max_position_embeddings")
        )
    cut = source.get("tokenizer.ggml.pre", "default")
    if kind != "gpt2" or cut not in CUTS:
        raise FileProblem(
            f"{source.path} has a vocabulary of the kind {kind!r}, cut by {cut!r}; read are 'bert', and 'gpt2' cut by {', '.join(CUTS)}. "
            "Take the model as a folder with a tokenizer.json."
        )
    if not package():
        raise FileProblem(
            "The vocabulary inside a GGUF file is read with the package tokenizers, which is not installed. Type: pip install tokenizers"
        )
    bos, eos = (source.get(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos"))
    special = {
        f"{name}_token": tokens[number] for name, number in (("bos", bos), ("eos", eos)) if number is not None
    }
    inner = byte_pairs(
        tokens, source.get("tokenizer.ggml.merges"), source.get("tokenizer.ggml.token_type"), CUTS[cut]
    )
    return Tokenizer(inner, None, [eos] * (eos is not None), source.get("tokenizer.chat_template"), special)


def byte_pairs(tokens, merges, types, digits_alone):
    """GPT-2's byte pair encoding of a vocabulary and the pairs to join, in order."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    pairs = [tuple(merge.split(" ")) for merge in merges or ()]
    inner = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, pairs))
    cuts = [pre_tokenizers.Digits(individual_digits=True)] if digits_alone else []
    inner.pre_tokenizer = pre_tokenizers.Sequence([*cuts, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(
        [
            AddedToken(token, special=True)
            for token, kind in zip(tokens, types or (), strict=False)
            if kind == CONTROL
        ]
    )
    return inner


def unspaced(token):
    """GGUF marks where a word begins, with ▁; WordPiece where it goes on, with ##."""
    return (
        token
        if token.startswith("[") and token.endswith("]")
        else token[1:]
        if token.startswith("▁")
        else f"##{token}"
    )
