"""Errors: the exceptions that edge_tvbo raises on purpose, with the cause of each exception.

EdgeTvboError
├── ClusterError     the scheduler is unreachable, or a worker differs from this machine
├── ConfigError      a file, a flag or an argument is invalid
│   ├── SettingErrors  a setting is valid by itself, but contradicts others or cannot be used
│   └── StateInUse   another daemon uses the same stored state
├── DataError        a dataset is missing, damaged, or lacks what the command needs
├── LinkError        a broker is unreachable or rejects the connection
├── MissingExtra     an optional package is not installed
├── PayloadError     a message cannot be decoded, or a request cannot be processed
├── SnapshotError    stored state is missing, damaged or of another version
└── UntestedPackage  a package has a version with which edge_tvbo was not tested

Four subclasses are defined elsewhere: `ConfigErrors` in `config/errors.py`, `NewerFormatError` in
`models/snapshot.py`, `NothingFound` in `cli/init_groups.py`, and `PolicyFailed` in
`control/checked_policy.py`.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, NamedTuple

MAX_WORD_LENGTH = 60  # characters of a misspelt name that are compared with the known names
DEBIAN_PACKAGE = "/usr/lib/edge-tvbo/"  # the directory of the Debian package


class Code(StrEnum):
    """The code in brackets after an error text; docs/errors.md has a paragraph on each code.

    The meaning of a code never changes, and a retired code is not used again.
    """

    SYSTEM = "E001"
    ARGUMENT = "E100"
    NO_FILE = "E101"
    NOT_TOML = "E102"
    UNKNOWN_SETTING = "E103"
    MISSING = "E104"
    WRONG_VALUE = "E105"
    CONTRADICTION = "E106"
    NAMED_FILE = "E107"
    TWICE = "E108"
    UNKNOWN_NAME = "E109"
    ENVIRONMENT = "E110"
    STATE_IN_USE = "E111"
    DATA = "E200"
    SNAPSHOT = "E300"
    LINK = "E400"
    NAME = "E401"
    REFUSED = "E402"
    NO_ANSWER = "E403"
    LOGIN = "E404"
    CLIENT_ID = "E405"
    UNKNOWN_CA = "E406"
    EXPIRED = "E407"
    WRONG_NAME = "E408"
    NOT_TLS = "E409"
    NOT_MQTT = "E410"
    OUR_CERTIFICATE = "E411"
    TLS = "E412"
    FORBIDDEN = "E413"
    NO_ACKNOWLEDGEMENT = "E414"
    SECOND_DAEMON = "E415"
    EXTRA = "E500"
    PACKAGE_VERSION = "E501"
    CLUSTER = "E600"
    WORKERS = "E601"


class EdgeTvboError(Exception):
    """Base class of the errors that edge_tvbo raises on purpose; their texts are for the user."""

    code = Code.SYSTEM

    def with_code(self) -> str:
        """Return the error text with its code at the end of the first line."""
        first, *rest = str(self).split("\n")
        return "\n".join([f"{first} [{self.code}]", *rest])


def error_text(error: EdgeTvboError | OSError) -> str:
    """Return the text of `error` for the user, with its code.

    >>> error_text(DataError("There is a gap."))
    'There is a gap. [E200]'
    >>> error_text(FileNotFoundError(2, "No such file or directory", "lab.toml"))
    'lab.toml: No such file or directory [E001]'
    """
    if isinstance(error, EdgeTvboError):
        return error.with_code()
    return f"{error.filename or 'edge-tvbo'}: {error.strerror or error} [{Code.SYSTEM}]"


@contextmanager
def naming_file(path: object) -> Iterator[None]:
    """Add the file name `path` (a str or a Path) to disk errors in the `with` block.

    If the disk is full, Python raises an error that names no file.

    >>> with naming_file("model.json"):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    OSError: [Errno 28] No space left on device: 'model.json'
    """
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


class ConfigError(EdgeTvboError):
    """A setting, a flag or an argument is missing, misspelt or out of range."""

    code = Code.ARGUMENT


class Mistake(NamedTuple):
    """One setting that cannot be used, and the reason."""

    path: tuple[str | int, ...]  # the keys that lead to the setting in the configuration
    problem: str  # follows the name of the setting in the error text
    code: Code = Code.CONTRADICTION


class SettingErrors(ConfigError):
    """A setting is valid by itself, but contradicts other settings or cannot be used.

    For example, a package that the setting needs is missing. The context manager
    `edge_tvbo.config.loader.located` adds the file and the lines.

    >>> print(SettingErrors([Mistake(("fields", "hall", "policy"), "needs positions")]))
    fields.hall.policy needs positions
    """

    code = Code.CONTRADICTION

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = list(mistakes)
        super().__init__(self.mistakes)

    def __str__(self) -> str:
        """Return the error text: one line for each mistake in the settings."""
        return "\n".join(f"{'.'.join(map(str, path))} {text}" for path, text, _ in self.mistakes)


class StateInUse(ConfigError):
    """Another daemon uses the stored state of an instance."""

    code = Code.STATE_IN_USE

    def __init__(self, instance: str, directory: str, process: str) -> None:
        super().__init__(
            f"another daemon (process {process or 'unknown'}) uses the state of the instance "
            f"{instance!r} in {directory}; stop the other daemon, or, to run both daemons, "
            "set another `instance` for one of them"
        )


class DataError(EdgeTvboError):
    """A dataset is missing or damaged, or does not contain what the command needs."""

    code = Code.DATA


class LinkError(EdgeTvboError):
    """A broker is unreachable, or rejects the connection."""

    code = Code.LINK

    def __init__(self, text: str, code: Code = Code.LINK) -> None:
        super().__init__(text)
        self.code = code


class ClusterError(EdgeTvboError):
    """A scheduler is unreachable, or its workers would return other results than this machine."""

    code = Code.CLUSTER

    def __init__(self, text: str, code: Code = Code.CLUSTER) -> None:
        super().__init__(text)
        self.code = code


class MissingExtra(EdgeTvboError):
    """An optional package is needed, but not installed."""

    code = Code.EXTRA

    def __init__(self, what: str, extra: str) -> None:
        how = f"Install it with:  {install_command()} 'edge-tvbo[{extra}]'"
        if __file__.startswith(DEBIAN_PACKAGE):
            how = (
                "The Debian package does not include it: install edge-tvbo with the extra "
                f"'{extra}' in a virtual environment."
            )
        super().__init__(f"{what} is not installed.\n{how}")
        self._arguments = (what, extra)

    def __reduce__(self) -> tuple[Any, ...]:  # a worker process pickles its errors
        return MissingExtra, self._arguments


class UntestedPackage(EdgeTvboError):
    """A package is installed in a version with which edge_tvbo was not tested."""

    code = Code.PACKAGE_VERSION

    def __init__(self, package: str, installed: str, tested: str) -> None:
        super().__init__(
            f"{package} {installed} is installed, but edge-tvbo needs {package}{tested}.\n"
            f"Install it with:  {install_command()} '{package}{tested}'"
        )


def nearest(word: object, known: Iterable[str]) -> str | None:
    """Return, for an error text, the known name most similar to `word`, or None."""
    from difflib import get_close_matches  # takes 1 ms; needed only after a mistake

    return next(iter(get_close_matches(str(word)[:MAX_WORD_LENGTH], list(known), n=1)), None)


def hint(word: object, known: Iterable[str]) -> str:
    """Return "Did you mean ...?" as the end of an error text; "" if no known word is similar.

    >>> hint("gp-ubc", ["gp-ucb", "random"])
    " Did you mean 'gp-ucb'?"
    """
    near = nearest(word, known)
    return f" Did you mean {near!r}?" if near else ""


def install_command() -> str:
    """Return, for an error text, the shell command that installs a package.

    The command depends on the tool that made the virtual environment: pipx, venv or uv. An
    environment that uv made contains no pip.
    """
    from shlex import join  # needed only after an error

    if sys.prefix == sys.base_prefix:
        command = ["pip", "install"]
    elif _is_file(f"{sys.prefix}/pipx_metadata.json"):
        command = ["pipx", "runpip", sys.prefix.rpartition("/")[2], "install"]
    elif _is_file(f"{sys.prefix}/bin/pip"):
        command = [f"{sys.prefix}/bin/pip", "install"]
    else:
        command = ["uv", "pip", "install", "--python", sys.prefix]
    return join(command)


def _is_file(name: str) -> bool:
    try:
        with open(name):  # noqa: PTH123 - this module does not import pathlib
            return True
    except OSError:
        return False


class PayloadError(EdgeTvboError):
    """A message cannot be decoded, or a request cannot be processed.

    `reason` is the word under which the message or request is counted, such as `not-a-number`.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class SnapshotError(EdgeTvboError):
    """Stored state is missing, damaged, or of another version, policy or field."""

    code = Code.SNAPSHOT
