"""Sensors that send readings from a process of their own, so that the test need not wait for them.

    python -m support.crowd PORT TOPIC ...

Each line of standard input is the number of readings to send, from one sensor after the other.
"""

import socket
import sys
from itertools import cycle

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion
from support.mosquitto import stop

MAX_READINGS_IN_FLIGHT = 1000  # readings, so that no queue of mosquitto overflows


def client(port):
    """Return a connected client that does not reconnect."""
    made = Client(CallbackAPIVersion.VERSION2, reconnect_on_failure=False)
    made.on_socket_open = lambda client, userdata, sock: sock.setsockopt(
        socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
    )
    made.max_inflight_messages_set(MAX_READINGS_IN_FLIGHT)
    made.connect("127.0.0.1", port)
    return made


def main():
    port, topics = int(sys.argv[1]), cycle(sys.argv[2:])
    sensors, sent = client(port), 0
    sensors.loop_start()
    for line in sys.stdin:
        for _ in range(int(line)):
            sensors.publish(next(topics), f"{20 + sent % 997 / 300:.3f}", qos=1)
            sent += 1
    stop(sensors)


if __name__ == "__main__":
    main()
