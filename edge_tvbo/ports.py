"""What the inside needs from the outside, as Protocols; adapters provide it by entry point."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

import msgspec

from edge_tvbo.messages.payloads import PayloadCodec, PollMode

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class Wiring(msgspec.Struct, frozen=True):
    """How one field meets the wire."""

    sensors: tuple[str, ...]
    reading_topic: str  # "lab/{sensor}/temperature": {sensor} is within one level
    codec: PayloadCodec
    activate_topic: str | None = None  # None: advise only, command nobody
    activate_payload: str = "1"  # {sensor} {interval} {at} {expires_at} are filled in
    activate_mode: PollMode = "live"
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
    codec: PayloadCodec  # of percentages


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


class Trial(msgspec.Struct, frozen=True):
    """One thing that was tried with a broker, and what came of it."""

    good: bool
    text: str  # where it is not good, with what would help
    code: str | None = None  # in docs/errors.md, where it is not good


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


class Each(Protocol):
    """Calls a function with each of some items: here, in other processes, on other machines."""

    def __call__(
        self, function: Callable[[Item], Outcome], items: Sequence[Item], /
    ) -> Iterator[tuple[int, Outcome]]:
        """Yield, as they are done, an item's number and what `function` gives for it.

        All of them can be pickled. What `function` raises is raised here, and ends it.
        """
        ...


class Cluster(Protocol):
    """What a cluster entry point holds: a way to other machines."""

    def __call__(self, address: str, workers: int, /) -> AbstractContextManager[Each]:
        """Give an `Each` over those who work for the scheduler at `address`.

        Where `address` is "local", so many workers are started here, and end with the context.

        Raises
        ------
        ClusterError
            Where there is no scheduler, or workers whose results could differ from ours.
        MissingExtra
            Where the optional package is not installed.
        """
        ...
