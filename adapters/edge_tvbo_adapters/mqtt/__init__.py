"""MQTT on paho: the daemon's link, and the short sessions of commands."""
