"""Reading times: which readings in a posterior are new to the dashboard.

A posterior contains the last reading of each sensor, and the age of the reading. The posterior does
not say whether the reading arrived in the interval of the posterior or earlier.
"""

from edge_tvbo.messages.documents import Decision, PublishedPosterior
from edge_tvbo_adapters.dashboard.times import seconds

MAX_AGE_ERROR_S = 0.15  # largest error of a reading's time, because posteriors contain rounded ages


class ReadingTimes:
    """The time of each sensor's last reading, as far as the dashboard knows it."""

    def __init__(self) -> None:
        self._times: dict[str, float] = {}  # sensor: time in s since 1970

    def new_in(self, posterior: PublishedPosterior, decision: Decision) -> dict[str, float]:
        """Return the readings in `posterior` that are new to the dashboard; the keys are sensors.

        A reading is new if it is newer than the sensor's last known reading. The first known
        reading of a sensor is new if it arrived after `decision`. `posterior` and `decision`
        belong to the same interval.
        """
        at = seconds(posterior.at)
        first = seconds(decision.at) - 2 * MAX_AGE_ERROR_S  # an earlier reading is not new
        found = {}
        for sensor, value, age in zip(
            posterior.sensors, posterior.last, posterior.age_s, strict=True
        ):
            if value is None or age is None:
                continue
            known = self._times.setdefault(sensor, min(at - age, first))
            if abs(at - age - known) > MAX_AGE_ERROR_S:
                self._times[sensor] = at - age
                found[sensor] = value
        return found

    def follow_clock(self, before: PublishedPosterior, posterior: PublishedPosterior) -> None:
        """Shift the reading times that the dashboard knows, if the daemon's clock was set.

        `before` is the posterior that was received before `posterior`.

        If the clock was set, the times of all readings change by the same duration, although no
        reading is new. To recognise this change, the dashboard needs at least two readings with
        known times.
        """
        at = seconds(posterior.at)
        shifts: dict[str, float] = {}
        readings = zip(before.last, before.age_s, strict=True)
        earlier = dict(zip(before.sensors, readings, strict=True))
        for sensor, value, age in zip(
            posterior.sensors, posterior.last, posterior.age_s, strict=True
        ):
            last, last_age = earlier.get(sensor, (None, None))
            if sensor not in self._times or last_age is None:
                continue
            if value != last or age is None or age <= last_age + MAX_AGE_ERROR_S:
                return  # a new reading, or the same document again
            shifts[sensor] = at - age - self._times[sensor]
        durations = shifts.values()
        if len(shifts) < 2 or min(map(abs, durations)) <= MAX_AGE_ERROR_S:
            return
        if max(durations) - min(durations) <= 2 * MAX_AGE_ERROR_S:
            for sensor in self._times:
                self._times[sensor] += shifts.get(sensor, min(durations))
