"""MQTT: the daemon's link to the broker, and short sessions beside it."""
