"""Training: fits a sensor field and its structural model to recorded days, and writes a report."""
