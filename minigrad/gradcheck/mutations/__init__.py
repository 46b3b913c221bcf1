"""Spoil every rule, kernel and engine function, and count the faults that gradcheck catches and diagnoses.

Start with run.py.
"""
