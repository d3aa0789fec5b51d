"""Connection problems: a text for the user with the cause and advice, and an error code."""

import socket
import ssl
import time
from pathlib import Path
from typing import NamedTuple

from paho.mqtt.reasoncodes import ReasonCode

from edge_tvbo.config.field_types import is_loopback
from edge_tvbo.config.mqtt_settings import Mqtt, Tls
from edge_tvbo.errors import Code, LinkError

CONTAINER_FILES = (Path("/.dockerenv"), Path("/run/.containerenv"))  # of Docker; of Podman


NO_RETAINED_MESSAGES = (
    "the broker retains no messages, but the daemon's documents are retained messages; allow them "
    "in the broker's configuration"
)
NO_QOS_1 = (
    "the broker accepts only QoS 0, but the daemon publishes with QoS 1; allow QoS 1 in the "
    "broker's configuration"
)


class ConnectionProblem(NamedTuple):
    """Reason why there is no connection to the broker, with advice for the user."""

    text: str
    code: Code = Code.LINK
    lasting: bool = False  # True if the problem lasts until the user changes something
    stated: bool = False  # whether the broker itself has said why it ended the session


def link_error(mqtt: Mqtt, problem: ConnectionProblem) -> LinkError:
    """Return the `LinkError` with which a command-line command ends after a connection problem."""
    return LinkError(f"broker {mqtt.address}: {problem.text}", problem.code)


def not_connected(error: Exception, mqtt: Mqtt, timeout_s: float) -> ConnectionProblem:
    """Return the connection problem behind `error`, which an attempt to connect has raised."""
    match error:
        case socket.gaierror() | UnicodeError():
            why = getattr(error, "strerror", None) or error
            return ConnectionProblem(
                f"the name cannot be resolved ({why}); check mqtt.host and this host's DNS",
                Code.NAME,
            )
        case TimeoutError() if "handshake" in str(error):
            return no_handshake(mqtt, timeout_s)
        case ssl.SSLError():
            return tls_failed(error, mqtt)
        case ConnectionRefusedError():
            return ConnectionProblem(
                "the connection is refused; is a broker running there, and does it listen to the "
                "network? (mosquitto without a `listener` serves its own machine only)"
                f"{_container_hint(mqtt.host)}",
                Code.REFUSED,
            )
        case ConnectionError() if mqtt.tls is not None:
            return tls_failed(error, mqtt)
        case TimeoutError():
            text = "no reply"
        case _:
            text = f"{getattr(error, 'strerror', None) or error}"
    return ConnectionProblem(f"{text}; check mqtt.host, mqtt.port and firewalls", Code.NO_ANSWER)


def _container_hint(host: str) -> str:
    """Return a hint if this process is in a container and `host` is this container; else ""."""
    if not is_loopback(host) or not any(each.exists() for each in CONTAINER_FILES):
        return ""
    return (
        f"; inside a container, {host} is usually the container itself: set mqtt.host to the name "
        "or the address of the broker"
    )


def no_handshake(mqtt: Mqtt, timeout_s: float) -> ConnectionProblem:
    """Return the connection problem of a server that does not reply to the TLS handshake."""
    return ConnectionProblem(
        f"no reply to the TLS handshake in {timeout_s:.0f} s; does port {mqtt.port} use TLS?",
        Code.NO_ANSWER,
    )


def no_connection_yet(timeout_s: float) -> ConnectionProblem:
    """Return the connection problem of a host, or a name server, that does not reply."""
    return ConnectionProblem(
        f"no connection after {timeout_s:.0f} s; check that mqtt.host can be resolved, and check "
        "mqtt.port and firewalls",
        Code.NO_ANSWER,
    )


def silent_server() -> ConnectionProblem:
    """Return the connection problem of a server that accepts a connection, but sends nothing."""
    return ConnectionProblem(
        "the broker accepts the connection, but then sends nothing; if it is an MQTT broker, it "
        "may hang: restart it; otherwise, check mqtt.host and mqtt.port",
        Code.NO_ANSWER,
    )


def no_acknowledgement(mqtt: Mqtt) -> ConnectionProblem:
    """Return the connection problem of a broker that does not acknowledge a publication."""
    return ConnectionProblem(
        f"the broker has not acknowledged a publication for {2 * mqtt.keepalive} s (two "
        "keep-alives), although it replies to pings; the daemon reconnects; check the broker, and "
        "any bridge or proxy in front of it",
        Code.NO_ACKNOWLEDGEMENT,
        lasting=True,
    )


def no_subscription_answer(timeout_s: float) -> ConnectionProblem:
    """Return the connection problem of a broker that does not answer a subscription."""
    return ConnectionProblem(
        f"the broker has not answered the subscription for {timeout_s:.0f} s; the daemon "
        "reconnects; check the broker, and any bridge or proxy in front of it",
        Code.NO_ANSWER,
        lasting=True,
    )


def not_mqtt(mqtt: Mqtt, why: str) -> ConnectionProblem:
    """Return the connection problem of a server that is not an MQTT broker."""
    secure = "" if mqtt.tls else f", and add [mqtt.tls] if port {mqtt.port} expects TLS"
    return ConnectionProblem(
        f"the server does not speak MQTT {mqtt.version} ({why}); check mqtt.host and"
        f" mqtt.port{secure}",
        Code.NOT_MQTT,
    )


def connection_refused(
    reason: ReasonCode, mqtt: Mqtt, client_id: str, why: str
) -> ConnectionProblem:
    """Return the connection problem that the reason code of a broker's CONNACK reports.

    `why` is the reason as a text, with the broker's own words.
    """
    code = Code.LOGIN
    login = mqtt.login_table
    settings = f"check {login}.username and {login}.password_file"
    match str(reason):
        case "Bad user name or password":
            text = f"wrong user or password; {settings}"
        case "Not authorized" if mqtt.username is None:
            text = "not authorised: the broker requires a login; set mqtt.username"
        case "Not authorized":
            text = (
                f"not authorised: the login {mqtt.username!r} or its password is wrong, or this "
                f"login is not allowed to connect; {settings}"
            )
        case "Client identifier not valid":
            text = f"the client id {client_id!r} is refused; set mqtt.client_id to another id"
            code = Code.CLIENT_ID
        case "Retain not supported":
            text, code = f"{NO_RETAINED_MESSAGES} ({why})", Code.LINK
        case "QoS not supported":
            text, code = f"{NO_QOS_1} ({why})", Code.LINK
        case "Server unavailable":
            return ConnectionProblem("the broker is not available yet")
        case "Server busy" | "Connection rate exceeded":
            return ConnectionProblem(f"the broker refuses the session for now: {why}")
        case "Banned":
            text = f"the broker has banned this client ({why}); allow it in the broker"
        case _:
            text, code = f"the broker refuses the session: {why}", Code.LINK
    return ConnectionProblem(text, code, lasting=True)


def ended_by_broker(reason: ReasonCode, why: str, client_id: str) -> ConnectionProblem:
    """Return the connection problem that the reason code of a broker's DISCONNECT reports.

    `why` is the reason as a text, with the broker's own words.
    """
    text = f"the broker ends the session: {why}"
    match str(reason):
        case "Session taken over":
            text = f"another client has connected with the client id {client_id!r}"
            return ConnectionProblem(text, Code.CLIENT_ID)
        case "Normal disconnection" | "Unspecified error":
            return ConnectionProblem(text)
        case "Not authorized":
            text += "; allow the daemon's topics in the ACL"
            return ConnectionProblem(text, Code.FORBIDDEN, lasting=True, stated=True)
        case "QoS not supported":
            return ConnectionProblem(f"{NO_QOS_1} ({why})", lasting=True, stated=True)
        case "Packet too large" | "Quota exceeded" | "Message rate too high":
            text += "; raise this limit in the broker"
            return ConnectionProblem(text, lasting=True, stated=True)
    return ConnectionProblem(text, stated=True)


def ends_each_session(problem: ConnectionProblem) -> ConnectionProblem:
    """Return the connection problem of a broker that ends each session early, and has said why."""
    text = f"{problem.text}; the broker ends every session within seconds; its log may say more"
    return ConnectionProblem(text, problem.code, lasting=True)


def ended_session(problem: ConnectionProblem, mqtt: Mqtt) -> ConnectionProblem:
    """Return the connection problem that ended the MQTT session of a command-line command.

    Some brokers use the login as the client id. On such a broker, a daemon that reconnects ends the
    session of a command that uses the daemon's login.
    """
    is_reader = mqtt.readonly is not None and mqtt.username == mqtt.readonly.username
    if mqtt.username is None or is_reader or problem.code not in (Code.LINK, Code.CLIENT_ID):
        return problem
    advice = (
        "add a second login as [mqtt.readonly], or stop the daemon"
        if mqtt.shares_login
        else "stop the daemon, and run the command again"
    )
    return ConnectionProblem(
        "the broker accepted the session and then ended it; if the broker uses logins as client "
        f"ids, this session and that of the daemon end each other: {advice}",
        Code.CLIENT_ID,
    )


def closed_before_connack(mqtt: Mqtt, error: ssl.SSLError | None) -> ConnectionProblem:
    """Return the connection problem of a broker that closed the connection before its CONNACK.

    `error` is the TLS alert that the broker sent before it closed the connection, if there was an
    alert. In TLS 1.3, a broker refuses the client's certificate only after the handshake.
    """
    if error is not None:
        return tls_failed(error, mqtt)
    if mqtt.tls is None:
        return ConnectionProblem(
            "the broker closes the connection without an MQTT packet; if port "
            f"{mqtt.port} expects TLS, add [mqtt.tls]; otherwise, the broker's log says why",
            Code.NOT_MQTT,
        )
    if mqtt.tls.certificate is None:
        return ConnectionProblem(
            "the broker closes the connection after the TLS handshake; if it requires a client "
            "certificate, set mqtt.tls.certificate and mqtt.tls.key",
            Code.OUR_CERTIFICATE,
        )
    return ConnectionProblem(
        "the broker closes the connection after the TLS handshake; the broker's log says why",
        Code.TLS,
    )


# --- TLS ------------------------------------------------------------------------------------

_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG")
_OUR_CERTIFICATE = ("UNKNOWN_CA", "BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN", "DECRYPT_ERROR")
_OTHER_VERSION = ("PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE")


def tls_failed(error: OSError, mqtt: Mqtt) -> ConnectionProblem:
    """Return the connection problem behind a TLS error."""
    tls = mqtt.tls or Tls()
    reason = (getattr(error, "reason", None) or "").upper()
    if isinstance(error, ssl.SSLCertVerificationError):
        return _untrusted(error, mqtt, tls)
    if any(word in reason for word in _NOT_TLS):
        return ConnectionProblem(
            f"the server does not speak TLS; set mqtt.port to the broker's TLS port, "
            f"often 8883, or remove [mqtt.tls] if port {mqtt.port} is meant to be unencrypted",
            Code.NOT_TLS,
            lasting=True,
        )
    if "CERTIFICATE_REQUIRED" in reason or ("HANDSHAKE_FAILURE" in reason and not tls.certificate):
        return _our_certificate(
            "the broker requires a client certificate; set mqtt.tls.certificate and mqtt.tls.key"
        )
    if "CERTIFICATE_EXPIRED" in reason:
        return _our_certificate(
            "the broker refuses the client certificate because it has expired; renew "
            f"{tls.certificate}"
        )
    if any(word in reason for word in _OUR_CERTIFICATE):
        return _our_certificate(
            "the broker refuses the client certificate because it does not trust the CA of "
            "this certificate; set mqtt.tls.certificate to a certificate of a CA that the broker "
            "trusts"
        )
    if any(word in reason for word in _OTHER_VERSION):
        return ConnectionProblem(
            f"the broker does not speak TLS {tls.minimum_version} or newer; update the broker, or "
            "lower mqtt.tls.minimum_version if it is 1.3",
            Code.TLS,
            lasting=True,
        )
    if isinstance(error, ConnectionError | ssl.SSLEOFError) or "EOF" in reason:
        return ConnectionProblem(
            "the broker closes the connection during the TLS handshake; if port "
            f"{mqtt.port} is unencrypted, set mqtt.port to the broker's TLS port, often 8883, or "
            "remove [mqtt.tls]",
            Code.NOT_TLS,
        )
    return ConnectionProblem(f"the TLS connection failed ({reason or error})", Code.TLS)


def unusable_files(error: OSError, tls: Tls) -> ConnectionProblem:
    """Return the connection problem of TLS files that became unusable after the start."""
    files = ", ".join(str(each) for each in (tls.ca, tls.certificate, tls.key) if each)
    text = f"the files of [mqtt.tls] cannot be used ({error}); check {files}"
    return ConnectionProblem(text, Code.NAMED_FILE, lasting=True)


def _our_certificate(text: str) -> ConnectionProblem:
    return ConnectionProblem(text, Code.OUR_CERTIFICATE, lasting=True)


def _untrusted(error: ssl.SSLCertVerificationError, mqtt: Mqtt, tls: Tls) -> ConnectionProblem:
    """Return the connection problem of a broker's certificate that is not trusted."""
    name = tls.server_name or mqtt.host
    # Without the time of day, the text stays the same, so that it is logged only once.
    today = time.strftime("%Y-%m-%d", time.gmtime())
    code = Code.TLS
    match error.verify_code:  # X509_V_ERR_* of OpenSSL
        case 10:
            code = Code.EXPIRED
            text = (
                "the broker's certificate, or that of its CA, has expired (today is "
                f"{today}); renew it"
            )
        case 9:
            code = Code.EXPIRED
            text = (
                "the broker's certificate is not valid yet; check this machine's clock, which says "
                f"{today}"
            )
        case 62 | 64:
            code = Code.WRONG_NAME
            text = (
                f"the broker's certificate is not for {name!r}; set mqtt.host, or "
                "mqtt.tls.server_name, to a name in the certificate"
            )
        case 2 | 18 | 19 | 20 | 21:
            code = Code.UNKNOWN_CA
            known = f"the CAs in {tls.ca}" if tls.ca else "the CAs that this system knows"
            text = (
                f"the broker's certificate is signed by an unknown CA, which is not among {known}; "
                "set mqtt.tls.ca to the certificate of the CA that signed it"
            )
        case _:
            text = f"the broker's certificate is not trusted ({error.verify_message})"
    return ConnectionProblem(text, code, lasting=True)
