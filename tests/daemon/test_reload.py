"""Reload: an invalid configuration changes nothing, and the log has the reason with its code."""

import gc
import warnings
from types import SimpleNamespace
from weakref import ref

import pytest

from edge_tvbo.daemon.memory import release_memory
from edge_tvbo.daemon.reload import reload
from edge_tvbo.errors import DataError, MissingExtra, SnapshotError


@pytest.mark.parametrize(
    ("error", "logs"),
    [
        (DataError("lab.model.json is damaged"), "lab.model.json is damaged [E200]"),
        (SnapshotError("it is cut off"), "it is cut off [E300]"),
        (MissingExtra("scipy", "science"), "scipy is not installed. [E500]\nInstall it with:"),
        (PermissionError(13, "Permission denied", "a.toml"), "a.toml: Permission denied [E001]"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_failed_reload_logs_the_text_that_a_command_prints(error, logs, caplog):
    """`reload` returns the daemon unchanged, so a stand-in is enough."""
    daemon = SimpleNamespace(surroundings=None)

    def successor(before):
        raise error

    assert reload(daemon, successor) is daemon
    (logged,) = caplog.messages
    assert logged.startswith(f"reload: nothing is changed, because of an error: {logs}")


def test_replaced_daemon_is_freed():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of earlier tests
        gc.unfreeze()
        gc.collect()

    class Cyclic:
        """An object in a reference cycle, as the loop and the command handler are."""

    daemon = Cyclic()
    daemon.itself = daemon
    gone = ref(daemon)
    gc.freeze()
    del daemon
    gc.collect()
    assert gone() is not None
    release_memory()
    assert gone() is None
    gc.unfreeze()
