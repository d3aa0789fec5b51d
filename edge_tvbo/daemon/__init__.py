"""Daemon: the event loop and its services, in one process with one main thread."""
