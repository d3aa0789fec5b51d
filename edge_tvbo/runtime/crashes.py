"""What the daemon died of, for `edge-tvbo report`: one file beside its state, written over."""

import logging
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edge_tvbo import __version__
from edge_tvbo.errors import EdgeTvboError
from edge_tvbo.explanation import rfc3339

log = logging.getLogger(__name__)

LARGEST = 16_384  # characters; the end of a traceback says most


def place(directory: str, instance: str) -> Path:
    """Give the file of the daemon `instance` whose state is in `directory`."""
    return Path(directory) / f"{instance}.last-crash.txt"


@contextmanager
def kept(directory: str, instance: str) -> Iterator[None]:
    """Keep the traceback of a bug that ends the body, in `directory` unless that is empty."""
    try:
        yield
    except EdgeTvboError:
        raise
    except Exception:
        if directory:
            _keep(place(directory, instance))
        raise


def _keep(path: Path) -> None:
    head = f"{rfc3339(round(time.time()))} edge-tvbo {__version__}"
    text = f"{head}\n{traceback.format_exc()[-LARGEST:]}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.new")
        draft.write_text(text, encoding="utf-8", errors="replace")
        draft.replace(path)
    except OSError as error:
        log.error("the traceback cannot be kept in %s: %s", path, error.strerror)
