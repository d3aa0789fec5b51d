"""Brokers other than mosquitto: RabbitMQ with its MQTT plugin, and aedes on Node.js."""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from support.paths import ROOT
from support.ports import free_port

RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # the script in PATH changes the user
START_TIMEOUT_S = 180.0  # RabbitMQ needs 8 s on a machine without other work
AEDES = ROOT / "build" / "aedes"  # `make test-brokers` installs it
RABBITMQ_CONF = """\
listeners.tcp = none
mqtt.listeners.tcp.1 = 127.0.0.1:{port}
mqtt.allow_anonymous = true
mqtt.default_user = guest
mqtt.default_pass = guest
log.console = true
log.console.level = warning
log.file = false
"""
AEDES_SERVER = """\
import {{ Aedes }} from 'aedes'
import {{ createServer }} from 'node:net'
const broker = await Aedes.createBroker()
createServer(broker.handle).listen({port}, '127.0.0.1')
"""


class OtherBroker:
    """A broker on one port that can be stopped and started again; it keeps no state on disk."""

    def __init__(self, directory):
        self.port = free_port()
        self._directory = directory
        self._log = directory / "log"
        self._process = None

    def missing(self):
        """Return why this broker cannot be started here; None if it can."""
        raise NotImplementedError

    def command(self):
        """Write the broker's files; return its command line and its environment."""
        raise NotImplementedError

    def start(self):
        command, environment = self.command()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                env=os.environ | environment,
                cwd=self._directory,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._accepts():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.1)

    def _accepts(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def stop(self):
        """End the broker and the processes that it has started."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)
            self._process = None


class RabbitMq(OtherBroker):
    """RabbitMQ with its MQTT plugin, as Debian packages it."""

    def missing(self):
        return None if RABBITMQ.exists() else "rabbitmq-server is not installed"

    def command(self):
        directory = self._directory
        (directory / "rabbitmq.conf").write_text(RABBITMQ_CONF.format(port=self.port))
        (directory / "enabled_plugins").write_text("[rabbitmq_mqtt].")
        shutil.rmtree(directory / "mnesia", ignore_errors=True)
        return [str(RABBITMQ)], {
            "HOME": str(directory),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(directory),
            "RABBITMQ_PID_FILE": str(directory / "pid"),
            "RABBITMQ_NODENAME": f"edge-tvbo-{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(free_port()),
        }


class Aedes(OtherBroker):
    """aedes, a broker for Node.js, which other programs embed."""

    def missing(self):
        if not shutil.which("node"):
            return "node is not installed"
        return None if (AEDES / "node_modules/aedes").is_dir() else f"aedes is not in {AEDES}"

    def command(self):
        modules = self._directory / "node_modules"
        modules.is_symlink() or modules.symlink_to(AEDES / "node_modules")
        script = self._directory / "broker.mjs"
        script.write_text(AEDES_SERVER.format(port=self.port))
        return ["node", str(script)], {}
