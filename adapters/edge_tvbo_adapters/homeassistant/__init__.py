"""Home Assistant: MQTT discovery."""
