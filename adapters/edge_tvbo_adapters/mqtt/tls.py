"""TLS: the context of a connection, and a socket that keeps the reason for which it broke."""

import selectors
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from edge_tvbo.config.mqtt_settings import Tls

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

VERDICT_TIMEOUT_S = 0.2
_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


class ErrorKeepingSocket(ssl.SSLSocket):
    """A socket that keeps the error with which it broke; paho keeps only that it broke."""

    error: ssl.SSLError | None = None

    def do_handshake(self, block: bool = False) -> None:
        """Shake hands and read the broker's verdict; close the socket if that fails.

        In TLS 1.3 a broker judges our certificate after our side of the handshake. What it says
        would be lost with the connection if we sent a CONNECT meanwhile.
        """
        try:
            super().do_handshake(block)
            if self.version() == "TLSv1.3":
                self._read_verdict()
        except BaseException:
            self.close()  # paho would leave it open
            raise

    def _read_verdict(self) -> None:
        timeout = self.gettimeout()
        with selectors.DefaultSelector() as selector:
            selector.register(self, selectors.EVENT_READ)
            is_readable = selector.select(VERDICT_TIMEOUT_S)
        if is_readable:  # an alert, or the session tickets that follow an accepted certificate
            self.settimeout(0.0)
            with suppress(ssl.SSLWantReadError):
                super().recv(1)
            self.settimeout(timeout)

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Read, and keep an error."""
        try:
            return super().recv(buflen, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self.error = error
            raise

    def send(self, data: "Buffer", flags: int = 0) -> int:
        """Write; if that fails, read why, in case the broker said so before it closed."""
        try:
            return super().send(data, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except OSError:
            with suppress(OSError, ValueError):
                self.recv(1)
            raise


class ServerNameContext(ssl.SSLContext):
    """A context that checks the broker's certificate against one name.

    paho would check the address it connects to, which is not what `mqtt.tls.server_name` says,
    and no name at all where the broker is found by an address from before.
    """

    sslsocket_class = ErrorKeepingSocket
    server_name: str
    socket: ErrorKeepingSocket | None = None  # the last one, from the handshake on

    def wrap_socket(self, sock: Any, **options: Any) -> Any:  # type: ignore[override]
        """Return an encrypted socket whose peer must be `server_name`, and keep it."""
        options["server_hostname"] = self.server_name
        self.socket = super().wrap_socket(sock, **options)  # type: ignore[assignment]
        return self.socket

    def pending(self) -> int:
        """Return the number of decrypted bytes that wait."""
        return self.socket.pending() if self.socket else 0


def context(tls: Tls, host: str) -> ServerNameContext:
    """Return a context that checks the broker's certificate and its name.

    It reads the certificates again for each connection, because they are renewed while the daemon
    runs. Raises `OSError`, of which `ssl.SSLError` is one.
    """
    made = ServerNameContext(ssl.PROTOCOL_TLS_CLIENT)
    made.server_name = tls.server_name or host
    if tls.ca is None:
        made.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        made.load_verify_locations(tls.ca)
    made.minimum_version = _VERSIONS[tls.minimum_version]
    if tls.certificate is not None:
        made.load_cert_chain(tls.certificate, tls.key, password=lambda: "")  # no prompt
    return made
