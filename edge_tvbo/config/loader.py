"""Loader of the configuration file: returns its settings, or reports every error in it."""

import logging
import os
import re
import tomllib
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

from edge_tvbo.config import deprecated, environment
from edge_tvbo.config.credentials import access_warnings
from edge_tvbo.config.cross_checks import check_priors, cross_check
from edge_tvbo.config.errors import (
    WHOLE,
    ConfigErrors,
    ConfigWarning,
    Finding,
    KeyPath,
    Place,
    Report,
    dotted,
    shown,
    unreadable,
)
from edge_tvbo.config.reader import Values, build, is_public, read_table
from edge_tvbo.config.settings import Settings
from edge_tvbo.config.source_checks import PayloadFormats
from edge_tvbo.config.unused_settings import unused_warnings
from edge_tvbo.errors import Code, SettingErrors

log = logging.getLogger(__name__)

_EXAMPLE = "`edge-tvbo init my.toml --sensor hall` writes a first configuration"
_TABLE = re.compile(r"\('[^)]*\)")  # as in: Cannot declare ('fields', 'hall') twice
_QUOTED = re.compile(r"'([^']*)'")
_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_MISSING_QUOTE = re.compile(r"""Expected "('+)"|Unterminated string""")
_HUGE_NUMBER = re.compile(r"[\d_]{4301,}")  # too many digits for int()
_DECIMAL_COMMA = re.compile(r"\d,\d")
_VALUE_END = r"\s*($|[],}#])"
_FRACTION = re.compile(r"\d\s*/\s*\d+(\.\d+)?" + _VALUE_END)
_CAPITAL_BOOLEAN = re.compile(r"(?i:true|false)" + _VALUE_END)
_CURLY_QUOTES = "“”„‟‘’‚‛«»"
# A text without quotes: after = or [ or a comma, or at the start of a line in an array.
_UNQUOTED = re.compile(
    r"""(?:^|[=\[,])\s*((?:\{\w+\}|[^\s"'\[\]{},=#])(?:\{\w+\}|[^"'\[\]{},=#])*)($|[],}#])"""
)
_NO_TEXT = re.compile(r"(^|\s)(true|false|[-+]?\d*\.?\d*)$")  # a number, or two values
_KEY = re.compile(r"\s*[\w.-]+\s*=[^[]*$|\s*\[[\w.-]+\]\s*$")
# In an inline table, TOML reads the digits after a decimal comma as the next key.
_DECIMAL_COMMA_IN_TABLE = re.compile(r"=\s*[-+]?\d+,\d+\s*$")


def load(path: Path, payloads: PayloadFormats | None = None) -> Settings:
    """Return the settings of the configuration at `path`.

    A warning is logged for

    - each setting with a deprecated name;
    - each setting that has no effect because of other settings, but only if the file has no errors;
    - each file that was changed after systemd passed it to the daemon (see `credentials`);
    - the configuration, or the file of a secret, if every user of this machine can change it.

    Parameters
    ----------
    path : Path
        The TOML file; paths in it are relative to its directory.
    payloads : PayloadFormats, optional
        The payload formats. If it is None, formats and their settings are not checked.

    Raises
    ------
    ConfigErrors
        If the file has errors; the exception contains all of them.
    """
    raw, report = _read(path)
    good = _checked(raw, path, payloads, report)
    check_priors(good, report)
    return _built(good, raw, path, report)


def load_without_priors(path: Path, payloads: PayloadFormats | None = None) -> Settings:
    """Return the settings as `load` does, but without the check of model files and kernels.

    Commands that read recorded readings need no model file and no kernel. One of these commands,
    `fit`, writes the model file, so the file may not exist yet.
    """
    raw, report = _read(path)
    return _built(_checked(raw, path, payloads, report), raw, path, report)


def _checked(raw: Values, path: Path, payloads: PayloadFormats | None, report: Report) -> Values:
    """Return the valid values among `raw`, the values of the configuration at `path`."""
    good = read_table(Settings, raw, (), report)
    cross_check(good, path.parent, payloads, report)
    return good


def _built(good: Values, raw: Values, path: Path, report: Report) -> Settings:
    """Return the settings with the values `good`; raise `ConfigErrors` if `report` has mistakes."""
    for warning in (*report.warnings, *access_warnings(path)):
        log.warning("%s", warning)
    if found := report.findings():
        raise ConfigErrors(found)
    settings: Settings = build(Settings, good)
    for warning in unused_warnings(settings, raw, report):
        log.warning("%s", warning)
    return settings


@contextmanager
def located(path: Path) -> Iterator[None]:
    """Convert `SettingErrors` of the `with` block to `ConfigErrors` of the configuration at `path`.

    The `ConfigErrors` contain the lines of the settings in the configuration.
    """
    try:
        yield
    except SettingErrors as error:
        _, report = _read(path)
        for mistake in error.mistakes:
            report.add(mistake.path, mistake.problem, code=mistake.code)
        raise ConfigErrors(report.findings()) from error


def setting_warning(path: Path, key: KeyPath, message: str) -> ConfigWarning:
    """Return a warning about the setting `key` in the configuration `path`, with its position."""
    _, report = _read(path)
    return report.warning(key, message)


def origins(path: Path) -> list[str]:
    """Return one line for each setting of the loaded configuration: origin, key and value.

    The origin is a position in the file, or the name of an environment variable.
    """
    raw, report = _read(path)
    lines = (
        f"{report.origin(key)}: {dotted(key)} = {_shown(key, value)}" for key, value in _leaves(raw)
    )
    return [*lines, "all other settings have their defaults; see  edge-tvbo config explain"]


def _leaves(table: Values, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, key))
        elif isinstance(value, list) and all(isinstance(each, dict) for each in value):
            for index, each in enumerate(value):
                yield from _leaves(each, (*path, key, index))
        else:
            yield (*path, key), value


def _shown(path: KeyPath, value: Any) -> str:
    return "***" if path[-1] in ("password", "token") else shown(value)


def _read(path: Path) -> tuple[Values, Report]:
    """Return the values of the configuration file and the environment, and an error report."""
    text = _text(path)
    raw = _parsed(path, text)
    report = Report(path, cache(partial(_places, text)), environment.variables(os.environ))
    raw = environment.with_environment(raw, report, os.environ)
    return _with_current_names(raw, report), report


def _with_current_names(raw: Values, report: Report) -> Values:
    """Return `raw`, the values that the loader has read, with deprecated names replaced.

    Each deprecated name adds a warning to `report`, or an error if `raw` also contains the current
    name.
    """
    for old, new in deprecated.RENAMED.items():
        if deprecated.has(raw, old) and deprecated.has(raw, new):
            report.add(
                old,
                f"is the old name of {dotted(new)}, which is also set; remove the old name",
                code=Code.TWICE,
            )
        elif deprecated.has(raw, old):
            report.deprecate(old, new)
    return deprecated.renamed(raw)


def _places(text: str) -> dict[KeyPath, Place]:
    from edge_tvbo.config.toml_positions import key_places

    return key_places(text)


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise _no_file(path, f"there is no such file; {_EXAMPLE}") from None
    except PermissionError as error:
        raise _no_file(path, f"the file {unreadable(error)}") from None
    except (OSError, ValueError) as error:
        raise _no_file(path, f"the file {unreadable(error)}; {_EXAMPLE}") from None
    try:
        return data.removeprefix(BOM_UTF8).decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        place = Place(data.count(b"\n", 0, error.start) + 1, 0)
        raise _no_file(
            path, "this line is not valid UTF-8; save the file as UTF-8", place
        ) from None


def _parsed(path: Path, text: str) -> Values:
    try:
        return tomllib.loads(text)
    except RecursionError:
        problem = "the file is nested too deeply; no setting is an array of arrays"
        raise _no_toml(path, problem, WHOLE) from None
    except tomllib.TOMLDecodeError as error:
        message = str(error)
    except ValueError:  # raised by int(), without a position
        number = _HUGE_NUMBER.search(text)
        place = Place(text.count("\n", 0, number.start()) + 1, 0) if number else WHOLE
        problem = "a number has too many digits; write a number of at most 4300 digits"
        raise _no_toml(path, problem, place) from None
    where = _AT.search(message)
    if where and where[1]:
        line, column = int(where[1]), int(where[2])
    elif found := _MISSING_QUOTE.match(message):
        # the text ends at the end of the document
        start = text.rfind(found[1] or ('"""' if text.count('"""') % 2 else '"'))
        line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
    else:
        line, column = text.rstrip().count("\n") + 1, 0
    problem = _TABLE.sub(_as_header, " ".join(_AT.sub("", message).split()))
    hint = _toml_hint(problem, text.split("\n")[line - 1], max(column - 1, 0))
    raise _no_toml(path, f"this is not TOML: {problem}; {hint}", Place(line, column))


def _as_header(table: re.Match[str]) -> str:
    """Return the name of a table in a TOML error as a header, such as ``[mqtt.tls]``.

    tomllib writes the name as a tuple: ``('mqtt', 'tls')``.
    """
    return f"[{'.'.join(_QUOTED.findall(table[0]))}]"


def _toml_hint(problem: str, line: str, at: int) -> str:
    """Return a hint for a TOML error at the index `at` of a line of the configuration."""
    if _DECIMAL_COMMA.match(line, max(at - 1, 0)) or _DECIMAL_COMMA_IN_TABLE.search(line[:at]):
        return "write a number with a decimal point"
    if _FRACTION.match(line, max(at - 1, 0)):
        return "write a number with a decimal point, not a fraction"
    if problem == "Invalid value" and _CAPITAL_BOOLEAN.match(line, at):
        return "write true or false in lower case"
    if line[at : at + 1] in tuple(_CURLY_QUOTES):
        return 'write texts with the straight quotes "'
    if problem.startswith(("Invalid value", "Unclosed", "Expected newline")):
        if not line[:at].strip(" \t[") and _KEY.match(line):
            return "end the array before this line with ]"
        if text := _unquoted_text(line, at):
            return f'write texts in quotes: "{text}"'
    if problem.endswith(r"character '\n'") or problem == 'Expected "\'"':
        return "end the text with a quote, in the same line"
    if _MISSING_QUOTE.match(problem):
        return "end the text with the same quotes with which it begins"
    if found := re.match(r"Expected '(]]?)' at the end of", problem):
        if re.match(r"\s*($|[]#])", line[at:]):
            return f"end the name of the table with {found[1]}"
        if re.match(r"[^=,]*]", line[at:]):
            return "use only the characters A-Z a-z 0-9 _ - in the names of tables"
    if "immutable" in problem:
        return "add the key inside the braces { } of its table"
    if "Unclosed array" in problem:
        return "separate the items by commas, and end the array with ]"
    if "Unclosed inline table" in problem:
        return "write the table on one line, and end it with }"
    if any(word in problem for word in ("overwrite", "Duplicate", "twice")):
        return "each key and each table is allowed once"
    return 'write each line as `key = value`, with texts in "quotes"'


def _unquoted_text(line: str, at: int) -> str:
    """Return the text that lacks its quotes at the index `at` of a `line`; "" if there is none.

    The line has a TOML error. The text can be a secret, such as a password. So "..." is returned
    instead of the text, unless the line sets a setting that is never secret.
    """
    texts = (each for each in _UNQUOTED.finditer(line) if each.start(1) <= at <= each.end(1))
    found = next(texts, None)
    text = found[1].rstrip() if found else ""
    if found is None or _NO_TEXT.search(text):
        return ""
    *_, key = re.findall(r"([\w-]+)\s*=", line[: found.start(1)]) or [""]
    return shown(text)[1:-1] if is_public(key) and "@" not in text else "..."


def _no_file(path: Path, message: str, place: Place = WHOLE) -> ConfigErrors:
    return ConfigErrors([Finding(str(path), *place, "", message, Code.NO_FILE)])


def _no_toml(path: Path, message: str, place: Place) -> ConfigErrors:
    return ConfigErrors([Finding(str(path), *place, "", message, Code.NOT_TOML)])
