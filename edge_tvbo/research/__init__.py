"""Research: the experiments of the papers, comparisons of policies, and reports on the results."""

from edge_tvbo.research.problems import Problem, Truth

__all__ = ["Problem", "Truth"]
