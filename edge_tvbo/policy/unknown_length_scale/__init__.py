"""Policies for a field of unknown length scale: candidates, fitting, posterior and policies."""
