"""The paho client of one MQTT session: functions that make it, connect it and close its socket."""

import socket
from typing import Any, NamedTuple

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.properties import Properties

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo_adapters.mqtt.connect import CONNECT_TIMEOUT_S
from edge_tvbo_adapters.mqtt.versions import PROTOCOLS


class Will(NamedTuple):
    """Retained message that the broker publishes when a session breaks."""

    topic: str
    payload: bytes


def make_client(mqtt: Mqtt, version: str, client_id: str, will: Will | None) -> Client:
    """Return a paho client that neither reconnects nor acknowledges messages by itself.

    The broker publishes `will` when the session breaks.
    """
    client = Client(
        CallbackAPIVersion.VERSION2,
        client_id=client_id,
        protocol=PROTOCOLS[version],
        reconnect_on_failure=False,
        manual_ack=True,
    )
    client.connect_timeout = CONNECT_TIMEOUT_S
    if will is not None:
        client.will_set(will.topic, will.payload, qos=1, retain=True)
    if mqtt.username is not None:
        client.username_pw_set(*mqtt.login())
    return client


def connect_client(
    client: Client, mqtt: Mqtt, address: str | None, properties: Properties | None
) -> Client:
    """Connect a paho client to the broker, and return the client; the call blocks.

    If the broker's name cannot be resolved, the client connects to `address`, the last known IP
    address of the broker.
    """
    try:
        client.connect(mqtt.host, mqtt.port, mqtt.keepalive, properties=properties)
    except socket.gaierror:
        if address is None:
            raise
        client.connect(address, mqtt.port, mqtt.keepalive, properties=properties)
    return client


def detach_callbacks(client: Client) -> None:
    """Remove the callbacks of a paho client, so that the client can be freed immediately.

    The callbacks refer to the client's session, and the session refers to the client. Without the
    removal, only the garbage collector could free them.
    """
    client.on_connect = client.on_disconnect = client.on_subscribe = None
    client.on_publish = client.on_message = None


def close_socket(client: Client) -> None:
    """Close the socket of a paho client, if it has one, without sending a DISCONNECT."""
    sock: Any = client.socket()
    if sock is not None:
        sock.close()
