"""How different makes of sensor write a reading."""
