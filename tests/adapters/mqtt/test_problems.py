"""Connection problems: the texts that depend on where the client runs."""

import pytest
from edge_tvbo_adapters.mqtt import problems

from edge_tvbo.config.mqtt_settings import Mqtt


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
