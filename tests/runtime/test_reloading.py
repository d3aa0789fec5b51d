"""A configuration that cannot be read again changes nothing, and the log says why, with a code."""

from types import SimpleNamespace

import pytest

from edge_tvbo.errors import DataError, MissingExtra, SnapshotError
from edge_tvbo.runtime.lifecycle import reloaded


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
    daemon = SimpleNamespace(watching=None, clock=None)

    def read():
        raise error

    assert reloaded(daemon, read) is daemon
    (said,) = caplog.messages
    assert said.startswith(f"reload: nothing is changed: {says}")
