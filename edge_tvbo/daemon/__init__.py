"""The one loop, and how it starts and stops."""
