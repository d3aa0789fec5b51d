"""Configuration: one TOML file, read once into frozen settings, with all errors at once.

`loader` reads a file in four steps: `toml_positions` finds the line of each key, `reader` reads
value by value as `settings` declares them, `cross_checks` compares settings with each other and
with the disk, and only what has no error is built. Nothing here imports numpy, so that checking a
file is quick on a small computer too.
"""
