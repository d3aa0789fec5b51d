"""What the log says of the connection: one error for each outage, and one line when it is over."""

import logging
from typing import NamedTuple

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.errors import Code, LinkError

AT_ONCE = 5.0  # s; an attempt that is due by then may make the loss not worth an error
QUIET = 60.0  # s between two lines about losses that were made good at once


class ConnectionProblem(NamedTuple):
    """Why there is no connection, and what would help."""

    text: str
    code: Code = Code.LINK
    lasting: bool = False  # waiting does not help: somebody has to change something


def out_of_reach(mqtt: Mqtt, trouble: ConnectionProblem) -> LinkError:
    """Give the error for who asked for a moment only, and goes without an answer."""
    return LinkError(f"broker {mqtt.host}:{mqtt.port}: {trouble.text}", trouble.code)


class Outage:
    """Says each thing once while the broker is away.

    Of what may pass by itself (lost, refused, no route) the first is an error and the rest of the
    same outage is silence; each lasting trouble (a wrong password, an unknown CA) is an error of
    its own. A session that is lost and there again at once is one warning.

    Parameters
    ----------
    log : Logger
        Where the lines go.
    name : str
        Of the broker; every line begins with it.
    """

    def __init__(self, log: logging.Logger, name: str) -> None:
        self._log = log
        self._name = name
        self._said: set[str] = set()
        self._lost: tuple[ConnectionProblem, float] | None = None
        self._blips = 0
        self._quiet_until = 0.0

    def lost(self, trouble: ConnectionProblem, now: float) -> None:
        """Note that a session has ended; that is worth an error once it is not made good soon."""
        self._lost = trouble, now
        if trouble.lasting:
            self.failed(trouble)

    def waits(self, seconds: float) -> None:
        """Note how long it is until the next attempt."""
        if self._lost and seconds > AT_ONCE:
            self.failed(self._lost[0])

    def failed(self, trouble: ConnectionProblem) -> None:
        """Note that there is no connection."""
        if trouble.text in self._said or (self._said and not trouble.lasting):
            return
        self._said.add(trouble.text)
        self._log.error("%s: %s [%s]", self._name, trouble.text, trouble.code)

    def over(self, now: float, lost: str = "") -> None:
        """Note that the broker is here; `lost` says what was not sent meanwhile."""
        if self._said:
            self._log.info("%s: connected%s", self._name, lost)
        elif self._lost:
            self._blip(*self._lost, now, lost)
        self._said.clear()
        self._lost = None

    def _blip(self, trouble: ConnectionProblem, since: float, now: float, lost: str) -> None:
        self._blips += 1
        if now < self._quiet_until:
            return
        again = f", {self._blips} times since this was last said" if self._blips > 1 else ""
        self._quiet_until, self._blips = now + QUIET, 0
        self._log.warning(
            "%s: %s; connected again after %.1f s%s%s",
            self._name,
            trouble.text,
            now - since,
            again,
            lost,
        )
