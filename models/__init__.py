"""Everything that is a Transformer. One idea a file, each to be read beside the paper; built on minigrad, which knows none of it."""

import minigrad  # which tells where a module of models/ moved
