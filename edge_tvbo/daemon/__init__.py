"""Daemon: the event loop with its services, and how the daemon starts, reloads and stops."""
