"""The same functions as in functional/, derived by hand, on plain arrays: file by file. Know no tensors and no graph.

Each opens with its formula; forward returns (y, saved), backward(g, y, saved, needs, *args) the gradient of each argument,
None where none is needed. A kernel never writes into g, y or its arguments; tests hold each equal to its definition, in
value and in first and second gradient.
"""

from minigrad.kernels.activations import gelu, log_softmax, silu, softmax
from minigrad.kernels.attention import attention
from minigrad.kernels.blocked_attention import blocked_attention
from minigrad.kernels.heads import merge_heads, rotate, split_heads
from minigrad.kernels.layers import embedding, layer_norm, linear, rms_norm
from minigrad.kernels.losses import cross_entropy
from minigrad.kernels.recurrent import gru_states, lstm_states, rnn_states
from minigrad.kernels.values import attention_value, layer_norm_value, linear_value, rms_norm_value
