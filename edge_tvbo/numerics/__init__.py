"""Compiled numerical kernels: functions of arrays and scalars, without units, names or messages."""
