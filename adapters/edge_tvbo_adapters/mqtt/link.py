"""The link over MQTT 3.1.1, on paho-mqtt, without a thread of paho's.

A connection goes through four states, each left for `AWAY` when something fails:

    AWAY ──(wait is over)──▶ DIALLING ──(TCP, TLS)──▶ GREETING ──(CONNACK)──▶ HERE

Every attempt has a paho client of its own, and a clean session: what the broker would have kept
for us while we were away is too old to be believed, and a command that arrives late is worse than
none. A reading is acknowledged once the loop has handled what it said, so that the broker holds
back when we are slow; that a crash in between had it delivered again would take a session that
the broker keeps, which earns nothing where the sensor is asked again in the next interval.
"""

import logging
import os
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from enum import Enum
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from edge_tvbo.config.field_settings import FieldSettings
from edge_tvbo.config.field_types import is_loopback
from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.errors import Code
from edge_tvbo.messages.commands import Command
from edge_tvbo.messages.documents import (
    Health,
    Hotspot,
    Notice,
    PublishedPosterior,
    Request,
    Response,
    Verb,
)
from edge_tvbo.messages.events import Event, Unreadable
from edge_tvbo_adapters.mqtt.backoff import SHORT, Backoff
from edge_tvbo_adapters.mqtt.client import TICK, FastClient, hung_up, no_mqtt, refused
from edge_tvbo_adapters.mqtt.codec import Message
from edge_tvbo_adapters.mqtt.commands import Commands, Refusal
from edge_tvbo_adapters.mqtt.connect import PATIENCE, Dialler, Outcome
from edge_tvbo_adapters.mqtt.outage_log import ConnectionProblem, Outage
from edge_tvbo_adapters.mqtt.outbox import Outbox
from edge_tvbo_adapters.mqtt.publisher import Publisher
from edge_tvbo_adapters.mqtt.subscriber import Subscriber
from edge_tvbo_adapters.mqtt.topics import LONGEST, default_client_id

if TYPE_CHECKING:
    from edge_tvbo_adapters.homeassistant.discovery import Discovery

log = logging.getLogger(__name__)

SHUTDOWN_TIMEOUT = 1.0  # s to get the last messages out
SLICE = 0.01  # s of a turn in which readings are handled; the rest waits, so that no interval does
ACK_BATCH = 10  # messages acknowledged at once: half of what a broker sends before it waits
MOST_SILENCE = 8  # a silence that a new connection does not end is borne so many times longer
ASK_AGAIN = 60.0  # s until a subscription that was refused is asked for again


class State(Enum):
    """How far the connection is."""

    AWAY = "away"
    DIALLING = "dialling"
    GREETING = "greeting"
    HERE = "here"


def connect(
    mqtt: Mqtt,
    instance: str,
    fields: Mapping[str, FieldSettings],
    *,
    commands: bool = False,
    discovery: "Discovery | None" = None,
    former: Mapping[str, FieldSettings] | None = None,
    seed: int | None = None,
    wall: Callable[[], float] = time.time,
) -> "MqttLink":
    """Return a link of `instance` that carries `fields`; it dials when it is first serviced.

    With `commands` it listens to ``cmd/<verb>``, with `discovery` it publishes the discovery
    message of Home Assistant. `former` are the fields of the link whose place it takes. `wall` says
    when a reading was received. `seed` spreads the waits between attempts; without one they differ
    from gateway to gateway, so that a fleet does not come back all at once.
    """
    if mqtt.password is not None and mqtt.tls is None and not is_loopback(mqtt.host):
        log.warning(
            "broker %s:%d: the password crosses the network in clear; add [mqtt.tls]",
            mqtt.host,
            mqtt.port,
        )
    seed = int.from_bytes(os.urandom(8)) if seed is None else seed
    chance = Random(seed)
    return MqttLink(
        mqtt,
        instance,
        fields,
        chance,
        wall,
        Commands(f"edge_tvbo/{instance}") if commands else None,
        discovery,
        former or {},
    )


class MqttLink:
    """A `Link` to one broker; see `connect`."""

    def __init__(
        self,
        mqtt: Mqtt,
        instance: str,
        fields: Mapping[str, FieldSettings],
        chance: Random,
        wall: Callable[[], float],
        commands: Commands | None,
        discovery: "Discovery | None",
        former: Mapping[str, FieldSettings],
    ) -> None:
        self._mqtt = mqtt
        self._fields = dict(fields)
        self._wall = wall
        self._base = f"edge_tvbo/{instance}"
        self._client_id = mqtt.client_id or default_client_id(instance)
        self._inbox = Subscriber(fields, wall)
        self._commands = commands
        self._discovery = discovery
        self._outbox = Outbox()
        self._publisher = Publisher(self._base, fields, self._outbox)
        self._backoff = Backoff(mqtt.reconnect.min, mqtt.reconnect.max, chance)
        self._outage = Outage(log, f"broker {mqtt.host}:{mqtt.port}")
        self._dialler = Dialler(mqtt)
        self._state = State.AWAY
        self._probing = False  # this attempt only asks whether the broker is there at all
        self._client: FastClient | None = None
        self._subscribed = False
        self._until = 0.0  # monotonic: when the wait, the dialling or the greeting is over
        self._since = 0.0  # monotonic: when the session began
        self._heard = 0.0  # monotonic: when the broker last sent anything, a PINGRESP at the least
        self._read = 0.0  # monotonic: when it last sent a message
        self._silence_limit = mqtt.silence or inf  # s without a message
        self._idle = False  # nobody is asked, so nobody has to be heard
        self._granted_by = inf  # monotonic: how long SUBACK is waited for
        self._ask_at = inf  # monotonic: when a refused subscription is asked for again
        self._trouble: ConnectionProblem | None = None  # what paho's callbacks found
        self._publisher.status(b"online")
        self._publisher.clear_stale_commands(former)

    # --- what the loop calls ------------------------------------------------------------------

    @property
    def online(self) -> bool:
        """Whether the broker has let us in and granted our subscriptions."""
        return self._state is State.HERE and self._subscribed

    def alive(self, now: float) -> bool:
        """Say whether the broker was heard within two keep-alives, or is tried again in time."""
        if self._state is State.HERE:
            return now - self._heard <= 2 * self._mqtt.keepalive + PATIENCE
        return now <= self._until + PATIENCE

    def interest(self) -> tuple[int, int] | None:
        """Give the socket and what to wait for on it."""
        if self._state is State.DIALLING:
            return self._dialler.interest()
        sock = self._client.socket() if self._client else None
        if sock is None or self._client is None:
            return None
        write = selectors.EVENT_WRITE if self._client.want_write() else 0
        return sock.fileno(), selectors.EVENT_READ | write

    def wake_at(self) -> float:
        """Give when the wait or the patience is over, or the keep-alive wants a look."""
        client = self._client
        at_once = client is not None and (client.socket() is None or client.pending)
        return 0.0 if at_once or self._inbox else self._until

    def service(self, mask: int, now: float) -> Iterator[tuple[str, Event]]:
        """Do what is due on the connection, and yield what came in."""
        match self._state:
            case State.AWAY if now >= self._until:
                self._state = State.DIALLING
                self._settle(self._dialler.start(now, plain=self._probing), now)
            case State.DIALLING:
                self._settle(self._dialler.step(mask, now), now)
            case State.GREETING | State.HERE:
                yield from self._do_io(mask, now)

    def requests(self) -> Iterator[tuple[Verb, Request] | Unreadable]:
        """Yield what somebody asked for; answer what is no request."""
        for each in self._commands.take() if self._commands else ():
            if not isinstance(each, Refusal):
                yield each
                continue
            if each.response is not None:
                self.respond(each.verb, each.response)
            yield each.why

    def respond(self, verb: str, response: Response) -> None:
        """Publish what became of a request, once."""
        self._publisher.respond(verb, response)
        self._flush_outbox()

    def send(self, field: str, command: Command) -> None:
        """Publish what `command` says."""
        self._publisher.send(field, command)
        self._flush_outbox()

    def show(self, field: str, document: Hotspot | PublishedPosterior) -> None:
        """Publish where the field is highest, or what is believed of each sensor, retained."""
        self._publisher.show(field, document)
        self._flush_outbox()

    def announce(self, notice: Notice) -> None:
        """Publish what happened to the daemon, once."""
        self._publisher.event(notice)
        self._flush_outbox()

    def report(self, health: Health) -> None:
        """Publish the daemon's health, retained."""
        self._publisher.report(health)
        self._flush_outbox()

    def expect_readings(self, expected: bool) -> None:
        """Set whether silence of all sensors is a fault of the connection."""
        self._idle = not expected

    def close(self) -> None:
        """Publish ``offline``, wait a moment for it to leave, and disconnect."""
        client = self._client
        for field in self._fields:
            self._publisher.cancel_command(field)
        if self._state is State.HERE and client is not None:
            self._publisher.status(b"offline")
            self._flush_outbox()
            deadline = time.monotonic() + SHUTDOWN_TIMEOUT
            while client.socket() and not self._outbox.empty and time.monotonic() < deadline:
                self._flush(client, deadline - time.monotonic())
            client.disconnect()
        self._hang_up()
        self._dialler.close()

    # --- connecting ---------------------------------------------------------------------------

    def _settle(self, outcome: Outcome, now: float) -> None:
        """Go on from where the dialler is."""
        match outcome:
            case None:
                self._until = self._dialler.until
            case ConnectionProblem():
                self._backoff.clear()
                self._failed(outcome, now)
            case _ if self._probing:
                outcome.close()
                self._rest(now)
            case _:
                self._greet(outcome, now)

    def _greet(self, connected: socket.socket, now: float) -> None:
        largest = max(self._inbox.largest, self._discovery.max_size if self._discovery else 0)
        client = FastClient(
            LONGEST + 4 + largest + 1,
            self._take,
            self._outbox.settled,
            callback_api_version=CallbackAPIVersion.VERSION2,
            client_id=self._client_id,
            clean_session=True,
            protocol=MQTTProtocolVersion.MQTTv311,
            reconnect_on_failure=False,
        )
        client.dialled = connected
        client.will_set(f"{self._base}/status", b"offline", qos=1, retain=True)
        if self._mqtt.username is not None:
            client.username_pw_set(*self._mqtt.login())
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        self._client, self._state, self._until = client, State.GREETING, now + PATIENCE
        try:
            client.connect(self._mqtt.host, self._mqtt.port, keepalive=self._mqtt.keepalive)
        except OSError as error:
            connected.close()
            self._failed(ConnectionProblem(f"{error}"), now)

    def _do_io(self, mask: int, now: float) -> Iterator[tuple[str, Event]]:
        client = self._client
        if client is None:
            return
        if mask & selectors.EVENT_READ:
            self._heard = now
        noise = client.transfer(mask, self._inbox)
        trouble = no_mqtt(noise, self._mqtt) if noise else self._trouble
        by_broker = trouble is None and client.socket() is None
        if by_broker and self._state is State.HERE:
            trouble = ConnectionProblem("the connection was lost")
        elif by_broker:
            trouble = hung_up(client, self._mqtt)
        trouble = trouble or self._overdue(now)
        if trouble is None:
            yield from self._deliver(client, time.monotonic() + SLICE)
            self._keep_up(client, now)
            return
        if self._state is State.HERE:
            self._lost(trouble, now, by_broker=by_broker)
        else:
            self._failed(trouble, now)
        yield from self._deliver(client, inf)

    def _overdue(self, now: float) -> ConnectionProblem | None:
        """Say what was waited for in vain."""
        if self._state is State.GREETING and now >= self._until:
            return ConnectionProblem(
                "the broker took the connection and says nothing; is it MQTT?", Code.NO_ANSWER
            )
        if self._state is State.HERE and now >= self._granted_by:
            return ConnectionProblem("the broker does not answer our subscriptions", Code.NO_ANSWER)
        if self._idle:
            self._read = now
        if self.online and now - max(self._read, self._since) >= self._silence_limit:
            text = (
                f"no sensor was heard for {self._silence_limit:.0f} s; the connection is made anew"
            )
            self._silence_limit = min(
                2.0 * self._silence_limit, MOST_SILENCE * (self._mqtt.silence or inf)
            )
            at = datetime.fromtimestamp(self._wall(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            for field in self._fields:
                self._publisher.event(Notice("inputs-silent", at, text), field)
            return ConnectionProblem(text, Code.NO_ANSWER, lasting=True)
        return None

    def _keep_up(self, client: FastClient, now: float) -> None:
        """Do what is due while all is well."""
        if self._state is not State.HERE:
            return
        self._until = now + TICK
        if self._backoff.duplicate_client_id and self._subscribed and now - self._since >= SHORT:
            self._backoff.clear()
            self._welcome(now)
        if now >= self._ask_at:
            self._subscribe(client, now)
        if self._discovery and (description := self._discovery.due(now)) is not None:
            self._outbox.description(self._discovery.topic, description)
        self._flush_outbox()

    def _deliver(self, client: FastClient, until: float) -> Iterator[tuple[str, Event]]:
        """Yield what came in, and acknowledge a few messages together that were handled."""
        while self._inbox and time.monotonic() < until:
            arrivals = self._inbox.take(ACK_BATCH)
            for arrival in arrivals:
                yield from self._inbox.events(arrival)
            self._read, self._silence_limit = arrivals[-1].now, self._mqtt.silence or inf
            mids = [arrival.message.mid for arrival in arrivals if arrival.message.mid]
            if mids and client is self._client:
                client.acknowledge(mids)

    # --- losing the connection ----------------------------------------------------------------

    def _lost(self, trouble: ConnectionProblem, now: float, *, by_broker: bool) -> None:
        """End a session.

        Where the broker ended it soon, it is asked at once whether it is there: a broker that
        is not was restarted, and one that is may have preferred another client with our name.
        """
        self._outage.lost(trouble, now)
        self._outbox.broken()
        soon = by_broker and now - self._since < SHORT
        self._backoff.ended(now - self._since, by_broker=by_broker)
        self._rest(now, knock=soon)

    def _failed(self, trouble: ConnectionProblem, now: float) -> None:
        """End an attempt."""
        self._outage.failed(trouble)
        self._rest(now)

    def _rest(self, now: float, *, knock: bool = False) -> None:
        """Let go of everything and wait for the next attempt, or `knock` at once."""
        if self._probing and self._backoff.duplicate_client_id:
            self._outage.failed(self._rivalry())
        self._probing = knock
        self._hang_up()
        wait = 0.0 if knock else self._backoff.wait()
        self._state, self._until = State.AWAY, now + wait
        self._outage.waits(wait)

    def _rivalry(self) -> ConnectionProblem:
        return ConnectionProblem(
            f"another client calls itself {self._client_id!r} too, it seems: the broker "
            "ends every session at once and is still there; set mqtt.client_id to an id that "
            "nobody else has, and [mqtt.readonly] where it takes logins for ids",
            Code.CLIENT_ID,
            lasting=True,
        )

    def _hang_up(self) -> None:
        """Let go of whatever socket there is."""
        self._dialler.hang_up()
        if self._client is not None:
            sock = self._client.socket()
            if sock is not None:
                sock.close()
            self._client.dialled.close()
        self._client = self._trouble = None
        self._subscribed = False
        self._granted_by = self._ask_at = inf

    # --- what paho calls ----------------------------------------------------------------------

    def _on_connect(
        self,
        client: Client,
        userdata: Any,
        flags: ConnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        if reason.is_failure:
            self._trouble = refused(reason, self._mqtt, self._client_id)
            return
        self._state, self._since = State.HERE, time.monotonic()
        self._heard, self._until = self._since, self._since + TICK
        self._outbox.begin()
        self._subscribe(client, self._since)

    def _welcome(self, now: float) -> None:
        """Say that all is well again, unless a rival may end that at once, as it did before."""
        self._subscribed = True
        if self._backoff.duplicate_client_id:
            return
        lost, self._outbox.lost = self._outbox.lost, 0
        text = f"; {lost} activations or notices were lost" if lost else ""
        self._outage.over(now, text)

    def _subscribe(self, client: Client, now: float) -> None:
        filters = [*self._inbox.filters(), *self._asides()]
        if self._discovery:
            self._discovery.begin(now)
        if filters:
            client.subscribe([(each, 1) for each in filters])
            self._granted_by, self._ask_at = now + PATIENCE, inf
        else:
            self._welcome(now)

    def _asides(self) -> list[str]:
        """Give what to subscribe to beside readings; to go on without it is no fault."""
        commands = [self._commands.filter] if self._commands else []
        return [*commands, *(self._discovery.filters if self._discovery else ())]

    def _on_subscribe(
        self,
        client: Client,
        userdata: Any,
        mid: int,
        reasons: list[ReasonCode],
        properties: Properties | None,
    ) -> None:
        self._granted_by = inf
        asked = [*self._inbox.filters(), *self._asides()]
        answers = zip(asked, reasons, strict=False)
        refused = [each for each, reason in answers if reason.is_failure]
        withheld = [each for each in refused if each not in self._asides()]
        if refused and not withheld:
            log.warning("the broker refuses us %s; allow it in its ACL", ", ".join(refused))
        now = time.monotonic()
        if not withheld:
            self._welcome(now)
            return
        self._subscribed, self._ask_at = False, now + ASK_AGAIN
        topics = ", ".join(withheld)
        text = f"the broker refuses us the readings on {topics}; allow them in its ACL"
        self._outage.failed(ConnectionProblem(text, Code.FORBIDDEN, lasting=True))

    def _on_disconnect(
        self,
        client: Client,
        userdata: Any,
        flags: DisconnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        match str(reason):
            case "Keep alive timeout":
                self._trouble = ConnectionProblem(
                    "nothing was heard from it for two keep-alives; the network in between is dead",
                    Code.NO_ANSWER,
                )
            case "Protocol error":
                self._trouble = no_mqtt("a malformed packet", self._mqtt)

    # --- what comes in ------------------------------------------------------------------------

    def _take(self, message: Message) -> None:
        """Keep a message for whom it is for."""
        now = time.monotonic()
        aside = (self._commands and self._commands.put(message, now)) or (
            self._discovery and self._discovery.put(message, now)
        )
        if not aside:
            self._inbox.put(message, now)
        elif message.mid and self._client:
            self._client.acknowledge([message.mid])

    # --- publishing ---------------------------------------------------------------------------

    def _flush_outbox(self) -> None:
        """Give the broker what it can take."""
        client = self._client
        if self._state is not State.HERE or client is None:
            return
        for each in self._outbox.due():
            mid = client.put(each.topic, each.payload, each.qos, retain=each.kept)
            self._outbox.left(mid, each)
            if client.socket() is None:
                return  # the connection is broken; the next turn sees it

    def _flush(self, client: FastClient, timeout: float) -> None:
        with selectors.DefaultSelector() as selector:
            interest = self.interest()
            if interest is None:
                return
            selector.register(*interest)
            ready = selector.select(0.0 if client.pending else max(0.0, timeout))
        mask = sum(mask for _, mask in ready)
        client.transfer(mask, self._inbox)
        self._flush_outbox()
