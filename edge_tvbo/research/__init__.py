"""Research: the papers' experiments, and reports on policies that were compared."""
