"""Configuration: one TOML file, read once into frozen settings, with all errors at once.

`loader` reads a file in four steps: `toml_positions` finds the line of each key, `reader` converts
each value as `settings` declares it, `cross_checks` compares settings with each other and with the
disk, and a file without errors becomes a `Settings`. Nothing here imports numpy, so that checking a
file is quick on a small computer too.
"""
