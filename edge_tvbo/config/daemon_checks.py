"""Cross checks of the tables [mqtt], [metrics] and [state], and of secrets in files."""

import os
import re
from contextlib import suppress
from pathlib import Path

from edge_tvbo.config import credentials
from edge_tvbo.config.errors import KeyPath, Report, shown, unreadable
from edge_tvbo.config.field_types import Secret, duration_text, is_loopback
from edge_tvbo.config.named_files import text_of
from edge_tvbo.config.reader import Values
from edge_tvbo.errors import Code


def check_mqtt(mqtt: Values, base: Path, report: Report) -> None:
    """Check the logins, the TLS files and the reconnection waits in the table [mqtt]."""
    _check_login(mqtt, ("mqtt",), base, report)
    if mqtt.get("readonly"):
        _check_login(mqtt["readonly"], ("mqtt", "readonly"), base, report)
    if mqtt.get("tls"):
        credentials.check_tls(mqtt["tls"], base, report)
    reconnect = mqtt.get("reconnect", {})
    if reconnect.get("min", 0) > reconnect.get("max", float("inf")):
        longest = duration_text(reconnect["max"])
        report.add(
            ("mqtt", "reconnect", "min"),
            f"is {duration_text(reconnect['min'])}; allowed: at most reconnect.max, {longest}",
            code=Code.CONTRADICTION,
        )


def _check_login(login: Values, path: KeyPath, base: Path, report: Report) -> None:
    file = login.get("password_file")
    read_secret(login, path, "password", base, report)
    if login.get("password") and "username" in login and login["username"] is None:
        report.add(
            (*path, "password_file" if file else "password"),
            "is set without username; add username",
            code=Code.CONTRADICTION,
        )


def read_secret(table: Values, path: KeyPath, name: str, base: Path, report: Report) -> None:
    """If `table` names a file for the secret `name`, read the secret into `table`."""
    key, file = f"{name}_file", table.get(f"{name}_file")
    if table.get(name) and file:
        report.add(
            (*path, key),
            f"is set together with {name}; remove one of them",
            code=Code.CONTRADICTION,
        )
    elif file:
        table[key] = credentials.credential_path(file, base, report)
        table[name] = _secret(table[key], (*path, key), name, report)


def _secret(file: Path, key: KeyPath, name: str, report: Report) -> Secret | None:
    text = text_of(file, key, report)
    if text is None:
        return None
    report.warnings += credentials.access_warnings(file)
    secret = text.rstrip("\r\n")
    if not secret:
        report.add_file(key, file, f"is an empty file; write the {name} to it")
    return Secret(secret)


def check_metrics(metrics: Values, base: Path, report: Report) -> None:
    """Check the table [metrics]; warn about settings that have no effect without a port."""
    read_secret(metrics, ("metrics",), "token", base, report)
    is_open = not is_loopback(metrics.get("host", "localhost"))
    is_meant = is_open or metrics.get("token") or metrics.get("allow_hosts")
    if is_meant and metrics.get("port", 0) is None:
        report.warn(
            ("metrics",),
            "metrics.port is not set, so there is no endpoint for metrics and health; "
            "set port = 9464, or remove the other settings of [metrics]",
        )


def check_state(state: Values, base: Path, report: Report) -> None:
    """Check the state directory, and prepend the directory `base` to a relative path."""
    if state.get("history") and state.get("dir") == "":
        report.add(
            ("state", "history"),
            "is set, but state.dir is empty or not set; set state.dir to the directory for the "
            "history",
            code=Code.CONTRADICTION,
        )
    if not state.get("dir"):
        return
    _warn_of_shell_syntax(state["dir"], report)
    directory = base / state["dir"]
    state["dir"] = str(directory)
    try:
        os.fsencode(directory)
    except UnicodeEncodeError as error:
        report.add_file(("state", "dir"), directory, unreadable(error))
        return
    with suppress(OSError):  # the daemon reports the error when it uses the directory
        for each in (directory, *directory.parents):
            if each.is_file():
                where = "a file" if each == directory else f"but {each} is a file"
                report.add(
                    ("state", "dir"),
                    f"is {shown(str(directory))}, {where}; allowed: a directory",
                    code=Code.NAMED_FILE,
                )


def _warn_of_shell_syntax(directory: str, report: Report) -> None:
    """Warn if the state directory contains shell syntax, which the daemon does not replace."""
    if found := re.search(r"^~(?=/|$)|\$(\w+)", directory):
        report.warn(
            ("state", "dir"),
            f"state.dir is {shown(directory)}, but the daemon does not replace {found[0]}; write "
            f"the whole path, or ${{{found[1] or 'HOME'}}}",
        )
