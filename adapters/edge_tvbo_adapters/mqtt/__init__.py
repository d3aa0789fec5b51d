"""MQTT on paho: the daemon's link to its broker, and short sessions of the command line."""
