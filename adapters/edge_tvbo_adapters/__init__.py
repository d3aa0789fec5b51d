"""Adapters: the connections of edge_tvbo to the outside world, one package for each."""
