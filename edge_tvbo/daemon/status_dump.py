"""Status dump: the daemon's status in a few log lines, written after the signal SIGUSR1."""

import logging
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from edge_tvbo.control import history_text
from edge_tvbo.control.controller import Controller
from edge_tvbo.messages.documents import Decision, Status
from edge_tvbo.messages.formatting import counted, interval_number_text, listed_sensors

log = logging.getLogger(__name__)

_PROCESS = Path("/proc/self")


def lines(
    status: Status, controllers: Mapping[str, Controller], decisions: Mapping[str, Decision]
) -> Iterator[str]:
    """Yield the lines of the status dump: the daemon's status, then two lines for each field."""
    health, written = status.health, status.written
    stored = "no state is stored" if written is None else f"{written} bytes of state written"
    broker = "connected to the broker" if status.online else "not connected to the broker"
    yield f"version {health.version}, up {health.uptime_s} s; {broker}; {stored}"
    yield f"kernels compiled {health.kernels}"
    yield f"process: {usage(status.resident)}"
    for name, field in health.fields.items():
        policy, names = controllers[name].policy, status.fields[name].names
        suspects, faulty, ignored = (
            listed_sensors(each, names) or "none"
            for each in (field.suspects, field.faulty, field.ignored)
        )
        refused = listed_sensors(field.refused_activations, names)
        rejected = ", ".join(f"{count} {reason}" for reason, count in field.refused.items())
        yield (
            f"{name}: {interval_number_text(field.interval)},"
            f" {history_text.replies(field)};"
            f" policy {policy.name} with {counted(policy.observations, 'reading')} after"
            f" {counted(policy.resets, 'reset')}; unresponsive: {suspects};"
            f" faulty: {faulty};"
            f" ignored: {ignored};"
            f"{f' activations refused by the broker: {refused};' if refused else ''}"
            f" rejected: {rejected or 'none'}"
        )
        decision = decisions.get(name)
        yield f"{name}: {decision.text if decision else 'no decision since the start'}"


def usage(resident: int | None) -> str:
    """Return a text for the status dump: how many threads, descriptors and bytes are in use.

    >>> "thread(s)" in usage(None)
    True
    """
    return (
        f"{threading.active_count()} thread(s), {_descriptors()} descriptors, {_memory(resident)}"
    )


def _descriptors() -> str:
    try:
        return str(len(os.listdir(_PROCESS / "fd")) - 1)  # noqa: PTH208 - a count of names
    except OSError as error:
        return f"unknown number ({error.strerror}) of"


def _memory(resident: int | None) -> str:
    return "resident memory unknown" if resident is None else f"{resident / 2**20:.0f} MiB resident"
