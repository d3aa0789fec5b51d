"""Messages: events that a controller handles, commands that it returns, and JSON documents."""
