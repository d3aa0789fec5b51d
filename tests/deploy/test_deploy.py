"""The files of deploy/, as far as they can be tested on a machine without systemd."""

import ctypes
import os
import re
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from edge_tvbo_adapters.dashboard.frames import DashboardField
from edge_tvbo_adapters.dashboard.state import DashboardState
from edge_tvbo_adapters.simulation import local_broker
from jinja2.sandbox import SandboxedEnvironment
from support.paths import DEPLOY
from support.ports import free_port

from edge_tvbo.config import loader
from edge_tvbo.daemon.checkpoint_document import BOOT_VARIABLE

UNIT = DEPLOY / "edge-tvbo.service"
EXPOSURE = 2.0
ANALYZE = shutil.which("systemd-analyze")

needs_systemd = pytest.mark.skipif(not ANALYZE, reason="systemd-analyze is not installed")


@cache
def analyze(*arguments):
    command = [ANALYZE, *arguments, "--no-pager"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def unit_settings(text=None):
    """Return the settings of a unit, by default `UNIT`, each with all of its values."""
    found = {}
    for line in (text or UNIT.read_text()).replace("\\\n", "").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


# --- the unit ---------------------------------------------------------------------------------


@needs_systemd
def test_the_exposure_of_the_unit_is_below_two():
    result = analyze("security", "--offline=true", str(UNIT))

    if "Unknown option" in result.stderr or "unrecognized option" in result.stderr:
        pytest.skip("this systemd-analyze is too old for --offline")
    score = re.search(r"Overall exposure level for .*: ([0-9.]+)", result.stdout)
    print(score[0])
    assert float(score[1]) < EXPOSURE


def test_the_unit_waits_neither_for_the_network_nor_for_the_time():
    """The broker is on this machine; without NTP or a cable, the start would wait for minutes."""
    settings = unit_settings()

    assert settings["After"] == ["mosquitto.service"]
    assert "Wants" not in settings


def test_the_page_has_the_drop_in_of_a_broker_on_another_machine():
    page = (DEPLOY / "README.md").read_text()

    part = page.partition("**A broker on another machine**")[2].partition("\n\n**")[0]
    for line in ("IPAddressAllow=", "Wants=network-online.target", "After=network-online.target"):
        assert line in part


def test_a_reload_of_the_unit_fails_if_the_configuration_is_invalid():
    """systemd runs the commands in this order, until one fails."""
    check, hang_up = unit_settings()["ExecReload"]

    assert check.endswith(" /opt/edge-tvbo/bin/edge-tvbo check /etc/edge-tvbo/config.toml")
    assert not check.startswith("-"), "systemd would ignore the exit status"
    assert " --init-groups " in check, "the daemon may read a TLS key through a group"
    assert hang_up == "kill -HUP $MAINPID"


@needs_systemd
def test_systemd_accepts_the_unit(tmp_path):
    """Only the program itself may be missing here."""
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/edge-tvbo/bin/edge-tvbo", "/bin/true"))
    result = analyze("verify", "--man=no", str(copy))

    if "Failed to" in result.stderr and "manager" in result.stderr:
        pytest.skip("systemd-analyze verify does not work in this container")
    assert (result.returncode, result.stderr) == (0, "")


def test_the_only_exceptions_are_the_two_that_numba_needs():
    settings = unit_settings()

    assert settings["MemoryDenyWriteExecute"] == ["no"]
    assert [name for name, value in settings.items() if value == ["no"]] == [
        "MemoryDenyWriteExecute"
    ]
    assert "NUMBA_CACHE_DIR=%C/edge-tvbo" in settings["Environment"]
    assert settings["CacheDirectory"] == settings["StateDirectory"] == ["edge-tvbo"]
    assert "ReadWritePaths" not in settings


def unit_of_the_package():
    """Return the text of the unit that `build.sh` makes for the Debian package."""
    command = re.search(
        r"^sed -e (?:.+\n)+?(?=.*>.*/edge-tvbo\.service\"$)",
        (DEPLOY / "debian/build.sh").read_text(),
        re.MULTILINE,
    )
    script = f"{command[0]} {shlex.quote(str(UNIT))}"
    return subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout


def test_each_unit_that_hides_the_file_of_the_boot_id_passes_the_boot_id():
    """Without the boot id, the daemon cannot tell a restart from a reboot."""
    texts = [each.read_text() for each in DEPLOY.rglob("*.service")] + [unit_of_the_package()]
    units = [unit_settings(text) for text in texts]

    assert [each["MemoryDenyWriteExecute"] for each in units] == [["no"], ["yes"]]
    assert [each["ProcSubset"] for each in units] == [["pid"]] * 2
    for unit in units:
        assert f"{BOOT_VARIABLE}=%b" in unit["Environment"]


def test_everyone_can_read_the_examples_of_a_package_from_a_private_checkout(tmp_path):
    """`cp` keeps the modes of a checkout that was made with umask 077."""
    text = (DEPLOY / "debian/build.sh").read_text()
    lines = re.search(r'^mkdir -p "\$doc/examples"\n(?s:.*?)(?=^gzip )', text, re.MULTILINE)[0]
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    for each in (tmp_path / "deploy").rglob("*"):
        each.chmod(0o700 if each.is_dir() else 0o600)
    doc = tmp_path / "doc"
    script = f"set -eu; umask 022; here={tmp_path}/deploy/debian doc={doc}\n{lines}"
    subprocess.run(["sh", "-c", script], check=True)

    modes = {each.name: each.stat().st_mode & 0o777 for each in doc.rglob("*")}
    assert modes["config.example.toml"] == modes["central.conf"] == modes["copyright"] == 0o644
    assert modes["fleet"] == modes["examples"] == 0o755


# Hardening lines that belong to the comment above the line before:
CONTINUED = (
    "CacheDirectoryMode=",
    "Environment=NUMBA_CACHE_DIR=",
    "TasksMax=",
    "LimitNOFILE=",
    "AmbientCapabilities=",
    "PrivateTmp=",
    "PrivateDevices=",
    "DevicePolicy=",
    "ProcSubset=",
    "ProtectKernelModules=",
    "ProtectKernelLogs=",
    "ProtectControlGroups=",
    "ProtectClock=",
    "ProtectHostname=",
    "SystemCallArchitectures=",
    "RemoveIPC=",
    "KeyringMode=",
    "IPAddressAllow=",
    "SystemCallFilter=~",
    "SystemCallErrorNumber=",
)


def test_each_hardening_line_has_a_comment_above():
    text = UNIT.read_text().partition("# --- two exceptions")[2].partition("\n[Install]")[0]
    hardening = [
        (above, line)
        for above, line in pairwise(text.splitlines())
        if line and not line.startswith(("#", *CONTINUED))
    ]

    assert len(hardening) > 20
    assert [line for above, line in hardening if not re.match("# (?!---)", above)] == []


def test_systemd_does_not_retry_an_invalid_configuration(tmp_path):
    assert unit_settings()["RestartPreventExitStatus"] == ["78"]
    path = tmp_path / "bad.toml"
    path.write_text("instance = 3\n")

    command = [sys.executable, "-m", "edge_tvbo", "run", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)

    assert done.returncode == 78
    assert "instance is 3" in done.stderr


# --- the system-call filter -------------------------------------------------------------------


def syscalls(name):
    """Return the names of the system calls in one of systemd's sets."""
    shown = analyze("syscall-filter").stdout  # all sets
    found = set()
    for line in re.search(rf"^{name}\n((?: .+\n)+)", shown, re.MULTILINE)[1].splitlines():
        word = line.strip()
        found |= syscalls(word) if word.startswith("@") else {word}
    return {word for word in found if word and not word.startswith("#")}


def filter_of_the_unit():
    allowed = syscalls("@default")
    for value in unit_settings()["SystemCallFilter"]:
        names = set().union(*(syscalls(word) for word in value.lstrip("~").split()))
        allowed = allowed - names if value.startswith("~") else allowed | names
    return allowed | syscalls("@default") | {"execve"}


def refuse_all_but(allowed):
    """Refuse all other system calls to this process and its children; return 0 on success."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_rule_add.argtypes = [ctypes.c_void_p, *[ctypes.c_uint32] * 3]
    library.seccomp_load.argtypes = [ctypes.c_void_p]
    rules = library.seccomp_init(0x00050000 | 1)  # SCMP_ACT_ERRNO(EPERM)
    for name in allowed:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:
            library.seccomp_rule_add(rules, 0x7FFF0000, number, 0)  # SCMP_ACT_ALLOW
    return library.seccomp_load(rules)


def in_a_child(body):
    """Fork, run `body` in the child, and return its exit status."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(body())
        except BaseException:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@needs_systemd
def test_the_daemon_runs_under_the_units_system_call_filter(tmp_path):
    try:
        ctypes.CDLL("libseccomp.so.2")
    except OSError:
        pytest.skip("libseccomp is not installed")
    allowed = filter_of_the_unit()
    assert "read" in allowed and "mount" not in allowed and "setrlimit" not in allowed
    if in_a_child(lambda: -refuse_all_but(allowed)) != 0:
        pytest.skip("this container allows no seccomp filter")
    path = tmp_path / "config.toml"
    example = (DEPLOY / "config.example.toml").read_text().replace("1883", "1")
    policy = '"tv-gp-ucb", epsilon = 0.03'  # its kernels compile quickly
    path.write_text(example.replace('"auto"', policy))
    command = [sys.executable, "-m", "edge_tvbo", "run", str(path)]
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | cache,
        preexec_fn=lambda: refuse_all_but(allowed),
    )
    said = ""
    with process:
        for line in process.stderr:
            said += line
            if "no reading since the start" in line:  # a decision was made
                break
        process.send_signal(signal.SIGTERM)
        said += process.stderr.read()

    assert process.returncode == 0, said
    assert "INFO compiled " in said
    assert "Traceback" not in said


# --- the Debian package -----------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["of install.sh", "masked", "none"])
def test_a_purge_keeps_the_files_of_an_installation_by_install_sh(tmp_path, unit):
    path = tmp_path / "etc/systemd/system/edge-tvbo.service"
    path.parent.mkdir(parents=True)
    if unit == "masked":  # as after apt remove
        path.symlink_to("/dev/null")
    elif unit == "of install.sh":
        shutil.copy(UNIT, path)
    data = [tmp_path / each / "edge-tvbo" for each in ("etc", "var/lib", "var/cache")]
    for each in data:
        each.mkdir(parents=True)
    helper = tmp_path / "bin" / "deb-systemd-helper"
    helper.parent.mkdir()
    helper.write_text(f"#!/bin/sh\necho $1 >>{tmp_path}/helper\n")
    helper.chmod(0o755)
    script = re.sub(r" (?=/(etc|var)/)", f" {tmp_path}", (DEPLOY / "debian/postrm").read_text())

    done = subprocess.run(
        ["sh", "-c", script, "postrm", "purge"],
        env={"PATH": f"{helper.parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )

    is_kept = unit == "of install.sh"
    assert [each.exists() for each in data] == [is_kept] * 3
    assert ("configuration, state and cache are kept" in done.stderr) == is_kept
    # the helper would remove the link by which systemd starts the unit
    assert (tmp_path / "helper").exists() == (not is_kept)


# --- broker and pages ---------------------------------------------------------------------------


def test_the_acl_has_the_topics_of_the_example_configuration():
    settings = loader.load(DEPLOY / "config.example.toml")
    acl = (DEPLOY / "acl").read_text()

    field = settings.fields["temperature"]
    for word, topic in (("read", field.reading.topic), ("write", field.activate.topic)):
        assert f"topic {word} {topic.replace('{sensor}', '+')}\n" in acl
        other = "write" if word == "read" else "read"
        assert f"pattern {other} {topic.replace('{sensor}', '%u')}\n" in acl
    assert f"topic write edge_tvbo/{settings.instance}/#\n" in acl


@pytest.mark.parametrize(
    ("acl", "login", "instance"),
    [("acl", "edge-tvbo", "lab"), ("fleet/shared.acl", "lab-1", "lab-1")],
)
def test_the_login_of_the_daemon_may_read_all_topics_of_the_dashboard(acl, login, instance):
    rules = (DEPLOY / acl).read_text().partition(f"\nuser {login}\n")[2].partition("\nuser ")[0]
    fields = {"+": DashboardField(("a",), "°C", "max", 60.0, None)}

    for topic in DashboardState(instance, fields).topics:
        assert f"topic read {topic}\n" in rules


def test_the_broker_needs_a_login_and_listens_on_loopback_alone():
    lines = (DEPLOY / "mosquitto.conf").read_text().splitlines()
    active = [line for line in lines if line and not line.startswith("#")]

    assert "allow_anonymous false" in active
    assert [line for line in active if line.startswith("listener")] == ["listener 1883 127.0.0.1"]


def commands_in_the_comment(text):
    """Return the commands in the comment at the top of a file."""
    return re.findall(r"^#     (.+)$", text.partition("\n\n")[0], re.MULTILINE)


@pytest.mark.parametrize("name", ["mosquitto.conf", "fleet/central.conf"])
def test_the_commands_of_a_broker_install_all_of_its_files_for_its_user(name):
    """mosquitto reads them after it has become the user mosquitto."""
    text = (DEPLOY / name).read_text()
    commands = "\n".join(commands_in_the_comment(text))

    named = re.findall(r"^(?:password|acl)_file (\S+)$", text, re.MULTILINE)
    assert len(named) == 2
    for each in named:
        assert re.search(rf"^install -m 640 -o mosquitto -g mosquitto \S+ {each}$", commands, re.M)
    assert "broker.key: owner mosquitto, mode 640" in text
    assert f"install -m 644 {Path(name).name} /etc/mosquitto/conf.d/" in commands


def test_no_page_creates_a_password_file_that_only_root_can_read():
    """`mosquitto_passwd -c` of root does."""
    pages = [*DEPLOY.parent.glob("docs/*.md"), *DEPLOY.rglob("*")]
    for page in pages:
        if page.is_file():
            text = page.read_text(errors="replace")
            assert not re.search("mosquitto_passwd.* -c.* /etc/mosquitto/", text), page
    fleet = (DEPLOY.parent / "docs" / "fleet.md").read_text()
    for command in commands_in_the_comment((DEPLOY / "fleet/central.conf").read_text())[:3]:
        assert f"    {command}" in fleet


@pytest.mark.broker
def test_the_broker_reads_the_files_that_the_commands_of_its_configuration_install():
    mosquitto = shutil.which("mosquitto", path="/usr/sbin:/usr/bin")
    if os.geteuid() or not (mosquitto and shutil.which("mosquitto_passwd")):
        pytest.skip("this test needs root, mosquitto and mosquitto_passwd")
    port, text = free_port(), (DEPLOY / "mosquitto.conf").read_text()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)  # pytest's own are closed to the user mosquitto
        (directory / "conf.d").mkdir(mode=0o755)
        for command in commands_in_the_comment(text):
            words = shlex.split(command.replace("/etc/mosquitto", name))
            if words[0] == "mosquitto_passwd":
                words = [words[0], "-b", *words[1:], "a password"]
            subprocess.run(words, cwd=DEPLOY, check=True, umask=0o077)
        conf = directory / "conf.d" / "edge-tvbo.conf"
        text = conf.read_text().replace("listener 1883", f"listener {port}")
        conf.write_text(text.replace("/etc/mosquitto", name))
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen([mosquitto, "-c", conf], stdout=log, stderr=log)
        try:
            local_broker.wait_for(process, port, directory / "log")
        finally:
            process.terminate()
            process.wait(10)


def test_each_listener_of_the_broker_bounds_its_connections():
    """`max_connections` applies only to the listener above it."""
    text = re.sub(r"^#(?=[a-z_]+ )", "", (DEPLOY / "mosquitto.conf").read_text(), flags=re.M)

    _, *listeners = re.split("^listener ", text, flags=re.M)
    assert len(listeners) == 2
    for each in listeners:
        assert re.search("^max_connections [0-9]+$", each, re.M), each


@pytest.mark.broker
def test_the_broker_starts_with_tls_when_its_lines_are_uncommented(tmp_path):
    mosquitto = shutil.which("mosquitto", path="/usr/sbin:/usr/bin")
    if not (mosquitto and shutil.which("openssl")):
        pytest.skip("this test needs mosquitto and openssl")
    (tmp_path / "tls").mkdir()
    key, certificate = tmp_path / "tls" / "broker.key", tmp_path / "tls" / "broker.crt"
    command = shlex.split("openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost")
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    shutil.copy(certificate, tmp_path / "tls" / "ca.crt")
    shutil.copy(DEPLOY / "acl", tmp_path / "acl")
    (tmp_path / "passwords").write_text("")
    plain, encrypted = free_port(), free_port()
    text = re.sub(r"^#(?=[a-z_]+ )", "", (DEPLOY / "mosquitto.conf").read_text(), flags=re.M)
    text = text.replace("listener 1883", f"listener {plain}")
    text = text.replace("listener 8883", f"listener {encrypted} 127.0.0.1")
    conf = tmp_path / "mosquitto.conf"
    conf.write_text(text.replace("/etc/mosquitto", str(tmp_path)) + "user root\n")
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([mosquitto, "-c", conf], stdout=log, stderr=log)
    try:
        local_broker.wait_for(process, encrypted, tmp_path / "log")
        context = ssl.create_default_context(cafile=certificate)
        with (
            socket.create_connection(("127.0.0.1", encrypted), timeout=10) as sock,
            context.wrap_socket(sock, server_hostname="127.0.0.1") as encrypted_sock,
        ):
            assert encrypted_sock.version() in ("TLSv1.2", "TLSv1.3")
    finally:
        process.terminate()
        process.wait(10)


def test_a_restored_password_is_readable_for_the_group_of_the_daemon(tmp_path):
    """`cp -a` keeps the number of a group, which can be another group on the new gateway."""
    page = (DEPLOY.parent / "docs" / "install.md").read_text()
    block = re.search(r"\*\*Restore a backup\*\*.*?\n\n((?:    .+\n)+)", page, re.DOTALL)[1]
    command = re.search(r"^    (find /etc/edge-tvbo .*)$", block, re.MULTILINE)[1]
    for name, mode in (("watcher.password", 0o640), ("mqtt.password", 0o600), ("a.toml", 0o644)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    script = command.replace("/etc/edge-tvbo", str(tmp_path)).replace("chgrp", "echo chgrp")

    done = subprocess.run(
        ["sh", "-c", f"umask 022; chmod 755 {tmp_path}; {script}"], stdout=subprocess.PIPE
    )

    assert done.stdout.decode() == f"chgrp edge-tvbo {tmp_path}/watcher.password\n"


def test_the_rules_of_the_broker_can_be_changed_to_another_instance(tmp_path):
    page = (DEPLOY / "README.md").read_text()
    command = re.search(r"^    (sed -i .*) /etc/mosquitto/acl$", page, re.MULTILINE)[1]
    acl = tmp_path / "acl"
    shutil.copy(DEPLOY / "acl", acl)

    subprocess.run(["sh", "-c", f"{command} {acl}"], check=True)

    rules = [each for each in acl.read_text().splitlines() if not each.startswith("#")]
    assert [each for each in rules if "lab" in each] == []
    assert "topic read edge_tvbo/edge/cmd/+" in rules
    assert "topic readwrite homeassistant/device/edge_tvbo_edge/config" in rules


def test_the_installation_has_five_commands_and_names_existing_files():
    text = (DEPLOY / "README.md").read_text()
    first = re.search(r"(?:^    .*\n)+", text, re.MULTILINE)[0].splitlines()

    assert len(first) == 5
    assert first[1] == "    sudo cp /etc/edge-tvbo/config.example.toml /etc/edge-tvbo/config.toml"
    for name in re.findall(r"(?<!tests/)deploy/[\w.-]+\w", text):
        assert (DEPLOY.parent / name).exists(), name


def test_the_readme_states_the_measured_exposure():
    if not ANALYZE:
        pytest.skip("systemd-analyze is not installed")
    result = analyze("security", "--offline=true", str(UNIT))
    score = re.search(r"Overall exposure level for .*: ([0-9.]+)", result.stdout)[1]
    version = analyze("--version").stdout.split()[1]

    if version != "252":
        pytest.skip(f"the README's figure is systemd 252's, this is {version}")
    assert f"an exposure of {score} " in (DEPLOY / "README.md").read_text()


# --- Home Assistant -----------------------------------------------------------------------------

DECISION = {"sensor": "attic", "reason": "exploit", "expires_at": "2026-03-02T09:22:00Z"}


@pytest.mark.parametrize(
    ("attributes", "is_polled"),
    [
        (DECISION, True),
        (DECISION | {"reason": "saved"}, False),
        (DECISION | {"expires_at": "2026-03-02T09:20:00Z"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_the_blueprint_polls_only_what_is_to_be_read_now(attributes, is_polled):
    """Not a sensor of the reason `saved`, and not one of a decision that has expired."""
    text = (DEPLOY / "home-assistant" / "poll-recommended-sensor.yaml").read_text()
    condition = re.search(r"value_template: (?:>\n)?((?s:.+?))(?=\nvariables:)", text)[1]
    state = None if attributes is None else SimpleNamespace(attributes=attributes)

    said = (
        SandboxedEnvironment()
        .from_string(condition.strip().strip('"'))
        .render(
            trigger=SimpleNamespace(to_state=state),
            as_datetime=datetime.fromisoformat,
            now=lambda: datetime(2026, 3, 2, 9, 21, tzinfo=UTC),
        )
    )

    assert said.strip() == str(is_polled)
