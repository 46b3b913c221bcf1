"""What runs the course: finds lessons, runs answers in isolation, judges them, remembers progress, grades. Knows no lesson's content."""
