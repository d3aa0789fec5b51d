"""TCP ports for servers of the tests."""

import fcntl
import os
import socket
import tempfile
from functools import cache
from itertools import count
from pathlib import Path

# These ports are below those that Linux assigns to outgoing connections (32768 and up), so that no
# connection takes a port before the server starts.
FIRST_PORT, NUMBER_OF_PORTS = 12_000, 20_000
_offsets = count(os.getpid() * 101)  # other processes of the tests begin elsewhere


def free_port():
    """Return a port of loopback on which no server listens.

    No other process of the tests gets this port before the present process ends, so the server may
    start late, or stop and start again.
    """
    locks = _locks()
    while True:
        port = FIRST_PORT + next(_offsets) % NUMBER_OF_PORTS
        try:
            fcntl.lockf(locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port


@cache
def _locks():
    """Return the file in which the byte at the number of a port is locked by its owner.

    The kernel unlocks the bytes of a process that ends. The file is never closed, because closing
    any descriptor of it would unlock all bytes.
    """
    path = Path(tempfile.gettempdir()) / f"edge-tvbo-test-ports-{os.getuid()}"
    return path.open("ab")
