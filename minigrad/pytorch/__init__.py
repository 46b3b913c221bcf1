"""Absent names, differences and moved modules, for error messages and the page "coming from PyTorch"."""
