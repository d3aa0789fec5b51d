"""What the inside needs from the outside, as Protocols; adapters provide it by entry point."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from edge_tvbo.messages import Command, Event, Health, Status

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Wiring(msgspec.Struct, frozen=True):
    """How one field meets the wire."""

    sensors: tuple[str, ...]
    reading_topic: str  # "lab/{sensor}/temperature": {sensor} is one whole level
    codec: "PayloadCodec"
    activate_topic: str | None = None  # None: advise only, command nobody
    activate_payload: str = "1"  # {sensor} {interval} {at} {expires_at} are filled in
    max_payload: int = 65_536  # bytes; a longer message is refused
    max_rate: float = 100.0  # messages a second of one sensor; what is beyond is refused


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

    def send(self, field: str, command: Command) -> None:
        """Carry out `command` of the controller of `field`."""
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


class Attendant(Protocol):
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

    def __call__(self, host: str, port: int, status: Callable[[], Status]) -> Attendant:
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


class PayloadCodec(Protocol):
    """How one make of sensor writes a reading."""

    def __call__(self, payload: bytes) -> tuple[float, float | None]:
        """Give the value and, where the payload says it, when it was measured (s since 1970).

        Raises `PayloadError`, and nothing else, whatever the bytes are.
        """
        ...


class PayloadFormat(Protocol):
    """What a payload entry point holds: settings in, codec out."""

    def __call__(self, settings: Mapping[str, str]) -> PayloadCodec:
        """Make a codec; raises `ConfigError` for a setting it does not know."""
        ...


class Recording(Protocol):
    """What a sensor network measured, on a regular grid of T intervals and M sensors."""

    @property
    def name(self) -> str:
        """Its dataset's name."""
        ...

    @property
    def unit(self) -> str:
        """Of the values, "°C"."""
        ...

    @property
    def objective(self) -> str:
        """Which end of the scale is worth following: "max" or "min"."""
        ...

    @property
    def sensors(self) -> Sequence[str]:
        """M ids, each fit for a topic level."""
        ...

    @property
    def start(self) -> float:
        """Seconds since 1970 of the first interval."""
        ...

    @property
    def interval(self) -> float:
        """Seconds."""
        ...

    @property
    def values(self) -> "NDArray[np.float64]":
        """(T, M) readings; gaps are filled, see `observed`."""
        ...

    @property
    def observed(self) -> "NDArray[np.bool_]":
        """(T, M), False where a value is filled in."""
        ...

    @property
    def positions(self) -> "NDArray[np.float64] | None":
        """(M, 2) in m, where they are known."""
        ...

    @property
    def source(self) -> str:
        """Whose data, under what licence, real or synthetic, in one sentence."""
        ...


class Dataset(Protocol):
    """What a dataset entry point holds: how to find, fetch and read one recording."""

    @property
    def name(self) -> str:
        """As registered."""
        ...

    @property
    def summary(self) -> str:
        """One line for `data list`."""
        ...

    @property
    def url(self) -> str | None:
        """Where `fetch` gets it; None where it cannot be fetched."""
        ...

    def load(self, directories: Iterable[str]) -> Recording:
        """Read the recording from the first directory that has it; raises `DataError`."""
        ...

    def fetch(self, directory: Path, progress: Callable[[int, int | None], None]) -> None:
        """Download what `load` needs; raises `DataError`.

        `progress` is told the bytes so far and, where known, of how many.
        """
        ...
