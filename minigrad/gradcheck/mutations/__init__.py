"""Spoil every rule, kernel and engine function in turn, and count what gradcheck catches and names. run.py begins."""
