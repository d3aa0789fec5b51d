"""Configuration: reads one TOML file into frozen settings, or reports all errors in the file.

The module `loader` reads a file in four steps:

1. `toml_positions` finds the line of each key.
2. `reader` converts each value to the type that `settings` declares.
3. `cross_checks` compares settings with each other and with files on disk.
4. If the file has no errors, its values become a `Settings` struct.

No module of this package imports numpy, so that a file is checked quickly even on a small computer.
"""
