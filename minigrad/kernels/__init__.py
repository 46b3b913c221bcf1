"""The same functions as in functional/, derived by hand, on plain arrays. Know no tensors and no graph.

A kernel bears the name of a function in functional/, and its file that function's file name. blocked_attention.py, products.py
and blocks.py hold what kernels share.

Each opens with its formula; forward returns (y, saved), backward(g, y, saved, needs, *args) the gradient of each argument,
None where none is needed. A kernel never writes into g, y or its arguments; tests hold each equal to its definition, in
value and in first and second gradient. Some have a value(*args) besides: y alone, in few calls, for where nothing is recorded.
In decoding a call takes longer than what it computes. A value leaves to forward whatever is out of the ordinary.
"""

from minigrad.kernels.activations import gelu, log_softmax, silu, softmax
from minigrad.kernels.attention import attention
from minigrad.kernels.blocked_attention import blocked_attention
from minigrad.kernels.heads import merge_heads, rotate, split_heads
from minigrad.kernels.layers import embedding, layer_norm, linear, rms_norm
from minigrad.kernels.losses import cross_entropy
from minigrad.kernels.recurrent import gru_states, lstm_states, rnn_states
