"""Code shared by the commands (python -m minigrad.X): options, settings files, errors in one line."""
