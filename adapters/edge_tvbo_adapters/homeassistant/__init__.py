"""Home Assistant: the daemon's MQTT discovery message."""
