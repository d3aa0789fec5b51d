"""Daemon state for commands: the decision history and the retained documents of a daemon."""

from typing import TYPE_CHECKING

from edge_tvbo.errors import DataError

if TYPE_CHECKING:
    from edge_tvbo_adapters.storage.history_reader import HistoryReader

    from edge_tvbo.config.settings import Settings
    from edge_tvbo.messages.documents import RetainedState

RETAINED_TIMEOUT_S = 3.0


def history_reader(settings: "Settings") -> "HistoryReader":
    """Open the decision history for a user's command; raises `DataError` if there is no history."""
    if settings.state.history is None:
        raise DataError('There is no history. Set history = "64MiB" in [state].')
    from edge_tvbo_adapters.storage.history_reader import HistoryReader

    return HistoryReader(settings.state.dir, settings.instance)


def span_text(span: tuple[int, int] | None) -> str:
    """Return a text that names the first and the last interval of a decision history."""
    return "no interval" if span is None else f"intervals {span[0]} to {span[1]}"


def retained_state(settings: "Settings", fields: list[str]) -> "RetainedState":
    """Read the retained documents of a daemon and its `fields` from the broker, and return them."""
    from edge_tvbo_adapters.mqtt.read_retained import read_retained

    return read_retained(settings.mqtt.for_readers(), settings.instance, fields, RETAINED_TIMEOUT_S)
