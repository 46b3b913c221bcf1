"""A run's folder: what its files are called."""

CONFIG, REPEAT = "config.json", "config.toml"  # the run's settings; the file for --config that repeats it
