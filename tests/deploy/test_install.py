"""The installation as a gateway's owner meets it; deploy/README.md names what was never tried."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import chdir, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path, PurePath
from threading import Thread
from zipfile import ZipFile

import pytest
from support.paths import DEPLOY

from edge_tvbo.cli.options import settings_of

INSTALL = DEPLOY / "install.sh"
ADD_ON = DEPLOY / "home-assistant-addon"
EMULATED = DEPLOY / "arm64" / "run.sh"
SCRIPTS = [
    INSTALL,
    DEPLOY / "docker" / "start",
    ADD_ON / "run.sh",
    *(DEPLOY / "arm64").glob("*.sh"),
]


def said(*command, status=0, **environment):
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=280,
        env=os.environ | environment,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


# --- the script ---------------------------------------------------------------------------------


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_is_posix(script):
    assert os.access(script, os.X_OK)
    assert said("sh", "-n", script) == ""
    if shellcheck := shutil.which("shellcheck"):
        assert said(shellcheck, script) == ""


def test_a_rehearsal_says_each_command_and_carries_out_none(tmp_path):
    lines = said(INSTALL, "--dry-run", "--wheels", tmp_path, "--with-mosquitto").splitlines()

    commands = [line for line in lines if line.startswith("+ ")]
    for word in (
        "venv",
        "--no-index",
        "config.toml",
        "precompile",
        "edge-tvbo.service",
        "mosquitto",
    ):
        assert any(word in command for command in commands), word
    assert not Path("/opt/edge-tvbo").exists()


@pytest.mark.parametrize("mistake", [["--wheels", "/nowhere"], ["--purge"], ["uninstal"]])
def test_a_mistake_on_the_command_line_changes_nothing(mistake):
    assert "install.sh: " in said(INSTALL, "--dry-run", *mistake, status=1)


def test_the_emulated_pi_says_what_it_takes_and_refuses_what_it_does_not_know():
    """Emulation itself is `make test-arm64`, for it takes long and wants root."""
    for option in ("--suite", "--board", "--mem", "--state"):
        assert option in said(EMULATED, "--help")
    for mistake in (["--sweet", "bookworm"], ["--suite", "sid", "true"], ["--mem"], []):
        assert "run.sh: " in said(EMULATED, *mistake, status=1)


def test_the_kernels_are_compiled_for_the_unit_and_where_it_looks():
    unit = (DEPLOY / "edge-tvbo.service").read_text()
    script = INSTALL.read_text()

    assert "NUMBA_CACHE_DIR=%C/edge-tvbo\n" in unit and "cache=/var/cache/edge-tvbo\n" in script
    assert "NUMBA_CPU_NAME=generic\n" in unit and "NUMBA_CPU_NAME=generic " in script
    assert "\nUser=edge-tvbo\n" in unit and "\nuser=edge-tvbo\n" in script


LIFE = """
set -eu
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o lowerdir=/,upperdir="$1/upper",workdir="$1/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
exec chroot "$1/root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -euc '
    install=$1
    wheels=$2
    "$install" --wheels "$wheels"
    grep -q "^dir = ./var/lib/edge-tvbo" /etc/edge-tvbo/config.toml
    echo "# ours" >>/etc/edge-tvbo/config.toml
    setpriv --reuid edge-tvbo --regid edge-tvbo --clear-groups env -i PATH=/usr/bin:/bin \
        NUMBA_CACHE_DIR=/var/cache/edge-tvbo NUMBA_CPU_NAME=generic \
        /opt/edge-tvbo/bin/edge-tvbo run /etc/edge-tvbo/config.toml &
    daemon=$!
    until test -s /var/lib/edge-tvbo/lab.state; do kill -0 "$daemon"; sleep 0.1; done
    sleep 1
    kill "$daemon"
    wait "$daemon"
    "$install" --wheels "$wheels"
    tail -n 1 /etc/edge-tvbo/config.toml
    "$install" uninstall
    test -e /var/lib/edge-tvbo/lab.state
    "$install" uninstall --purge
    find /opt /etc /var/lib /var/cache -name "*edge-tvbo*"
    ! id edge-tvbo 2>/dev/null
' sh "$2" "$3"
"""


def test_installed_run_upgraded_and_removed_on_a_copy_of_this_machine(tmp_path):
    """Everything but systemd, which does not run in one; what is written there is forgotten."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("this test wants to be root, and mount namespaces")
    if not Path("/usr/bin/python3").exists():
        pytest.skip("this test wants the system's own python3")
    wheels = tmp_path / "wheels"
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "-w", wheels]
    said(*pip, f"{DEPLOY.parent}[metrics]")
    version = "import sys; print(sys.version_info[:2])"
    if said("/usr/bin/python3", "-c", version) != said(sys.executable, "-c", version):
        pytest.skip("the wheels of this Python do not fit the system's")
    (tmp_path / "copy").mkdir()

    text = said("unshare", "-m", "sh", "-c", LIFE, "sh", tmp_path / "copy", INSTALL, wheels)

    assert text.count("The kernels are in numba's cache: compiled") == 2  # and again after upgrade
    assert "INFO ready: 3 sensors" in text and "INFO compiled" not in text
    assert "/etc/edge-tvbo/config.toml is kept" in text and "\n# ours\n" in text
    assert "Traceback" not in text
    after = text.rpartition("A broker, and what is in /etc/mosquitto, is left alone.\n")[2]
    assert "edge-tvbo" not in after.replace("id: ‘edge-tvbo’", "")


# --- containers ---------------------------------------------------------------------------------


def rules(path):
    lines = path.read_text().splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def test_the_broker_in_a_container_has_the_gateways_rules_but_for_the_address():
    gateway, container = rules(DEPLOY / "mosquitto.conf"), rules(DEPLOY / "docker/mosquitto.conf")

    assert gateway - container == {"listener 1883 127.0.0.1"}
    assert container - gateway == {"listener 1883"}


def copied(dockerfile, source, target):
    """Carry out the COPY lines of the first stage, from `source` to `target`, without Docker."""
    stage = dockerfile.read_text().split("\nFROM ")[1]
    for line in re.findall("^COPY (.+)$", stage, re.MULTILINE):
        *paths, to = line.split()
        for path in paths:
            if (source / path).is_dir():  # Docker takes what is in a folder, not the folder
                shutil.copytree(source / path, target / to, dirs_exist_ok=True)
            else:
                (target / to).mkdir(parents=True, exist_ok=True)
                shutil.copy(source / path, target / to)


def test_the_image_copies_all_that_its_wheel_is_built_from(tmp_path):
    copied(DEPLOY / "docker" / "Dockerfile", DEPLOY.parent, tmp_path / "src")
    built = "import sys, hatchling.build as b; print(b.build_wheel(sys.argv[1]))"

    with chdir(tmp_path / "src"):
        name = said(sys.executable, "-c", built, tmp_path, EDGE_TVBO_KERNELS="").split()[-1]

    with ZipFile(tmp_path / name) as wheel:
        names = {PurePath(each).name for each in wheel.namelist()}
    fleet = {path.name for path in (DEPLOY / "fleet").iterdir()}
    assert name.endswith("-py3-none-any.whl")
    assert {"config.example.toml", "link.py", "acl"} | fleet <= names


def test_the_container_is_not_root_and_looks_after_its_health_without_further_programs():
    text = (DEPLOY / "docker" / "Dockerfile").read_text()

    final = text.rpartition("\nFROM ")[2]
    assert "\nUSER 10001\n" in final and "apt-get" not in text
    assert '/opt/edge-tvbo/bin/python", "-c"' in final and "/healthz" in final


# --- Home Assistant -----------------------------------------------------------------------------

OPTIONS = {
    "instance": "home",
    "field": "temperature",
    "unit": "°C",
    "objective": "max",
    "interval": "10min",
    "mean": 20,
    "spread": 3.0,
    "length_scale": 6.0,
    "topic": "zigbee2mqtt/{sensor}",
    "payload": "zigbee2mqtt",
    "sensors": [{"id": "hall"}, {"id": "attic"}],
}


@contextmanager
def supervisor(**service):
    """Stand in for Home Assistant's Supervisor, which gives an add-on the broker's login."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            known = self.headers["Authorization"] == "Bearer t0ken"
            self.send_response(200 if known and self.path == "/services/mqtt" else 403)
            self.end_headers()
            self.wfile.write(json.dumps({"result": "ok", "data": service}).encode())

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def configured(directory, options, status=0, **service):
    """Give what configure.py said, with these options and a faked Supervisor."""
    (directory / "options.json").write_text(json.dumps(options))
    login = {"host": "core-mosquitto", "port": 1883, "username": "addons", "password": 'a"b'}
    with supervisor(**login | service) as address:
        return said(
            sys.executable,
            ADD_ON / "configure.py",
            status=status,
            OPTIONS=str(directory / "options.json"),
            TMPDIR=str(directory),
            SUPERVISOR=address,
            SUPERVISOR_TOKEN="t0ken",
        ).strip()


@pytest.mark.parametrize("places", [({}, {}), ({"x": 0, "y": 1.5}, {"x": 3.0, "y": 0})])
def test_the_add_ons_options_make_a_good_configuration_with_a_faked_supervisor(tmp_path, places):
    sensors = [each | place for each, place in zip(OPTIONS["sensors"], places, strict=True)]

    path = Path(configured(tmp_path, OPTIONS | {"sensors": sensors}))
    settings = settings_of(path)

    field = settings.fields["temperature"]
    assert (settings.mqtt.host, settings.mqtt.username) == ("core-mosquitto", "addons")
    assert (path.parent / "mqtt.password").read_text() == 'a"b'
    assert field.sensors == ("hall", "attic") and field.kernel.variance == 9.0
    assert field.kernel.name == ("matern-5/2" if places[0] else "exchangeable")
    assert field.activate.mode == "advise"


def test_an_encrypted_broker_is_spoken_to_so_with_a_faked_supervisor(tmp_path):
    assert settings_of(Path(configured(tmp_path, OPTIONS, ssl=True, port=8883))).mqtt.tls


def test_the_add_on_takes_a_configuration_of_ones_own_with_a_faked_supervisor(tmp_path):
    named = OPTIONS | {"config_file": "mine.toml"}

    assert configured(tmp_path, named) == "/config/mine.toml"


def test_the_add_on_without_sensors_says_what_is_missing_with_a_faked_supervisor(tmp_path):
    assert "Name the sensors" in configured(tmp_path, OPTIONS | {"sensors": []}, status=1)


def test_every_option_of_the_add_on_is_one_that_the_script_reads():
    if importlib.util.find_spec("yaml") is None:
        pytest.skip("this test wants PyYAML")
    import yaml

    described = yaml.safe_load((ADD_ON / "config.yaml").read_text())

    assert {*described["schema"]} == {*OPTIONS, "config_file"}
    assert {*described["options"]} == {*OPTIONS}
    assert described["options"]["payload"] in described["schema"]["payload"]
    assert "[HOST]" in described["watchdog"] and described["services"] == ["mqtt:need"]
