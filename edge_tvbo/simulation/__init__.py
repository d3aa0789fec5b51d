"""Simulation: replays of recorded data through the controller that the daemon runs."""
