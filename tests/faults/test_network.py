"""Faults of the network and of the broker: the link recovers and logs each problem with its fix."""

import gc
import logging
import os
import selectors
import socket
import ssl
import threading
import time
import tracemalloc
from contextlib import closing, suppress
from functools import partial
from math import inf
from pathlib import Path
from statistics import median

import pytest
from edge_tvbo_adapters.mqtt import backoff, outbox
from edge_tvbo_adapters.mqtt.connection_problems import tls_failed
from edge_tvbo_adapters.mqtt.input_silence import InputSilence
from edge_tvbo_adapters.mqtt.link import MqttLink
from support import certificates
from support.link import (
    LAB,
    READ,
    STAMPED,
    FakeBroker,
    cut,
    decision,
    link_to,
    logged,
    publish,
    strict,
)
from support.mosquitto import TIMEOUT_S, Driver, Peer, stop
from support.proxy import Proxy
from support.settings import field_settings, mqtt_settings

from edge_tvbo.config import loader
from edge_tvbo.config.mqtt_settings import Mqtt, Tls
from edge_tvbo.messages.commands import Activate, Notify
from edge_tvbo.messages.documents import Notice
from edge_tvbo.messages.events import Reading, Unreadable

AT = "2004-03-07T08:00:00Z"
MAX_TURN_S = 1.0  # for most turns of the loop on a busy machine; a blocked turn takes 10 s


@pytest.fixture
def secured(mosquitto, certs):
    """Return a function that makes brokers with only a TLS listener."""

    def start(server="server", extra=""):
        made = mosquitto(
            f"allow_anonymous true\ncafile {certs}/ca.pem\n"
            f"certfile {certs}/{server}.pem\nkeyfile {certs}/{server}.key\n{extra}"
        )
        made.start()
        return made

    return start


def tls(certs, ca="ca", client=None, **options):
    """Return the client's TLS settings."""
    if client:
        options |= {"certificate": certs / f"{client}.pem", "key": certs / f"{client}.key"}
    return Tls(ca=certs / f"{ca}.pem" if ca else None, **options)


def only_line(driver, caplog):
    """Return the only error, after a second one had time to be logged."""
    driver.until(lambda: logged(caplog))
    driver.for_seconds(0.5)
    (line,) = logged(caplog)
    return line


# --- TLS --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_readings_and_decisions_cross_an_encrypted_connection(secured, certs, drive, version):
    broker = secured()
    link = link_to(broker.port, instance="tls", tls=tls(certs, minimum_version=version))
    driver = drive(link)
    driver.online()
    other = link_to(broker.port, field=own_topics(), tls=tls(certs))
    watcher = drive(other)
    watcher.online()
    link.send("lab", decision(1, "a"))
    watcher.until(lambda: watcher.events)
    (_, event) = watcher.events[0]
    assert event.topic == "edge_tvbo/tls/lab/selected"


def own_topics():
    """Return the settings of a field that receives the daemon's own decisions, as unreadable."""
    return field_settings(("tls",), "edge_tvbo/{sensor}/lab/selected", "number")


def test_a_client_certificate_is_accepted_by_a_broker_that_requires_one(secured, certs, drive):
    broker = secured(extra="require_certificate true\nuse_identity_as_username true\n")
    drive(link_to(broker.port, tls=tls(certs, client="client"))).online()


def test_a_broker_that_signed_its_own_certificate_is_trusted_by_this_certificate(
    certs, mosquitto, drive, tmp_path
):
    certificates.self_signed(tmp_path, "own")
    broker = mosquitto(
        f"allow_anonymous true\ncertfile {tmp_path}/own.pem\nkeyfile {tmp_path}/own.key\n"
    )
    broker.start()
    drive(link_to(broker.port, tls=tls(tmp_path, ca="own"))).online()


@pytest.mark.parametrize("number", [9, 10], ids=["not yet", "no more"])  # OpenSSL's X509_V_ERR_*
def test_the_text_about_an_invalid_certificate_time_is_the_same_all_day(monkeypatch, number):
    error = ssl.SSLCertVerificationError()
    error.verify_code = number
    texts = set()
    for hour in (0, 11, 23):
        now = time.struct_time((2026, 11, 21, hour, 59, 59, 5, 325, 0))
        monkeypatch.setattr(time, "gmtime", lambda now=now: now)
        texts.add(tls_failed(error, Mqtt(tls=Tls())).text)
    (text,) = texts  # different texts would all be logged
    assert "2026-11-21" in text


FAILURES = {
    "unknown CA": ("server", "", {"ca": "stranger"}, ["unknown CA", "mqtt.tls.ca"]),
    "unknown CA, the system's": ("server", "", {"ca": None}, ["unknown CA", "this system knows"]),
    "name mismatch": ("elsewhere", "", {}, ["not for '127.0.0.1'", "mqtt.tls.server_name"]),
    "expired": ("expired", "", {}, ["has expired", "renew it"]),
    "expired CA": ("young", "", {"ca": "old"}, ["that of its CA, has expired", "renew it"]),
    "certificate wanted": (
        "server",
        "require_certificate true\n",
        {},
        ["requires a client certificate", "mqtt.tls.certificate"],
    ),
    "certificate refused": (
        "server",
        "require_certificate true\n",
        {"client": "intruder"},
        ["refuses the client certificate", "a CA that the broker trusts"],
    ),
}


@pytest.mark.acceptance(6)
@pytest.mark.parametrize("what", FAILURES)
def test_each_tls_failure_is_logged_once_with_its_fix(
    secured, certs, drive, caplog, monkeypatch, what
):
    monkeypatch.setattr("edge_tvbo_adapters.mqtt.tls.VERDICT_TIMEOUT_S", TIMEOUT_S)
    server, extra, ours, words = FAILURES[what]
    broker = secured(server, extra)
    line = only_line(drive(link_to(broker.port, tls=tls(certs, **ours))), caplog)
    print(line)
    assert all(word in line for word in words)
    assert "\n" not in line


@pytest.mark.parametrize(
    ("ours", "words"),
    [
        ({"minimum_version": "1.3"}, ["does not speak TLS 1.3", "mqtt.tls.minimum_version"]),
        ({}, ["requires a client certificate", "mqtt.tls.certificate"]),
        ({"client": "intruder"}, ["refuses the client certificate", "a CA that the broker trusts"]),
    ],
)
def test_tls_1_2_broker_refuses_the_certificate_in_the_handshake(certs, drive, caplog, ours, words):
    """In TLS 1.2 the server checks the client's certificate in the handshake, not after it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certs / "server.pem", certs / "server.key")
    context.load_verify_locations(certs / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            theirs, _ = server.accept()
            with theirs, suppress(OSError):
                context.wrap_socket(theirs, server_side=True)

        thread = threading.Thread(target=serve)
        thread.start()
        port = server.getsockname()[1]
        options = {"reconnect_min": 100, "reconnect_max": 100}
        line = only_line(drive(link_to(port, tls=tls(certs, **ours), **options)), caplog)
        thread.join()
    print(line)
    assert all(word in line for word in words)


def test_server_name_replaces_the_host_in_the_certificate_check(secured, certs, drive):
    broker = secured("elsewhere")
    options = tls(certs, server_name="broker.example")
    drive(link_to(broker.port, tls=options)).online()


@pytest.mark.acceptance(6)
def test_tls_to_a_plain_port_and_plain_to_a_tls_port_have_different_advice(
    secured, mosquitto, certs, drive, caplog
):
    plain = mosquitto()
    plain.start()
    line = only_line(drive(link_to(plain.port, tls=tls(certs))), caplog)
    print(line)
    assert "TLS handshake" in line
    assert "remove [mqtt.tls]" in line
    caplog.clear()
    line = only_line(drive(link_to(secured().port)), caplog)
    print(line)
    assert "add [mqtt.tls]" in line


def test_an_unencrypted_reply_to_the_handshake_is_logged_as_no_tls(certs, caplog):
    with FakeBroker(tls=tls(certs)) as fake_broker:
        fake_broker.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        fake_broker.until(lambda: logged(caplog))
    assert "does not speak TLS" in logged(caplog)[0]


def test_an_endless_handshake_does_not_block_and_times_out(certs, caplog):
    with FakeBroker(tls=tls(certs)) as fake_broker:
        turns = []
        for _ in range(20):
            began = time.monotonic()
            list(fake_broker.link.service(selectors.EVENT_WRITE, began))
            turns.append(time.monotonic() - began)
        assert median(turns) < MAX_TURN_S
        fake_broker.until(fake_broker.received)  # the handshake has begun
        assert not logged(caplog)
        list(fake_broker.link.service(0, time.monotonic() + 11))
        (line,) = logged(caplog)
    print(line)
    assert "no reply to the TLS handshake" in line


def test_all_messages_of_one_tls_record_are_read(certs, drive):
    """A selector does not see decrypted bytes, so they could be left until the next message."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certs / "server.pem", certs / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as server:
        received = []

        def serve():
            with context.wrap_socket(server.accept()[0], server_side=True) as theirs:
                theirs.recv(1000)
                theirs.sendall(b"\x20\x02\x00\x00")
                theirs.recv(1000)
                some = b"".join(publish("lab/a/reading", b'{"t":1,"ts":%d}' % i) for i in range(9))
                theirs.sendall(b"\x90\x03\x00\x01\x01\xd0\x00\xd0\x00\xd0\x00" + some)
                while some := theirs.recv(1000):
                    received.append(some)

        thread = threading.Thread(target=serve)
        thread.start()
        driver = drive(link_to(server.getsockname()[1], tls=tls(certs)))
        driver.until(lambda: len(driver.events) == 9)
        driver.close()
        thread.join()


def test_a_renewed_certificate_is_used_for_the_next_connection(secured, certs, drive, tmp_path):
    broker = secured()
    ca = tmp_path / "ca.pem"
    ca.write_bytes((certs / "stranger.pem").read_bytes())
    link = link_to(broker.port, tls=Tls(ca=ca))
    driver = drive(link)
    driver.for_seconds(0.5)
    assert not link.online
    ca.write_bytes((certs / "ca.pem").read_bytes())
    os.utime(ca, (0, 0))
    driver.online()


def test_a_missing_certificate_file_is_logged_and_does_not_stop_the_link(
    certs, drive, caplog, secured
):
    line = only_line(drive(link_to(secured().port, tls=Tls(ca=Path("/nowhere/ca.pem")))), caplog)
    assert "/nowhere/ca.pem" in line


# --- passwords --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "encrypted", "warned"),
    [
        ("broker.example", False, True),
        ("192.168.1.5", False, True),
        ("192.168.1.5", True, False),
        ("127.0.0.1", False, False),
        ("localhost", False, False),
        ("::1", False, False),
    ],
)
def test_an_unencrypted_password_on_the_network_is_warned_of_once(
    certs, caplog, host, encrypted, warned
):
    secret = "correct horse"
    security = tls(certs) if encrypted else None
    mqtt = mqtt_settings(1883, host=host, username="u", password=secret, tls=security)
    MqttLink(mqtt, "x", {"lab": LAB}).close()
    lines = logged(caplog, logging.WARNING)
    assert len(lines) == warned
    assert all("unencrypted" in line and "[mqtt.tls]" in line for line in lines)
    assert secret not in caplog.text


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (2, "client id"),
        (3, "not available yet"),
        (4, "wrong user or password"),
        (5, "not authorised"),
    ],
)
def test_each_refusal_of_the_broker_is_logged_with_its_reason(caplog, code, words):
    with FakeBroker(username="u", password="correct horse") as fake_broker:
        fake_broker.send(bytes([0x20, 2, 0, code]))
        fake_broker.until(lambda: logged(caplog))
        (line,) = logged(caplog)
    print(line)
    assert words in line
    assert "correct horse" not in caplog.text


CONFIG = """\
[mqtt]
host = "127.0.0.1"
{mqtt}
[fields.t]
interval = "10min"
sensors = ["a", "b"]
model = "model.json"
reading = {{ topic = "lab/{{sensor}}/t" }}
activate = {{ mode = "{mode}", topic = "lab/{{sensor}}/go" }}
"""


def load(tmp_path, mqtt="", mode="advise", more=""):
    (tmp_path / "model.json").touch()
    path = tmp_path / "config.toml"
    path.write_text(CONFIG.format(mqtt=mqtt, mode=mode) + more)
    return loader.load(path)


def test_a_systemd_credential_is_preferred_to_the_password_file(tmp_path, monkeypatch):
    ours, theirs = tmp_path / "etc", tmp_path / "credentials"
    ours.mkdir()
    theirs.mkdir()
    (ours / "mqtt.password").write_text("by hand\n")
    mqtt = 'username = "u"\npassword_file = "mqtt.password"'
    assert load(ours, mqtt).mqtt.password.reveal() == "by hand"
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(theirs))
    assert load(ours, mqtt).mqtt.password.reveal() == "by hand"
    (theirs / "mqtt.password").write_text("of systemd")
    settings = load(ours, mqtt)
    assert settings.mqtt.password.reveal() == "of systemd"
    assert "of systemd" not in f"{settings!r} {settings}"


@pytest.mark.parametrize(
    ("keys", "key", "words"),
    [
        ('ca = "none.pem"', "ca", "does not exist"),
        ('ca = "noise.pem"', "ca", "no certificate in PEM form"),
        ('certificate = "client.pem"\nkey = "none"', "key", "does not exist"),
        ('certificate = "client.pem"\nkey = "server.key"', "key", "not the key of"),
        ('certificate = "mixed.pem"', "certificate", "contains the key of another certificate"),
        ('certificate = "noise.pem"\nkey = "client.key"', "certificate", "does not load"),
        ('certificate = "client.pem"\nkey = "locked.key"', "certificate", "without a passphrase"),
        ('key = "client.key"', "key", "set both"),
        ('minimum_version = "1.1"', "minimum_version", '"1.2" or "1.3"'),
    ],
)
def test_an_unusable_tls_file_is_reported_with_its_line(tmp_path, certs, keys, key, words):
    for name in ("ca.pem", "client.pem", "client.key", "server.key"):
        (tmp_path / name).write_bytes((certs / name).read_bytes())
    (tmp_path / "noise.pem").write_text("hello")
    mixed = [(certs / name).read_text() for name in ("client.pem", "server.key")]
    (tmp_path / "mixed.pem").write_text("".join(mixed))
    locked = ("ec", "-in", "client.key", "-out", "locked.key", "-aes128", "-passout", "pass:x")
    certificates.run(tmp_path, *locked)
    mqtt = f"[mqtt.tls]\n{keys}"
    with pytest.raises(loader.ConfigErrors) as caught:
        load(tmp_path, mqtt)
    (finding,) = caught.value.findings
    lines = (tmp_path / "config.toml").read_text().splitlines()
    assert lines[finding.line - 1].startswith(key)
    assert finding.key == f"mqtt.tls.{key}"
    assert words in finding.message


def test_a_missing_certificate_is_reported_before_the_unreadable_file_of_its_key(tmp_path):
    with pytest.raises(loader.ConfigErrors) as caught:
        load(tmp_path, '[mqtt.tls]\nkey = "none"')
    missing, unreadable = caught.value.findings
    assert missing.line == unreadable.line
    assert "set both" in missing.message
    assert "does not exist" in unreadable.message


def test_an_empty_tls_table_enables_tls_and_a_live_field_limits_silence(tmp_path):
    settings = load(tmp_path, "[mqtt.tls]", mode="live")
    assert settings.mqtt.tls is not None
    assert limit_of_silence(settings) == 1800.0
    assert limit_of_silence(load(tmp_path, 'silence = "5min"', mode="live")) == 300.0
    settings = load(tmp_path)
    assert settings.mqtt.tls is None
    assert limit_of_silence(settings) == inf


def limit_of_silence(settings):
    """Return the silence of all sensors after which the link of a daemon reconnects, s."""
    return InputSilence(settings.mqtt.silence, settings.fields).extend()


@pytest.mark.parametrize(
    ("energy", "silence"),
    [
        ("{ field_budget = 36 }", inf),
        ("{ budget = 18 }", inf),
        ("{ sensors.a = { budget = 18 } }", inf),
        ("{ sensors.a = { budget = 0 } }", 1800.0),  # every interval activates sensor b
        ('{ battery = { topic = "lab/{sensor}/battery" } }', 1800.0),
    ],
)
def test_a_field_that_leaves_out_activations_to_save_energy_does_not_limit_silence(
    tmp_path, energy, silence
):
    settings = load(tmp_path, mode="live", more=f"energy = {energy}")
    assert limit_of_silence(settings) == silence


# --- names ------------------------------------------------------------------------------------


def test_a_silent_name_server_does_not_block_the_loop_and_uses_one_thread(
    broker, drive, monkeypatch
):
    release = threading.Event()
    real = socket.getaddrinfo

    def slow(host, *arguments, **options):
        if host == "gateway.test":
            release.wait(TIMEOUT_S)
            host = "127.0.0.1"
        return real(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    before = threading.active_count()
    options = {"host": "gateway.test", "reconnect_min": 0.01, "reconnect_max": 0.01}
    link = MqttLink(mqtt_settings(broker.port, **options), "dns", {"lab": LAB})
    driver = drive(link)
    turns = []
    for ahead in range(0, 100, 5):  # s: the link times out and retries many times
        began = time.monotonic()
        list(link.service(0, began + ahead))
        turns.append(time.monotonic() - began)
        assert threading.active_count() <= before + 1
    assert median(turns) < MAX_TURN_S
    assert not link.online
    release.set()
    driver.online()
    driver.until(lambda: threading.active_count() <= before)


def test_the_last_known_address_is_used_while_dns_is_down(broker, drive, monkeypatch):
    real = socket.getaddrinfo
    down = False

    def lookup(host, *arguments, **options):
        if down and host == "gateway.test":
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return real("127.0.0.1" if host == "gateway.test" else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    options = {"host": "gateway.test", "reconnect_min": 0.01, "reconnect_max": 0.01}
    link = MqttLink(mqtt_settings(broker.port, **options), "dns2", {"lab": LAB})
    driver = drive(link)
    driver.online()
    down = True
    cut(link)
    driver.until(lambda: not link.online)
    driver.online()


# --- faults of the broker ---------------------------------------------------------------------


def second_client(port, client_id):
    """Run a client with the link's client id, which reconnects whenever it is disconnected."""
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion

    client = Client(CallbackAPIVersion.VERSION2, client_id=client_id)
    client.reconnect_delay_set(1, 1)
    client.connect("127.0.0.1", port)
    client.loop_start()
    return client


@pytest.mark.parametrize(
    "seconds", [12.0, pytest.param(120.0, marks=pytest.mark.soak)], ids=["short", "two minutes"]
)
def test_a_second_client_with_our_id_costs_six_connects_and_one_error(
    mosquitto, drive, caplog, seconds, record_property
):
    caplog.set_level(logging.INFO)
    broker = mosquitto()
    broker.start()
    link = link_to(broker.port, client_id="twin", reconnect_min=1.0, reconnect_max=60.0)
    driver = drive(link)
    driver.online()
    other = second_client(broker.port, "twin")
    try:
        driver.until(lambda: logged(caplog))
        driver.for_seconds(seconds)
    finally:
        stop(other)
    ours = [line for line in broker.log().splitlines() if "as twin" in line and "k30" in line]
    assert 3 <= len(ours) <= 6
    (line,) = logged(caplog)
    record_property("measured", f"{len(ours)} connects in {seconds:g} s, 1 error: {line}")
    assert "another client" in line
    assert "'twin'" in line
    assert "mqtt.client_id" in line


class RefusingBroker(threading.Thread):
    """A broker that refuses every subscription and then ends the session, as RabbitMQ does.

    From session number `resets_from` on, the refusal is lost, as if the end of the connection
    (RST) had overtaken it.
    """

    def __init__(self, resets_from=inf):
        super().__init__()
        self._resets_from = resets_from
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(0.1)
        self.port = self._server.getsockname()[1]
        self.sessions, self.stopped = 0, False
        self.start()

    def run(self):
        while not self.stopped:
            with suppress(OSError):
                theirs, _ = self._server.accept()
                theirs.settimeout(5)
                with theirs:
                    self._refuse(theirs)

    def _refuse(self, theirs):
        if theirs.recv(1000):  # not the connection with which the link probes the broker
            theirs.sendall(b"\x20\x02\x00\x00")
            subscribe = theirs.recv(1000)
            self.sessions += 1
            if self.sessions < self._resets_from:
                theirs.sendall(b"\x90\x03" + subscribe[2:4] + b"\x80")
                theirs.shutdown(socket.SHUT_WR)
                while theirs.recv(1000):
                    pass  # what is not read would reset the connection

    def close(self):
        self.stopped = True
        self.join()
        self._server.close()


@pytest.mark.parametrize("resets_from", [inf, 2], ids=["answers", "resets"])
def test_a_broker_that_ends_the_session_after_a_refusal_is_no_duplicate_client_id(
    drive, caplog, resets_from
):
    with closing(RefusingBroker(resets_from)) as broker:
        driver = drive(link_to(broker.port))
        driver.until(lambda: broker.sessions > 5)
        lines = logged(caplog)
    assert not [line for line in lines if "another client" in line]
    assert [line for line in lines if "refuses the readings" in line and "[E413]" in line]


def test_the_end_of_a_duplicate_client_id_is_logged(mosquitto, drive, caplog, monkeypatch):
    monkeypatch.setattr(backoff, "EARLY_END_WAIT_S", 0.2)
    caplog.set_level(logging.INFO)
    broker = mosquitto()
    broker.start()
    link = link_to(broker.port, client_id="twin")
    driver = drive(link)
    for _ in range(3):
        driver.online()
        cut(link)
        driver.until(lambda: not link.online)
    driver.until(lambda: logged(caplog))
    driver.until(lambda: "connected" in "".join(logged(caplog, logging.INFO)))
    assert len(logged(caplog)) == 1


def is_refused(link):
    """Return whether the link has found out that no broker accepts its connections."""
    return link._reconnection._backoff.short_sessions == 0


def test_repeated_restarts_of_the_broker_are_not_logged_as_a_duplicate_client_id(
    mosquitto, drive, caplog
):
    broker = mosquitto()
    broker.start()
    link = link_to(broker.port)
    driver = drive(link)
    for _ in range(5):
        driver.online()
        broker.stop()
        driver.until(lambda: not link.online)
        driver.until(partial(is_refused, link))
        broker.start()
    driver.online()
    assert not [line for line in logged(caplog) if "another client" in line]


def test_an_outage_is_one_error_and_one_line_when_it_is_over(mosquitto, drive, caplog):
    caplog.set_level(logging.INFO)
    broker = mosquitto()
    broker.start()
    link = link_to(broker.port)
    driver = drive(link)
    driver.online()
    broker.stop()
    driver.until(lambda: logged(caplog))
    driver.for_seconds(1.5)
    broker.start()
    driver.online()
    (line,) = logged(caplog)
    print(line)
    assert "refused" in line
    assert len([line for line in logged(caplog, logging.INFO) if "connected" in line]) == 1
    assert logged(caplog, logging.WARNING) == []


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("times", [10, pytest.param(50, marks=pytest.mark.soak)], ids=["10", "50"])
@pytest.mark.timeout(1200)
def test_restarts_under_load_lose_no_notice_no_state_and_no_descriptor(
    mosquitto, drive, caplog, times, record_property
):
    threads = threading.active_count()
    broker = mosquitto()
    broker.start()
    link = link_to(broker.port, instance="load")
    driver = drive(link)
    driver.online()
    driver.until(lambda: threading.active_count() <= threads)  # the one that connected has ended
    before = descriptors()
    keeper = NoticeKeeper(broker.port)
    sent = 0
    for turn in range(times):
        for _ in range(5):
            link.send("lab", decision(turn, "ab"[turn % 2]))
            link.send("lab", Notify(Notice("sensor-back", AT, str(sent), "a")))
            link.send("lab", Activate("a", turn, 600.0, 660.0))
            sent += 1
            driver.for_seconds(0.01)
        broker.kill() if turn % 2 else broker.stop()
        link.send("lab", decision(turn, "b"))
        if turn % 4:
            driver.until(lambda: not link.online)
            driver.until(partial(is_refused, link))
            driver.for_seconds(0.05 * (turn % 4))
        broker.start()
        keeper.again()
        driver.online()
    driver.until(lambda: link._outbox.empty)
    driver.until(lambda: keeper.missing(sent) == [])
    keeper.again("edge_tvbo/load/#")
    driver.until(lambda: len(keeper.retained()) == 2)
    assert strict(keeper.retained()["edge_tvbo/load/lab/selected"])["interval"] == times - 1
    keeper.close()
    gc.collect()  # paho's own sockets go with the peers
    text = f"{times} restarts, {sent} notices sent, none lost; descriptors {before} and then "
    record_property("measured", f"{text}{descriptors()}, threads {threading.active_count()}")
    driver.until(lambda: threading.active_count() <= threads)
    assert descriptors() <= before
    assert not [line for line in logged(caplog) if "another client" in line]


class NoticeKeeper:
    """A client that receives notices over restarts; it connects before the link does."""

    def __init__(self, port):
        self._port = port
        self._received = []
        self._peer = Peer(port, ["edge_tvbo/load/lab/event"])

    def again(self, topic="edge_tvbo/load/lab/event"):
        self.close()
        self._peer = Peer(self._port, [topic])

    def close(self):
        self._received += self._peer.received
        self._peer.close()
        self._peer = None

    def retained(self):
        return {topic: payload for topic, payload, retained in self._peer.received if retained}

    def missing(self, sent):
        everything = self._received + self._peer.received
        numbers = {int(strict(payload)["text"]) for _, payload, _ in everything}
        return sorted(set(range(sent)) - numbers)


# --- faults of the network --------------------------------------------------------------------


@pytest.fixture
def proxy(broker):
    made = Proxy(broker.port)
    yield made
    made.close()


def receives_reading(driver, peer, value):
    """Publish a reading until the link receives it: while the link is away, none reaches it."""

    def is_received():
        return any(e.value == value for _, e in driver.events if isinstance(e, Reading))

    for _ in range(30):
        peer.publish("lab/a/reading", f'{{"t": {value}, "ts": {value}}}')
        with suppress(AssertionError):
            driver.until(is_received, within=2.0)
            return
    assert is_received()


def test_a_slow_network_does_not_end_the_session(proxy, broker, drive, peer):
    proxy.delay = 0.1
    driver = drive(link_to(proxy.port))
    driver.online()
    receives_reading(driver, peer(broker.port), 1)
    assert proxy.connections == 1


def test_a_broken_connection_is_replaced_and_logged_as_a_warning(
    proxy, broker, drive, peer, caplog
):
    link = link_to(proxy.port)
    driver = drive(link)
    sender = peer(broker.port)
    for value in (1, 2):
        driver.online()
        proxy.cut()
        driver.until(lambda: not link.online)
        driver.online()
        receives_reading(driver, sender, value)
    assert logged(caplog) == []
    (line,) = logged(caplog, logging.WARNING)
    print(line)
    assert "connected again after" in line


def test_a_half_open_connection_is_detected_and_replaced(proxy, broker, drive, peer, caplog):
    link = link_to(proxy.port, keepalive=1)
    driver = drive(link)
    driver.online()
    driver.until(lambda: link._outbox.empty)  # a missing acknowledgement is another problem
    proxy.frozen = True
    driver.until(lambda: not link.online)
    proxy.frozen = False
    proxy.cut()
    driver.online()
    receives_reading(driver, peer(broker.port), 1)
    lines = logged(caplog) + logged(caplog, logging.WARNING)
    assert any("sent no packet for two keep-alives" in line for line in lines), lines


def test_a_connection_with_corrupt_bytes_ends_and_is_replaced(proxy, broker, drive, peer, caplog):
    link = link_to(proxy.port, reconnect_max=0.1)
    driver = drive(link)
    driver.online()
    proxy.corrupt = 3
    sender = peer(broker.port)
    for i in range(100):
        sender.publish("lab/a/reading", f'{{"t": {i}, "ts": {i}}}')
        driver.for_seconds(0.02)
        if not link.online:
            break
    assert not link.online
    proxy.corrupt = 0
    driver.online()
    receives_reading(driver, sender, 100)
    assert not [line for line in logged(caplog) if "another client" in line]


@pytest.mark.parametrize("retained", [b"", b'{"t": 21.5, "ts": 1}'], ids=["", "retained"])
def test_silence_of_all_sensors_is_logged_and_the_link_reconnects(
    proxy, broker, drive, peer, caplog, retained
):
    """A reading that the broker retains is no sign that a sensor sends anything."""
    watcher = peer(broker.port, "edge_tvbo/still/lab/event")
    watcher.publish("lab/a/reading", retained, retain=True)
    began, silence = time.monotonic(), 0.5
    link = link_to(proxy.port, instance="still", silence=silence)
    driver = drive(link)
    driver.until(lambda: watcher.on("edge_tvbo/still/lab/event"))
    assert strict(watcher.on("edge_tvbo/still/lab/event")[0])["event"] == "inputs-silent"
    line, *_ = logged(caplog)
    print(line)
    assert "no message from any sensor" in line
    driver.until(lambda: proxy.connections >= 4)
    # The limit of each silence is twice as long as that of the one before.
    assert time.monotonic() - began >= (1 + 2 + 4) * silence
    driver.online()
    receives_reading(driver, watcher, 1)
    watcher.publish("lab/a/reading", b"", retain=True)


@pytest.mark.parametrize(
    ("silence", "paused", "expected"),
    [
        (None, (), True),
        (None, ("live",), False),  # the sensors of the other field report when they like to
        (None, ("advise",), True),
        (300.0, ("live",), True),
        (300.0, ("live", "advise"), False),
    ],
)
def test_the_default_limit_of_silence_counts_while_a_field_that_determines_it_is_not_paused(
    silence, paused, expected
):
    fields = {"live": LAB, "advise": field_settings(("c",), READ, STAMPED)}
    link = MqttLink(mqtt_settings(1, silence=silence), "x", fields)
    link.expect_readings([each for each in fields if each not in paused])
    assert link._silence.is_too_long(1e6) is expected


# --- floods, large payloads and invalid topics of sensors -------------------------------------


def test_a_flood_of_one_sensor_leaves_the_others_readable(broker, drive, peer):
    field = field_settings(("a", "b"), "flood/{sensor}", STAMPED, max_rate=2.0)
    driver = drive(link_to(broker.port, field=field))
    driver.online()
    sender = peer(broker.port)
    began = time.monotonic()
    for i in range(100):
        sender.client.publish("flood/a", f'{{"t": {i}, "ts": {i}}}', qos=1)
    sender.publish("flood/b", '{"t": 5, "ts": 5}')
    driver.until(lambda: len(driver.events) == 101)
    took = time.monotonic() - began
    events = [event for _, event in driver.events]
    floods = [each for each in events if isinstance(each, Unreadable)]
    assert 79 - 2.0 * took <= len(floods) <= 80  # those of 10 s are accepted, and 2 per second
    assert {each.reason for each in floods} == {"flooding"}
    assert {(each.topic, each.detail) for each in floods} == {
        ("flood/a", "more than 2 messages per second")
    }
    assert events[-1].sensor == "b"


def test_unknown_sensors_share_one_rate_limit(broker, drive, peer):
    field = field_settings(("a",), "strange/{sensor}", STAMPED, max_rate=1.0)
    driver = drive(link_to(broker.port, field=field))
    driver.online()
    sender = peer(broker.port)
    began = time.monotonic()
    for i in range(50):
        sender.client.publish(f"strange/x{i}", '{"t": 1, "ts": 1}', qos=1)
    driver.until(lambda: len(driver.events) == 50)
    took = time.monotonic() - began
    assert sum(isinstance(event, Reading) for _, event in driver.events) <= 11 + 1.0 * took


def test_a_payload_above_the_limit_is_rejected_and_released(broker, drive, peer):
    field = field_settings(("a",), "big/{sensor}", STAMPED, max_payload=1000)
    driver = drive(link_to(broker.port, field=field, version="3.1.1"))
    driver.online()
    sender = peer(broker.port)
    tracemalloc.start()
    sender.client.publish("big/a", b"1" * 30_000_000, qos=1)
    driver.until(lambda: driver.events)
    assert driver.events[0][1].reason == "too-large"
    sender.publish("big/a", b'{"t": 1, "ts": 1}')
    driver.until(lambda: len(driver.events) == 2)
    assert isinstance(driver.events[1][1], Reading)
    sender.client.disconnect()
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 10**6 < 30_000_000 < peak


def test_with_mqtt_5_the_broker_does_not_send_packets_above_the_limit(broker, drive, peer):
    field = field_settings(("a",), "big5/{sensor}", STAMPED, max_payload=1000)
    link = link_to(broker.port, field=field, version="5")
    driver = drive(link)
    driver.online()
    sender = peer(broker.port)
    sender.publish("big5/a", b"1" * 3_000_000)
    sender.publish("big5/a", b'{"t": 1, "ts": 1}')
    driver.until(lambda: driver.events)
    ((_, event),) = driver.events
    assert isinstance(event, Reading)
    assert link.online


def test_a_topic_that_is_not_utf8_is_rejected_with_a_reason(caplog):
    events = []
    with FakeBroker() as fake_broker:
        fake_broker.send(b"\x20\x02\x00\x00\x90\x03\x00\x01\x01")
        fake_broker.until(lambda: fake_broker.link.online)
        fake_broker.send(publish(b"lab/\xff\xfe/reading", b"1"))
        events = fake_broker.take()
    ((field, event),) = events
    assert (field, event.reason, event.topic) == ("lab", "bad-topic", "lab/\ufffd\ufffd/reading")


def test_a_reading_is_acknowledged_after_it_was_handled(caplog):
    with FakeBroker() as fake_broker:
        fake_broker.send(b"\x20\x02\x00\x00\x90\x03\x00\x01\x01")
        fake_broker.until(lambda: fake_broker.link.online)
        fake_broker.send(publish("lab/a/reading", b'{"t":1,"ts":1}', mid=77))
        with selectors.DefaultSelector() as selector:
            selector.register(*fake_broker.link.interest())
            assert selector.select(TIMEOUT_S)
        events = fake_broker.link.service(selectors.EVENT_READ, time.monotonic())
        _, reading = next(events)
        assert reading.value == 1.0
        assert b"\x40\x02\x00\x4d" not in fake_broker.received()
        assert list(events) == []
        fake_broker.until(lambda: b"\x40\x02\x00\x4d" in fake_broker.received())


def test_a_broker_that_stops_reading_costs_bounded_memory_and_receives_the_newest_state(
    proxy, broker, drive, peer, monkeypatch
):
    monkeypatch.setattr(outbox, "MAX_NOTICES_IN_SESSION", 100)
    watcher = peer(broker.port, "edge_tvbo/slow/#")
    link = link_to(proxy.port, instance="slow")
    driver = drive(link)
    driver.online()
    proxy.frozen = True
    for interval in range(500):
        link.send("lab", decision(interval))
        link.send("lab", Notify(Notice("sensor-back", AT, str(interval), "a")))
    driver.for_seconds(0.1)
    assert len(link._outbox) <= 20 + 1 + 100
    proxy.frozen = False
    driver.until(lambda: link._outbox.empty)

    def intervals():
        return [strict(each)["interval"] for each in watcher.on("edge_tvbo/slow/lab/selected")]

    watcher.wait(lambda: 499 in intervals())
    selected = intervals()
    assert selected == sorted(selected)
    assert len(selected) < 30


def test_closed_tls_links_leave_no_open_descriptor(secured, certs, mosquitto):
    broker = secured()
    before = None
    for turn in range(6):
        driver = Driver([link_to(broker.port, tls=tls(certs, ca="ca" if turn % 2 else "stranger"))])
        driver.for_seconds(0.2)
        driver.close()
        before = before or descriptors()
    deadline = time.monotonic() + TIMEOUT_S
    while descriptors() > before:  # a thread that connects closes its socket later
        assert time.monotonic() < deadline
        time.sleep(0.01)
