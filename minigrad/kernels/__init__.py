"""Kernels: functions of functional/ with gradients derived by hand, on plain arrays.

A kernel has the name of a function in functional/, and its file has the name of that function's file.
blocked_attention.py, products.py and blocks.py contain what kernels share.

Each section begins with the formula. forward returns (y, saved); backward(g, y, saved, needs, *args) returns
the gradient of each argument, None where it is not needed. A kernel never writes into g, y or its arguments.
Tests compare each with its definition, in value and in first and second gradient. Some kernels also have a
value(*args), which returns y alone in few calls. It runs where nothing is recorded, as in decoding, where a
call takes longer than its arithmetic; unusual arguments it passes to forward.
"""

from minigrad.kernels.activations import gelu, log_softmax, silu, softmax
from minigrad.kernels.attention import attention
from minigrad.kernels.blocked_attention import blocked_attention
from minigrad.kernels.heads import merge_heads, rotate, split_heads
from minigrad.kernels.layers import embedding, layer_norm, linear, rms_norm
from minigrad.kernels.losses import cross_entropy
from minigrad.kernels.recurrent import gru_states, lstm_states, rnn_states
