"""The machinery of the course: find lessons, run answers in isolation, judge them, save progress, grade."""
