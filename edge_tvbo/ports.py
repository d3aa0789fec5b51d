"""What the inside needs from the outside, as Protocols; adapters provide it by entry point."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from edge_tvbo.messages.commands import Command
from edge_tvbo.messages.documents import (
    Health,
    Hotspot,
    Notice,
    Posterior,
    Request,
    Response,
    RetainedState,
    Status,
    Verb,
)
from edge_tvbo.messages.events import Event, Unreadable
from edge_tvbo.messages.history import Entry

if TYPE_CHECKING:
    pass


Mode = Literal["live", "sleepy", "lorawan"]


class Wiring(msgspec.Struct, frozen=True):
    """How one field meets the wire."""

    sensors: tuple[str, ...]
    reading_topic: str  # "lab/{sensor}/temperature": {sensor} is within one level
    codec: "PayloadCodec"
    activate_topic: str | None = None  # None: advise only, command nobody
    activate_payload: str = "1"  # {sensor} {interval} {at} {expires_at} are filled in
    activate_mode: Mode = "live"
    withdraw_payload: str | None = None  # lorawan: what empties the queue; None where nothing does
    names: Mapping[str, str] = {}  # what topics and payloads call a sensor, where not by its id
    scale: float = 1.0  # a reading is scale * what the payload says + offset
    offset: float = 0.0
    max_payload: int = 65_536  # bytes; a longer message is refused
    max_rate: float = 100.0  # messages a second of one sensor; what is beyond is refused
    batteries: "Batteries | None" = None


class Batteries(msgspec.Struct, frozen=True):
    """Where the sensors of one field say how full their batteries are."""

    topic: str  # as `Wiring.reading_topic`, and maybe the same
    codec: "PayloadCodec"  # of percentages


class Tls(msgspec.Struct, frozen=True):
    """How the connection is encrypted; the files are in PEM form."""

    ca: str | None = None  # whose signature we believe; None for those this system knows
    certificate: str | None = None  # who we are
    key: str | None = None  # of the certificate; None where that file has both
    minimum_version: Literal["1.2", "1.3"] = "1.2"
    server_name: str | None = None  # what the broker's certificate must be for; None for the host


class Broker(msgspec.Struct, frozen=True):
    """Where the broker is and who we are to it."""

    instance: str
    host: str = "127.0.0.1"
    port: int = 1883
    username: str | None = None
    password: str | None = None
    client_id: str = ""  # "" makes one from the instance and the machine
    keepalive: int = 30  # s
    reconnect_min: float = 1.0  # s; the first wait after a lost connection
    reconnect_max: float = 60.0  # s; the longest
    tls: Tls | None = None  # None for a connection in clear
    silence: float | None = None  # s without a message until the connection is made anew


class Shown(msgspec.Struct, frozen=True):
    """One field, as Home Assistant shows it."""

    sensors: tuple[str, ...]
    unit: str
    decimals: int  # of values in `unit`
    interval: float | None  # s; None where intervals follow the readings


class HomeAssistant(msgspec.Struct, frozen=True):
    """What Home Assistant is told of a daemon, and where."""

    prefix: str  # of discovery topics
    birth: str  # the topic on which it says that it has started
    version: str  # ours
    fields: dict[str, Shown]


class Link(Protocol):
    """A connection to the sensor networks of this daemon; owned by the one loop.

    It never blocks and never raises for what the network does: an absent broker is a state,
    not an error. All `now` are seconds on one monotonic clock.
    """

    def interest(self) -> tuple[int, int] | None:
        """Give the file descriptor and the `selectors` mask to wait for, if there is one."""
        ...

    @property
    def online(self) -> bool:
        """Whether the broker has let us in and granted our subscriptions."""
        ...

    def alive(self, now: float) -> bool:
        """Say whether it moves: the broker was heard of late, or is about to be tried again."""
        ...

    def wake_at(self) -> float:
        """Give the monotonic time by which `service` wants to be called even if nothing came."""
        ...

    def service(self, mask: int, now: float) -> Iterator[tuple[str, Event]]:
        """Do the reading, writing, keep-alive and reconnecting that is due.

        Yields ``(field, event)`` for what came in, oldest first.
        """
        ...

    def requests(self) -> Iterator[tuple[Verb, Request] | Unreadable]:
        """Yield what somebody asked for since the last call; what is unreadable was answered."""
        ...

    def respond(self, verb: Verb, response: Response) -> None:
        """Tell the world what became of a request."""
        ...

    def send(self, field: str, command: Command) -> None:
        """Carry out `command` of the controller of `field`."""
        ...

    def show(self, field: str, document: Hotspot | Posterior) -> None:
        """Tell the world where `field` is highest, or what is believed of each sensor."""
        ...

    def announce(self, notice: Notice) -> None:
        """Tell the world what happened to the daemon."""
        ...

    def report(self, health: Health) -> None:
        """Tell the world how the daemon is doing."""
        ...

    def close(self) -> None:
        """Say good-bye and let go of the socket."""
        ...


class Notifier(Protocol):
    """Whoever started the daemon and wants to know how it does; never raises, never blocks."""

    @property
    def patience(self) -> float | None:
        """Seconds without `feed` after which the daemon is taken for hung; None for never."""
        ...

    def ready(self, text: str) -> None:
        """Say that the start, or a reload, is over, and how it went."""
        ...

    def status(self, text: str) -> None:
        """Say in one line how it goes."""
        ...

    def feed(self) -> None:
        """Say that work is being done."""
        ...

    def reloading(self) -> None:
        """Say that the configuration is read again; `ready` ends it."""
        ...

    def stopping(self) -> None:
        """Say that the end has begun."""
        ...


class LoopService(Protocol):
    """Something that the loop serves beside the link; `service` neither blocks nor raises."""

    def fileno(self) -> int:
        """Give the descriptor that is readable when there is something to do; -1 for none."""
        ...

    def wake_at(self) -> float:
        """Give the monotonic time by which `service` wants to be called even so."""
        ...

    def service(self, now: float) -> None:
        """Do what is due; called in every turn of the loop, after the controllers."""
        ...

    def close(self) -> None:
        """Let go of every descriptor."""
        ...


class Monitor(Protocol):
    """What a monitor entry point holds: a server that shows how the daemon does."""

    def __call__(self, host: str, port: int, status: Callable[[], Status]) -> LoopService:
        """Listen; raises `EdgeTvboError` where that cannot be."""
        ...


class Store(Protocol):
    """Where state is kept over restarts: the newest document and the one before it.

    Nothing here raises for what a disk does: the store says in the log what it cannot do, once for
    each change, and the daemon goes on.
    """

    @property
    def written(self) -> int:
        """Bytes written since the start."""
        ...

    @property
    def newest(self) -> str:
        """Name of the generation that was written last."""
        ...

    def generations(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name and the content of each document there is, the newest first."""
        ...

    def set_aside(self, generation: str, why: str) -> str:
        """Take a document out of use but keep it; give what became of it, in words."""
        ...

    def save(self, document: bytes) -> bool:
        """Keep `document`, whole or not at all, and the one before; say whether that was done."""
        ...


class History(Protocol):
    """Where intervals are kept to be looked at later: of bounded size, the oldest give way.

    Nothing here raises for what a disk does, as in a `Store`.
    """

    @property
    def written(self) -> int:
        """Bytes written since the start, at the most."""
        ...

    def keep(self, entries: Sequence[Entry]) -> bool:
        """Keep `entries`, all or none, each instead of what was kept of the same interval."""
        ...

    def latest(self, field: str) -> Entry | None:
        """Give the newest entry of `field`, where there is one that can be read."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


class Past(Protocol):
    """What a history holds, for another process to look at; all of it may raise `DataError`."""

    def fields(self) -> list[str]:
        """Give the fields there are entries of, sorted."""
        ...

    def span(self, field: str) -> tuple[int, int] | None:
        """Give the lowest and the highest number of an interval of `field`, if there is one."""
        ...

    def entry(self, field: str, interval: int) -> Entry | None:
        """Give what became of one interval, where that is kept."""
        ...

    def newest(self, field: str, count: int) -> list[Entry]:
        """Give the last `count` entries of `field`, the newest first."""
        ...

    def between(self, field: str, first: int, last: int) -> list[Entry]:
        """Give the entries of `field` with these numbers and all in between, oldest first."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


class Inquiry(Protocol):
    """What an inquiry entry point holds: asks a broker what it has of a daemon."""

    def __call__(self, broker: Broker, fields: Sequence[str], patience: float) -> RetainedState:
        """Give what is retained of `broker.instance`, within `patience` seconds.

        Raises `LinkError` where the broker is out of reach.
        """
        ...


class Scene(msgspec.Struct, frozen=True):
    """One field, as a dashboard draws it."""

    sensors: tuple[str, ...]
    unit: str
    objective: Literal["max", "min"]
    interval: float | None  # s; None where intervals follow the readings
    positions: tuple[tuple[float, float], ...] | None  # in m, by sensor; None where unknown


class Dashboard(Protocol):
    """What a dashboard entry point holds: shows in a browser what a daemon decides."""

    def __call__(
        self,
        scenes: Mapping[str, Scene],
        *,
        title: str,
        broker: Broker | None,
        past: Callable[[], Past] | None,
        host: str,
        port: int,
        root_path: str,
        hosts: Sequence[str],
        ready: Callable[[str], None],
    ) -> None:
        """Serve the fields until SIGINT or SIGTERM; raises `EdgeTvboError` where that cannot be.

        Parameters
        ----------
        scenes : mapping
            Every field.
        title : str
            What the page is called.
        broker : Broker, optional
            Where what is live comes from; None for recorded days alone.
        past : callable, optional
            Opens the history; None where there is none.
        host, port
            Where to listen.
        root_path : str
            What a proxy leaves before our paths, "/dashboard"; "" for nothing.
        hosts : sequence of str
            Further names by which we are reached; on a loopback address no other is answered to.
        ready : callable
            Is told the page's address once it can be visited.
        """
        ...


class Listener(Protocol):
    """What a listener entry point holds: hears what a broker carries."""

    def __call__(self, broker: Broker, seconds: float, hear: Callable[[str, bytes], None]) -> None:
        """Give `hear` the topic and the payload of every message for so long.

        Raises `LinkError` where the broker is out of reach.
        """
        ...


class Trial(msgspec.Struct, frozen=True):
    """One thing that was tried with a broker, and what came of it."""

    good: bool
    text: str  # where it is not good, with what would help
    code: str | None = None  # in docs/errors.md, where it is not good


class Probe(Protocol):
    """What a probe entry point holds: tries with a broker what a daemon needs of it."""

    def __call__(
        self, broker: Broker, fields: Mapping[str, Wiring], seconds: float
    ) -> Iterator[Trial]:
        """Yield what comes of each step, listening to the sensors for so long.

        It changes nothing: nothing is retained, no sensor is asked, and no daemon is disturbed.
        """
        ...


class PayloadCodec(Protocol):
    """How one make of sensor writes a reading."""

    def __call__(self, payload: bytes) -> tuple[float, float | timedelta | None]:
        """Give the value and, where the payload says it, when it was measured.

        That is seconds since 1970, or a time from the moment at which the message came. Of several
        readings it is the newest: what is older says nothing that the newest does not say better.
        Raises `PayloadError`, and nothing else, whatever the bytes are.
        """
        ...


class PayloadFormat(Protocol):
    """What a payload entry point holds: settings in, codec out."""

    def __call__(self, settings: Mapping[str, str]) -> PayloadCodec:
        """Make a codec; raises `ConfigError` for a setting it does not know."""
        ...


class Activation(msgspec.Struct, frozen=True):
    """How a make of sensor is asked for a reading."""

    mode: Mode
    topic: str
    payload: str
    withdrawal: str | None = None  # lorawan: what empties the queue on the same topic


class Sighting(msgspec.Struct, frozen=True):
    """What a message on a broker looks like: a reading of some make."""

    sensor: str  # as its topic names it
    topic: str  # of its readings, {sensor} in its place
    values: tuple[str, ...]  # what the setting `value` can be; () where there is one number alone
    activate: Activation | None = None


class Preset(Protocol):
    """What a preset entry point holds, under its payload's name: how a make is usually wired."""

    @property
    def topic(self) -> str:
        """Of its readings; {sensor} is the sensor, other words in braces are the owner's."""
        ...

    @property
    def activate(self) -> Activation | None:
        """How it is asked, in the same words; None where it cannot be."""
        ...

    def recognise(self, topic: str, payload: bytes) -> Sighting | None:
        """Say what is seen in a message; None where it looks like none of this make."""
        ...
