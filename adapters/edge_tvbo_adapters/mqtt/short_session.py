"""Short session: the connection of a command-line command to the broker.

A short session does not use the daemon's client id, so it does not end the session of a running
daemon. There is one exception: some brokers use the login as the client id. On such a broker, a
short session with the daemon's login ends the daemon's session. The methods block until the broker
has answered.
"""

import os
import selectors
import time
from collections.abc import Callable, Iterable

from paho.mqtt.client import MQTTMessage

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.errors import Code
from edge_tvbo_adapters.mqtt.client import Will
from edge_tvbo_adapters.mqtt.connection_problems import (
    ConnectionProblem,
    ended_session,
    link_error,
    silent_server,
)
from edge_tvbo_adapters.mqtt.session import Session, SessionState
from edge_tvbo_adapters.mqtt.topics import MAX_TOPIC_LENGTH, default_client_id
from edge_tvbo_adapters.mqtt.versions import NEW

ANSWER_TIMEOUT_S = 10.0  # longest wait for the connection, and for each answer of the broker
MAX_WAIT_S = 0.1  # longest wait between two checks of the time
MAX_PAYLOAD = 2**20  # bytes; larger messages are ignored


class ShortSession:
    """MQTT session of a command-line command; every method may block and raise `LinkError`.

    Parameters
    ----------
    mqtt : Mqtt
        The broker and the login.
    instance : str
        The daemon's instance, from which the client id is made.
    receive : callable
        Called with every message that arrives; it must not raise an error.
    timeout_s : float
        The longest wait for the connection, and for each answer of the broker.
    will : Will, optional
        The retained message that the broker publishes when the session breaks.

    Attributes
    ----------
    why_refused : str
        The reason for which the broker refused the last publication; "" if it reported no refusal.
    """

    def __init__(
        self,
        mqtt: Mqtt,
        instance: str,
        receive: Callable[[MQTTMessage], None],
        *,
        timeout_s: float = ANSWER_TIMEOUT_S,
        will: Will | None = None,
    ) -> None:
        self._mqtt = mqtt
        self._receive = receive
        self._timeout_s = timeout_s
        client_id = f"{mqtt.client_id or default_client_id(instance)}-{os.getpid()}"
        self._session = Session(
            mqtt,
            client_id,
            time.monotonic(),
            max_packet=MAX_PAYLOAD + MAX_TOPIC_LENGTH,
            will=will,
        )
        self._acknowledged: set[int] = set()
        self._accepted = False
        self.why_refused = ""
        try:
            self._wait(lambda: self._session.state is SessionState.CONNECTED)
            self._accepted = True
        except BaseException:
            self._session.close()
            raise

    @property
    def reports_refusals(self) -> bool:
        """Whether the broker can report refused messages of the short session: only in MQTT 5."""
        return self._session.version == NEW

    def subscribe(self, filters: Iterable[str]) -> list[bool]:
        """Subscribe the short session to topic filters; return which of them are granted."""
        self._session.subscribe(list(filters), qos=0)
        self._wait(lambda: self._session.granted is not None)
        return self._session.granted or []

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> float:
        """Publish a message at QoS 1 in the short session.

        Returns the number of seconds until the broker acknowledged the message.
        """
        start = time.monotonic()
        sent = self._session.publish(topic, payload, retain=retain)
        self._wait(lambda: sent in self._acknowledged)
        self.why_refused = self._session.take_refused().get(sent, "")
        return time.monotonic() - start

    def listen(self, until: float, done: Callable[[], bool] = lambda: False) -> None:
        """Receive messages in the short session until `done()` is True, or until `until`.

        `until` is a time of the monotonic clock.
        """
        with selectors.DefaultSelector() as selector:
            while not done() and (now := time.monotonic()) < until:
                wake_at = min(until, self._session.wake_at(), now + MAX_WAIT_S)
                mask = _ready(selector, self._session.interest(), wake_at - now)
                for message in self._session.service(mask, time.monotonic()):
                    if len(message.payload) <= MAX_PAYLOAD:
                        self._receive(message)
                self._acknowledged.update(self._session.take_acknowledged())
                if problem := self._session.problem:
                    if self._accepted:
                        problem = ended_session(problem, self._mqtt)
                    raise link_error(self._mqtt, problem)

    def close(self) -> None:
        """Disconnect the short session from the broker."""
        self._session.disconnect()

    def _wait(self, done: Callable[[], bool]) -> None:
        self.listen(time.monotonic() + self._timeout_s, done)
        if not done():
            raise link_error(self._mqtt, self._no_answer())

    def _no_answer(self) -> ConnectionProblem:
        if self._session.state is SessionState.CONNECTING:
            text = "no reply; check mqtt.host, mqtt.port and firewalls"
            return ConnectionProblem(text, Code.NO_ANSWER)
        return silent_server()


def _ready(
    selector: selectors.BaseSelector, interest: tuple[int, int] | None, timeout: float
) -> int:
    """Wait up to `timeout` seconds until the socket of the short session is ready.

    Returns the `selectors` events for which the socket is ready; 0 after a time-out.
    """
    if interest is None:
        return 0
    selector.register(*interest)
    ready = selector.select(max(0.0, timeout))
    selector.unregister(interest[0])
    return sum(mask for _, mask in ready)
