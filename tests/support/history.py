"""History entries for tests, of ordinary size."""

from random import Random

from edge_tvbo.messages.commands import Ending, Record
from edge_tvbo.messages.documents import Decision, ModelState, Reason
from edge_tvbo.messages.history import HistoryEntry, PosteriorSnapshot, QuantizedArray

SENSORS = tuple(f"mote-{n}" for n in range(1, 55))


def history_entry(number, field="lab", *, ended=True, rng=None, text="mote-7: requested"):
    """Return the entry of interval `number`; its numbers cannot be compressed."""
    rng = rng or Random(number)
    at = f"2026-11-21T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z"
    sensor = rng.choice(SENSORS)
    value, std = rng.gauss(23.0, 2.0), rng.random()
    runner_up = rng.choice(SENSORS)
    factors = [
        f"its bound is {value + 1:.2f} °C",
        f"next is {runner_up} with {value + std:.2f} °C",
        f"{rng.choice(SENSORS)} has the highest estimate, {value:.2f} °C",
        f"{std:.2f} of the field is new each interval",
    ]
    decision = Decision(
        interval=number,
        at=at,
        expires_at=at,
        sensor=sensor,
        policy="auto",
        mean=round(value, 2),
        std=round(std, 2),
        ucb=round(value + 1, 2),
        unit="°C",
        reason=Reason.EXPLORE,
        factors=factors,
        text=text,
        model=ModelState(number % 50, number // 50, at),
        width=round(1 + rng.random(), 4),
        runner_up=runner_up,
        runner_up_ucb=round(value + std, 2),
    )
    record = Record(number, 31.0 * number, sensor, Ending.ANSWERED, value, std, 1.0, False)
    snapshot = PosteriorSnapshot(
        SENSORS,
        QuantizedArray(20.0, 25.0, rng.randbytes(len(SENSORS))),
        QuantizedArray(0.1, 0.5, rng.randbytes(len(SENSORS))),
    )
    return HistoryEntry(field, decision, record if ended else None, posterior=snapshot)
