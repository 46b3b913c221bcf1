"""What went wrong: hypotheses, each tried on the evidence of one wrong gradient. reasons.py puts them in order."""
