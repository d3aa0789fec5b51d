"""Policies for a field whose length scale is unknown."""
