"""Sensors that send readings from a process of their own, so that the test need not wait for them.

    python -m support.crowd PORT TOPIC ...

Each line of standard input is the number of readings to send, from one sensor after the other.
"""

import select
import socket
import sys
from contextlib import suppress
from itertools import cycle

from support.wire import packet, publish, text

MAX_READINGS_IN_FLIGHT = 1000  # readings, so that no queue of mosquitto overflows
CONNECT, DISCONNECT = 0x10, 0xE0


def client(port):
    """Return a connected client that does not reconnect."""
    from paho.mqtt.client import Client  # the crowd itself does without
    from paho.mqtt.enums import CallbackAPIVersion

    made = Client(CallbackAPIVersion.VERSION2, reconnect_on_failure=False)
    made.on_socket_open = lambda client, userdata, sock: sock.setsockopt(
        socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
    )
    made.max_inflight_messages_set(MAX_READINGS_IN_FLIGHT)
    made.connect("127.0.0.1", port)
    return made


def send(sensors, topics, lines):
    """Publish as many readings as each line says with QoS 1; ignore the acknowledgements."""
    sent = 0
    for line in lines:
        burst = []
        for _ in range(int(line)):
            reading = f"{20 + sent % 997 / 300:.3f}".encode()
            sent += 1
            burst.append(publish(next(topics), reading, 1, sent % 65535 + 1))
        sensors.sendall(b"".join(burst))
        if select.select([sensors], [], [], 0)[0]:
            sensors.recv(65536)


def main():
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as sensors:
        sensors.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sensors.sendall(packet(CONNECT, text("MQTT") + bytes([4, 2, 0, 0]) + text("crowd")))
        with suppress(OSError):  # the broker may end first
            send(sensors, cycle(sys.argv[2:]), sys.stdin)
            sensors.sendall(packet(DISCONNECT, b""))


if __name__ == "__main__":
    main()
