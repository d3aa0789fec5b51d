"""Configuration: reads one TOML file into frozen settings, or reports all errors in the file.

The module `loader` reads a file in four steps. `toml_positions` finds the line of each key.
`reader` converts each value to the type that `settings` declares. `cross_checks` compares settings
with each other and with files on disk. If the file has no errors, its values become a `Settings`
struct. No module of this package imports numpy, so that a file is checked quickly even on a small
computer.
"""
