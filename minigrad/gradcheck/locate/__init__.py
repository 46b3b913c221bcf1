"""Which op of a graph has the wrong rule, and the line that called it. locating.py begins."""
