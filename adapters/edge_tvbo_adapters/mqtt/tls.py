"""The encrypted connection: whom we believe, who we are, and what a failure means.

A handshake is done in steps by the loop, each when the socket is ready for it, so that it costs
the loop no more than its arithmetic: one signature and one key exchange, under 5 ms on a PC and
under 50 ms on a Pi Zero. How long a broker may take to answer is `dialling.PATIENCE`.
"""

import ssl
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from edge_tvbo.config.mqtt_settings import Mqtt, Tls
from edge_tvbo.errors import Code
from edge_tvbo_adapters.mqtt.outage_log import ConnectionProblem

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_EXPIRED, _TOO_SOON, _WRONG_NAME, _WRONG_ADDRESS = 10, 9, 62, 64  # X509_V_ERR_*
_UNKNOWN_CA = (2, 18, 19, 20, 21)
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG")
_OUR_CERTIFICATE = ("UNKNOWN_CA", "BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN", "DECRYPT_ERROR")
_OTHER_VERSION = ("PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE")


class ErrorKeepingSocket(ssl.SSLSocket):
    """A socket that remembers why it broke: paho keeps no more than that it did.

    In TLS 1.3 a broker refuses our certificate only after the handshake, when paho reads.
    """

    broken: ssl.SSLError | None = None

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Read, and remember what went wrong."""
        try:
            return super().recv(buflen, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self.broken = error
            raise

    def send(self, data: "Buffer", flags: int = 0) -> int:
        """Write; where that fails, see whether the broker has said why before it hung up."""
        try:
            return super().send(data, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except OSError:
            with suppress(OSError, ValueError):
                self.recv(1)
            raise


class Contexts:
    """Makes the context that connections are encrypted by, anew when a file of it has changed.

    Certificates are renewed while the daemon runs; the next connection uses the new ones.
    """

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._made: tuple[list[float], ssl.SSLContext] | None = None

    def current(self) -> ssl.SSLContext:
        """Give the context; raises `OSError`, of which `ssl.SSLError` is one."""
        files = [each for each in (self._tls.ca, self._tls.certificate, self._tls.key) if each]
        changed = [each.stat().st_mtime for each in files]
        if self._made is None or self._made[0] != changed:
            self._made = changed, context(self._tls)
        return self._made[1]


def context(tls: Tls) -> ssl.SSLContext:
    """Make a context that checks the broker's certificate and its name; raises `OSError`."""
    made = ssl.create_default_context(cafile=tls.ca)
    made.minimum_version = _VERSIONS[tls.minimum_version]
    made.sslsocket_class = ErrorKeepingSocket
    if tls.certificate is not None:
        made.load_cert_chain(tls.certificate, tls.key, password=lambda: "")  # never ask a terminal
    return made


def explained(error: OSError, mqtt: Mqtt) -> ConnectionProblem:
    """Say what a failure of TLS means, and what would help."""
    tls = mqtt.tls or Tls()
    reason = (getattr(error, "reason", None) or "").upper()
    if isinstance(error, ssl.SSLCertVerificationError):
        return ConnectionProblem(_untrusted_ca(error, mqtt, tls), _code(error), lasting=True)
    if any(word in reason for word in _NOT_TLS):
        return ConnectionProblem(
            f"what answers there does not speak TLS; set mqtt.port to the broker's TLS port, "
            f"often 8883, or take [mqtt.tls] away if port {mqtt.port} is to be plain",
            Code.NOT_TLS,
            lasting=True,
        )
    if "CERTIFICATE_REQUIRED" in reason or ("HANDSHAKE_FAILURE" in reason and not tls.certificate):
        return ConnectionProblem(
            "the broker wants a certificate of ours; set mqtt.tls.certificate and mqtt.tls.key",
            Code.OUR_CERTIFICATE,
            lasting=True,
        )
    if "CERTIFICATE_EXPIRED" in reason:
        return ConnectionProblem(
            f"the broker refuses our certificate, for it has expired; renew {tls.certificate}",
            Code.OUR_CERTIFICATE,
            lasting=True,
        )
    if any(word in reason for word in _OUR_CERTIFICATE):
        return ConnectionProblem(
            "the broker refuses our certificate, for it does not know who signed it; "
            "mqtt.tls.certificate must come from the CA that the broker trusts",
            Code.OUR_CERTIFICATE,
            lasting=True,
        )
    if any(word in reason for word in _OTHER_VERSION):
        return ConnectionProblem(
            f"the broker speaks no TLS {tls.minimum_version} or newer; update it, or lower "
            "mqtt.tls.minimum_version if that says 1.3",
            Code.TLS,
            lasting=True,
        )
    if isinstance(error, ConnectionError | ssl.SSLEOFError) or "EOF" in reason:
        return ConnectionProblem(
            f"the broker hangs up during the TLS handshake; if port {mqtt.port} is a plain one, "
            "set mqtt.port to its TLS port, often 8883, or take [mqtt.tls] away",
            Code.NOT_TLS,
        )
    return ConnectionProblem(f"the TLS connection failed ({reason or error})", Code.TLS)


def unusable(error: OSError, tls: Tls) -> ConnectionProblem:
    """Say why there is no context; `check` has read the same files, so one has changed since."""
    files = ", ".join(str(each) for each in (tls.ca, tls.certificate, tls.key) if each)
    text = f"the files of [mqtt.tls] cannot be used ({error}); check {files}"
    return ConnectionProblem(text, Code.NAMED_FILE, lasting=True)


def _code(error: ssl.SSLCertVerificationError) -> Code:
    match error.verify_code:
        case code if code in (_EXPIRED, _TOO_SOON):
            return Code.EXPIRED
        case code if code in (_WRONG_NAME, _WRONG_ADDRESS):
            return Code.WRONG_NAME
        case code if code in _UNKNOWN_CA:
            return Code.UNKNOWN_CA
        case _:
            return Code.TLS


def _untrusted_ca(error: ssl.SSLCertVerificationError, mqtt: Mqtt, tls: Tls) -> str:
    """Say what is wrong with the broker's certificate."""
    name = tls.server_name or mqtt.host
    today = time.strftime("%Y-%m-%d", time.gmtime())  # the hour would make each attempt news
    if error.verify_code == _EXPIRED:
        return f"the broker's certificate has expired (it is {today} here); renew it on the broker"
    if error.verify_code == _TOO_SOON:
        return f"the broker's certificate is not valid yet; it is {today} here: set the clock"
    if error.verify_code in (_WRONG_NAME, _WRONG_ADDRESS):
        return (
            f"the broker's certificate is not for {name!r}; set mqtt.host, or "
            "mqtt.tls.server_name, to a name that it has"
        )
    if error.verify_code in _UNKNOWN_CA:
        known = f"none of those in {tls.ca}" if tls.ca else "none that this system knows"
        return (
            f"the broker's certificate is signed by an unknown CA, {known}; "
            "set mqtt.tls.ca to the certificate of the CA that signed it"
        )
    return f"the broker's certificate is not believed ({error.verify_message})"
