"""Posteriors: mean and standard deviation of every arm, updated with each reading."""
