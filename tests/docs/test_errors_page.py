"""The messages that docs/errors.md quotes are those that the program prints."""

import re
import socket
import ssl

import pytest
from click.testing import CliRunner
from edge_tvbo_adapters.mqtt import connection_problems as problems
from edge_tvbo_adapters.mqtt.second_daemon import problem_text
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode
from support.pages import FENCED, sections
from support.paths import DOCS

from edge_tvbo.cli import main
from edge_tvbo.config.mqtt_settings import Mqtt, Tls
from edge_tvbo.errors import MissingExtra, StateInUse, UntestedPackage

QUOTES = {
    heading[:4]: FENCED.search(body)[2].strip()
    for heading, body in sections((DOCS / "errors.md").read_text("utf-8"), 2).items()
}
GOOD = """\
[mqtt]
host = "broker.lan"
[fields.hall]
interval = "10min"
kernel = { name = "exchangeable", variance = 4.0, noise_variance = 0.04, mean = 20.0 }
sensors = ["a", "b"]
reading = { topic = "hall/{sensor}" }
"""
WRONG = {  # what is replaced in the valid configuration
    "E102": ('interval = "10min"', "interval = ten"),
    "E103": ('host = "broker.lan"', 'passwd = "x"'),
    "E104": ('interval = "10min"\n', ""),
    "E105": ("hall/{sensor}", "#/x"),
    "E106": ('host = "broker.lan"', 'password_file = "secret"\npassword = "x"'),
    "E107": (re.search("kernel.*", GOOD)[0], 'model = "lab.model.json"'),
    "E108": ('["a", "b"]', '["a", "a"]'),
    "E109": ("kernel", 'policy = { name = "et-gp-ubc" }\nkernel'),
    "E110": ('host = "broker.lan"', 'password = "${MQTT_PASSWORD}"'),
}


def printed_by(*arguments):
    """Return what a command prints, on both streams."""
    return CliRunner().invoke(main, arguments).output


def pattern_of(quote):
    """Return the pattern of a quoted message, in which "..." and positions may differ."""
    pattern = re.escape(quote).replace(re.escape("..."), ".*")
    return re.sub(r":\d+:\d+:", r":\\d+:\\d+:", pattern)


@pytest.mark.parametrize("code", WRONG)
def test_a_quoted_message_about_a_configuration_is_printed(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MQTT_PASSWORD", raising=False)
    before, after = WRONG[code]
    assert before in GOOD
    (tmp_path / "secret").write_text("x")
    (tmp_path / "my.toml").write_text(GOOD.replace(before, after, 1))

    printed = printed_by("check", "my.toml")

    assert re.search(pattern_of(QUOTES[code]), printed), printed


def test_the_quoted_message_about_a_missing_configuration_is_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert QUOTES["E101"] in printed_by("check", "my.toml")


def test_the_quoted_message_about_an_existing_file_is_printed(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text(GOOD)
    options = ["--sensor", "a", "--topic", "hall/{sensor}"]

    printed = printed_by("init", str(path), *options)

    assert QUOTES["E100"].replace("/home/me/my.toml", str(path)) in printed


def test_the_quoted_message_about_missing_days_is_printed():
    days = "2026-03-02:2026-03-09"

    assert QUOTES["E200"] in printed_by("replay", "--train", days)


def certificate_problem(verify_code):
    """Return the TLS error for a broker's certificate that OpenSSL rejects with `verify_code`."""
    error = ssl.SSLCertVerificationError()
    error.verify_code, error.verify_message = verify_code, ""
    return error


def tls_problem(reason):
    """Return the TLS error with OpenSSL's name `reason`."""
    error = ssl.SSLError()
    error.reason = reason
    return error


CONNECT_ERRORS = {  # the exception of the attempt to connect, and whether [mqtt.tls] is set
    "E401": (socket.gaierror(-2, "Name or service not known"), False),
    "E402": (ConnectionRefusedError(), False),
    "E403": (OSError(113, "No route to host"), False),
    "E406": (certificate_problem(19), True),
    "E407": (certificate_problem(10), True),
    "E408": (certificate_problem(62), True),
    "E409": (tls_problem("WRONG_VERSION_NUMBER"), True),
    "E411": (tls_problem("CERTIFICATE_REQUIRED"), True),
    "E412": (tls_problem("PROTOCOL_VERSION"), True),
}


def quoted_broker(code):
    """Return the host and the port of the broker in the quote of an error."""
    host, port = re.match(r"broker (\S+):(\d+): ", QUOTES[code]).groups()
    return {"host": host, "port": int(port)}


def undated(text):
    return re.sub(r"today is [\d-]+", "today is ...", text)


@pytest.mark.parametrize("code", CONNECT_ERRORS)
def test_the_quoted_message_about_a_failed_connection_is_printed(code):
    error, has_tls = CONNECT_ERRORS[code]
    mqtt = Mqtt(**quoted_broker(code), tls=Tls() if has_tls else None)

    problem = problems.not_connected(error, mqtt, 10.0)

    assert undated(problems.link_error(mqtt, problem).with_code()) == undated(QUOTES[code])


def test_the_quoted_message_about_a_wrong_password_is_printed():
    mqtt = Mqtt(**quoted_broker("E404"), username="edge-tvbo")
    reason = ReasonCode(PacketTypes.CONNACK, "Bad user name or password")

    problem = problems.connection_refused(reason, mqtt, "edge-tvbo-lab", str(reason))

    assert problems.link_error(mqtt, problem).with_code() == QUOTES["E404"]


def test_the_quoted_message_about_a_server_without_mqtt_is_printed():
    mqtt = Mqtt(**quoted_broker("E410"))

    problem = problems.closed_before_connack(mqtt, None)

    assert problems.link_error(mqtt, problem).with_code() == QUOTES["E410"]


def test_the_quoted_message_about_a_second_daemon_is_printed():
    error = StateInUse("lab", "/var/lib/edge-tvbo", "4711")

    assert error.with_code() == QUOTES["E111"]


def test_the_quoted_message_about_lost_acknowledgements_is_printed():
    mqtt = Mqtt(**quoted_broker("E414"))

    problem = problems.no_acknowledgement(mqtt)

    assert problems.link_error(mqtt, problem).with_code() == QUOTES["E414"]


def test_the_quoted_message_about_a_second_daemon_at_the_broker_is_printed():
    text = problem_text("lab", "0.2.0")

    assert f"broker lan:1883: {text} [E415]" == QUOTES["E415"]


def test_the_quoted_message_about_a_missing_package_is_printed():
    assert MissingExtra("matplotlib", "plot").with_code().splitlines()[0] == QUOTES["E500"]
    wrong = UntestedPackage("paho-mqtt", "1.6.1", ">=2.2,<3")
    assert wrong.with_code().splitlines()[0] == QUOTES["E501"]
