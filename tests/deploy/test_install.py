"""Installer, container and add-on; deploy/README.md lists what was never run."""

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import chdir, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path, PurePath
from threading import Thread
from zipfile import ZipFile

import pytest
from support.pages import sections
from support.paths import DEPLOY, TESTS

from edge_tvbo import __version__
from edge_tvbo.cli.settings import settings_of
from edge_tvbo.errors import ConfigError

INSTALL = DEPLOY / "install.sh"
ADD_ON = DEPLOY / "home-assistant-addon"
CONTAINER = sections((DEPLOY / "README.md").read_text(), 2)["In a container"]
EMULATED = DEPLOY / "arm64" / "run.sh"
SCRIPTS = [
    INSTALL,
    DEPLOY / "docker" / "start",
    ADD_ON / "run.sh",
    DEPLOY / "debian" / "postinst",
    *(DEPLOY / "arm64").glob("*.sh"),
]
TIMEOUT_S = 880  # twenty times as long as installing and upgrading take on an idle machine


def output_of(*command, status=0, **environment):
    """Return the output of a command, whose exit status is `status`."""
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=os.environ | environment,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


# --- the script ---------------------------------------------------------------------------------


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_is_posix(script):
    assert os.access(script, os.X_OK)
    assert output_of("sh", "-n", script) == ""
    if shellcheck := shutil.which("shellcheck"):
        assert output_of(shellcheck, script) == ""


READING = ("dirname", "find", "getconf", "id", "sort", "tail")
# Commands that the script may find in /usr/sbin and /sbin, and `systemctl`, which also reads:
REPLACED = ("apt-get", "systemctl", "useradd", "userdel")


@pytest.fixture
def reading_path(tmp_path):
    """Return a PATH whose commands change nothing; without any other command, a script ends."""
    path = tmp_path / "bin"
    path.mkdir()
    programs = {name: f'exec {shutil.which(name)} "$@"' for name in READING}
    programs["python3"] = f'exec {sys.executable} "$@"'
    programs |= dict.fromkeys(REPLACED, '[ "$1" = is-active ]')
    for name, program in programs.items():
        (path / name).write_text(f"#!/bin/sh\n{program}\n")
        (path / name).chmod(0o755)
    return str(path)


def test_a_dry_run_prints_each_command_and_runs_none(tmp_path, reading_path):
    words = (INSTALL, "--dry-run", "--wheels", tmp_path, "--with-mosquitto")
    lines = output_of(*words, PATH=reading_path).splitlines()

    commands = [line for line in lines if line.startswith("+ ")]
    for word in (
        "venv",
        "--no-index",
        "config.example.toml",
        "precompile",
        "edge-tvbo.service",
        "mosquitto",
    ):
        assert any(word in command for command in commands), word
    output_of(INSTALL, "uninstall", "--purge", "--dry-run", PATH=reading_path)


def test_the_service_has_no_configuration_before_the_owner_writes_it(tmp_path, reading_path):
    """A reboot before that would start the service with the sensors of the example."""
    lines = output_of(INSTALL, "--dry-run", "--wheels", tmp_path, PATH=reading_path).splitlines()

    unit = (DEPLOY / "edge-tvbo.service").read_text()
    assert "\nConditionPathExists=/etc/edge-tvbo/config.toml\n" in unit
    named = [line.strip() for line in lines if line.endswith("/etc/edge-tvbo/config.toml")]
    assert named == ["cp /etc/edge-tvbo/config.example.toml /etc/edge-tvbo/config.toml"]


@pytest.mark.parametrize("mistake", [["--wheels", "/nowhere"], ["--purge"], ["uninstal"]])
def test_an_invalid_command_line_changes_nothing(mistake):
    assert "install.sh: " in output_of(INSTALL, "--dry-run", *mistake, status=1)


def test_the_newest_wheel_is_installed(tmp_path):
    for version in ("0.10.0", "0.9.0"):
        (tmp_path / f"edge_tvbo-{version}-py3-none-any.whl").touch()

    text = output_of(INSTALL, "--dry-run", "--wheels", tmp_path)

    assert "edge_tvbo-0.10.0-" in text and "edge_tvbo-0.9.0-" not in text


def test_the_emulated_pi_prints_its_options_and_rejects_unknown_ones():
    """The emulation itself is `make test-arm64`: it takes long and needs root."""
    for option in ("--suite", "--board", "--mem", "--state"):
        assert option in output_of(EMULATED, "--help")
    for mistake in (["--sweet", "bookworm"], ["--suite", "sid", "true"], ["--mem"], []):
        assert "run.sh: " in output_of(EMULATED, *mistake, status=1)


COLLECT_WITHOUT_XDIST = """
import sys
sys.modules["xdist"] = None
import pytest
plugins = ["-p", "pytest_timeout", "-p", "_hypothesis_pytestplugin"]
sys.exit(pytest.main(["--collect-only", "-qq", *plugins, *sys.argv[1:]]))
"""


def test_the_tests_that_run_on_the_emulated_pi_need_no_xdist():
    chosen = re.search('^tests="(.*?)"$', EMULATED.with_name("test.sh").read_text(), re.M | re.S)

    with chdir(TESTS.parent):
        listed = output_of(
            *(sys.executable, "-c", COLLECT_WITHOUT_XDIST, *chosen[1].split()),
            PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
        )

    assert len(listed.split()) >= len(chosen[1].split())


def test_the_installer_and_the_unit_use_the_same_cache_user_and_processor_name():
    unit = (DEPLOY / "edge-tvbo.service").read_text()
    script = INSTALL.read_text()

    assert "NUMBA_CACHE_DIR=%C/edge-tvbo\n" in unit and "cache=/var/cache/edge-tvbo\n" in script
    assert "NUMBA_CPU_NAME=generic\n" in unit and "NUMBA_CPU_NAME=generic " in script
    assert "\nUser=edge-tvbo\n" in unit and "\nuser=edge-tvbo\n" in script


INSTALL_TWICE = """
systemctl() { echo "systemctl $*"; }
systemd_runs() { :; }
restart() { echo restart; }
run() { "$@"; }
install_unit
install_unit
"""


def test_an_upgrade_does_not_enable_a_service_that_was_disabled(tmp_path):
    function = re.search(r"^install_unit\(\) \{\n(?s:.*?)^\}\n", INSTALL.read_text(), re.MULTILINE)
    script = f"set -eu\nunit={tmp_path}/unit here={DEPLOY}\n{function[0]}{INSTALL_TWICE}"

    asked = output_of("sh", "-c", script).splitlines()

    once = ["systemctl daemon-reload", "systemctl enable edge-tvbo", "restart"]
    assert asked == [*once, once[0], once[2]]


LIFE_CYCLE = r"""
set -eu
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o lowerdir=/,upperdir="$1/upper",workdir="$1/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
exec chroot "$1/root" /usr/bin/env -i PIP_COMPILE=0 PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -euc '
    install=$1
    wheels=$2
    newer=$3
    python=$4
    mkdir -p /run/systemd/system
    rm -f /usr/bin/systemctl
    printf "#!/bin/sh\necho \$* >>/asked\n" >/usr/bin/systemctl
    printf "[ is-active != \$1 ] || test -e /active" >>/usr/bin/systemctl
    chmod 755 /usr/bin/systemctl
    umask 077
    python3 -m venv --without-pip /opt/edge-tvbo # as an interrupted installation leaves it
    PATH=/usr/bin:/bin "$install" --wheels "$wheels" # the PATH of su
    umask 022
    PYTHONPATH=$5 "$python" -c "import sys; from pathlib import Path
from support.installation import add_bytecode; add_bytecode(Path(sys.argv[1]))" /opt/edge-tvbo/bin
    grep ConditionPathExists= /etc/systemd/system/edge-tvbo.service
    test ! -e /etc/edge-tvbo/config.toml && echo "no configuration"
    cp /etc/edge-tvbo/config.example.toml /etc/edge-tvbo/config.toml
    grep -q "^dir = ./var/lib/edge-tvbo" /etc/edge-tvbo/config.toml
    sed -i -e "/^policy = /s/auto/random/" -e "s/ length_scale = [0-9.]*,//" \
        -e "s/matern-5.2/exchangeable/" /etc/edge-tvbo/config.toml
    echo "# ours" >>/etc/edge-tvbo/config.toml
    setpriv --reuid edge-tvbo --regid edge-tvbo --clear-groups env -i PATH=/usr/bin:/bin \
        NUMBA_CACHE_DIR=/var/cache/edge-tvbo NUMBA_CPU_NAME=generic \
        /opt/edge-tvbo/bin/edge-tvbo run /etc/edge-tvbo/config.toml &
    daemon=$!
    until test -s /var/lib/edge-tvbo/lab.state; do kill -0 "$daemon"; sleep 0.1; done
    sleep 1
    kill "$daemon"
    wait "$daemon"
    chmod -R go= /opt/edge-tvbo # as of an installation with this umask
    "$install" --wheels "$newer"
    /opt/edge-tvbo/bin/edge-tvbo --version
    touch /active
    "$install" --wheels "$newer" --dry-run
    tail -n 1 /etc/edge-tvbo/config.toml
    echo "enabled $(grep -c ^enable /asked) times, loaded $(grep -c daemon-reload /asked) times"
    "$install" uninstall
    test -e /var/lib/edge-tvbo/lab.state
    "$install" uninstall --purge
    find /opt /etc /var/lib /var/cache -name "*edge-tvbo*"
    ! id edge-tvbo 2>/dev/null
' sh "$2" "$3" "$4" "$5" "$6"
"""
NEWER = "999.0"
# Modules with the kernels of the wheels: all would compile for twelve seconds.
OF_RANDOM = ("acquisition",)  # those of a daemon with the policy `random`
OF_NEWER = ("change_point",)


def build_wheel(sources, directory):
    """Build the wheel of `sources` in `directory`; return its name."""
    code = "import sys, hatchling.build as b; print(b.build_wheel(sys.argv[1]))"
    with chdir(sources):
        return output_of(sys.executable, "-c", code, directory, EDGE_TVBO_KERNELS="").split()[-1]


def compile_only(modules, sources):
    """Let `precompile` of the package in `sources` compile the kernels of these modules only."""
    with (sources / "edge_tvbo" / "numerics" / "compiled.py").open("a") as file:
        file.write(f"MODULES = {modules}\n")


def build_newer_wheel(sources, directory):
    """Build a wheel of the version `NEWER` from `sources`, which are changed, in `directory`."""
    project = sources / "pyproject.toml"
    project.write_text(project.read_text().replace(f'"{__version__}"', f'"{NEWER}"'))
    with (sources / "edge_tvbo" / "__init__.py").open("a") as file:
        file.write(f'__version__ = "{NEWER}"')
    compile_only(OF_NEWER, sources)
    build_wheel(sources, directory)


@pytest.mark.timeout(TIMEOUT_S + 20)
def test_install_run_upgrade_and_uninstall_work_on_a_copy_of_this_machine(tmp_path):
    """Everything but systemd, whose systemctl does nothing there; all writes are discarded.

    The second installation is of a newer version. systemctl reports a running daemon only after it.
    The wheels compile only some of the kernels, and the daemon's policy needs no others;
    test_wheel.py checks that `precompile` leaves none out, with the policy of the example.

    pip does not compile all modules to bytecode, which takes longer than all else. The service may
    not write there, so after the first installation bytecode is added as pip would have done.
    """
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("this test needs root and mount namespaces")
    if not Path("/usr/bin/python3").exists():
        pytest.skip("this test needs the python3 of the system")
    wheels, sources = tmp_path / "wheels", tmp_path / "sources"
    copied(DEPLOY / "docker" / "Dockerfile", DEPLOY.parent, sources)
    compile_only(OF_RANDOM, sources)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "-w", wheels]
    output_of(*pip, f"{sources}[metrics]")
    version = "import sys; print(sys.version_info[:2])"
    if output_of("/usr/bin/python3", "-c", version) != output_of(sys.executable, "-c", version):
        pytest.skip("the wheels of this Python do not fit the system's")
    for name in ("copy", "newer"):
        (tmp_path / name).mkdir()
    build_newer_wheel(sources, tmp_path / "newer")

    words = (tmp_path / "copy", INSTALL, wheels, tmp_path / "newer", sys.executable, TESTS)
    text = output_of("unshare", "-m", "sh", "-c", LIFE_CYCLE, "sh", *words)

    assert text.count("The kernels are in numba's cache: compiled") == 2  # and again after upgrade
    assert f"\nedge-tvbo, version {NEWER}\n" in text
    assert "INFO ready: 3 sensors" in text and "INFO compiled" not in text
    assert "ConditionPathExists=/etc/edge-tvbo/config.toml\nno configuration\n" in text
    assert "/etc/edge-tvbo/config.toml is kept" in text and "\n# ours\n" in text
    assert re.findall("^(Installed|Upgraded)", text, re.M) == ["Installed", "Installed", "Upgraded"]
    assert " systemctl restart" not in text
    assert "\nenabled 1 times, loaded 2 times\n" in text  # an upgrade keeps what was disabled
    assert "Traceback" not in text
    after = text.rpartition("A broker and the files in /etc/mosquitto are kept.\n")[2]
    assert "edge-tvbo" not in after.replace("id: ‘edge-tvbo’", "")


# --- containers ---------------------------------------------------------------------------------


def rules(path):
    lines = path.read_text().splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def test_the_broker_in_a_container_differs_from_the_gateway_by_its_address_only():
    gateway, container = rules(DEPLOY / "mosquitto.conf"), rules(DEPLOY / "docker/mosquitto.conf")

    assert gateway - container == {"listener 1883 127.0.0.1"}
    assert container - gateway == {"listener 1883"}


def copied(dockerfile, source, target):
    """Do what the COPY lines of the first stage do, from `source` to `target`, without Docker."""
    stage = dockerfile.read_text().split("\nFROM ")[1]
    for line in re.findall("^COPY (.+)$", stage, re.MULTILINE):
        *paths, to = line.split()
        for path in paths:
            if (source / path).is_dir():  # Docker copies the contents of a directory
                shutil.copytree(source / path, target / to, dirs_exist_ok=True)
            else:
                (target / to).mkdir(parents=True, exist_ok=True)
                shutil.copy(source / path, target / to)


def test_the_image_copies_all_files_that_its_wheel_needs(tmp_path):
    copied(DEPLOY / "docker" / "Dockerfile", DEPLOY.parent, tmp_path / "src")

    name = build_wheel(tmp_path / "src", tmp_path)

    with ZipFile(tmp_path / name) as wheel:
        names = {PurePath(each).name for each in wheel.namelist()}
    fleet = {path.name for path in (DEPLOY / "fleet").iterdir()}
    assert name.endswith("-py3-none-any.whl")
    assert {"config.example.toml", "link.py", "acl"} | fleet <= names


def test_the_container_is_not_root_and_checks_its_health_without_further_programs():
    text = (DEPLOY / "docker" / "Dockerfile").read_text()

    final = text.rpartition("\nFROM ")[2]
    assert "\nUSER 10001\n" in final and "apt-get" not in text
    assert '/opt/edge-tvbo/bin/python", "-c"' in final and "/healthz" in final


def test_the_files_of_the_broker_belong_to_it(tmp_path):
    """mosquitto 2.0.21 and later warn of another owner or group, and of files that all can read."""
    installed = output_of(INSTALL, "--dry-run", "--wheels", tmp_path, "--with-mosquitto")
    assert "chown mosquitto:mosquitto /etc/mosquitto/acl /etc/mosquitto/passwords\n" in installed
    assert "install -m 600 ../acl acl\n" in CONTAINER
    assert "chown 1883:1883 acl passwords\n" in CONTAINER
    compose = (DEPLOY / "docker" / "compose.yaml").read_text()
    assert "./acl:/etc/mosquitto/acl:ro\n" in compose
    assert "./passwords:/etc/mosquitto/passwords:ro\n" in compose


def test_commands_in_a_container_have_a_login_of_their_own(tmp_path):
    """With the login of the daemon, `status` would disconnect the daemon."""
    block = re.search(r"Set in `config.toml`:\n\n((?:    .*\n|\n)+)", CONTAINER)[1]
    example = (DEPLOY / "config.example.toml").read_text()
    path = tmp_path / "config.toml"
    path.write_text(re.sub("^    ", "", block, flags=re.M) + example[example.index("\n[fields.") :])
    for name in re.findall(r"file: \./(\S+)", (DEPLOY / "docker" / "compose.yaml").read_text()):
        assert f"/dev/stdin {name} " in CONTAINER
        (tmp_path / name).write_text("secret\n")
    mqtt = settings_of(path).mqtt
    assert (mqtt.username, mqtt.for_readers().username) == ("edge-tvbo", "watcher")
    for login in ("edge-tvbo", "watcher"):
        assert re.search(rf"mosquitto_passwd .*/here/passwords {login}$", CONTAINER, re.M)


def test_the_page_says_that_the_dockerfile_needs_buildkit():
    dockerfile = (DEPLOY / "docker" / "Dockerfile").read_text()
    assert re.search("^COPY .*--chmod=", dockerfile, re.M), "only BuildKit knows this option"
    assert "DOCKER_BUILDKIT=1" in CONTAINER


def start_of_the_container(directory, program):
    """Return the script that starts a container, with the lines of `program` as edge-tvbo."""
    path, kernels = directory / "program", directory / "kernels"
    path.write_text(f"#!/bin/sh\n{program}\n")
    path.chmod(0o755)
    kernels.mkdir()
    script = (DEPLOY / "docker" / "start").read_text()
    script = script.replace("/opt/edge-tvbo/bin/edge-tvbo", str(path))
    return script.replace("/opt/edge-tvbo/kernels", str(kernels))


def test_a_container_with_an_invalid_configuration_waits(tmp_path):
    """Docker would restart a container that ends, for ever."""
    config = tmp_path / "config.toml"
    config.write_text("instance = 3\n")
    script = start_of_the_container(tmp_path, f'exec {sys.executable} -m edge_tvbo "$@"')
    command = ["sh", "-c", script, "start", "run", str(config)]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        try:
            assert any("then restart the container" in line for line in process.stderr)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.5)
        finally:
            os.killpg(process.pid, signal.SIGTERM)
    assert process.returncode == 78


@pytest.mark.timeout(20)
@pytest.mark.parametrize("words", ["run {}", "run --log-format json {}", "run {} --verbose"])
def test_a_container_checks_its_configuration_among_options(tmp_path, words):
    config = tmp_path / "config.toml"
    config.touch()
    program = f'echo "$*"; [ $1 = run ] || [ "$*" = "check {config}" ]'
    script = start_of_the_container(tmp_path, program)
    command = words.format(config)

    text = output_of(
        "sh", "-c", script, "start", *command.split(), NUMBA_CACHE_DIR=str(tmp_path / "cache")
    )

    assert text.splitlines() == [f"check {config}", command]


@pytest.mark.parametrize("words", ["run {}", "run {} --log-format json", "run --verbose {}"])
def test_a_container_names_its_configuration_if_it_is_missing(tmp_path, words):
    config = tmp_path / "config.toml"
    program = f'echo "$*"; [ "$*" != "check {config}" ] || kill -TERM $PPID'
    script = start_of_the_container(tmp_path, program)
    command = ["sh", "-c", script, "start", *words.format(config).split()]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert done.stdout == f"check {config}\n"


# --- Home Assistant -----------------------------------------------------------------------------

OPTIONS = {
    "instance": "home",
    "field": "temperature",
    "unit": "°C",
    "objective": "min",
    "interval": "15min",
    "mean": 20,
    "spread": 3.0,
    "length_scale": 6.0,
    "topic": "zigbee2mqtt/{sensor}",
    "payload": "zigbee2mqtt",
    "sensors": [{"id": "hall"}, {"id": "attic"}],
}


@contextmanager
def supervisor(**service):
    """Run a fake of Home Assistant's Supervisor, which knows the broker's login."""

    class Reply(BaseHTTPRequestHandler):
        def do_GET(self):
            known = self.headers["Authorization"] == "Bearer t0ken"
            self.send_response(200 if known and self.path == "/services/mqtt" else 403)
            self.end_headers()
            self.wfile.write(json.dumps({"result": "ok", "data": service}).encode())

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Reply) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def configured(directory, options, status=0, **service):
    """Return the output of configure.py with these options and a faked Supervisor."""
    (directory / "options.json").write_text(json.dumps(options))
    login = {"host": "core-mosquitto", "port": 1883, "username": "addons", "password": 'a"b'}
    with supervisor(**login | service) as address:
        return output_of(
            sys.executable,
            ADD_ON / "configure.py",
            status=status,
            OPTIONS=str(directory / "options.json"),
            TMPDIR=str(directory),
            SUPERVISOR=address,
            SUPERVISOR_TOKEN="t0ken",
        ).strip()


@pytest.mark.parametrize("places", [({}, {}), ({"x": 0, "y": 1.5}, {"x": 3.0, "y": 0})])
def test_the_options_of_the_add_on_give_a_valid_configuration_with_a_faked_supervisor(
    tmp_path, places
):
    sensors = [each | place for each, place in zip(OPTIONS["sensors"], places, strict=True)]

    path = Path(configured(tmp_path, OPTIONS | {"sensors": sensors}))
    settings = settings_of(path)

    field = settings.fields["temperature"]
    assert (settings.instance, field.unit) == ("home", "°C")
    assert (field.objective, field.interval_s, field.kernel.mean) == ("min", 900, 20)
    assert (field.reading.topic, field.reading.payload) == ("zigbee2mqtt/{sensor}", "zigbee2mqtt")
    assert (settings.mqtt.host, settings.mqtt.username) == ("core-mosquitto", "addons")
    assert (path.parent / "mqtt.password").read_text() == 'a"b'
    assert field.sensors == ("hall", "attic") and field.kernel.variance == 9.0
    assert field.kernel.name == ("matern-5/2" if places[0] else "exchangeable")
    assert field.kernel.length_scale == (6.0 if places[0] else None)
    assert field.activate.mode == "advise"


@pytest.mark.parametrize("placed", [False, True])
def test_the_add_on_accepts_the_names_that_zigbee2mqtt_uses_with_a_faked_supervisor(
    tmp_path, placed
):
    names = {"Kuche": "Küche", "Entrance-hall": "Entrance hall", "attic": "attic"}
    places = {id: (float(number), 0.5) for number, id in enumerate(names)} if placed else {}
    sensors = [{"id": names[id], "x": x, "y": y} for id, (x, y) in places.items()]
    sensors = sensors or [{"id": name} for name in names.values()]

    field = settings_of(Path(configured(tmp_path, OPTIONS | {"sensors": sensors}))).fields[
        "temperature"
    ]

    assert field.sensors == tuple(names)
    assert {id: field.names.get(id, id) for id in field.sensors} == names
    assert (field.positions or {}) == places


def test_a_sensor_keeps_its_id_when_others_are_removed_with_a_faked_supervisor(tmp_path):
    def id_of(name, *names):
        path = configured(tmp_path, OPTIONS | {"sensors": [{"id": each} for each in names]})
        field = settings_of(Path(path)).fields["temperature"]
        return next(id for id in field.sensors if field.names.get(id, id) == name)

    before = id_of("Зал", "Кухня", "Зал", "Küche")
    assert id_of("Зал", "Зал", "Сад", "Kuche") == before
    assert id_of("Küche", "Kuche", "Küche") == "Kuche"


@pytest.mark.parametrize("name", ["hall", "Küche"])
def test_the_add_on_rejects_a_sensor_that_is_listed_twice_with_a_faked_supervisor(tmp_path, name):
    path = Path(configured(tmp_path, OPTIONS | {"sensors": [{"id": name}, {"id": name}]}))

    with pytest.raises(ConfigError, match="sensors"):
        settings_of(path)


@pytest.mark.parametrize("value", [{}, {"value": "humidity"}])
def test_the_add_on_reads_the_value_that_the_user_names_with_a_faked_supervisor(tmp_path, value):
    settings = settings_of(Path(configured(tmp_path, OPTIONS | value)))

    assert settings.fields["temperature"].reading.settings == value


def test_a_broker_with_tls_gets_a_tls_configuration_with_a_faked_supervisor(tmp_path):
    assert settings_of(Path(configured(tmp_path, OPTIONS, ssl=True, port=8883))).mqtt.tls


def test_the_add_on_uses_the_configuration_file_of_the_user_with_a_faked_supervisor(tmp_path):
    named = OPTIONS | {"config_file": "mine.toml"}

    assert configured(tmp_path, named) == "/config/mine.toml"


def test_the_add_on_without_sensors_reports_that_with_a_faked_supervisor(tmp_path):
    assert "There are no sensors" in configured(tmp_path, OPTIONS | {"sensors": []}, status=1)


def test_the_script_reads_every_option_of_the_add_on():
    if importlib.util.find_spec("yaml") is None:
        pytest.skip("this test needs PyYAML")
    import yaml

    described = yaml.safe_load((ADD_ON / "config.yaml").read_text())

    assert {*described["schema"]} == {*OPTIONS, "value", "config_file"}
    assert {*described["options"]} == {*OPTIONS}
    assert described["options"]["payload"] in described["schema"]["payload"]
    assert "[HOST]" in described["watchdog"] and described["services"] == ["mqtt:need"]
