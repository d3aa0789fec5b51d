"""Simulated sensors over MQTT, and a local broker for demonstrations and tests."""
