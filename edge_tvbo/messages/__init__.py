"""Messages: events in, commands out, and the documents on the wire."""
