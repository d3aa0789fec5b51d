"""One connection to a broker in paho's hands, and what its failures mean."""

import selectors
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Sized
from typing import Any

from paho.mqtt.client import Client
from paho.mqtt.reasoncodes import ReasonCode

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.errors import Code
from edge_tvbo_adapters.mqtt import tls
from edge_tvbo_adapters.mqtt.codec import (
    PUBACK,
    PUBLISH,
    Message,
    Packets,
    PubAck,
    acknowledgement,
    publication,
)
from edge_tvbo_adapters.mqtt.outage_log import ConnectionProblem

BATCH = 64  # messages that wait to be handled before the broker is read on
CHUNK = 65_536  # bytes read at once
TICK = 1.0  # s between two looks at the keep-alive


class SocketClient(Client):
    """A paho client over a socket that is connected already, and that no packet is too large for.

    In MQTT 3.1.1 nobody can tell a broker what is too large, and paho would hold all 256 MB of
    a packet. What it has beyond `keep` bytes is forgotten while it is read.
    """

    dialled: socket.socket
    keep: int
    _look = 0.0  # monotonic: when the keep-alive is looked at next

    def _create_socket_connection(self) -> socket.socket:
        return self.dialled

    def _sock_recv(self, bufsize: int) -> bytes:
        del self._in_packet["packet"][self.keep :]
        return super()._sock_recv(min(bufsize, CHUNK))

    @property
    def pending(self) -> bool:
        """Whether decrypted bytes wait that no selector knows of."""
        sock = self.socket()
        return isinstance(sock, ssl.SSLSocket) and sock.pending() > 0

    def transfer(self, mask: int, inbox: Sized) -> str:
        """Read a batch of packets, write, and see to the keep-alive; give what was no MQTT."""
        try:
            if mask & selectors.EVENT_READ or self.pending:
                self._read(inbox)
            if mask & selectors.EVENT_WRITE and self.socket() is not None:
                self.loop_write()
            if (now := time.monotonic()) >= self._look:
                self._look = now + TICK
                self.loop_misc()
        except Exception as error:  # paho's, for bytes that are no MQTT
            return repr(error)
        return ""

    def _read(self, inbox: Sized) -> None:
        """Read packets as long as there are any, and messages of a batch fit."""
        for _ in range(BATCH):
            waiting = len(inbox)
            if waiting >= BATCH:
                break
            self.loop_read()
            if self.socket() is None or not (self.pending or len(inbox) > waiting):
                break


class FastClient(SocketClient):
    """The same, for a daemon: messages come and go without paho, which does everything else.

    Parameters
    ----------
    keep : int
        Bytes of a packet that are kept.
    take : callable
        Is given every message that comes, at QoS 0 or 1; `acknowledge` those at QoS 1.
    taken : callable
        Is given the number of every message that the broker has, once it says so.
    settings
        Paho's.
    """

    def __init__(
        self,
        keep: int,
        take: Callable[[Message], None],
        taken: Callable[[int], None],
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.keep = keep
        self._packets = Packets(keep)
        self._take, self._taken = take, taken
        self._rare = b""  # a packet for paho

    @property
    def pending(self) -> bool:
        """Whether bytes wait that no selector knows of."""
        return self._packets.waiting or super().pending

    def put(self, topic: str, payload: bytes, qos: int, *, retain: bool) -> int:
        """Publish, and give the number by which it is `taken`, if it is."""
        mid = self._mid_generate()
        self._write(PUBLISH, publication(topic.encode(), payload, qos, mid, retain=retain))
        return mid

    def acknowledge(self, mids: Iterable[int]) -> None:
        """Say that these messages were handled."""
        self._write(PUBACK, b"".join(map(acknowledgement, mids)))

    def _write(self, kind: int, packets: bytes) -> None:
        """Have bytes written as the socket takes them; where there is none, the next turn sees.

        Paho's queue is for what is left over, or fails, and for what comes after that.
        """
        if not self._out_packet:
            try:
                sent = self._sock_send(packets)
            except OSError:
                sent = 0
            if sent == len(packets):
                self._last_msg_out = time.monotonic()  # paho's keep-alive asks for it
                return
            packets = packets[sent:]
        self._packet_queue(kind, packets, 0, 1)  # QoS 1 for all: of QoS 0 paho would say more

    def _read(self, inbox: Sized) -> None:
        """Read once, and take packets as long as messages of a batch fit."""
        if not self._packets.waiting and not self._refill():
            return
        while len(inbox) < BATCH and (packet := self._packets.take()) is not None:
            if isinstance(packet, Message):
                self._take(packet)
            elif isinstance(packet, PubAck):
                self._taken(packet.mid)
            else:
                self._rare = packet
                self.loop_read()
                if self.socket() is None:
                    return

    def _refill(self) -> bool:
        """Read what there is, and say whether there was anything; paho sees to the end of it."""
        try:
            data = super()._sock_recv(CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            self._last_bytes_received = time.monotonic()  # paho's keep-alive asks for it
            self._packets.feed(data)
        else:
            self.loop_read()
        return bool(data)

    def _sock_recv(self, bufsize: int) -> bytes:
        if not self._rare:
            return super()._sock_recv(bufsize)
        given, self._rare = self._rare[:bufsize], self._rare[bufsize:]
        return given


def no_mqtt(why: str, mqtt: Mqtt) -> ConnectionProblem:
    """Say that what answers is no broker."""
    secure = "" if mqtt.tls else f", and add [mqtt.tls] if port {mqtt.port} wants TLS"
    return ConnectionProblem(
        f"what answers there does not speak MQTT 3.1.1 ({why}); check mqtt.host and mqtt.port"
        + secure,
        Code.NOT_MQTT,
    )


def hung_up(client: SocketClient, mqtt: Mqtt) -> ConnectionProblem:
    """Say why a broker may have hung up before it let us in."""
    if isinstance(client.dialled, tls.ErrorKeepingSocket) and client.dialled.broken:
        return tls.explained(client.dialled.broken, mqtt)
    settings, port = mqtt.tls, mqtt.port
    if settings is None:
        return ConnectionProblem(
            f"the broker hangs up without a word of MQTT; if port {port} wants TLS, add [mqtt.tls]",
            Code.NOT_MQTT,
        )
    if settings.certificate is None:
        return ConnectionProblem(
            "the broker hangs up after the TLS handshake; if it wants a certificate of ours, "
            "set mqtt.tls.certificate and mqtt.tls.key",
            Code.OUR_CERTIFICATE,
        )
    return ConnectionProblem(
        "the broker hangs up after the TLS handshake; its log knows why", Code.TLS
    )


def refused(reason: ReasonCode, mqtt: Mqtt, client_id: str) -> ConnectionProblem:
    """Say why the broker does not let us in."""
    code = Code.LOGIN
    match str(reason):
        case "Bad user name or password":
            text = "wrong user or password; check mqtt.username and mqtt.password_file"
        case "Not authorized" if mqtt.username is None:
            text = "not authorised: it lets nobody in without a password; set mqtt.username"
        case "Not authorized":
            text = (
                f"not authorised: {mqtt.username!r} or its password is wrong, or may "
                "not connect; check mqtt.username and mqtt.password_file"
            )
        case "Client identifier not valid":
            text = f"the client id {client_id!r} is refused; set mqtt.client_id"
            code = Code.CLIENT_ID
        case "Server unavailable":
            return ConnectionProblem("the broker says that it is not available yet")
        case other:
            text, code = f"the broker refuses us: {other}", Code.LINK
    return ConnectionProblem(text, code, lasting=True)
