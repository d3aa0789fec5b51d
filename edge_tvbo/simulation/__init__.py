"""Simulation: recorded data through the same controller that the daemon runs."""
