"""Configuration: one TOML file, which becomes frozen settings or a list of all its errors.

`loader` reads a file in four steps: `toml_positions` finds the line of each key, `reader` converts
each value as `settings` declares it, `cross_checks` compares settings with each other and with the
disk, and a file without errors becomes a `Settings`. No module of this package imports numpy, so
that a file is checked quickly even on a small computer.
"""
