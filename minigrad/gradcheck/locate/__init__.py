"""Find the op of a graph whose rule is wrong, and the source line that called it. Start with locating.py."""
