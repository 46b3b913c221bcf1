"""The course. `python -m tutorials` lists the lessons; `check(function)` checks an exercise in a notebook."""

from tutorials.runner.notebook import check, published, show

__all__ = ["check", "published", "show"]
