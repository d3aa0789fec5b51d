"""Reconnection: when the link may connect again, and whether another client uses the same id."""

import socket
from collections import deque
from collections.abc import Collection, Iterable
from random import Random

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.errors import Code
from edge_tvbo_adapters.mqtt.backoff import MIN_SHORT_SESSIONS, SHORT_SESSION_S, Backoff
from edge_tvbo_adapters.mqtt.connect import CONNECT_TIMEOUT_S, Attempt, open_socket
from edge_tvbo_adapters.mqtt.connection_problems import (
    ConnectionProblem,
    ends_each_session,
    not_connected,
)
from edge_tvbo_adapters.mqtt.outage_log import OutageLog
from edge_tvbo_adapters.mqtt.publication import Publication
from edge_tvbo_adapters.mqtt.sender import Sender

MIN_LARGE_MESSAGE = 1000  # bytes; no known broker has a lower limit


class Reconnection:
    """Decides when the next session starts, and logs why the last session ended.

    If the broker ends a session soon after its beginning, there are three usual causes:

    - The broker was restarted. To recognise a restart, the link immediately probes the broker with
      a TCP connection, which a restarting broker does not accept.
    - Another client with the same id has replaced this client.
    - The broker does not accept a message, because it is too large or its topic is not allowed.

    In MQTT 5, a broker can say why it ends a session; then this reason is logged. In MQTT 3.1.1,
    the broker does not say why it ends a session. So after a short session, the link sends one
    message at a time. If the same message was unacknowledged at the end of each of the short
    sessions, this message is the probable cause. If the message is large, the next sessions leave
    it out. If these sessions end early, too, the message may not be the cause. So the message is
    published again when the series of short sessions is over. If the message is the cause after
    all, the link recognises it again in the same way.

    Parameters
    ----------
    mqtt : Mqtt
        The broker, and the bounds of the waits.
    client_id : str
        The link's client id.
    rng : Random
        Draws the waits.
    outage : OutageLog
        Logs the problems.
    sender : Sender
        Leaves out the messages that make the broker end each session.
    """

    def __init__(
        self,
        mqtt: Mqtt,
        client_id: str,
        rng: Random,
        outage: OutageLog,
        sender: Sender,
    ) -> None:
        self._mqtt = mqtt
        self._client_id = client_id
        self._backoff = Backoff(mqtt.reconnect.min, mqtt.reconnect.max, rng)
        self._outage = outage
        self._sender = sender
        self._probe: Attempt[socket.socket] | None = None
        self._unacknowledged: deque[dict[str, Publication]] = deque(maxlen=MIN_SHORT_SESSIONS)
        self._without_success = False  # whether leaving out messages had no effect
        self._last_problem = ConnectionProblem("")  # that ended the last session
        self.at = 0.0  # monotonic time of the next attempt, or of the end of the probe

    @property
    def sessions_end_early(self) -> bool:
        """Whether the broker ends each session early, and so causes the link's reconnections."""
        return self._backoff.sessions_end_early

    @property
    def sends_singly(self) -> bool:
        """Whether the session after the reconnection sends its messages one at a time at first."""
        return self._backoff.short_sessions > 0

    @property
    def suspected_topics(self) -> Collection[str]:
        """Topics of the messages that may be the reason for the reconnection after a short session.

        The session after the reconnection sends these messages first. If it sent the other messages
        first, one at a time, the session could last too long to count as a short session.
        """
        return self._unacknowledged[-1].keys() if self.sends_singly else ()

    def interest(self) -> tuple[int, int] | None:
        """Return the descriptor and events of the reconnection's probe; None if none is running."""
        return self._probe.interest() if self._probe else None

    def wake_at(self) -> float:
        """Return the monotonic time by which the reconnection's `is_due` must be called again."""
        return 0.0 if self._probe and not self._probe.interest() else self.at

    def is_due(self, now: float) -> bool:
        """Return whether the reconnection is due; False while a probe of the broker is running."""
        if self._probe is not None:
            self._finish_probe(self._probe, now)
            return False
        return now >= self.at

    def attempt_failed(self, problem: ConnectionProblem, now: float, *, was_reached: bool) -> None:
        """Schedule the next attempt of the reconnection after an attempt that failed.

        `was_reached` says whether there was a TCP connection to the broker.
        """
        if not was_reached:
            self._end_short_sessions()
        self._outage.attempt_failed(problem, now)
        self._wait(now)

    def session_ended(
        self,
        problem: ConnectionProblem,
        lasted: float,
        now: float,
        unacknowledged: Iterable[Publication],
        *,
        by_broker: bool,
    ) -> None:
        """Schedule the reconnection after a session of `lasted` seconds.

        If the broker ended the session, and the session was short, the broker is probed first.
        `unacknowledged` are the sent messages that the broker did not acknowledge.
        """
        self._unacknowledged.append({each.topic: each for each in unacknowledged})
        self._last_problem = problem
        self._outage.lost(problem, now)
        self._backoff.ended(lasted, by_broker=by_broker)
        if self._backoff.short_sessions == 0:
            self._end_short_sessions()
        if by_broker and lasted < SHORT_SESSION_S:
            self._probe = Attempt(lambda: open_socket(self._mqtt), socket.socket.close)
            self.at = now + CONNECT_TIMEOUT_S
            self._outage.waits(0.0, now)
        else:
            self._wait(now)

    def confirm_client_id(self, lasted: float) -> bool:
        """Return whether a session of `lasted` seconds shows that no other client uses the id."""
        if lasted < SHORT_SESSION_S:
            return False
        self._end_short_sessions()
        return True

    def abandon_probe(self) -> None:
        """Close the socket with which the reconnection probes the broker, if there is one."""
        if self._probe is not None:
            self._probe.abandon()
        self._probe = None

    def _finish_probe(self, probe: Attempt[socket.socket], now: float) -> None:
        result = probe.result()
        if result is None:
            self.at = now + CONNECT_TIMEOUT_S
            return
        self._probe = None
        if isinstance(result, Exception):
            self._end_short_sessions()
            self._outage.failed(not_connected(result, self._mqtt, CONNECT_TIMEOUT_S), now)
        else:
            result.close()
            if self.sessions_end_early:
                self._explain_short_sessions(now)
        self._wait(now)

    def _explain_short_sessions(self, now: float) -> None:
        """Log the probable reason why the broker ends each session soon after a reconnection.

        If the reason is a large message, the next session begins soon, without this message.
        """
        in_each = (
            each
            for topic, each in self._unacknowledged[-1].items()
            if all(topic in session for session in self._unacknowledged)
        )
        largest = max(in_each, key=lambda each: each.size, default=None)
        if largest is None or largest.size < MIN_LARGE_MESSAGE:
            self._without_success = True
            self._outage.failed(
                ends_each_session(self._last_problem)
                if self._last_problem.stated
                else self._duplicate_client_id(largest),
                now,
            )
            return
        self._outage.failed(
            ConnectionProblem(
                "the broker ends every session within seconds; it did not acknowledge a message of"
                f" {largest.size // 1000} kB on {largest.topic}; raise the broker's"
                " limit for the size of packets (mosquitto: max_packet_size), or allow the topic in"
                " its ACL, and reload the daemon; until then, the daemon leaves out this message",
                lasting=True,
            ),
            now,
        )
        self._sender.leave_out(largest)
        self._backoff.clear()

    def _end_short_sessions(self) -> None:
        """End the series of short sessions.

        If the sessions ended early even without the left-out messages, publish these messages
        again.
        """
        self._backoff.clear()
        if self._without_success:
            self._without_success = False
            self._sender.leave_nothing_out()

    def _duplicate_client_id(self, message: Publication | None) -> ConnectionProblem:
        """Return the connection problem that another client also uses the link's client id.

        `message` was unacknowledged at the end of each session; None if there was no such message.
        """
        or_message = message and (
            "; if no other client uses the id, the cause is probably the message on "
            f"{message.topic}, which the broker did not acknowledge in any of the sessions: "
            "allow this topic in the broker's ACL"
        )
        return ConnectionProblem(
            f"another client seems to use the client id {self._client_id!r} too: the broker "
            "accepts connections, but ends every session within seconds; if the other client is a "
            "second daemon of this instance, stop it, or give it another `instance`; if it is "
            "another program, set mqtt.client_id to an id that no other client uses; if the broker "
            f"uses logins as client ids, add a second login as [mqtt.readonly]{or_message or ''}",
            Code.CLIENT_ID,
            lasting=True,
        )

    def _wait(self, now: float) -> None:
        wait = self._backoff.wait()
        self.at = now + wait
        self._outage.waits(wait, now)
