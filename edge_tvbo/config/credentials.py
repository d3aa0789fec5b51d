"""Credentials: lookup and checks of the files that hold passwords, certificates and keys.

The line `LoadCredential=mqtt.password:/etc/edge-tvbo/mqtt.password` in a systemd unit copies the
file into the directory $CREDENTIALS_DIRECTORY, under the name before the colon. This copy is a
credential, which only the service can read. If a setting names a file and there is a credential of
this name, the credential is read. Otherwise, for example when `edge-tvbo check` runs in a shell,
the file in the directory of the configuration is read.

systemd copies the file when the service starts. If the file beside the configuration changes later,
a reload still reads the old copy; a warning says that the service must be restarted.
"""

import os
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from shlex import quote

from edge_tvbo.config.errors import WHOLE, ConfigWarning, KeyPath, Report, shown
from edge_tvbo.config.named_files import is_readable
from edge_tvbo.config.reader import Values
from edge_tvbo.errors import Code

_TLS: KeyPath = ("mqtt", "tls")


def credential_path(name: str, base: Path, report: Report) -> Path:
    """Return the path of the credential `name`, or of the file `name` in the directory `base`.

    The path of the file is returned if there is no such credential. If there is a credential, but
    the file has changed since the first call for this file, a warning is added to `report`.
    """
    directory = os.environ.get("CREDENTIALS_DIRECTORY")
    if directory and Path(name).name == name:
        credential = Path(directory) / name
        if credential.exists():
            if _first_version(base / name) != _version(base / name):
                text = (
                    f"{base / name} has changed, but systemd passes it to the daemon only when the "
                    "daemon starts; restart the daemon:  systemctl restart edge-tvbo"
                )
                report.warnings.append(ConfigWarning(str(base / name), *WHOLE, "", text))
            return credential
    return base / name


@cache
def _first_version(file: Path) -> tuple[int, ...]:
    """Return the `_version` that a credential's `file` had at the first call for this file."""
    return _version(file)


def _version(file: Path) -> tuple[int, ...]:
    """Return the inode, size and modification time of a credential's file.

    Returns () if they cannot be read. The content is not compared, because the daemon cannot read a
    file that only root can read.
    """
    try:
        status = file.stat()
    except (OSError, ValueError):
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


def access_warnings(file: Path) -> Iterator[ConfigWarning]:
    """Yield a warning if every user of this machine can change the `file` of a credential."""
    try:
        mode = file.stat().st_mode
    except (OSError, ValueError):
        return
    if mode & stat.S_IWOTH:
        text = f"every user of this machine can change {file}; run:  chmod o-w {quote(str(file))}"
        yield ConfigWarning(str(file), *WHOLE, "", text)


def check_tls(tls: Values, base: Path, report: Report) -> None:
    """Replace file names in [mqtt.tls] with the paths of credentials; report invalid files."""
    named = [key for key in ("ca", "certificate", "key") if tls.get(key)]
    for key in named:
        tls[key] = credential_path(tls[key], base, report)
    if tls.get("key") and tls.get("certificate", "") is None:
        report.add(
            (*_TLS, "key"),
            "is set, but mqtt.tls.certificate is not; set both",
            code=Code.CONTRADICTION,
        )
    readable = [key for key in named if is_readable(tls[key], (*_TLS, key), report)]
    if "ca" in readable:
        _check_ca(tls["ca"], report)
    if "certificate" in readable and ("key" in readable or tls.get("key", "") is None):
        _check_certificate(tls["certificate"], tls["key"], report)


def _check_ca(file: Path, report: Report) -> None:
    import ssl  # the import takes 10 ms, and most configurations do not need it

    try:
        ssl.create_default_context(cafile=str(file))
    except ssl.SSLError:
        report.add_file((*_TLS, "ca"), file, "has no certificate in PEM format")


def _check_certificate(certificate: Path, key: Path | None, report: Report) -> None:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_cert_chain(str(certificate), key and str(key), password=lambda: "")
    except ssl.SSLError as error:
        if error.reason != "KEY_VALUES_MISMATCH":
            problem = (
                "does not load with its key; allowed: a certificate in PEM format, with a key "
                "without a passphrase"
            )
            report.add_file((*_TLS, "certificate"), certificate, problem)
        elif key:
            problem = f"is not the key of {shown(str(certificate))}"
            report.add_file((*_TLS, "key"), key, problem)
        else:
            problem = "contains the key of another certificate; replace the key in this file"
            report.add_file((*_TLS, "certificate"), certificate, problem)
