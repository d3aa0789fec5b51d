"""Posteriors: mean and variance of every arm given the readings, one implementation per file."""
