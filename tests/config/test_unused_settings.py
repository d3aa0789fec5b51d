"""Unused settings: `check` and the daemon warn of each setting that has no effect."""

import re

import pytest
from click.testing import CliRunner
from edge_tvbo_adapters.mqtt.message_router import MessageRouter
from support.fits import remember_fits
from support.mqtt_bytes import message
from support.paths import DEPLOY
from support.settings import AnyFormats

from edge_tvbo.cli import main
from edge_tvbo.config import loader
from edge_tvbo.daemon.build_controllers import controllers
from edge_tvbo.errors import ConfigError
from edge_tvbo.messages.commands import Activate, PublishState, Recommend, Reject
from edge_tvbo.messages.events import BatteryReported, IntervalElapsed, Reading

PAYLOADS = AnyFormats(("number", "json", "tasmota"))
KERNEL = "kernel = { name = NAME, variance = 4.0, noise_variance = 0.04, mean = 21.0 }"
BASE = {
    "policy": 'policy = { name = "auto" }',
    "kernel": KERNEL.replace("NAME", '"exchangeable"'),
    "activate": 'activate = { mode = "live", topic = "lab/{sensor}/activate" }',
    "reading": 'reading = { topic = "lab/{sensor}/t" }',
    "state": "",
    "other": "",
}


def config(**changes):
    """Return a configuration: that of `BASE`, with other lines for some tables."""
    lines = BASE | changes
    return f"""\
{lines["state"]}
[fields.heat]
interval = "10min"
sensors = ["a", "b", "c"]
positions = {{ a = [0, 1], b = [1, 2.5], c = [4, 3] }}
{lines["policy"]}
{lines["kernel"]}
{lines["activate"]}
{lines["reading"]}
{lines["other"]}
"""


def kernel(name, extra=""):
    return KERNEL.replace("NAME", f'"{name}"').replace(" }", f"{extra} }}")


ADVISE = 'activate = { mode = "advise" }'
SE = kernel("se", ", length_scale = 2.0")
JSON = 'reading = { topic = "lab/{sensor}/t", payload = "json", value = "v" %s }'
BATTERY = "energy = { battery = { topic = 'lab/{sensor}/b', payload = 'json', value = 'b' %s } }"
OWN_COSTS = "energy = { %sbudget = 5.0, sensors = { a.cost = 1.0, b.cost = 1.0, c.cost = 2.0 } }"
MCMC = "name = 'mcmc-gp-ucb', samples = 2"


def with_policy(parameters):
    return f"policy = {{ {parameters} }}"


# A setting that has no effect, lines with it, the same lines without it, and the reason.
UNUSED = [
    (
        "next_activation",
        {"other": 'next_activation = "at-once"'},
        {},
        "only one sensor is activated in each interval",
    ),
    (
        "survey",
        {"other": "per_interval = 3\nsurvey = { per_interval = 4 }"},
        {"other": "per_interval = 3"},
        "all sensors are activated in each interval anyway",
    ),
    (
        "alert.timezone",
        {"other": 'alert = { threshold = 22, timezone = "Europe/Berlin" }'},
        {"other": "alert = { threshold = 22 }"},
        "alert.quiet is not set",
    ),
    (
        "energy.budget",
        {"activate": ADVISE, "other": "energy = { budget = 1.0 }"},
        {"activate": ADVISE, "other": "energy = {}"},
        'no command is sent in the mode "advise", so nothing is charged',
    ),
    (
        "energy.cost",
        {"other": OWN_COSTS % "cost = 9.0, "},
        {"other": OWN_COSTS % ""},
        "each sensor has its own cost",
    ),
    (
        "energy.sensors",
        {"activate": ADVISE, "other": "energy = { sensors = { a = { budget = 1.0 } } }"},
        {"activate": ADVISE, "other": "energy = {}"},
        'no command is sent in the mode "advise", so nothing is charged',
    ),
    (
        "max_age",
        {"other": 'max_age = "1s"'},
        {},
        "the messages are read without a time, so a reading is dated by its arrival",
    ),
    (
        "max_future",
        {"reading": JSON % "", "other": 'max_future = "0s"'},
        {"reading": JSON % ""},
        "the messages are read without a time, so a reading is dated by its arrival",
    ),
    (
        "period",
        {"policy": with_policy("name = 'gp-ucb'"), "other": 'period = "year"'},
        {"policy": with_policy("name = 'gp-ucb'")},
        'without a model, the policy "gp-ucb" has no season',
    ),
    (
        "period",
        {"other": 'period = "week"'},
        {},
        "without a model, the season is a day instead of a week",
    ),
    (
        "kernel.correlation",
        {"kernel": kernel("se", ", length_scale = 2.0, correlation = 0.9")},
        {"kernel": SE},
        'only the kernel "exchangeable" uses a correlation',
    ),
    (
        "kernel.length_scale",
        {"kernel": kernel("linear", ", length_scale = 2.0")},
        {"kernel": kernel("linear")},
        'the kernel "linear" has no length scale',
    ),
    (
        "kernel.length_scale",
        {"kernel": SE, "policy": with_policy("name = 'lb-gp-ucb'")},
        {"policy": with_policy("name = 'lb-gp-ucb'")},
        'the policy "lb-gp-ucb" learns the length scale; '
        'with kernel.name = "exchangeable", no length scale is needed',
    ),
    (
        "kernel.correlation",
        {
            "kernel": kernel("exchangeable", ", correlation = 0.9"),
            "policy": with_policy("name = 'auto', length_scale = 'learned'"),
        },
        {"policy": with_policy("name = 'auto', length_scale = 'learned'")},
        'the policy "auto" learns the length scale',
    ),
    (
        "kernel.correlation",
        {
            "kernel": kernel("exchangeable", ", correlation = 0.9"),
            "policy": with_policy("name = 'd-ucb'"),
        },
        {"policy": with_policy("name = 'd-ucb'")},
        'the policy "d-ucb" has no model',
    ),
    (
        "policy.delta_b",
        {"policy": with_policy("name = 'auto', delta_b = 0.9")},
        {},
        'length_scale is not "learned"',
    ),
    (
        "policy.alpha",
        {"policy": with_policy("name = 'mtv-gp-ucb', epsilon = 'fitted', alpha = 0.1")},
        {"policy": with_policy("name = 'mtv-gp-ucb', epsilon = 'fitted'")},
        'epsilon is "fitted", so alpha is fitted too',
    ),
    (
        "policy.alpha",
        {"policy": with_policy("name = 'w-dbo', epsilon = 0, alpha = 9.0")},
        {"policy": with_policy("name = 'w-dbo', epsilon = 0")},
        "no reading becomes stale if epsilon is 0",
    ),
    (
        "policy.noise_cap",
        {"policy": with_policy("name = 'et-gp-ucb', n_upper = 5, noise_cap = 5")},
        {"policy": with_policy("name = 'et-gp-ucb', n_upper = 5")},
        "the model is reset after n_upper (5) replies",
    ),
    (
        "policy.bound",
        {"policy": with_policy("name = 'a-gp-ucb', beta = 1.0, bound = 9.0")},
        {"policy": with_policy("name = 'a-gp-ucb', beta = 1.0")},
        "beta is set, which replaces the agnostic width",
    ),
    (
        "policy.norm_growth",
        {"policy": with_policy("name = 'a-gp-ucb', beta = 1.0, norm_growth = 2.0")},
        {"policy": with_policy("name = 'a-gp-ucb', beta = 1.0")},
        "beta is set, which replaces the agnostic width",
    ),
    (
        "policy.delta",
        {"policy": with_policy(f"{MCMC}, beta = 1.0, delta = 0.9")},
        {"policy": with_policy(f"{MCMC}, beta = 1.0")},
        "beta is set, which replaces the agnostic width",
    ),
    (
        "reading.timezone",
        {"reading": JSON % ', timezone = "Europe/Berlin"'},
        {"reading": JSON % ""},
        "`time` is not set; set `time` to the path of the time",
    ),
    (
        "energy.battery.time",
        {"other": BATTERY % ", time = 'ts'"},
        {"other": BATTERY % ""},
        "the age of a battery charge counts from its arrival",
    ),
]


def load(directory, text):
    path = directory / "my.toml"
    path.write_text(text, "utf-8")
    return loader.load(path, PAYLOADS)


def decisions(settings, intervals=40):
    """Return the sensors that a field selects, with estimates and alerts, if each sensor replies.

    The documents have old times: a setting that uses them, such as `max_age`, has an effect.
    """
    ((name, controller),) = controllers(settings).items()
    receiver, payload = MessageRouter(settings.fields), settings.fields[name].reading.payload
    found, started = [], 1_800_000_000.0
    for number in range(intervals):
        at = started + 600.0 * number
        commands = controller.handle(IntervalElapsed(at))
        while commands:
            command = commands.pop(0)
            assert not isinstance(command, Reject) or command.reason == "doubtful"
            if isinstance(command, PublishState):
                alert = controller.alert(at)
                found.append((command.decision.sensor, command.decision.mean, alert))
            if isinstance(command, Activate | Recommend):
                value = 20.0 + number * 7 % 5 + "abc".index(command.sensor)
                reading = b'{"v": %g, "ts": "2004-03-01T08:00:00"}' % value
                bodies = {
                    "b": b'{"b": %d, "ts": "2004-03-01T08:00:00Z"}' % (99 - number),
                    "t": b"%g" % value if payload == "number" else reading,
                }
                for part, body in bodies.items():
                    sent = message(f"lab/{command.sensor}/{part}", body)
                    for _, event in receiver.events(sent, at, at):
                        assert isinstance(event, BatteryReported | Reading)
                        commands += controller.handle(event)
    return found


@pytest.mark.parametrize(("key", "changes", "without", "reason"), UNUSED)
def test_a_setting_without_effect_is_warned_of_and_changes_no_decision(
    key, changes, without, reason, tmp_path, caplog, monkeypatch
):
    remember_fits(monkeypatch)
    caplog.clear()
    settings = load(tmp_path, config(**changes))

    (record,) = caplog.records
    warning = f"fields.heat.{key} has no effect, because {reason}"
    where, message = re.fullmatch(r"(.*?:\d+:\d+): (.*)", record.getMessage()).groups()
    assert (record.levelname, message) == ("WARNING", warning)
    lines = config(**changes).splitlines()
    assert key.split(".")[-1] in lines[int(where.split(":")[1]) - 1]

    caplog.clear()
    same = load(tmp_path, config(**without))
    assert not caplog.records
    assert decisions(settings) == decisions(same)


@pytest.mark.parametrize("line", ['checkpoint = "1min"', 'readings = "128MiB"'])
def test_a_setting_of_the_stored_state_is_warned_of_if_nothing_is_stored(line, tmp_path, caplog):
    load(tmp_path, config(state=f'[state]\ndir = "state"\n{line}'))
    assert not caplog.records

    load(tmp_path, config(state=f"[state]\n{line}"))

    (record,) = caplog.records
    key = line.partition(" ")[0]
    assert (
        f"my.toml:2:1: state.{key} has no effect, because state.dir is empty or not set"
        in record.message
    )


def test_a_login_for_readers_that_is_the_login_of_the_daemon_is_warned_of(tmp_path, caplog):
    login = '[mqtt]\nusername = "edge"\nreadonly = { username = "%s" }\n'
    load(tmp_path, config(state=login % "watcher"))
    assert not caplog.records

    load(tmp_path, config(state=login % "edge"))

    (record,) = caplog.records
    assert "my.toml:3:1: mqtt.readonly has no effect, because its username" in record.message


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"state": '[state]\ndir = ""\ncheckpoint = "15min"'},  # as in the example
        {"state": '[state]\nreadings = "off"'},
        {"activate": 'activate = { mode = "advise", topic = "lab/{sensor}/activate" }'},
        {"activate": ADVISE, "other": "energy = { sensors = { a = { budget = 0 } } }"},
        {"activate": ADVISE, "other": "energy = { cost = 2.0, sensors = { a = { budget = 0 } } }"},
        {"other": 'survey = { per_interval = 9 }\nnext_activation = "at-once"'},
        {"other": 'period = "year"'},
        {"policy": with_policy("name = 'lnb-gp-ucb', beta = 1.0, bound = 2.0, norm_growth = 1.0")},
        {"policy": with_policy("name = 'ttv-gp-ucb', tau = 'fitted', rho = 5.0")},
        {"policy": with_policy("name = 'et-gp-ucb', n_upper = 9, noise_cap = 5")},
        {"kernel": SE},
        {"reading": JSON % ', time = "ts", timezone = "Europe/Berlin"', "other": 'max_age = "1s"'},
        {"reading": JSON.replace('"json"', '"tasmota"') % "", "other": 'max_age = "1s"'},
    ],
)
def test_a_setting_with_an_effect_is_not_warned_of(changes, tmp_path, caplog):
    load(tmp_path, config(**changes))

    assert not caplog.records


def test_a_week_has_an_effect_if_the_intervals_are_too_long_for_a_day(tmp_path, caplog):
    load(tmp_path, config(other='period = "week"').replace('"10min"', '"7h"'))

    assert not caplog.records


def test_the_example_has_no_setting_without_effect(tmp_path, caplog):
    load(tmp_path, (DEPLOY / "config.example.toml").read_text("utf-8"))

    assert not caplog.records


def test_check_prints_the_warning_and_accepts_the_file(tmp_path, monkeypatch, caplog):
    path = tmp_path / "my.toml"
    path.write_text(config(other='next_activation = "at-once"'), "utf-8")

    result = CliRunner().invoke(main, ["check", str(path)])

    assert result.exit_code == 0
    assert "my.toml: good: 1 field, 3 sensors" in result.stdout
    assert "fields.heat.next_activation has no effect" in caplog.text


def test_a_variable_that_has_no_effect_is_warned_of_with_its_name(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("EDGE_TVBO__FIELDS__HEAT__NEXT_ACTIVATION", "at-once")

    load(tmp_path, config())

    (record,) = caplog.records
    assert record.getMessage().startswith(
        "$EDGE_TVBO__FIELDS__HEAT__NEXT_ACTIVATION: fields.heat.next_activation has no effect"
    )


def test_a_source_is_named_with_its_number(tmp_path, caplog):
    sources = [
        f'[[fields.heat.readings]]\ntopic = "lab/{{sensor}}/{name}"\npayload = "json"\n{more}'
        for name, more in (("t", 'sensors = ["a"]'), ("u", 'timezone = "Europe/Berlin"'))
    ]

    load(tmp_path, config(reading="", other="\n".join(sources)))

    (record,) = caplog.records
    assert "fields.heat.readings[1].timezone has no effect, because `time` is" in record.message


def test_a_file_with_errors_is_not_warned_of_settings_without_effect(tmp_path, caplog):
    with pytest.raises(ConfigError):
        load(tmp_path, config(other='next_activation = "at-once"\nper_interval = 99'))

    assert not caplog.records
