"""Live state: the part of a controller's state that a snapshot leaves out.

`Controller.restore` prepares a controller for a new process: it marks the running interval as
interrupted, and assumes that the link is connected and the clock is set. If the live state is
restored, too, the controller continues exactly as if the old process had not ended.
"""

import msgspec

from edge_tvbo.control.report_times import LiveReports


class LiveField(msgspec.Struct, frozen=True, array_like=True):
    """The live state of a field: what `FieldState.snapshot` leaves out."""

    used: int
    online: bool
    timeout_counts: bool
    clock_is_set: bool
    clock_is_synced: bool
    alert_is_delayed: bool
    undelivered: list[int]
    resumed: list[int]
    reports: LiveReports


class LiveState(msgspec.Struct, frozen=True, array_like=True):
    """The live state of a controller: what `Controller.snapshot` leaves out."""

    field: LiveField
    has_set_time: bool
    time_is_unset: bool
