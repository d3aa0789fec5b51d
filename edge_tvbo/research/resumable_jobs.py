"""Work in parts, each of which is kept in a file once it is done: what was stopped goes on."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from edge_tvbo.errors import ConfigError
from edge_tvbo.ports import Each

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
PARTS = "parts"


class ResumableJobs:
    """A directory that keeps what came of each part of some work.

    Parameters
    ----------
    directory : Path
        Made where it is not there.
    manifest : dict
        What the work is, fit for JSON.

    Raises
    ------
    ConfigError
        Where `directory` holds parts of other work.
    """

    def __init__(self, directory: Path, manifest: dict[str, Any]) -> None:
        self._directory = directory / PARTS
        self._directory.mkdir(parents=True, exist_ok=True)
        path = directory / "manifest.json"
        if not path.exists():
            write(path, msgspec.json.encode(manifest))
        found = _decoded(path, dict)
        if found != manifest:
            raise ConfigError(
                f"{directory} holds {found}, not {manifest}.\nName another directory with  --out"
            )

    def carry_out(
        self,
        each: Each,
        function: Callable[[Item], object],
        items: Mapping[str, Item],
        progress: Callable[[int, int], None],
    ) -> None:
        """Do with `each` what is not there yet, and keep what comes of it, as it comes.

        `items` go by the names of their parts; what `function` gives is fit for JSON. `progress`
        is told how many parts are there, in the beginning too.
        """
        missing = [name for name in items if not self._path(name).exists()]
        done = len(items) - len(missing)
        progress(done, len(items))
        for number, outcome in each(function, [items[name] for name in missing]):
            write(self._path(missing[number]), msgspec.json.encode(outcome))
            done += 1
            progress(done, len(items))

    def read(self, name: str, kind: type[Outcome]) -> Outcome:
        """Give what came of a part; raises `ConfigError` where its file is damaged."""
        return _decoded(self._path(name), kind)

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.json"


def _decoded(path: Path, kind: type[Outcome]) -> Outcome:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}. Delete it and run again.") from error


def write(path: Path, content: bytes) -> None:
    """Write `content` to `path`, beside it first and then renamed."""
    beside = path.with_suffix(".new")
    beside.write_bytes(content)
    beside.replace(path)
