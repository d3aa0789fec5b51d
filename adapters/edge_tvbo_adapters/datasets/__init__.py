"""Recorded sensor networks."""
