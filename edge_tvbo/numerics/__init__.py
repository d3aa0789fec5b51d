"""Compiled kernels: arrays in, arrays out. Nothing here knows units, names or messages."""
