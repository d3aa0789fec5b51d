"""Training: fits a sensor field and its daily profile to recorded days, and writes a report."""
