"""Models of a field (the quantity that the sensors measure) and of the field's changes."""
