"""From a host's name to a connected socket, step by step, none of which waits.

    RESOLVING ──(addresses)──▶ DIALLING ──(TCP is up)──▶ SECURING ──(TLS is up)──▶ a socket

Addresses are tried one after the other; without `[mqtt.tls]` there is no SECURING.
"""

import os
import selectors
import socket
import ssl
from enum import Enum
from errno import EINPROGRESS
from math import inf

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.errors import Code
from edge_tvbo_adapters.mqtt import tls
from edge_tvbo_adapters.mqtt.dns import Address, Resolver
from edge_tvbo_adapters.mqtt.outage_log import ConnectionProblem

PATIENCE = 10.0  # s for each step

Outcome = socket.socket | ConnectionProblem | None  # connected, failed, or not known yet


class Step(Enum):
    """How far the dialler is."""

    IDLE = "idle"
    RESOLVING = "resolving"
    DIALLING = "dialling"
    SECURING = "securing"


class Dialler:
    """Connects to one broker, as often as it is asked to.

    `start` and `step` give the socket, which is the caller's from then on, or the trouble, or
    None while `step` is to be called again: when `interest` says so, and at `until` at the latest.
    """

    def __init__(self, mqtt: Mqtt) -> None:
        self._mqtt = mqtt
        self._resolver = Resolver(mqtt.host, mqtt.port)
        self._contexts = tls.Contexts(mqtt.tls) if mqtt.tls else None
        self._known: list[Address] = []  # for the day on which DNS is down and the broker is not
        self._addresses: list[Address] = []
        self._socket: socket.socket | None = None
        self._step = Step.IDLE
        self._plain = False  # TCP is enough this time
        self._wants = selectors.EVENT_WRITE
        self.until = inf

    def interest(self) -> tuple[int, int] | None:
        """Give the descriptor and what to wait for on it."""
        if self._step is Step.RESOLVING and (waiting := self._resolver.fileno()) is not None:
            return waiting, selectors.EVENT_READ
        return None if self._socket is None else (self._socket.fileno(), self._wants)

    def start(self, now: float, *, plain: bool = False) -> Outcome:
        """Begin; `plain` is content with a TCP connection."""
        self.hang_up()
        self._plain = plain
        self._step, self.until = Step.RESOLVING, now + PATIENCE
        self._addresses = self._resolver.start()
        return self._dial(now) if self._addresses else None

    def step(self, mask: int, now: float) -> Outcome:
        """Go on as far as that is possible without waiting."""
        match self._step:
            case Step.RESOLVING:
                return self._resolved(now)
            case Step.DIALLING:
                return self._dialled(mask, now)
            case Step.SECURING if mask or now >= self.until:
                return self._secured(now)
            case _:
                return None

    def hang_up(self) -> None:
        """Let go of whatever there is."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._step, self.until = Step.IDLE, inf

    def close(self) -> None:
        """Hang up for good."""
        self.hang_up()
        self._resolver.close()

    def _resolved(self, now: float) -> Outcome:
        found = self._resolver.answer()
        if found is None and now < self.until:
            return None
        if isinstance(found, list):
            self._known = found
        self._addresses = list(self._known)
        if self._addresses:
            return self._dial(now)
        self.hang_up()
        why = found if isinstance(found, str) else f"no answer in {PATIENCE:.0f} s"
        return ConnectionProblem(
            f"the name cannot be resolved ({why}); check mqtt.host and this host's DNS", Code.NAME
        )

    def _dial(self, now: float) -> Outcome:
        address = self._addresses.pop(0)
        self._step, self.until = Step.DIALLING, now + PATIENCE
        self._wants = selectors.EVENT_WRITE
        try:
            self._socket = socket.socket(address.family, socket.SOCK_STREAM)
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            error_number = self._socket.connect_ex(address.place)
        except OSError as error:
            return self._next(now, error)
        if error_number not in (0, EINPROGRESS):
            return self._next(now, OSError(error_number, os.strerror(error_number)))
        return None

    def _dialled(self, mask: int, now: float) -> Outcome:
        if self._socket is None:
            return None
        if not mask:
            return self._next(now, TimeoutError("no answer")) if now >= self.until else None
        error_number = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error_number:
            return self._next(now, OSError(error_number, os.strerror(error_number)))
        if self._contexts is None or self._plain:
            return self._handed_over()
        return self._secure(now, self._contexts)

    def _next(self, now: float, error: OSError) -> Outcome:
        """Try the next address, or give up where there is none."""
        rest = self._addresses
        self.hang_up()
        if rest:
            self._addresses = rest
            return self._dial(now)
        if isinstance(error, ConnectionRefusedError):
            return ConnectionProblem(
                "the connection is refused; is a broker running there, and not for itself alone "
                "(mosquitto without a `listener` is)?",
                Code.REFUSED,
            )
        text = f"{error.strerror or error}; check mqtt.host, mqtt.port and firewalls"
        return ConnectionProblem(text, Code.NO_ANSWER)

    def _secure(self, now: float, contexts: tls.Contexts) -> Outcome:
        """Begin the handshake."""
        settings, plain = self._mqtt.tls, self._socket
        assert settings is not None
        assert plain is not None
        try:
            self._socket = contexts.current().wrap_socket(
                plain,
                server_hostname=settings.server_name or self._mqtt.host,
                do_handshake_on_connect=False,
            )
        except (OSError, ValueError) as error:
            self.hang_up()
            return tls.unusable(error if isinstance(error, OSError) else OSError(error), settings)
        self._step, self.until = Step.SECURING, now + PATIENCE
        return self._secured(now)

    def _secured(self, now: float) -> Outcome:
        """Go on with the handshake as far as the bytes reach."""
        assert isinstance(self._socket, ssl.SSLSocket)
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            self._wants = selectors.EVENT_READ
        except ssl.SSLWantWriteError:
            self._wants = selectors.EVENT_WRITE
        except OSError as error:
            self.hang_up()
            return tls.explained(error, self._mqtt)
        else:
            return self._handed_over()
        if now < self.until:
            return None
        self.hang_up()
        return ConnectionProblem(
            f"no answer to the TLS handshake in {PATIENCE:.0f} s; does port "
            f"{self._mqtt.port} speak TLS?",
            Code.NO_ANSWER,
        )

    def _handed_over(self) -> socket.socket:
        connected, self._socket = self._socket, None
        assert connected is not None
        self.hang_up()
        return connected
