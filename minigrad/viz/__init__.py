"""Pictures. Reads public fields only; matplotlib is loaded when a picture is asked for."""

from minigrad.viz.pictures import attention_map, charts, curve

__all__ = ["attention_map", "charts", "curve"]
