"""TLS: the context of a broker connection, and a socket that stores its last error."""

import selectors
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from edge_tvbo.config.mqtt_settings import Tls

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

VERDICT_TIMEOUT_S = 0.2  # longest wait for the broker's reply about the client's certificate
_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


class ErrorKeepingSocket(ssl.SSLSocket):
    """A TLS socket that stores the error that ended the connection; paho does not store it."""

    error: ssl.SSLError | None = None

    def do_handshake(self, block: bool = False) -> None:
        """Do the TLS handshake, and read whether the broker accepts the client's certificate.

        If either step fails, the socket is closed. In TLS 1.3, the client's side of the handshake
        ends before the broker checks the client's certificate. Therefore the broker's answer is
        read before CONNECT is sent; later, the answer could be lost with the connection.
        """
        try:
            super().do_handshake(block)
            if self.version() == "TLSv1.3":
                self._read_verdict()
        except BaseException:
            self.close()  # paho would leave the socket open
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
        """Read from the TLS socket; if that fails, store the error in the attribute `error`."""
        try:
            return super().recv(buflen, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self.error = error
            raise

    def send(self, data: "Buffer", flags: int = 0) -> int:
        """Write to the TLS socket; if that fails, read the alert that the broker may have sent."""
        try:
            return super().send(data, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except OSError:
            with suppress(OSError, ValueError):
                self.recv(1)
            raise


class ServerNameContext(ssl.SSLContext):
    """A TLS context that checks the broker's certificate against `server_name`.

    Without this class, paho would check the certificate against the host to which it connects. That
    would be wrong if `mqtt.tls.server_name` is set, and also if paho connects to the broker's last
    known IP address.
    """

    sslsocket_class = ErrorKeepingSocket
    server_name: str
    socket: ErrorKeepingSocket | None = None  # the socket that was wrapped last

    # `options` are any options of the base class.
    def wrap_socket(self, sock: Any, **options: Any) -> Any:  # type: ignore[override]
        """Return a TLS socket whose peer must have a certificate for `server_name`.

        The socket is also stored, for `pending`.
        """
        options["server_hostname"] = self.server_name
        # The base class returns an object of `sslsocket_class`.
        self.socket = super().wrap_socket(sock, **options)  # type: ignore[assignment]
        return self.socket

    def pending(self) -> int:
        """Return the number of decrypted bytes that are waiting in the TLS socket."""
        return self.socket.pending() if self.socket else 0


def context(tls: Tls, host: str) -> ServerNameContext:
    """Return the TLS context of one connection, which checks the broker's certificate and name.

    A new context is made for each connection, because the certificate files may be renewed while
    the daemon runs. Raises `OSError` (`ssl.SSLError` included) if a file cannot be used.
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
