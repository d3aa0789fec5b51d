"""Training: a sensor field, its daily profile and a report, fitted to recorded days."""
