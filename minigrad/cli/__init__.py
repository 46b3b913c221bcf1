"""What the doors (python -m minigrad.X) share: their options, their files of settings, and errors in one sentence."""
