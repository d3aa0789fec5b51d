"""A changed password: a reload uses it, or says that only a restart can."""

import os
import signal
import socket
from contextlib import closing

import pytest
from support.gateway import Daemon

TIMEOUT_S = 60.0
CONFIG = """\
[mqtt]
port = {port}
username = "edge"
password_file = "mqtt.password"
[fields.hall]
interval = "10min"
kernel = {{ name = "exchangeable", variance = 4.0, noise_variance = 0.04, mean = 20.0 }}
sensors = ["a", "b"]
reading = {{ topic = "hall/{{sensor}}" }}
"""


class Installation:
    """A daemon, its password file, and the socket of a broker that reads only CONNECT packets."""

    def __init__(self, directory, server):
        self.password = directory / "mqtt.password"
        self.password.write_text("first\n")
        self.daemon = Daemon(directory)
        self.daemon.config.write_text(CONFIG.format(port=server.getsockname()[1]))
        self._server = server
        self._accepted = []

    def connect_packet(self):
        """Return the CONNECT packet of the daemon's next connection, which contains its login."""
        sock, _ = self._server.accept()
        self._accepted.append(sock)
        sock.settimeout(TIMEOUT_S)
        return sock.recv(4096)

    def reload(self):
        self.daemon.process.send_signal(signal.SIGHUP)
        self.daemon.wait_for_log("reload: done")

    def close(self):
        self.daemon.close()
        for each in self._accepted:
            each.close()


@pytest.fixture
def installed(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT_S)
        with closing(Installation(tmp_path, server)) as made:
            yield made


@pytest.fixture
def credentials(tmp_path):
    """Return the environment of a service with a copy of the password, as systemd makes it."""
    (tmp_path / "copies").mkdir()
    (tmp_path / "copies" / "mqtt.password").write_text("first\n")
    return os.environ | {"CREDENTIALS_DIRECTORY": str(tmp_path / "copies")}


def test_a_reload_connects_with_the_changed_password(installed):
    installed.daemon.start()
    assert b"first" in installed.connect_packet()
    installed.password.write_text("second\n")
    installed.reload()
    while b"first" in (packet := installed.connect_packet()):
        pass  # of a reconnection before the reload
    assert b"second" in packet


def test_a_reload_says_that_systemd_passes_a_changed_password_only_at_a_restart(
    installed, credentials
):
    installed.daemon.start(env=credentials)
    assert b"first" in installed.connect_packet()
    installed.reload()
    assert b"first" in installed.connect_packet()
    assert "restart" not in installed.daemon.log_text()
    replacement = installed.password.with_suffix(".new")
    replacement.write_text("second\n")
    replacement.replace(installed.password)
    installed.daemon.process.send_signal(signal.SIGHUP)
    installed.daemon.wait_for_log(f"{installed.password} has changed", "systemctl restart")
    assert b"first" in installed.connect_packet()
