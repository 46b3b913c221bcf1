"""Transformers and their relatives, built on minigrad. One idea a file, each to be read beside its paper."""

import minigrad  # its import hook names the new place of a module of models/ that moved
