"""Architectures of published models: our model for a configuration, and our names for its weights.

An Architecture builds a model from a config.json and maps a file's names to ours: `hugging` for Hugging
Face's checkpoints, `gguf` for GGUF files. Each is a list of (pattern, replacement), all applied in order; a
name that becomes "" is omitted on purpose.
"""

import re

import numpy as np

from minigrad.nn import LayerNorm
from minigrad.saving import FileProblem
from models.bert import BERT
from models.gpt import GPT, from_gpt2_state
from models.llama import Llama
from models.positional import interleaved_to_halves

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}


class Architecture:
    """The base class. `layers` names the attribute with the blocks, `spare` what a file may omit."""

    layers, spare, hugging, gguf = "layers", (), (), ()

    def __init__(self, config):
        self.config = config

    def ours(self, name, array, is_gguf):
        """(our name, our form of the array) of one tensor of a file; the name is "" if it is omitted."""
        for pattern, replacement in self.gguf if is_gguf else self.hugging:
            name = re.sub(pattern, replacement, name)
        return name, array

    def refuse(self, name, *fine):
        """Raises FileProblem if the configuration asks for something that our model does not have."""
        if self.config.get(name) not in (None, *fine):
            raise FileProblem(
                f"The configuration says {name} = {self.config[name]!r}, which our {type(self).__name__} "
                f"does not have (it has {', '.join(map(repr, fine)) or 'none'}). Use another model."
            )

    def positive(self, name, default):
        """A positive number from the configuration, or the default if it has none."""
        value = self.config.get(name)
        if value is not None and not (type(value) in (int, float) and 0 < value < float("inf")):
            raise FileProblem(
                f"The configuration says {name} = {value!r}, which must be above 0. Is the file complete?"
            )
        return default if value is None else value


class Bert(Architecture):
    """BERT and smaller models like MiniLM. Sentence encoders come without the head that fills in words."""

    spare = ("pooler.", "transform.", "transform_norm.", "output_bias")
    hugging = (
        (r"^bert\.", ""), (r"LayerNorm\.gamma$", "LayerNorm.weight"), (r"LayerNorm\.beta$", "LayerNorm.bias"),
        (r"^embeddings\.position_ids$|^cls\.predictions\.decoder\..*|^cls\.seq_relationship\..*", ""),
        (r"^embeddings\.word_embeddings", "tokens"), (r"^embeddings\.position_embeddings", "positions"),
        (r"^embeddings\.token_type_embeddings", "types"), (r"^embeddings\.LayerNorm", "norm"),
        (r"^encoder\.layer\.", "layers."), (r"attention\.self\.query", "self_attention.q_proj"),
        (r"attention\.self\.key", "self_attention.k_proj"), (r"attention\.self\.value", "self_attention.v_proj"),
        (r"attention\.output\.dense", "self_attention.out_proj"), (r"attention\.output\.LayerNorm", "residual1.norm"),
        (r"intermediate\.dense", "feed_forward.linear1"), (r"\.output\.dense", ".feed_forward.linear2"),
        (r"\.output\.LayerNorm", ".residual2.norm"), (r"^pooler\.dense", "pooler"), (r"^cls\.predictions\.bias$", "output_bias"),
        (r"^cls\.predictions\.transform\.dense", "transform"), (r"^cls\.predictions\.transform\.LayerNorm", "transform_norm"),
    )  # fmt: skip
    gguf = (
        (r"^token_embd_norm", "norm"), (r"^token_embd", "tokens"), (r"^position_embd", "positions"), (r"^token_types", "types"),
        (r"^blk\.", "layers."), (r"attn_output_norm", "residual1.norm"), (r"layer_output_norm", "residual2.norm"),
        (r"attn_([qkv])\.", r"self_attention.\1_proj."), (r"attn_output\.", "self_attention.out_proj."),
        (r"ffn_up", "feed_forward.linear1"), (r"ffn_down", "feed_forward.linear2"),
    )  # fmt: skip

    def build(self, layers):
        c = self.config
        self.refuse("position_embedding_type", "absolute")
        self.refuse("hidden_act", *ACTIVATIONS)
        model = BERT(c["vocab_size"], c["hidden_size"], c["num_attention_heads"], layers, c["intermediate_size"], c["max_position_embeddings"],
                     0.0, c.get("type_vocab_size", 2), c.get("pad_token_id") or 0, ACTIVATIONS[c.get("hidden_act", "gelu")])  # fmt: skip
        return with_eps(model, self.positive("layer_norm_eps", 1e-12))


class GPT2(Architecture):
    """GPT-2: our names are the published ones."""

    layers = "h"
    gguf = (
        (r"^output\.weight$", ""), (r"^token_embd", "wte"), (r"^position_embd", "wpe"), (r"^output_norm", "ln_f"), (r"^blk\.", "h."),
        (r"attn_norm", "ln_1"), (r"ffn_norm", "ln_2"), (r"attn_qkv", "attn.c_attn"), (r"attn_output", "attn.c_proj"),
        (r"ffn_up", "mlp.c_fc"), (r"ffn_down", "mlp.c_proj"),
    )  # fmt: skip

    def ours(self, name, array, is_gguf):
        if is_gguf:
            return super().ours(name, array, is_gguf)
        return next(iter(from_gpt2_state({name: array}).items()), ("", array))

    def build(self, layers):
        c = self.config
        self.refuse("activation_function", "gelu_new", "gelu_pytorch_tanh")
        self.refuse("scale_attn_weights", True)
        self.refuse("scale_attn_by_inverse_layer_idx", False)
        self.refuse("tie_word_embeddings", True)
        model = GPT(
            c["vocab_size"], c["n_embd"], c["n_head"], layers, c["n_positions"], 0.0, d_ff=c.get("n_inner")
        )
        return with_eps(model, self.positive("layer_norm_epsilon", 1e-5))


class LlamaLike(Architecture):
    """Llama and models built like it: SmolLM2, TinyLlama."""

    hugging = (
        (r".*rotary_emb\.inv_freq$", ""), (r"^model\.", ""), (r"^embed_tokens", "embedding"), (r"^lm_head", "output"),
        (r"input_layernorm", "attention_norm"), (r"post_attention_layernorm", "feed_forward_norm"),
        (r"self_attn\.o_proj", "attention.out_proj"), (r"self_attn\.", "attention."), (r"\.mlp\.", ".feed_forward."),
    )  # fmt: skip
    gguf = (
        (r"^token_embd", "embedding"), (r"^output_norm", "norm"), (r"^blk\.", "layers."), (r"attn_norm", "attention_norm"),
        (r"ffn_norm", "feed_forward_norm"), (r"attn_([qkv])\.", r"attention.\1_proj."), (r"attn_output\.", "attention.out_proj."),
        (r"ffn_(gate|up|down)", r"feed_forward.\1_proj"),
    )  # fmt: skip

    def ours(self, name, array, is_gguf):
        """As in Architecture; and reorders GGUF's rotary layout (interleaved) to Hugging Face's (halves)."""
        name, array = super().ours(name, array, is_gguf)
        if name == "output.weight" and self.config.get("tie_word_embeddings"):
            return "", array
        heads = {"q": self.config["num_attention_heads"], "k": self.kv_heads()}
        rotated = re.search(r"attention\.([qk])_proj\.weight$", name) if is_gguf else None
        return name, interleaved_to_halves(array, heads[rotated[1]]) if rotated else array

    def kv_heads(self):
        return self.config.get("num_key_value_heads") or self.config["num_attention_heads"]

    def build(self, layers):
        c, rope = self.config, self.config.get("rope_parameters") or {}
        self.refuse("hidden_act", "silu")
        self.refuse("attention_bias", False)
        self.refuse("mlp_bias", False)
        scaling = c.get("rope_scaling") or rope
        if scaling.get("rope_type", scaling.get("type", "default")) != "default":
            raise FileProblem(
                f"The configuration scales the rotary positions ({scaling}), which our Llama does not. "
                "Use another model."
            )
        theta = rope.get("rope_theta") or self.positive("rope_theta", 10000.0)
        return Llama(c["vocab_size"], c["hidden_size"], c["num_attention_heads"], layers, self.kv_heads(), c["intermediate_size"],
                     c["max_position_embeddings"], 0.0, theta, "halves", self.positive("rms_norm_eps", 1e-6),
                     bool(c.get("tie_word_embeddings", False)), c.get("head_dim"))  # fmt: skip


KNOWN = {"bert": Bert, "gpt2": GPT2, "llama": LlamaLike}


def architecture(config, where):
    """The Architecture of a configuration. Raises FileProblem for a model type that we do not have."""
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in KNOWN:
        raise FileProblem(f"{where} is a model of type {kind!r}; supported types are {', '.join(KNOWN)}.")
    return KNOWN[kind](config)


def with_eps(model, eps):
    """Set eps of every LayerNorm to the value that the model was trained with. Returns the model."""
    for module in model.modules():
        if isinstance(module, LayerNorm):
            module.eps = eps
    return model


def stand_in(shape):
    """An array of this shape that takes no memory: converts a name and a shape before any data is read."""
    return np.broadcast_to(np.uint8(0), shape)
