"""Adapters: one module or package for each connection between edge_tvbo and the outside world."""
