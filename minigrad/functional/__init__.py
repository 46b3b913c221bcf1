"""The readable definitions: softmax, layer norm, cross-entropy, attention ... with PyTorch's signatures.

They are composed from ops, so the engine differentiates them, to any order. Where speed pays, kernels/ has
the same function derived by hand. A @definition names the file of its kernel and uses it, except in `with
minigrad.definitions():`, where the code in this folder runs.
"""

from minigrad.ops import relu, sigmoid, tanh
from minigrad.functional.tiers import DEFINITIONS, definition
from minigrad.functional.activations import (
    elu, gelu, hardtanh, leaky_relu, log_softmax, logsigmoid, logsumexp, relu6, silu, softmax, softplus,
)  # fmt: skip
from minigrad.functional.layers import (
    cosine_similarity, embedding, layer_norm, linear, normalize, normalized, one_hot, pad, rms_norm,
    root_mean_square_normalized, rows_of,
)  # fmt: skip
from minigrad.functional.losses import (
    binary_cross_entropy, binary_cross_entropy_with_logits, cosine_embedding_loss, cross_entropy, huber_loss, kl_div,
    l1_loss,
    mse_loss, nll_loss, smooth_l1_loss, token_losses,
)  # fmt: skip
from minigrad.functional.attention import (
    attention, attention_weights, blocked_attention, is_long, scaled_dot_product_attention,
)  # fmt: skip
from minigrad.functional.masks import CausalMask, seen_keys, without_unseen
from minigrad.functional.heads import merge_heads, rotate, split_heads
from minigrad.functional.dropout import Dropped, dropout, dropout_scale
from minigrad.functional.recurrent import gru_states, lstm_states, rnn_states
