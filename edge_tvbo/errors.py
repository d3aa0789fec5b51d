"""Everything edge_tvbo raises on purpose, parted by who can act on it.

EdgeTvboError
├── ConfigError      the operator: a file, a flag or an argument is wrong
├── DataError        the operator: a dataset is missing, damaged or does not fit
├── MissingExtra     the operator: an optional package is not installed
├── PayloadError     the peer: a message arrived that does not decode
└── SnapshotError    the disk: saved state is missing, foreign or damaged
"""


class EdgeTvboError(Exception):
    """Base of all the errors below; its text is fit to show an operator."""


class ConfigError(EdgeTvboError):
    """A setting, a flag or an argument is missing, misspelt or out of range."""


class DataError(EdgeTvboError):
    """A dataset is missing, damaged or does not fit what was asked of it."""


class MissingExtra(EdgeTvboError):
    """An optional package is needed and not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what} is not installed.\nInstall it with:  pip install 'edge-tvbo[{extra}]'"
        )


class PayloadError(EdgeTvboError):
    """A message that does not decode; `reason` is the word it is counted under."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class SnapshotError(EdgeTvboError):
    """Saved state is missing, written by another version or policy, or damaged."""
