"""``python -m edge_tvbo``: the command line."""

from edge_tvbo.cli import main

main()
