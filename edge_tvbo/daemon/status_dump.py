"""How the daemon is, in a few lines for the log: what a person asks for who wonders about it."""

import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from edge_tvbo.control.controller import Controller
from edge_tvbo.messages.documents import Decision, Health

_PROCESS = Path("/proc/self")


def lines(
    health: Health,
    controllers: Mapping[str, Controller],
    decisions: Mapping[str, Decision],
    online: bool,
    written: int | None,
) -> Iterator[str]:
    """Yield the daemon's state, then two lines for each field."""
    kept = "no state is kept" if written is None else f"{written} bytes of state written"
    broker = "the broker is here" if online else "the broker is away"
    yield f"version {health.version}, up {health.uptime_s} s; {broker}; {kept}"
    yield f"kernels compiled {health.kernels}"
    yield f"process: {usage()}"
    for name, field in health.fields.items():
        policy = controllers[name].policy
        refused = ", ".join(f"{count} {reason}" for reason, count in field.refused.items())
        yield (
            f"{name}: interval {field.interval}, {field.answered} answered, {field.missed} missed; "
            f"policy {policy.name} with {policy.observations} readings after {policy.resets} "
            f"resets; suspects: {', '.join(field.suspects) or 'none'}; refused: {refused or 'none'}"
        )
        decision = decisions.get(name)
        yield f"{name}: {decision.text if decision else 'no decision since the start'}"


def usage() -> str:
    """Say what the process holds: threads, descriptors, memory.

    >>> "thread(s)" in usage()
    True
    """
    return f"{threading.active_count()} thread(s), {_descriptors()} descriptors, {_resident()}"


def _descriptors() -> str:
    try:
        return str(len(os.listdir(_PROCESS / "fd")) - 1)  # noqa: PTH208 - a count of names
    except OSError as error:
        return f"uncounted ({error.strerror})"


def _resident() -> str:
    try:
        pages = int((_PROCESS / "statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return "unknown memory"
    return f"{pages * os.sysconf('SC_PAGE_SIZE') / 2**20:.0f} MiB resident"
