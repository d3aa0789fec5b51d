"""Everything edge_tvbo raises on purpose, parted by who can act on it.

EdgeTvboError
├── ClusterError     the operator: no scheduler, or workers that differ
├── ConfigError      the operator: a file, a flag or an argument is wrong
├── DataError        the operator: a dataset is missing, damaged or does not fit
├── LinkError        the operator: a broker is out of reach
├── MissingExtra     the operator: an optional package is not installed
├── PayloadError     the peer: a message arrived that does not decode
└── SnapshotError    the disk: saved state is missing, foreign or damaged
"""

import sys
from collections.abc import Iterable
from enum import StrEnum
from importlib.util import find_spec
from typing import Any

LONGEST = 60  # characters of a word that is compared with others


class Code(StrEnum):
    """What stands in brackets behind an error, and has a paragraph in docs/errors.md.

    A code keeps its meaning for ever; one that is given up is not given out again.
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
    EXTRA = "E500"
    CLUSTER = "E600"
    WORKERS = "E601"


class EdgeTvboError(Exception):
    """Base of all the errors below; its text is fit to show an operator."""

    code = Code.SYSTEM

    def told(self) -> str:
        """Give the text, with the code behind its first line.

        >>> print(DataError("There is a gap.").told())
        There is a gap. [E200]
        """
        first, *rest = str(self).split("\n")
        return "\n".join([f"{first} [{self.code}]", *rest])


def told(error: EdgeTvboError | OSError) -> str:
    """Give what an operator is shown of `error`, of ours or of the system, with its code.

    >>> told(FileNotFoundError(2, "No such file or directory", "lab.toml"))
    'lab.toml: No such file or directory [E001]'
    """
    if isinstance(error, EdgeTvboError):
        return error.told()
    return f"{error.filename or 'edge-tvbo'}: {error.strerror or error} [{Code.SYSTEM}]"


class ConfigError(EdgeTvboError):
    """A setting, a flag or an argument is missing, misspelt or out of range."""

    code = Code.ARGUMENT


class DataError(EdgeTvboError):
    """A dataset is missing, damaged or does not fit what was asked of it."""

    code = Code.DATA


class LinkError(EdgeTvboError):
    """A broker is out of reach, or does not let us in."""

    code = Code.LINK

    def __init__(self, text: str, code: Code = Code.LINK) -> None:
        super().__init__(text)
        self.code = code


class ClusterError(EdgeTvboError):
    """A scheduler is out of reach, or its workers would not give what this machine gives."""

    code = Code.CLUSTER

    def __init__(self, text: str, code: Code = Code.CLUSTER) -> None:
        super().__init__(text)
        self.code = code


class MissingExtra(EdgeTvboError):
    """An optional package is needed and not installed."""

    code = Code.EXTRA

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what} is not installed.\nInstall it with:  {pip()} install 'edge-tvbo[{extra}]'"
        )
        self._arguments = (what, extra)

    def __reduce__(self) -> tuple[Any, ...]:  # a worker's error is pickled
        return MissingExtra, self._arguments


def nearest(word: object, known: Iterable[str]) -> str | None:
    """Give the known word that `word` may have been meant for, if one is like it."""
    from difflib import get_close_matches  # a millisecond, which only a mistake costs

    return next(iter(get_close_matches(str(word)[:LONGEST], list(known), n=1)), None)


def hint(word: object, known: Iterable[str]) -> str:
    """Give that word as the end of an error, or nothing.

    >>> hint("gp-ubc", ["gp-ucb", "random"])
    " Did you mean 'gp-ucb'?"
    """
    near = nearest(word, known)
    return f" Did you mean {near!r}?" if near else ""


def pip() -> str:
    """Give the command that installs into this very Python, from any directory and any shell."""
    in_a_venv = sys.prefix != sys.base_prefix
    return f"{sys.prefix}/bin/pip" if in_a_venv and find_spec("pip") else "pip"


class PayloadError(EdgeTvboError):
    """A message that does not decode; `reason` is the word it is counted under."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class SnapshotError(EdgeTvboError):
    """Saved state is missing, written by another version or policy, or damaged."""

    code = Code.SNAPSHOT
