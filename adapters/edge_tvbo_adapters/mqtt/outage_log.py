"""Outage log: logs one error when the broker is lost, and one line after the reconnection."""

import logging

from edge_tvbo_adapters.mqtt.connection_problems import ConnectionProblem

SHORT_WAIT_S = 5.0  # an error is logged if the next attempt to connect is later
QUIET_S = 60.0  # between two warnings about short outages, or two errors with the same problem
MAX_PROBLEMS = 16  # different problems of one outage that are remembered, the newest ones
MIN_REPEATS = 3  # a problem that ends this many attempts in a row counts as lasting


class OutageLog:
    """Logs the outages of a broker connection; in an outage, each problem is logged only once.

    - Each lasting problem, such as a wrong password or an unknown CA, is logged as an error.
    - Some problems can be temporary: a lost connection, a refused connection, or no route to the
      broker. A temporary problem is logged as an error only if it is the first problem of an
      outage, or if it ends `MIN_REPEATS` attempts in a row.
    - A problem of an outage that ended less than `QUIET_S` seconds ago is not logged at once when
      it occurs again. It is logged later if the new outage lasts.
    - A short outage, in which no error was logged, is logged as one warning when it is over.
    - At debug level, each problem and each wait is logged.

    Parameters
    ----------
    log : Logger
        The logger that receives the lines.
    name : str
        The broker's name, with which every line begins.
    """

    def __init__(self, log: logging.Logger, name: str) -> None:
        self._log = log
        self._name = name
        self._logged: dict[str, None] = {}  # problems that were logged in the present outage
        self._quiet: dict[str, float] = {}  # problem of an earlier outage: time to log it again
        self._last_text = ""  # of the problem that ended the last attempt to connect
        self._repeats = 0  # number of attempts in a row with the last problem
        self._lost: tuple[ConnectionProblem, float] | None = None
        self._short_outages = 0
        self._quiet_until = 0.0

    def lost(self, problem: ConnectionProblem, now: float) -> None:
        """Begin an outage, because a session has ended.

        A lasting problem is logged as an error immediately. A temporary problem is logged as an
        error later, and only if the outage is not over soon.
        """
        self._lost = problem, now
        self._log.debug("%s: %s", self._name, problem.text)
        if problem.lasting:
            self.failed(problem, now)

    def waits(self, seconds: float, now: float) -> None:
        """Log the outage as an error if the wait until the next attempt to connect is long."""
        if self._lost and seconds > SHORT_WAIT_S:
            self.failed(self._lost[0], now)
        self._log.debug("%s: the next attempt to connect is in %.1f s", self._name, seconds)

    def attempt_failed(self, problem: ConnectionProblem, now: float) -> None:
        """Log the problem that ended an attempt to connect, during the present outage."""
        self._repeats = self._repeats + 1 if problem.text == self._last_text else 1
        self._last_text = problem.text
        lasting = problem.lasting or self._repeats >= MIN_REPEATS
        self.failed(problem._replace(lasting=lasting), now)

    def failed(self, problem: ConnectionProblem, now: float) -> None:
        """Log a connection problem of the present outage.

        In one outage, each problem is logged only once, and a temporary problem only if no other
        problem was logged before. If the problem was logged in an outage that ended less than
        `QUIET_S` seconds ago, it is not logged now; a later call can log it.
        """
        is_known = problem.text in self._logged or (self._logged and not problem.lasting)
        if is_known or now < self._quiet.get(problem.text, now):
            self._log.debug("%s: %s", self._name, problem.text)
            return
        self._logged[problem.text] = None
        if len(self._logged) > MAX_PROBLEMS:  # the broker's own words can differ each time
            del self._logged[next(iter(self._logged))]
        self._log.error("%s: %s [%s]", self._name, problem.text, problem.code)

    def over(self, now: float, lost: str = "") -> None:
        """End the outage, because the broker is connected.

        `lost` describes lost messages; this text is added to the log line.
        """
        if self._logged:
            self._log.info("%s: connected%s", self._name, lost)
        elif self._lost:
            self._short_outage(*self._lost, now, lost)
        self._quiet = {text: until for text, until in self._quiet.items() if now < until}
        self._quiet |= dict.fromkeys(self._logged, now + QUIET_S)
        self._logged.clear()
        self._lost = None
        self._repeats = 0

    def _short_outage(
        self, problem: ConnectionProblem, since: float, now: float, lost: str
    ) -> None:
        self._short_outages += 1
        if now < self._quiet_until:
            return
        times = self._short_outages
        repeated = f" ({times} times since this was last logged)" if times > 1 else ""
        self._quiet_until, self._short_outages = now + QUIET_S, 0
        self._log.warning(
            "%s: %s; connected again after %.1f s%s%s",
            self._name,
            problem.text,
            now - since,
            repeated,
            lost,
        )
