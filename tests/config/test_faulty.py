"""Faulty configurations of users: `check` finds each mistake, and `run` starts what it accepts.

`faulty/cases.toml` describes the mistakes.
"""

import os
import re
import tomllib
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner
from support.ports import free_port

from edge_tvbo.cli import main
from edge_tvbo.cli.settings import buildable_settings_of, settings_of
from edge_tvbo.config.errors import ConfigErrors
from edge_tvbo.daemon.app import build_daemon, make_surroundings
from edge_tvbo.errors import ConfigError
from edge_tvbo.policy import policies

FAULTY = Path(__file__).with_name("faulty")
BASE = (FAULTY / "base.toml").read_text("utf-8")
CASES = tomllib.loads((FAULTY / "cases.toml").read_text("utf-8"))["case"]
EX_CONFIG = 78
POSITION = re.compile(r"^(?P<file>.*?):(?P<line>\d+)(:\d+)?: (?P<message>.*)$", re.DOTALL)


def text_of(case, base=BASE):
    """Return the configuration of a case, which is `base` with a mistake."""
    if "text" in case:
        return case["text"].removeprefix("\n")
    assert base.count(case["line"]) == 1, case["line"]
    text = base.replace(case["line"], case["by"])
    for before, after in case.get("swap", {}).items():
        assert before in text
        text = text.replace(before, after)
    dropped = tuple(case.get("without", ["\0"]))
    lines = [each for each in text.splitlines() if not each.startswith(dropped)]
    return case.get("text_before", "") + "\n".join(lines) + "\n"


def line_of(case, text):
    """Return the number of the line on which `check` has to find the mistake."""
    if "in_file" in case:
        return case["in_line"]
    lines = text.splitlines()
    pairs = zip(lines, [*BASE.splitlines(), *[""] * len(lines)], strict=False)
    changed = next((number for number, (new, old) in enumerate(pairs, 1) if new != old), 1)
    if "at" not in case:
        return changed
    found = [number for number, line in enumerate(lines, 1) if case["at"] in line]
    return min(found, key=lambda number: abs(number - changed))


def written(case, directory):
    """Write the files of a case; return the path and the text of the configuration."""
    for name, content in case.get("files", {}).items():
        (directory / name).write_text(content, "utf-8")
    path = directory / "my.toml"
    path.write_text(text_of(case), "utf-8")
    return path, text_of(case)


def printed_by(*arguments, status):
    """Return what a command prints on stderr; its exit status is `status`."""
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exit_code == status, result.output + repr(result.exception)
    return result.stderr


def test_there_are_120_different_mistakes():
    assert len({case["mistake"] for case in CASES}) == len(CASES) >= 120
    assert len({text_of(case) + str(case.get("files")) for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["mistake"].replace(" ", "-"))
def test_check_finds_the_mistake_and_run_prints_the_same(case, tmp_path):
    path, text = written(case, tmp_path)
    with suppress(ConfigError):
        buildable_settings_of(path)  # may compile: `check` names that, and `run` does not

    printed = printed_by("check", path, status=2)

    findings = [POSITION.match(each) for each in re.split(r"\n(?=/)", printed.rstrip())]
    assert len({each[0] for each in findings}) == len(findings), printed
    file = tmp_path / case.get("in_file", "my.toml")
    matching = [
        each
        for each in findings
        if each["file"] == str(file)
        and int(each["line"]) == line_of(case, text)
        and case["says"] in each["message"]
        and f"[{case['code']}]" in each["message"]
    ]
    assert matching, printed
    assert "edge_tvbo.sock" not in printed and "Traceback" not in printed
    assert printed_by("run", path, status=EX_CONFIG).splitlines() == printed.splitlines()


# --- several mistakes -----------------------------------------------------------------------------

ROUNDS = 4  # in 30 rounds, most mistakes meet each other
MAX_TOGETHER = 16  # mistakes in one configuration
NOT_COMBINED = (
    "a field without its own table",  # all lines below then belong to another table
    "two fields with the same value of the same topic",  # the second field is a copy of BASE
)
# Mistakes that cannot be found beside others: a pattern of the name or the key of the hidden
# mistake, and a pattern of the keys of the others. The keys are relative to the field.
HIDDEN = (
    # The sensors of the field are unknown, so no list of sensors can be compared with them.
    ("names|positions|readings|policy|energy.sensors", r"sensors?(\[\d\])?$"),
    # One of two settings that are compared is invalid, or has another value.
    ("reply_timeout", "interval|energy$"),
    ("state.history", "state.history"),
    ("energy.(budget|field_budget|sensors)", "energy.(cost|budget|field_budget|sensors)"),
    (
        "kernel(.length_scale)?$|positions$|policy.(name|length_scale|sensor)$|fields.temperature",
        "kernel(.name)?$|policy.(name|length_scale)$|fields.temperature",
    ),
    ("energy.battery.topic", "reading"),
    (
        "energy.battery.topic|activate|names|readings$",
        r"readings?(\[\d\])?(.activate)?(.topic|.payload)?$|activate|energy.battery.topic|names",
    ),
    # A table with a misspelt name is not read.
    ("reading|activate|energy.battery.topic|names", "raeding"),
    ("homeassistant", "home_assistant"),
)


def combined(cases):
    """Return a configuration with the mistakes of all `cases`; None if they change one text."""
    text = BASE
    for case in cases:
        if text.count(case["line"]) != 1 or not all(each in text for each in case.get("swap", ())):
            return None
        text = text_of(case, text)
    with suppress(tomllib.TOMLDecodeError):
        tomllib.loads(text)
        return text if all(case["by"].rstrip("\n") in text for case in cases) else None
    return None


def findings_of(cases, directory):
    """Return what the loader finds in a configuration with the mistakes of all `cases`."""
    path = directory / "my.toml"
    path.write_text(combined(cases), "utf-8")
    try:
        settings_of(path)
    except ConfigErrors as error:
        return error.findings
    return []  # only building the daemon finds the mistake


def finding_of(case, findings):
    """Return the finding of the mistake in a case, or None."""
    same = (each for each in findings if each.code == case["code"] and case["says"] in each.message)
    return next(same, None)


@pytest.mark.slow
def test_all_mistakes_of_a_configuration_are_found_at_once(tmp_path):
    cases = [each for each in CASES if "line" in each and each["code"] not in ("E102", "E110")]
    for case in cases:
        for name, content in case.get("files", {}).items():
            (tmp_path / name).write_text(content, "utf-8")
    alone = {each["mistake"]: finding_of(each, findings_of([each], tmp_path)) for each in cases}
    cases = [
        each for each in cases if alone[each["mistake"]] and each["mistake"] not in NOT_COMBINED
    ]
    keys = {
        each["mistake"]: alone[each["mistake"]].key.removeprefix("fields.temperature.")
        for each in cases
    }

    @cache  # each round asks about the same pairs
    def hides(one, other):
        """Return whether the mistake `other` can hide the mistake `one`."""
        names = one, keys[one]
        return any(
            any(re.match(hidden, each) for each in names) and re.match(by, keys[other])
            for hidden, by in HIDDEN
        )

    for seed in range(ROUNDS):
        left = Random(seed).sample(cases, len(cases))
        while left:
            together = []
            for case in left:
                one, others = case["mistake"], [each["mistake"] for each in together]
                if len(together) < MAX_TOGETHER and not any(
                    hides(one, other) or hides(other, one) for other in others
                ):
                    together += [case] if combined([*together, case]) else []
            left = [each for each in left if each not in together]
            found = findings_of(together, tmp_path)
            assert [each["mistake"] for each in together if not finding_of(each, found)] == [], [
                each["mistake"] for each in together
            ]


def test_the_user_of_the_daemon_is_named_if_the_file_cannot_be_read(tmp_path, monkeypatch):
    """The status of `run` is 78: after 2, systemd would restart the daemon for ever."""
    path = tmp_path / "my.toml"
    path.write_text(BASE)
    may_open = Path.open

    def refuse(file, *arguments, **options):
        if file == path:
            raise PermissionError(13, "Permission denied", str(file))
        return may_open(file, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(os, "access", lambda file, mode, **_: Path(file) != path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    says = "the file cannot be read: Permission denied; the user root needs the permission"
    assert says in printed_by("run", path, status=EX_CONFIG)
    for name in ("check", "status", "why", "dashboard", "fit"):
        assert says in printed_by(name, path, status=2)


# --- what `check` accepts -----------------------------------------------------------------------

GOOD = {
    "base": {},
    "a budget of 0 for one sensor": {"budget = 40.0": "sensors = { attic = { budget = 0 } }"},
    "no energy": {BASE[BASE.index("[fields.temperature.energy]") :]: ""},
    "a single sensor": {
        '"hall", "attic", "kitchen"': '"hall"',
        ", attic = [0, 4], kitchen = [5, 0]": "",
    },
    "all sensors at one place": {
        "attic = [0, 4], kitchen = [5, 0]": "attic = [0, 0], kitchen = [0, 0]"
    },
    "a broker with an IPv6 address": {'"127.0.0.1"': '"::1"'},
    "a broker that does not exist": {'"127.0.0.1"': '"no-such-broker.invalid"'},
    "a directory that cannot be made": {'dir = "state"': 'dir = "/proc/state"'},
    "a survey that plans more sensors than there are": {
        'reply_timeout = "2min"': 'reply_timeout = "3min"\nsurvey = { per_interval = 4 }'
    },
    "a short interval": {'interval = "10min"\nreply_timeout = "2min"': 'interval = "10ms"'},
    "a long interval": {'interval = "10min"': 'interval = "366d"'},
    "tiny numbers": {"variance = 9.0\nnoise": "variance = 1e-9\nnoise"},
    "metrics": {"[homeassistant]": "[metrics]\nport = {port}\n\n[homeassistant]"},
    "sensors that sleep": {'mode = "live"': 'mode = "sleepy"'},
    **{f"{name}": {'"et-gp-ucb", delta_b = 0.1': f'"{name}"'} for name in policies()},
    **{
        f"{name} fitted": {'"et-gp-ucb", delta_b = 0.1': f'"{name}", {key} = "fitted"'}
        for name, key in (
            ("tv-gp-ucb", "epsilon"),
            ("mtv-gp-ucb", "epsilon"),
            ("ttv-gp-ucb", "tau"),
        )
    },
}


@pytest.mark.parametrize("changes", GOOD.values(), ids=GOOD)
def test_run_starts_whatever_check_accepts(changes, tmp_path):
    text = BASE
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after.replace("{port}", str(free_port())))
    path = tmp_path / "my.toml"
    path.write_text(text.replace("port = 1883", f"port = {free_port()}"), "utf-8")

    daemon = build_daemon(settings_of(path), make_surroundings())  # may compile: `check` names that
    assert printed_by("check", path, status=0) == ""
    daemon.start()
    daemon.stop()
