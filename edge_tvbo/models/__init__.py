"""Objects that own arrays and call kernels."""
