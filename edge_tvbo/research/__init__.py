"""Research: the experiments of the papers, comparisons of policies, and reports on the results."""
