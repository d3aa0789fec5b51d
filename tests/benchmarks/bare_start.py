"""Bare process for comparison with the daemon's start: it loads paho, msgspec and the kernels.

It sends READY to the socket in ``$NOTIFY_SOCKET``, as the daemon does, and waits for a signal.
"""

import os
import signal
import socket
from importlib import import_module

import msgspec
import numpy as np
import paho.mqtt.client

from edge_tvbo.numerics import compiled

M = 46


def main():
    """Run a kernel, say that all is ready, and wait."""
    modules = {each: import_module(f"edge_tvbo.numerics.{each}") for each in compiled.MODULES}
    modules["state_space"].condition(np.zeros(M), np.eye(M), 3, 0.5, 0.01, np.zeros(M))
    client = paho.mqtt.client.Client(paho.mqtt.client.CallbackAPIVersion.VERSION2)
    msgspec.json.encode({"client": client.is_connected()})
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
    signal.pause()


if __name__ == "__main__":
    main()
