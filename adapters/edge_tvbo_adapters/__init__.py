"""One module per outside thing; each provides a port of edge_tvbo and is found by entry point."""
