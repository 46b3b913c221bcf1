"""Diagnose a wrong gradient: try a list of hypotheses on its entries. Start with reasons.py."""
