"""Recorded day: one day of a field's decisions and notices, which the dashboard replays.

The intervals of the day come from the decision history and from live messages.
"""

import logging
from collections.abc import Callable, Iterable
from contextlib import closing

import msgspec
from msgspec.structs import replace

from edge_tvbo.errors import DataError
from edge_tvbo.messages.documents import Notice
from edge_tvbo.messages.history import DecisionHistory
from edge_tvbo_adapters.dashboard.frames import DashboardField, Frame, frames_of, is_of_interval

log = logging.getLogger(__name__)

MAX_ENTRIES = 3000  # the newest 3000 intervals are read: one day, if an interval is 29 s long
MAX_CELLS = 3000 * 54  # limit of intervals times sensors; the Intel lab has 54 sensors


class RecordedDay(msgspec.Struct, frozen=True):
    """The intervals and notices of one recorded day of a field."""

    days: list[str]  # all available days, such as 2026-03-07, the oldest first
    day: str  # the day of `frames` and `notices`; "" if no day is available
    frames: list[Frame]
    notices: list[Notice]
    before: list[Notice]  # the last notice before `day` for each sensor and event, in order of time
    complete: bool = True  # False if the history could not be read


def recorded_day(
    name: str,
    field: DashboardField,
    day: str | None,
    open_history: Callable[[], DecisionHistory] | None,
    live_frames: Iterable[Frame],
    live_notices: Iterable[Notice],
) -> RecordedDay:
    """Return one recorded day of the field `name`.

    The result is `day`, or the newest day if `day` is None or nothing was recorded on `day`. If an
    interval is both in the history and in `live_frames`, its two frames are combined. If the frames
    differ, the combined frame has the newer decision, and the values of the live frame.
    """
    stored, notices, complete = _stored(name, field, open_history)
    frames = _merged([*stored, *live_frames])
    notices.update((_key(each), each) for each in live_notices)
    days = sorted({each.decision.at[:10] for each in frames})
    chosen = day if day in days else days[-1] if days else ""
    before = _last([each for _, each in sorted(notices.items()) if each.at[:10] < chosen])
    earlier = [each for each in frames if each.decision.at[:10] < chosen]
    return RecordedDay(
        days,
        chosen,
        [each for each in frames if each.decision.at[:10] == chosen],
        [each for _, each in sorted(notices.items()) if each.at[:10] == chosen],
        [each for each in before if not _is_over(each, earlier)],
        complete,
    )


def _merged(frames: Iterable[Frame]) -> list[Frame]:
    """Return the frames of a recorded day in the order of time, one for each interval."""
    merged: list[Frame] = []
    for frame in sorted(frames, key=lambda each: _sortable(each.decision.at)):
        if merged and is_of_interval(frame.decision, merged[-1].decision):
            merged[-1] = _combined(merged[-1], frame)
        else:
            merged.append(frame)
    return merged


def _combined(earlier: Frame, frame: Frame) -> Frame:
    """Return the recorded `frame`, completed by an `earlier` frame of the same interval.

    Each frame may be incomplete: the history may not yet contain a reply, and the dashboard may
    have missed messages. If the two frames have different decisions, only the readings and the
    start time of the earlier frame are used, because its reply and its estimates belong to the
    earlier decision.
    """
    readings = earlier.readings | frame.readings
    if earlier.decision != frame.decision:
        begin = earlier.begin or earlier.decision.at
        return replace(frame, readings=readings, begin=begin)
    missing = {
        name: getattr(earlier, name)
        for name in Frame.__struct_fields__
        if getattr(frame, name) is None
    }
    return replace(frame, readings=readings, **missing)


def _last(notices: Iterable[Notice]) -> list[Notice]:
    """Return the last notice before a recorded day, for each sensor and kind of event.

    `notices` contains all notices before the day. The returned notices are in the same order.
    """
    last: dict[tuple[str | None, str], Notice] = {}
    for each in notices:
        key = each.sensor, each.event
        last.pop(key, None)
        last[key] = each
    return list(last.values())


def _is_over(notice: Notice, frames: Iterable[Frame]) -> bool:
    """Return whether a recorded notice no longer applies.

    A notice of a low battery no longer applies if its sensor was selected later. All other notices
    still apply.
    """
    return notice.event == "battery-low" and any(
        notice.sensor in (each.decision.sensor, *each.decision.earlier)
        and _sortable(each.decision.at) > _sortable(notice.at)
        for each in frames
    )


def _stored(
    name: str, field: DashboardField, open_history: Callable[[], DecisionHistory] | None
) -> tuple[list[Frame], dict[tuple[str, str], Notice], bool]:
    """Return the frames and notices for recorded days, and whether the history was readable.

    The frames are in the order of the history. The notices are a dict; the key of a notice is its
    time and its text.
    """
    if open_history is None:
        return [], {}, True
    try:
        with closing(open_history()) as history:
            count = min(MAX_ENTRIES, max(1, MAX_CELLS // len(field.sensors)))
            entries = history.newest(name, count)[::-1]
    except DataError as error:
        log.warning("%s", error)  # not shown on the page, because the text names a file
        return [], {}, False
    frames = list(frames_of(entries, field))
    return frames, {_key(each): each for entry in entries for each in entry.notices}, True


def _key(notice: Notice) -> tuple[str, str]:
    return _sortable(notice.at), notice.text


def _sortable(at: str) -> str:
    """Return a time of a recorded day without the Z at its end.

    Without the Z, times with milliseconds and times without milliseconds sort correctly as texts.

    >>> sorted(map(_sortable, ["2026-03-02T06:00:00.500Z", "2026-03-02T06:00:00Z"]))
    ['2026-03-02T06:00:00', '2026-03-02T06:00:00.500']
    """
    return at.removesuffix("Z")
