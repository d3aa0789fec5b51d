"""Monitoring: Prometheus metrics, the health endpoint and systemd notifications."""
