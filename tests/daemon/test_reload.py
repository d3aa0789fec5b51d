"""A configuration that cannot be read again changes nothing, and the log says why, with a code."""

import gc
import warnings
from types import SimpleNamespace
from weakref import ref

import pytest

from edge_tvbo.daemon.app import release_memory, reload
from edge_tvbo.errors import DataError, MissingExtra, SnapshotError


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (DataError("lab.model.json is damaged"), "lab.model.json is damaged [E200]"),
        (SnapshotError("it is cut off"), "it is cut off [E300]"),
        (MissingExtra("scipy", "science"), "scipy is not installed. [E500]\nInstall it with:"),
        (PermissionError(13, "Permission denied", "a.toml"), "a.toml: Permission denied [E001]"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_kept_a_reload_from_being_carried_out_is_said_as_a_command_says_it(
    error, says, caplog
):
    """The daemon is a stand-in: it is given back as it is, and not looked at."""
    daemon = SimpleNamespace(surroundings=None)

    def read():
        raise error

    assert reload(daemon, read) is daemon
    (said,) = caplog.messages
    assert said.startswith(f"reload: nothing is changed: {says}")


def test_a_daemon_whose_place_was_taken_is_let_go():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of what tests before it left
        gc.unfreeze()
        gc.collect()

    class Knowing:
        """As the loop and the desk know each other."""

    daemon = Knowing()
    daemon.itself = daemon
    gone = ref(daemon)
    gc.freeze()
    del daemon
    gc.collect()
    assert gone() is not None
    release_memory()
    assert gone() is None
    gc.unfreeze()
