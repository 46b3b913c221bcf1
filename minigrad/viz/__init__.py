"""Pictures and pages: graphs, the stepper, traces, attention maps, training curves.

Drawing reads public fields only. matplotlib is loaded when the first picture is drawn.
"""

from minigrad.viz.explorer import attention
from minigrad.viz.graph import graph
from minigrad.viz.pictures import attention_map, charts, curve
from minigrad.viz.stepper import stepper
from minigrad.viz.trace import kept_for_backward, trace_forward

__all__ = [
    "attention",
    "attention_map",
    "charts",
    "curve",
    "graph",
    "kept_for_backward",
    "stepper",
    "trace_forward",
]
