"""Policies for fields of unknown length scale: candidates, fitting, posteriors."""
