"""A recorded day as the page replays it: from a history, and from what was heard since."""

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing

import msgspec

from edge_tvbo.errors import DataError
from edge_tvbo.messages.documents import Notice
from edge_tvbo_adapters.dashboard.state import DecisionHistory, Frame, frames_of

log = logging.getLogger(__name__)

MOST = 3000  # intervals, the newest, that are looked through; a day has so many of 29 s
MOST_CELLS = 3000 * 54  # the same, by sensors: such a day of the Intel lab


class RecordedDay(msgspec.Struct, frozen=True):
    """One day, interval by interval."""

    days: list[str]  # that there are, 2026-03-07, the oldest first
    day: str  # this one; "" where there is none
    frames: list[Frame]
    notices: list[Notice]
    complete: bool = True  # the history could be read, where there is one


def tape(
    field: str,
    sensors: Sequence[str],
    day: str | None,
    past: Callable[[], DecisionHistory] | None,
    heard: Iterable[Frame],
    notices: Iterable[Notice],
) -> RecordedDay:
    """Give `day` of `field`, or the newest day; what was `heard` counts where both have it."""
    frames, told, complete = _kept(field, sensors, past)
    frames.update((each.decision.at, each) for each in heard)
    told.update((_key(each), each) for each in notices)
    days = sorted({at[:10] for at in frames})
    chosen = day if day in days else days[-1] if days else ""
    return RecordedDay(
        days,
        chosen,
        [frames[at] for at in sorted(frames) if at[:10] == chosen],
        [each for _, each in sorted(told.items()) if each.at[:10] == chosen],
        complete,
    )


def _kept(
    field: str, sensors: Sequence[str], past: Callable[[], DecisionHistory] | None
) -> tuple[dict[str, Frame], dict[tuple[str, str], Notice], bool]:
    """Give what the history has, by time, and whether that is all."""
    if past is None:
        return {}, {}, True
    try:
        with closing(past()) as opened:
            entries = opened.newest(field, min(MOST, max(1, MOST_CELLS // len(sensors))))
    except DataError as error:
        log.warning("%s", error)  # with the name of the file, which is nobody else's business
        return {}, {}, False
    frames = {each.decision.at: each for each in frames_of(entries, sensors)}
    return frames, {_key(each): each for entry in entries for each in entry.notices}, True


def _key(notice: Notice) -> tuple[str, str]:
    return notice.at, notice.text
