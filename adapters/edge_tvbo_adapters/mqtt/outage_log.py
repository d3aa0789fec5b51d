"""Outage log: one error for each outage, and one line when it is over."""

import logging

from edge_tvbo_adapters.mqtt.problems import ConnectionProblem

SHORT_WAIT_S = 5.0  # a loss is no error yet if the next attempt comes within this time
QUIET_S = 60.0  # between two warnings about short outages


class OutageLog:
    """Logs each problem of one outage once.

    Of the problems that may pass by themselves (lost, refused, no route) the first is an error and
    the others of the same outage are not logged; each lasting problem (a wrong password, an unknown
    CA) is an error of its own. A session that is lost and back at once is one warning.

    Parameters
    ----------
    log : Logger
        Where the lines go.
    name : str
        The broker; every line begins with it.
    """

    def __init__(self, log: logging.Logger, name: str) -> None:
        self._log = log
        self._name = name
        self._logged: set[str] = set()
        self._lost: tuple[ConnectionProblem, float] | None = None
        self._short_outages = 0
        self._quiet_until = 0.0

    def lost(self, problem: ConnectionProblem, now: float) -> None:
        """Note that a session has ended; it is logged as an error unless it is soon back."""
        self._lost = problem, now
        if problem.lasting:
            self.failed(problem)

    def waits(self, seconds: float) -> None:
        """Note how long it is until the next attempt."""
        if self._lost and seconds > SHORT_WAIT_S:
            self.failed(self._lost[0])

    def failed(self, problem: ConnectionProblem) -> None:
        """Note that there is no connection."""
        if problem.text in self._logged or (self._logged and not problem.lasting):
            return
        self._logged.add(problem.text)
        self._log.error("%s: %s [%s]", self._name, problem.text, problem.code)

    def over(self, now: float, lost: str = "") -> None:
        """Note that the broker is connected; `lost` says what could not be sent meanwhile."""
        if self._logged:
            self._log.info("%s: connected%s", self._name, lost)
        elif self._lost:
            self._short_outage(*self._lost, now, lost)
        self._logged.clear()
        self._lost = None

    def _short_outage(
        self, problem: ConnectionProblem, since: float, now: float, lost: str
    ) -> None:
        self._short_outages += 1
        if now < self._quiet_until:
            return
        times = self._short_outages
        repeated = f", {times} times since this was last logged" if times > 1 else ""
        self._quiet_until, self._short_outages = now + QUIET_S, 0
        self._log.warning(
            "%s: %s; connected again after %.1f s%s%s",
            self._name,
            problem.text,
            now - since,
            repeated,
            lost,
        )
