"""Models of a field: kernels, temporal models, posteriors, triggers, schedules and snapshots."""
