"""Bare paho clients for comparison with the daemon: one echoes, one retains, one counts.

    python bare_client.py echo PORT QOS
    python bare_client.py retain PORT QOS
    python bare_client.py count PORT QOS

They subscribe to `bare/reading/+` and publish on `bare/selected`.
"""

import socket
import sys

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

FILTER, ANSWER, LAST = "bare/reading/+", "bare/selected", "bare/reading/last"


def echo(client, qos):
    """Publish what comes."""
    client.on_message = lambda client, _, message: client.publish(ANSWER, message.payload, qos)


def retain(client, qos):
    """Publish what comes, in the way in which the daemon publishes `selected`."""
    client.on_message = lambda client, _, message: client.publish(
        ANSWER, message.payload, qos=1, retain=True
    )


def count(client, qos):
    """Count what comes, and publish how much it was when the last message has come."""
    counted = 0

    def take(client, _, message):
        nonlocal counted
        counted += 1
        if message.topic == LAST:
            client.publish(ANSWER, str(counted).encode(), qos)
            counted = 0

    client.on_message = take


def main():
    what, port, qos = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv311)
    {"echo": echo, "retain": retain, "count": count}[what](client, qos)
    client.on_connect = lambda client, *_: client.subscribe(FILTER, qos)
    client.on_subscribe = lambda client, *_: client.publish(ANSWER, b"here", qos)
    client.connect("127.0.0.1", port)
    client.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.loop_forever()


if __name__ == "__main__":
    main()
