"""Tokenizers of published models: text to token ids and back, and chats to text.

The package tokenizers reads a tokenizer.json, or gets the vocabulary of a GGUF file; a folder with a
vocab.txt needs no package: our WordPiece reads it.
"""

import numpy as np

from minigrad.saving import FileProblem, load_json
from models.pretrained.wordpiece import WordPiece

# the pre-tokenizers of GGUF files, by name: whether each splits digits
CUTS = {"smollm": True, "gpt-2": False, "gpt2": False, "default": False}
CONTROL = 3  # the type of a control token in a GGUF file
KEPT = 8  # ids that are decoded again with each new one: a space may depend on the tokens before
MOST = 1 << 27  # bytes of a tokenizer.json, at most


class Tokenizer:
    """Converts text to token ids, at most max_len of them, and back. The ids in `end` end an answer."""

    def __init__(self, inner, max_len=None, end=(), template=None, special=None):
        self.inner, self.end, self.template, self.special = inner, tuple(end), template, special or {}
        inner.no_padding()
        inner.no_truncation()
        if max_len:
            inner.enable_truncation(max_len)

    def encode(self, text, special=True):
        """The token ids of a text, an array (T,); `special` adds the model's special tokens around it."""
        return np.array(self.inner.encode(text, add_special_tokens=special).ids, dtype=np.int64)

    def decode(self, ids):
        return self.inner.decode([int(i) for i in ids])

    def chat(self, messages):
        """Render a chat, [{"role": "user", "content": "..."}, ...], as text up to where the answer begins."""
        if not self.template:
            raise FileProblem(
                "This model has no chat template: it continues text, and was not trained to answer."
            )
        try:
            from jinja2 import TemplateError
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        except ImportError:
            raise FileProblem(
                "Chat templates need the package jinja2, which is not installed. Type: pip install jinja2"
            ) from None
        try:  # the template is not trusted: the sandbox lets it only write text
            template = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(
                self.template
            )
            return template.render(messages=messages, add_generation_prompt=True, **self.special)
        except (TemplateError, TypeError, ValueError) as error:
            raise FileProblem(f"The model's chat template cannot be rendered: {error}") from None


def streamed(tokenizer, ids):
    """Yield the text of ids as they come, a piece for each: "" while a character is incomplete."""
    seen, shown, text = [], "", ""
    for token in ids:
        seen.append(int(token))
        text = tokenizer.decode(seen)
        if text.endswith("�"):
            yield ""
            continue
        yield text[len(shown) :]
        # decoding all ids each time would take quadratic time
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
            f"{path / 'tokenizer.json'} needs the package tokenizers, which is not installed. "
            "Type: pip install tokenizers"
        )
    raise FileProblem(
        f"{path} holds no tokenizer.json and no vocab.txt, so text cannot become tokens; "
        "download them beside the weights."
    )


def text_of(token):
    return token.get("content") if isinstance(token, dict) else token


def template_of(path, settings):
    """The chat template, from its own file or from the settings; the first of several."""
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
            [to_wordpiece(token) for token in tokens], True, source.config.get("max_position_embeddings")
        )
    cut = source.get("tokenizer.ggml.pre", "default")
    if kind != "gpt2" or cut not in CUTS:
        raise FileProblem(
            f"{source.path} has a vocabulary of the kind {kind!r} with the pre-tokenizer {cut!r}; supported "
            f"are 'bert', and 'gpt2' with {', '.join(CUTS)}. Use the model as a folder with a tokenizer.json."
        )
    if not package():
        raise FileProblem(
            "The vocabulary of a GGUF file needs the package tokenizers, which is not installed. "
            "Type: pip install tokenizers"
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
    """GPT-2's byte pair encoding, from a vocabulary and its ordered merges."""
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


def to_wordpiece(token):
    """Convert a token from GGUF's mark (▁ begins a word) to WordPiece's (## continues one)."""
    return (
        token
        if token.startswith("[") and token.endswith("]")
        else token[1:]
        if token.startswith("▁")
        else f"##{token}"
    )
