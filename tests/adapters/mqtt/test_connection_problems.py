"""Connection problems: the texts that depend on the client's machine or login."""

import pytest
from edge_tvbo_adapters.mqtt import connection_problems as problems
from msgspec.structs import replace
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from edge_tvbo.config.field_types import Secret
from edge_tvbo.config.mqtt_settings import Mqtt, ReadonlyLogin


@pytest.mark.parametrize(
    ("host", "address"), [("::1", "[::1]:1884"), ("lan", "lan:1884"), ("10.0.0.1", "10.0.0.1:1884")]
)
def test_an_error_names_the_broker_so_that_the_port_is_no_part_of_an_ipv6_address(host, address):
    error = problems.link_error(Mqtt(host=host, port=1884), problems.ConnectionProblem("closed"))
    assert str(error) == f"broker {address}: closed"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_a_refused_connection_to_loopback_in_a_container_names_the_container(
    host, tmp_path, monkeypatch
):
    mark = tmp_path / ".dockerenv"
    monkeypatch.setattr(problems, "CONTAINER_FILES", (tmp_path / ".containerenv", mark))
    hint = f"; inside a container, {host} is usually the container itself: set mqtt.host"

    def text(name):
        return problems.not_connected(ConnectionRefusedError(), Mqtt(host=name), 10.0).text

    assert "container" not in text(host)
    mark.touch()
    assert hint in text(host)
    assert "container" not in text("broker.lan")


@pytest.mark.parametrize("username", [None, "edge", "watcher"])
@pytest.mark.parametrize("name", ["Bad user name or password", "Not authorized"])
def test_a_refused_login_is_named_by_its_own_table(name, username):
    readonly = ReadonlyLogin(username="watcher", password=Secret("b"))
    own = Mqtt(username=username, password=username and Secret("a"), readonly=readonly)
    reason = ReasonCode(PacketTypes.CONNACK, name)

    def text(mqtt):
        return problems.connection_refused(reason, mqtt, "edge-tvbo-lab", name).text

    assert text(own) == text(replace(own, readonly=None))
    keys = "check mqtt.readonly.username and mqtt.readonly.password_file"
    assert text(own.for_readers()).endswith(keys)
