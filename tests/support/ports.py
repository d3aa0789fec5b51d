"""TCP ports for servers of the tests."""

import os
import socket
from itertools import count

# These ports are below those that Linux assigns to outgoing connections (32768 and up), so that no
# connection takes a port before the server starts.
FIRST_PORT, NUMBER_OF_PORTS = 12_000, 20_000
_offsets = count(os.getpid() * 101)  # other processes of the tests begin elsewhere


def free_port():
    """Return a port of loopback on which no server listens."""
    while True:
        port = FIRST_PORT + next(_offsets) % NUMBER_OF_PORTS
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
