"""Named files: the files that settings name, and the reports of files that cannot be read."""

from pathlib import Path

from edge_tvbo.config.errors import KeyPath, Report, unreadable


def is_readable(file: Path, key: KeyPath, report: Report) -> bool:
    """Return whether `file`, which the setting `key` names, can be opened; if not, report it."""
    try:
        with file.open("rb"):
            return True
    except (OSError, ValueError) as error:
        report.add_file(key, file, unreadable(error))
        return False


def text_of(file: Path, key: KeyPath, report: Report) -> str | None:
    """Return the text of `file`, which the setting `key` names.

    If the file cannot be read, an error is added to `report`, and None is returned.
    """
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        report.add_file(key, file, unreadable(error))
        return None
