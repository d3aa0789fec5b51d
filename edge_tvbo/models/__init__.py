"""Models of a field, which is the quantity that the sensors measure, and of how it changes."""
