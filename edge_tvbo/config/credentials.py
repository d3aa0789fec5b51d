"""The files that hold secrets and certificates: where they are, and whether they will do.

Under systemd, `LoadCredential=mqtt.password:/etc/edge-tvbo/mqtt.password` puts a copy that only
this service can read into the directory $CREDENTIALS_DIRECTORY, under the name before the colon.
A setting that is such a name is that credential; else it is a file beside the configuration. So
one configuration serves the unit and a person who tries `edge-tvbo check` by hand.
"""

import os
from pathlib import Path

from edge_tvbo.config import sensor_positions
from edge_tvbo.config.errors import KeyPath, Report, shown
from edge_tvbo.config.reader import Values
from edge_tvbo.errors import Code

_TLS: KeyPath = ("mqtt", "tls")


def found(name: str, base: Path) -> Path:
    """Give the credential called `name`, or where there is none the file, from `base`."""
    directory = os.environ.get("CREDENTIALS_DIRECTORY")
    if directory and Path(name).name == name:
        credential = Path(directory) / name
        if credential.exists():
            return credential
    return base / name


def check_tls(tls: Values, base: Path, report: Report) -> None:
    """Find the files of [mqtt.tls], and see whether they fit together."""
    for key in ("ca", "certificate", "key"):
        if tls.get(key):
            tls[key] = found(tls[key], base)
    if tls.get("key") and tls.get("certificate", "") is None:
        report.add(
            (*_TLS, "key"), "is there without certificate; it wants both", code=Code.CONTRADICTION
        )
    readable = [key for key in ("ca", "certificate", "key") if _readable(key, tls, report)]
    if "ca" in readable:
        _try_ca(tls["ca"], report)
    if "certificate" in readable and ("key" in readable or tls.get("key", "") is None):
        _try_certificate(tls["certificate"], tls["key"], report)


def _readable(key: str, tls: Values, report: Report) -> bool:
    file = tls.get(key)
    if file is None:
        return False
    try:
        with file.open("rb"):
            return True
    except (OSError, ValueError) as error:
        why = sensor_positions.unreadable(error)
        report.add((*_TLS, key), f"is {shown(str(file))}, which {why}", code=Code.NAMED_FILE)
        return False


def _try_ca(file: Path, report: Report) -> None:
    import ssl  # 10 ms that most configurations need not spend

    try:
        ssl.create_default_context(cafile=str(file))
    except ssl.SSLError:
        report.add(
            (*_TLS, "ca"),
            f"is {shown(str(file))}, which has no certificate in PEM form",
            code=Code.NAMED_FILE,
        )


def _try_certificate(certificate: Path, key: Path | None, report: Report) -> None:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_cert_chain(str(certificate), key and str(key), password=lambda: "")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            text = f"is {shown(str(key))}, which is not the key of {shown(str(certificate))}"
            report.add((*_TLS, "key"), text, code=Code.NAMED_FILE)
            return
        report.add(
            (*_TLS, "certificate"),
            f"is {shown(str(certificate))}, which with its key does not load; it can be a "
            "certificate in PEM form, and key its key, without a passphrase",
            code=Code.NAMED_FILE,
        )
