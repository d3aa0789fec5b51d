"""`why` and `status`: output of a running daemon and its history, and hints without them."""

import json
import os
import re
import subprocess
import sys
from contextlib import closing
from datetime import datetime
from importlib.metadata import EntryPoint, EntryPoints

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from edge_tvbo_adapters.storage.history_db import HistoryDatabase
from hypothesis import given
from hypothesis import strategies as st
from support.controllers import controller_settings
from support.history import history_entry
from support.paths import ROOT
from support.ports import free_port

from edge_tvbo.cli import main
from edge_tvbo.cli import status as status_command
from edge_tvbo.control import history_text, sensor_health
from edge_tvbo.control.controller import Controller
from edge_tvbo.control.decision_text import MAX_EXPLAINED
from edge_tvbo.messages.commands import Ending, PublishState, Record
from edge_tvbo.messages.documents import (
    EnergyState,
    FieldHealth,
    Health,
    Notice,
    Reason,
    RetainedState,
)
from edge_tvbo.messages.events import ActivationRequested, IntervalElapsed, Reading
from edge_tvbo.messages.history import EarlierActivation, HistoryEntry
from edge_tvbo.models.field import SensorField
from edge_tvbo.policy import make_policy

CONFIG = """\
instance = "w"
[mqtt]
port = {port}
[state]
dir = "state"
{history}
[fields.lab]
interval = "10min"
kernel = {{ name = "se", length_scale = 6.0, variance = 4.0, noise_variance = 0.04, mean = 20 }}
sensors = ["a", "b"]
positions = {{ a = [0, 0], b = [1, 1] }}
reading = {{ topic = "lab/{{sensor}}/t" }}
"""
HALL = CONFIG[CONFIG.index("[fields") :].replace("lab", "hall")


@pytest.fixture
def made(tmp_path):
    """Return a function that writes a configuration; without a port its broker is unreachable."""

    def make(kept=(), *, port=None, history='history = "16MiB"', extra=""):
        text = (CONFIG + extra).format(port=port or free_port(), history=history)
        path = tmp_path / "w.toml"
        path.write_text(text)
        if kept:
            with closing(HistoryDatabase(str(tmp_path / "state"), "w", 2**24)) as history:
                assert history.store(list(kept))
        return str(path)

    return make


def said(*words):
    result = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
    return result.exit_code, result.output


# --- why ------------------------------------------------------------------------------------------


def test_why_explains_the_newest_decision_or_counts_back_with_a_negative_number(made):
    config = made([history_entry(n) for n in range(120, 130)])
    for words, number in (((), 129), (("-1",), 129), (("-4",), 126), (("123",), 123)):
        code, text = said("why", config, *words)
        assert code == 0
        problem, _, explanation = text.partition("\nlab, ")
        if words:
            explanation = text.removeprefix("lab, ")
        else:
            assert "the connection is refused" in problem and "[E402]\n" in problem
            assert problem.endswith("The broker cannot be read; the newest stored decision is:")
        assert explanation.startswith(f"interval {number}, 2026-11-21T00:02:")


@pytest.mark.parametrize("number", ["119", "130", "-11"])
def test_why_prints_the_stored_range_for_an_unknown_interval(made, number):
    code, text = said("why", made([history_entry(n) for n in range(120, 130)]), number)
    assert code == 2
    assert (
        f"lab: interval {number} was not found. The history contains intervals 120 to 129" in text
    )
    assert "SIGUSR1" in text


NIGHT = {"at": "2026-11-20T23:00:00Z"}  # before all stored entries
LATER = {"at": "2026-11-21T00:10:00Z"}  # after them


@pytest.mark.parametrize(
    ("stored", "retained", "now", "newest"),
    [
        pytest.param((129, {}), (140, NIGHT), NIGHT, 140, id="the clock was set back"),
        pytest.param((129, NIGHT), (120, {}), NIGHT, 129, id="and the broker is not up to date"),
        pytest.param((129, {}), (3, LATER), LATER, 3, id="the state was lost"),
        pytest.param((3, LATER), (140, {}), LATER, 3, id="and the broker is not up to date"),
        pytest.param((129, {}), (120, {}), LATER, 129, id="only the broker is not up to date"),
    ],
)
def test_why_shows_the_newest_decision(stored, retained, now, newest, made, monkeypatch):
    (number, at), (other, changed) = stored, retained
    entry = history_entry(number)
    config = made([REPLACE(entry, decision=REPLACE(entry.decision, **at))])
    running = REPLACE(history_entry(other).decision, **changed)
    seen = RetainedState("online", None, {"lab": running})
    monkeypatch.setattr("edge_tvbo.cli.why.retained_state", lambda *_: seen)
    present = datetime.fromisoformat(now["at"]).timestamp() + 0.25
    monkeypatch.setattr("time.time", lambda: present)

    assert said("why", config)[1].startswith(f"lab, interval {newest}, ")


@pytest.mark.parametrize("earlier", [[], ["mote-3"]])
def test_why_shows_the_last_activation_of_an_interval(earlier, made, monkeypatch):
    entry = history_entry(129)
    running = REPLACE(entry.decision, earlier=earlier, text="mote-9: the last one")
    seen = RetainedState("online", None, {"lab": running})
    monkeypatch.setattr("edge_tvbo.cli.why.retained_state", lambda *_: seen)

    text = said("why", made([entry]))[1]

    assert ("mote-9: the last one" in text) is bool(earlier)


def test_why_does_not_promise_a_missing_interval_between_stored_ones(made):
    config = made([history_entry(n) for n in (120, 121, 128, 129)])
    code, text = said("why", config, "125")
    assert code == 2
    assert (
        "lab: interval 125 was not found. The history contains intervals 120 to 129 of lab, but "
        "not this one: the field was paused, the daemon was not running" in text
    )
    assert "SIGUSR1" not in text


def test_why_names_the_reason_if_the_user_may_not_read_the_history(made, tmp_path):
    config = made([history_entry(1)])
    history = tmp_path / "state" / "w.history.db"
    unprivileged = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    command = [sys.executable, "-m", "edge_tvbo", "why", config, "1"]
    for path in (history, history.parent):
        path.chmod(0)
        try:
            done = subprocess.run(
                [*unprivileged, *command] if os.geteuid() == 0 else command,
                capture_output=True,
                text=True,
                cwd=ROOT,
            )
        finally:
            path.chmod(0o700)
        assert done.returncode == 2
        assert (
            f"{history}: this user is not allowed to read the history. Run the command as the "
            "owner of the file or as root, for example with sudo." in done.stderr
        )


def test_why_without_a_history_prints_the_setting_to_add(made):
    code, text = said("why", made(history=""), "3")
    assert code == 2
    assert 'There is no history. Set history = "64MiB" in [state].' in text


def test_why_without_a_decision_says_whether_the_broker_can_be_read(made, mosquitto):
    broker = mosquitto()
    broker.start()
    code, text = said("why", made())
    assert code == 1
    assert "the connection is refused" in text and "[E402]\n" in text
    assert "there is no history yet" in text and "has no decision" not in text
    code, text = said("why", made(port=broker.port))
    assert code == 2
    assert "The broker has no decision of lab yet." in text and "there is no history yet" in text


def test_why_names_a_misspelt_option_before_its_arguments(made):
    for arguments in ([made(), "--jsno"], ["--jsno", made(), "-1"], [made(), "-1", "--jsno"]):
        code, text = said("why", *arguments)
        assert code == 2 and "--jsno" in text, text
        assert "not a valid integer" not in text


def test_why_with_a_name_in_place_of_the_interval_prints_the_option_for_a_field(made):
    code, text = said("why", made(), "lab")

    assert code == 2
    assert "'lab' is not the number of an interval, such as 12 or -1" in text
    assert "--field lab" in text
    _, text = said("why", made(), "my field")
    assert "write  --field 'my field'" in text


def test_why_with_several_fields_needs_the_name_of_one(made):
    config = made([history_entry(1), history_entry(2, "hall")], extra=HALL)
    assert "lab, interval 1" in said("why", config)[1]
    assert "hall, interval 2" in said("why", config)[1]
    assert said("why", config, "2", "--field", "hall")[1].startswith("hall, interval 2")
    code, text = said("why", config, "2")
    assert (code, "There are several fields: lab, hall. Add the field" in text) == (2, True)
    code, text = said("why", config, "--field", "hal")
    assert (code, "allowed: lab, hall" in text) == (2, True)


def test_why_explains_the_other_fields_if_one_has_no_decision_yet(made, mosquitto):
    broker = mosquitto()
    broker.start()
    config = made([history_entry(1)], extra=HALL, port=broker.port)
    result = CliRunner().invoke(main, ["why", config])
    assert result.exit_code == 0
    assert "lab, interval 1" in result.stdout
    assert "The broker has no decision of hall yet." in result.stderr
    result = CliRunner().invoke(main, ["why", config, "--json"])
    (document,) = json.loads(result.stdout)
    assert document["field"] == "lab"
    assert "The broker has no decision of hall yet." in result.stderr


def test_why_with_json_prints_the_entry_with_estimates_by_sensor(made):
    one = history_entry(7)
    (document,) = json.loads(said("why", made([one]), "7", "--json")[1])
    assert document["decision"] == msgspec.to_builtins(one.decision)
    assert document["record"]["value"] == one.record.value
    assert set(document["beliefs"]) == set(one.posterior.sensors)
    assert document["beliefs"]["mote-1"]["mean"] == pytest.approx(
        one.posterior.mean.values()[0], abs=1e-5
    )


# --- the words ------------------------------------------------------------------------------------

ENDED = Record(7, 0.0, "mote-1", Ending.ANSWERED, 24.905, 1.512, 1.204, True)
REPLACE = msgspec.structs.replace


def words(**changes):
    return "\n".join(history_text.describe(REPLACE(history_entry(7), **changes), 0.0))


def test_why_shows_how_the_interval_ended_and_why_the_model_was_reset():
    text = words(record=ENDED)
    assert (
        "The sensor replied 24.905 °C, 1.512 °C from the estimate just before the reply: more"
        in text
    )
    assert "more than the event trigger's threshold of 1.204 °C, so the model was reset." in text
    old = words(record=REPLACE(ENDED, abs_error=0.9))
    assert "but the model had reached its largest number of replies (n_upper) and was reset" in old
    calm = words(record=REPLACE(ENDED, reset=False))
    assert "; the event trigger's threshold was 1.204 °C." in calm and "was reset." not in calm
    assert "from the estimate just before the reply." in words(
        record=REPLACE(ENDED, threshold=None)
    )
    doubtful = REPLACE(ENDED, threshold=None, reset=False, unused="doubtful")
    assert "just before the reply; not used, because the sensor may be faulty." in words(
        record=doubtful
    )
    faulty = words(record=REPLACE(doubtful, unused="faulty"))
    assert "just before the reply; not used, because the sensor is faulty." in faulty
    line = history_text.one_line(REPLACE(history_entry(7), record=doubtful))
    assert "replied 24.905 °C, not used" in line
    missed = Record(7, 0.0, "mote-1", Ending.MISSED, None, None, None, False)
    assert "The sensor timed out: there was no reply by 2026-11-21T00:00:07Z." in words(
        record=missed
    )
    late = "\n".join(history_text.describe(history_entry(7, ended=False), 2e9))
    assert "It is unknown how the interval ended" in late
    assert "no history is stored (the setting state.history)" in late
    both = REPLACE(history_entry(7).decision, earlier=["mote-8", "mote-9"])
    before = EarlierActivation(REPLACE(both, sensor="mote-9", text="mote-9: why"), missed)
    text = words(decision=both, earlier=(before,))
    before = "Activated earlier in the same interval:\n  - mote-8\n  - mote-9: why; timed out\n"
    assert before in text
    again = EarlierActivation(REPLACE(both, text="mote-7: again"), missed)
    text = words(decision=REPLACE(both, earlier=[]), earlier=(again,))
    assert "Activated earlier in the same interval:\n  - mote-7: again; timed out\n" in text
    notice = Notice("sensor-lost", "2026-11-21T00:00:07Z", "mote-1 did not reply in time")
    assert "  - 2026-11-21T00:00:07Z sensor-lost: mote-1" in words(notices=(notice,))


@pytest.mark.parametrize(
    ("after_s", "counts"), [(1.0, " A reply counts until 2026-11-21T00:00:37Z."), (60.0, "")]
)
def test_why_says_that_an_interval_is_still_running(after_s, counts):
    """Even after the deadline of the reply, the end of the interval is not in the history yet."""
    entry = history_entry(7, ended=False)
    now = datetime.fromisoformat(entry.decision.at).timestamp() + after_s
    decision = REPLACE(entry.decision, expires_at="2026-11-21T00:00:37Z")
    end = "The interval is still running; its end is not in the history yet."
    for is_advice in (False, True):
        shown = REPLACE(entry, decision=REPLACE(decision, recommended=is_advice))
        *_, ending = history_text.describe(shown, now, interval_s=600.0)
        assert ending == (end if is_advice else end + counts)


def test_why_says_that_the_newest_interval_is_still_running(made, monkeypatch):
    entry = history_entry(7, ended=False)
    config = made([entry])  # its intervals last 10 minutes
    start = datetime.fromisoformat(entry.decision.at).timestamp()
    for after_s, runs in ((599.0, True), (601.0, False)):
        monkeypatch.setattr("time.time", lambda after_s=after_s: start + after_s)
        text = said("why", config, "-1")[1]
        assert ("The interval is still running" in text) is runs
        assert ("no history is stored" in text) is not runs


def test_why_shows_a_reply_in_full_if_the_estimate_is_nearly_exact():
    exact = REPLACE(history_entry(7).decision, std=0.0, unit="hPa")  # rounded to 0
    reply = REPLACE(ENDED, value=1013.28, abs_error=0.27994, threshold=None, reset=False)
    text = words(decision=exact, record=reply)
    assert "The sensor replied 1013.28 hPa, 0.28 hPa from the estimate" in text
    line = history_text.one_line(REPLACE(history_entry(7), decision=exact, record=reply))
    assert "replied 1013.28 hPa" in line


@pytest.mark.parametrize(("status", "runs"), [("online", True), ("offline", False)])
def test_why_says_that_no_interval_of_an_offline_daemon_is_running(status, runs, made, monkeypatch):
    decision = history_entry(7).decision
    seen = RetainedState(status, None, {"lab": decision})
    monkeypatch.setattr("edge_tvbo.cli.why.retained_state", lambda *_: seen)
    start = datetime.fromisoformat(decision.at).timestamp()
    monkeypatch.setattr("time.time", lambda: start + 1.0)

    text = said("why", made())[1]

    assert ("The interval is still running" in text) is runs
    assert ("the daemon was killed before the interval ended" in text) is not runs


@pytest.mark.parametrize(("reply", "shown"), [(23.4, "23.4"), (21.28375, "21.284")])
def test_why_shows_no_more_decimals_of_a_reply_than_the_sensor_sent(reply, shown):
    precise = REPLACE(history_entry(7).decision, std=0.09)  # its 2 digits need 3 decimals
    text = words(decision=precise, record=REPLACE(ENDED, value=reply))
    assert f"The sensor replied {shown} °C, 1.512 °C from the estimate" in text


def test_why_compares_no_reply_with_an_estimate_of_a_policy_without_a_model():
    text = f"mote-7: {history_text.WITHOUT_MODEL}"
    decision = REPLACE(history_entry(7).decision, text=text, reason=Reason.SCHEDULED)
    explained = words(decision=decision, record=REPLACE(ENDED, threshold=None, reset=False))
    assert "The policy uses no model." in explained
    assert "The model of" not in explained
    assert re.search(r"^The sensor replied 24\.\d+ °C\.$", explained, re.MULTILINE)


def test_why_says_that_a_sensor_was_recommended_where_no_command_was_sent():
    entry = history_entry(7)
    advised = REPLACE(entry, decision=REPLACE(entry.decision, recommended=True))
    unknown = "\n".join(history_text.describe(REPLACE(advised, record=None), 2e9))
    ending = "The sensor was recommended; no reading of the sensor in this interval is known."
    assert ending in unknown
    reported = "\n".join(history_text.describe(REPLACE(advised, record=ENDED), 0.0))
    assert "The sensor reported 24.905 °C" in reported
    for text in (unknown, reported):
        assert "activated" not in text and "waits" not in text
    assert "reported 24.905 °C" in history_text.one_line(REPLACE(advised, record=ENDED))


@given(st.sampled_from(Reason), st.booleans())
def test_every_reason_has_a_text(reason, ended):
    each = history_entry(3, ended=ended)
    each = REPLACE(each, decision=REPLACE(each.decision, reason=reason))
    account = list(history_text.describe(each, 0.0))
    assert len(account) >= 5 and all(account)
    assert "\n" not in history_text.one_line(each)


def controller_of(M=3, policy="gp-ucb"):
    names = tuple(f"s{n}" for n in range(M))
    field = SensorField(names, np.eye(M), 0.01, unit="°C", center=20.0, scale=2.0)
    return Controller(make_policy(policy, field, seed=1), controller_settings(20.0, 1e9))


def decided(controller, at):
    commands = controller.handle(IntervalElapsed(at))
    return next(each.decision for each in commands if isinstance(each, PublishState))


@pytest.mark.parametrize(
    ("policy", "has_model"),
    [("gp-ucb", True), ("round-robin", False), ("rexp3", False), ("master-gp-ucb", True)],
)
def test_why_mentions_the_model_of_a_requested_sensor_only_if_there_is_one(policy, has_model):
    controller = controller_of(policy=policy)
    controller.handle(IntervalElapsed(0.0))
    _, selected = controller.handle(ActivationRequested("s1", 60.0))
    replied = controller.handle(Reading("s1", 21.28, 61.0, 61.0))
    record = next(each for each in replied if isinstance(each, Record))
    text = "\n".join(history_text.describe(HistoryEntry("lab", selected.decision, record), 61.0))

    assert "The command cmd/activate requested this sensor." in text
    assert (f"The model of {policy} had " in text) is has_model
    reply = "replied 21.3 °C, 1.3 °C from the estimate" if has_model else "replied 21.28 °C."
    assert f"The sensor {reply}" in text
    text = "room at 21 ± 1 °C: not activated, to save energy"  # with the sensor's display name
    saved = REPLACE(selected.decision, reason=Reason.SAVED, text=text)
    lines = history_text.describe(HistoryEntry("lab", saved), 61.0)
    assert (f"The model of {policy} had " in "\n".join(lines)) is has_model


def test_why_describes_decisions_of_policies_that_are_gone_or_cannot_be_loaded(monkeypatch):
    broken = EntryPoint("broken", "no_such_package:Settings", "edge_tvbo.policies")
    monkeypatch.setattr("edge_tvbo.plugins._entry_points", lambda kind: EntryPoints([broken]))
    for policy in ("gone", "broken"):
        decision = REPLACE(history_entry(7).decision, policy=policy)
        assert f"The model of {policy} had " in words(decision=decision, record=ENDED)


@pytest.mark.acceptance(17)
@pytest.mark.parametrize("policy", ["gp-ucb", "round-robin"])
def test_backed_off_sensor_is_a_factor_with_the_age_of_its_last_reading(policy, monkeypatch):
    monkeypatch.setattr(sensor_health, "MAX_TIMEOUTS", 1)  # the first one backs a sensor off
    controller, chosen = controller_of(policy=policy), None
    for number in range(12):
        at = 1080.0 * number
        if chosen != "s1":  # until it is activated, it sends unsolicited readings
            controller.handle(Reading("s1", 23.0, at, at))
        decision = decided(controller, at)
        if chosen == "s1":
            expected = (
                f"s1 is backed off until interval {number + 1}: its last reading is 18 min old"
            )
            assert expected in decision.factors
            return
        chosen = decision.sensor
        if chosen != "s1":
            controller.handle(Reading(chosen, 19.0, at, at))
    raise AssertionError("s1 was never activated")


@pytest.mark.parametrize(("more", "sensors"), [(1, "1 other sensor"), (6, "6 other sensors")])
def test_few_of_many_backed_off_sensors_are_named(more, sensors):
    controller = controller_of(M=MAX_EXPLAINED + more + 1, policy="round-robin")
    for number in range(120):
        controller.handle(Reading("s3", 20.0, 60.0 * number, 60.0 * number))
        factors = decided(controller, 60.0 * number).factors
    named = [each for each in factors if "it has sent no reading yet" in each]
    assert len(named) == MAX_EXPLAINED
    assert factors[-1] == f"{sensors} cannot be activated now"


# --- status ---------------------------------------------------------------------------------------


def test_status_without_a_broker_exits_with_1(made):
    code, text = said("status", made())
    assert code == 1
    assert "the connection is refused" in text
    code, text = said("status", made(), "--json")
    document = json.loads(text)
    assert (code, document["online"], document["code"]) == (1, False, "E402")
    assert said("status", made(history="histori = 1"))[0] == 2


def health(at):
    field = FieldHealth(9, "a", 8, 1, ["b"], {"late": 3})
    return msgspec.json.encode(Health(at, 3600, "0.1.0", {"lab": field}))


def test_status_shows_the_energy_budget_and_the_sensors_with_low_batteries(made, monkeypatch):
    decision = history_entry(9, text="a: its turn").decision
    field = FieldHealth(9, "a", 8, 1, [], {}, energy=EnergyState("J", 13.04, 2.0, 1, 0, ["b"]))
    unlimited = FieldHealth(9, "a", 8, 1, [], {}, energy=EnergyState("mAh", 4, None, 0, 2, []))
    texts = []
    for each in (field, unlimited):
        report = Health("2026-11-21T00:02:00Z", 60, "0.1.0", {"lab": each})
        seen = RetainedState("online", report, {"lab": decision})
        monkeypatch.setattr(status_command, "retained_state", lambda *_, seen=seen: seen)
        texts.append(said("status", made())[1])

    assert (
        "  energy: 13 J spent in the last period, 2 J left; 1 interval without an activation, to "
        "save energy; low battery: b\n" in texts[0]
    )
    assert (
        "  energy: 4 mAh spent in the last period; 0 intervals without an activation, to save "
        "energy; sensors with an empty budget: 2; low battery: none\n" in texts[1]
    )


def test_status_counts_the_activations_that_were_not_delivered(made, monkeypatch):
    field = FieldHealth(9, "a", 8, 1, [], {}, undelivered=4)
    report = Health("2026-11-21T00:02:00Z", 60, "0.1.0", {"lab": field})
    seen = RetainedState("online", report, {"lab": history_entry(9).decision})
    monkeypatch.setattr(status_command, "retained_state", lambda *_: seen)

    assert "8 replies, 1 timed out, 4 not delivered; unresponsive" in said("status", made())[1]


@pytest.mark.parametrize("before", [8, None])
def test_status_shows_counters_and_a_decision_of_the_same_interval(before, made, monkeypatch):
    """The daemon publishes the counters up to a second after the decision."""
    decision = history_entry(9, text="a: its turn").decision
    counters = [
        Health(
            "2026-11-21T00:02:00Z",
            60,
            "0.1.0",
            {"lab": FieldHealth(number, "a", replies, 0, [], {})},
        )
        for number, replies in ((before, 7), (9, 8))
    ]
    seen = [RetainedState("online", each, {"lab": decision}) for each in counters]
    monkeypatch.setattr(status_command, "retained_state", lambda *_: seen.pop(0))
    monkeypatch.setattr(status_command, "HEALTH_DELAY_S", 0.0)

    text = said("status", made())[1]

    assert "lab: a: its turn (interval 9, since" in text
    assert "8 replies, 0 timed out" in text


def test_status_names_some_sensors_of_a_large_network_and_counts_the_others(made, monkeypatch):
    many = [f"s{number}" for number in range(300)]
    texts = dict.fromkeys(many, "85 °C, outside 5 to 35 °C")
    field = FieldHealth(9, "a", 8, 0, many, {}, faulty=texts, implausible=texts, ignored=many)
    health = Health("2026-11-21T00:02:00Z", 60, "0.1.0", {"lab": field})
    seen = RetainedState("online", health, {})
    monkeypatch.setattr(status_command, "retained_state", lambda *_: seen)

    text = said("status", made())[1]

    assert text.count("s10,") == text.count("s11 and 288 more;") == 2  # unresponsive and ignored
    assert text.count("s11 (85 °C, outside 5 to 35 °C) and 288 more;") == 2
    assert "s12" not in text


@pytest.mark.parametrize(
    ("left", "shown"),
    [(0, ""), (1, "; survey: 1 interval left"), (143, "; survey: 143 intervals left")],
)
def test_status_counts_the_intervals_that_are_left_of_a_survey(left, shown, made, monkeypatch):
    field = FieldHealth(9, "a", 8, 0, [], {"late": 3}, survey=left)
    health = Health("2026-11-21T00:02:00Z", 60, "0.1.0", {"lab": field})
    seen = RetainedState("online", health, {})
    monkeypatch.setattr(status_command, "retained_state", lambda *_: seen)

    counters = "  8 replies, 0 timed out; unresponsive: none; faulty: none; rejected: 3 late"
    assert f"{counters}{shown}" in said("status", made())[1].splitlines()


def test_status_by_what_the_broker_has(made, broker, peer):
    from time import time

    from edge_tvbo.messages.formatting import rfc3339

    config = made([history_entry(3)], port=broker.port)
    code, text = said("status", config)
    assert code == 1
    assert "w: unknown, the broker has no message of this daemon. There are three" in text
    assert "It tries at least every 1min, and" in text
    assert "allow clients without a login to read edge_tvbo/w/#" in text
    assert "lab: no decision on the broker" in text and "history: intervals 3 to 3" in text
    stored = "The broker has no decision of lab; the newest stored decision is:\nlab, interval 3, "
    assert said("why", config)[1].startswith(stored)
    daemon = peer(broker.port)
    now = rfc3339(round(time()))
    decision = history_entry(9, text="a: its turn").decision
    for topic, payload in (
        ("status", "online"),
        ("health", health(now)),
        ("lab/selected", msgspec.json.encode(decision)),
    ):
        daemon.publish(f"edge_tvbo/w/{topic}", payload, retain=True)
    code, text = said("status", config)
    assert code == 0
    assert re.search(r"^w: online since .*Z \(60 min\), edge-tvbo 0.1.0$", text, re.MULTILINE)
    assert "lab: a: its turn (interval 9, since" in text
    assert "8 replies, 1 timed out; unresponsive: b; faulty: none; rejected: 3 late" in text
    assert "history: intervals 3 to 3" in text
    assert said("why", config)[1].startswith("lab, interval 9, ")  # newer than what is kept
    daemon.publish("edge_tvbo/w/health", health("2026-01-01T00:00:00Z"), retain=True)
    code, text = said("status", config)
    assert code == 1 and "w: not responding, last report at 2026-01-01T00:00:00Z" in text
    daemon.publish("edge_tvbo/w/health", b"\xff rubbish", retain=True)
    assert said("status", config)[0] == 0
    daemon.publish("edge_tvbo/w/status", "offline", retain=True)
    document = json.loads(said("status", config, "--json")[1])
    assert document["online"] is False
    assert document["selected"]["lab"]["sensor"] == decision.sensor
    assert document["history"] == {"lab": [3, 3]}
