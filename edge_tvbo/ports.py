"""What the inside needs from the outside, as Protocols; adapters provide it by entry point."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from edge_tvbo.messages import Command, Event, Health

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


class Link(Protocol):
    """A connection to the sensor networks of this daemon; owned by the one loop.

    It never blocks and never raises for what the network does: an absent broker is a state,
    not an error. All `now` are seconds on one monotonic clock.
    """

    def interest(self) -> tuple[int, int] | None:
        """Give the file descriptor and the `selectors` mask to wait for, if there is one."""
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
    """What a sensor network measured, on a regular grid of intervals."""

    name: str
    unit: str  # of the values, "°C"
    objective: str  # "max" or "min": which end of the scale is worth following
    sensors: Sequence[str]  # M ids, fit for a topic level
    start: float  # s since 1970 of the first interval
    interval: float  # s
    values: "NDArray[np.float64]"  # (T, M); gaps are filled, see `observed`
    observed: "NDArray[np.bool_]"  # (T, M): False where the value is filled in
    positions: "NDArray[np.float64] | None"  # (M, 2) m, where known
    source: str  # one sentence: whose data, under what licence, real or synthetic


class Dataset(Protocol):
    """What a dataset entry point holds: how to find, fetch and read one recording."""

    name: str
    summary: str  # one line for `data list`
    url: str | None  # where `data fetch` gets it; None where it cannot be fetched

    def load(self, directories: Iterable[str]) -> Recording:
        """Read the recording from the first directory that has it; raises `DataError`."""
        ...
