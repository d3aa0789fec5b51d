"""A made-up laboratory, for trying things out where no recording is at hand.

Its hot spot wanders: the sun goes from the east windows along the south ones to the west ones,
cooling cuts in and out in working hours, and slow weather of its own drifts through the rooms.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from edge_tvbo_adapters.datasets.fetch import Progress, cannot_fetch
from edge_tvbo_adapters.datasets.recording import GridRecording, fill_gaps

if TYPE_CHECKING:
    import numpy as np
    from numpy.random import Generator
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

SENSORS = 46
WIDTH, DEPTH = 40.0, 30.0  # m; windows in the east, south and west walls
DAYS, PER_DAY = 8, 144
INTERVAL = 600.0  # s
START = datetime(2026, 3, 2, tzinfo=UTC)  # a Monday
SUNRISE, SUNSET = 6.5, 18.5  # h
VENTS = ((10.0, 21.0), (30.0, 21.0), (12.0, 9.0), (28.0, 9.0))  # m, one for each cooling zone


class LabSample:
    """The dataset `lab-sample`; another seed is another week in another laboratory."""

    name = "lab-sample"
    summary = "synthetic: 46 sensors in a laboratory of 40 x 30 m, temperature, 10 min, 8 days"
    url: str | None = None

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def load(self, directories: Iterable[str] = ()) -> GridRecording:
        """Make the recording up: same seed, same bytes; the directories are ignored."""
        import numpy as np

        rng = np.random.default_rng(self._seed)
        places = layout(rng)
        observed = ~dropouts(rng, (DAYS * PER_DAY, SENSORS))
        values = temperatures(rng, places).round(2)  # as a sensor would; also drops the last bits
        return GridRecording(
            name=self.name,
            unit="°C",
            objective="max",
            sensors=tuple(f"node-{i + 1}" for i in range(SENSORS)),
            start=START.timestamp(),
            interval=INTERVAL,
            values=fill_gaps(values, observed),
            observed=observed,
            positions=places,
            source=f"Synthetic: made by edge_tvbo from seed {self._seed}, measured nowhere.",
        )

    def fetch(self, directory: Path, progress: Progress) -> None:
        """Raise `DataError`: there is nothing to fetch."""
        cannot_fetch(self.name, "It is made up on the spot and needs no file.")


def layout(rng: "Generator") -> "Array":
    """Give the sensors' places, (M, 2) m: a grid of 8 x 6, two corners left out, none in line."""
    import numpy as np

    x, y = np.meshgrid((np.arange(8) + 0.5) * WIDTH / 8, (np.arange(6) + 0.5) * DEPTH / 6)
    grid = np.column_stack([x.ravel(), y.ravel()])
    kept = np.delete(grid, [40, 47], axis=0)  # the north corners hold the stairs
    places: Array = (kept + rng.uniform(-1.5, 1.5, kept.shape)).round(1)
    return places


def temperatures(rng: "Generator", places: "Array") -> "Array":
    """Give what each sensor would read, (T, M) °C."""
    import numpy as np

    hour = np.arange(DAYS * PER_DAY) * 24.0 / PER_DAY
    daily = 22.0 + 3.5 * np.cos(2 * np.pi * (hour - 15.0) / 24)
    offset = rng.normal(0.0, 0.25, SENSORS)
    noise = rng.normal(0.0, 1.0, (len(hour), SENSORS)) * rng.uniform(0.05, 0.15, SENSORS)
    field: Array = daily[:, None] + offset + noise
    return field + sunshine(rng, hour, places) - cooling(rng, hour, places) + drift(rng, places)


def sunshine(rng: "Generator", hour: "Array", places: "Array") -> "Array":
    """Give the warming by the sun, (T, M) °C: a patch that goes along the windows, with a lag."""
    import numpy as np

    through = (hour % 24 - SUNRISE) / (SUNSET - SUNRISE)  # of the day: 0 at sunrise, 1 at sunset
    x = np.interp(through, [0, 0.3, 0.7, 1], [WIDTH, WIDTH, 0, 0])
    y = np.interp(through, [0, 0.3, 0.7, 1], [DEPTH, 0, 0, DEPTH])
    clear = np.repeat(rng.uniform(0.5, 1.0, DAYS), PER_DAY)
    up = (through > 0) & (through < 1)
    strength = np.where(up, 9.0 * clear * np.sqrt(np.sin(np.pi * np.clip(through, 0, 1))), 0.0)
    away = (places[:, 0] - x[:, None]) ** 2 + (places[:, 1] - y[:, None]) ** 2
    return lagged(strength[:, None] * np.exp(-away / (2 * 7.0**2)), keep=0.85)


def cooling(rng: "Generator", hour: "Array", places: "Array") -> "Array":
    """Give the cooling by the vents, (T, M) °C: zones cut in and out in working hours."""
    import numpy as np

    flips = rng.random((len(hour), len(VENTS))) < 1 / 9  # every hour and a half or so
    at_work = (hour % 24 >= 8) & (hour % 24 < 18) & (hour // 24 % 7 < 5)
    on = (np.cumsum(flips, axis=0) % 2 == 1) & at_work[:, None]
    vents = np.array(VENTS)
    away = ((places[:, None, :] - vents) ** 2).sum(axis=2)  # (M, zones)
    reach = 3.0 * np.exp(-away / (2 * 6.0**2))
    return lagged((on[:, None, :] * reach).sum(axis=2), keep=0.7)


def drift(rng: "Generator", places: "Array") -> "Array":
    """Give slow anomalies, (T, M) °C: alike nearby, and an AR(2) in time, so they have momentum."""
    import numpy as np

    x, y = np.meshgrid(np.linspace(0, WIDTH, 9), np.linspace(0, DEPTH, 7))
    away = (places[:, :1] - x.ravel()) ** 2 + (places[:, 1:] - y.ravel()) ** 2  # (M, sources)
    reach = np.exp(-away / (2 * 4.0**2))
    reach /= np.sqrt((reach**2).sum(axis=1, keepdims=True))
    sources = rng.normal(0.0, 1.0, (DAYS * PER_DAY + PER_DAY, x.size))
    slow = lagged(lagged(sources, keep=0.96), keep=0.9)[PER_DAY:]  # a day to forget the start
    anomaly: Array = 0.8 * (slow / slow.std()) @ reach.T
    return anomaly


def lagged(drive: "Array", keep: float) -> "Array":
    """Give a first-order lag along time: each step keeps a share of the last and takes in the new.

    >>> import numpy as np
    >>> lagged(np.array([[1.0], [1.0], [0.0]]), keep=0.5).ravel().tolist()
    [0.5, 0.75, 0.375]
    """
    import numpy as np

    out = np.empty_like(drive)
    level = np.zeros(drive.shape[1])
    for t, new in enumerate(drive):
        level = keep * level + (1 - keep) * new
        out[t] = level
    return out


def dropouts(rng: "Generator", shape: tuple[int, int]) -> "NDArray[np.bool_]":
    """Give which readings were lost, about 1 %: here and there, for up to an hour or so."""
    import numpy as np

    lost = np.zeros(shape, dtype=np.bool_)
    starts = np.argwhere(rng.random(shape) < 0.0025)
    for (t, j), length in zip(starts, rng.integers(1, 8, len(starts)), strict=True):
        lost[t : t + length, j] = True
    return lost


dataset = LabSample()
