"""Configuration: a file is read completely, or every mistake is reported with its line."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Annotated

import jsonschema
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Meta
from msgspec.structs import replace
from support.paths import DEPLOY
from support.settings import AnyFormats, field_settings

from edge_tvbo.config import loader
from edge_tvbo.config.docs import explain, policy_entries
from edge_tvbo.config.errors import Report
from edge_tvbo.config.field_settings import FieldSettings
from edge_tvbo.config.field_types import Secret, seconds
from edge_tvbo.config.introspection import policy_parameters, settings_of
from edge_tvbo.config.json_schema import json_schema
from edge_tvbo.config.mqtt_settings import Mqtt, ReadonlyLogin
from edge_tvbo.config.reader import read_table
from edge_tvbo.config.settings import Settings
from edge_tvbo.config.toml_positions import key_places
from edge_tvbo.daemon.build_controllers import controllers
from edge_tvbo.errors import ConfigError
from edge_tvbo.models.beta import LogBeta
from edge_tvbo.policy import policies
from edge_tvbo.policy.auto_settings import AutoSettings
from edge_tvbo.policy.gp_settings import EtGpUcbSettings
from edge_tvbo.policy.registry import parameters_of, settings_class
from edge_tvbo.policy.settings import PolicySettings
from edge_tvbo.training.covariance import train, with_structure
from edge_tvbo.training.model_file import write

EXAMPLE = DEPLOY / "config.example.toml"
PAYLOADS = AnyFormats(("number", "json"))

PLAIN = """\
[mqtt]
host = "broker.lan"

[fields.heat]
interval = "10min"
kernel = { name = "se", length_scale = 6, variance = 12.0, noise_variance = 0.05, mean = 21 }
positions = { a = [0, 0], b = [1, 2.5] }
sensors = ["a", "b"]
reading = { topic = "lab/{sensor}/t" }
"""


def load(tmp_path, text, **files):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    path = tmp_path / "config.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return loader.load(path, PAYLOADS)


def findings(tmp_path, text, **files):
    with pytest.raises(loader.ConfigErrors) as caught:
        load(tmp_path, text, **files)
    return caught.value.findings


def with_line(line, text=PLAIN):
    """Return `text` with a setting of the field added or replaced."""
    name = line.partition(" = ")[0]
    kept = [each for each in text.splitlines() if not each.startswith(name + " =")]
    return "\n".join([*kept, line])


# --- valid files ------------------------------------------------------------------------------


def test_a_short_file_gets_every_default(tmp_path):
    settings = load(tmp_path, PLAIN)

    field = settings.fields["heat"]
    assert (settings.instance, settings.health, settings.mqtt.port) == ("edge", 60.0, 1883)
    assert (field.interval, field.reply_timeout, field.max_age) == (600.0, 120.0, 600.0)
    assert field.policy == AutoSettings()
    assert (field.activate.mode, field.activate.payload) == ("advise", "1")
    assert field.positions == {"a": (0.0, 0.0), "b": (1.0, 2.5)}
    assert field.sensors == ("a", "b")
    assert field.kernel is not None and field.kernel.mean == 21.0


def test_without_a_fixed_interval_the_timeouts_are_fixed(tmp_path):
    field = load(tmp_path, with_line('interval = "on-reading"')).fields["heat"]

    assert (field.interval, field.reply_timeout, field.max_age) == ("on-reading", 120.0, 600.0)


def test_the_reported_limit_of_reply_timeout_is_allowed(tmp_path):
    text = with_line('sensors = ["a", "b", "c", "d", "e", "f", "g"]')
    text = text.replace('"se", length_scale = 6', '"exchangeable"').replace("positions", "# p")
    text = with_line("per_interval = 7", text)
    (found,) = findings(tmp_path, with_line('reply_timeout = "2min"', text))

    limit = found.message.partition("divided by 7, ")[2].split()[0]

    assert limit == "85714ms"
    assert load(tmp_path, with_line(f'reply_timeout = "{limit}"', text))


NAMED = [f"sensor-{number}" for number in range(30)]
UNKNOWN = [f"sensors-{number}" for number in range(30)]


@pytest.mark.parametrize(
    "line",
    [
        f"names = {{ {', '.join(f'{each} = {each!r}' for each in UNKNOWN)} }}",
        f"positions = {{ {', '.join(f'{each} = [0, 0]' for each in UNKNOWN)} }}",
        f"energy = {{ sensors = {{ {', '.join(f'{each}.cost = 1' for each in UNKNOWN)} }} }}",
        f'reading = []\nreadings = [{{ topic = "x/{{sensor}}", sensors = {UNKNOWN} }}]',
    ],
    ids=["names", "positions", "energy", "readings"],
)
def test_few_of_many_unknown_names_get_a_similar_name(tmp_path, line):
    text = with_line(f"sensors = {NAMED}").replace('"se", length_scale = 6', '"exchangeable"')
    text = text.replace("reading = {", "#").replace("positions = {", "#")
    found = findings(tmp_path, with_line(line, text))

    unknown = [each.message for each in found if each.code == "E109"]

    assert len(unknown) == 30
    assert sum("did you mean" in each for each in unknown) == 10


@pytest.mark.parametrize(
    ("lines", "key", "expected"),
    [
        (
            ["per_interval = 2", 'reply_timeout = "6min"'],
            "reply_timeout",
            "at most the interval divided by 2, 5min",
        ),
        (
            ["survey = { per_interval = 2 }", 'reply_timeout = "6min"'],
            "reply_timeout",
            'with next_activation = "at-once", reply_timeout may be as long as the interval',
        ),
        (["per_interval = 2", 'interval = "on-reading"'], "per_interval", 'as interval = "10min"'),
        (
            ["survey = { per_interval = 2 }", 'interval = "on-reading"'],
            "survey.per_interval",
            'interval = "on-reading"',
        ),
        (
            ["per_interval = 2", "survey = { per_interval = 2 }"],
            "survey.per_interval",
            "allowed: more than per_interval, which is 2",
        ),
    ],
)
def test_settings_of_several_activations_that_contradict_each_other(tmp_path, lines, key, expected):
    text = PLAIN
    for line in lines:
        text = with_line(line, text)
    (finding,) = findings(tmp_path, text)
    assert finding.key == f"fields.heat.{key}"
    assert expected in str(finding)


@pytest.mark.parametrize(
    ("number", "order", "timeout"),
    [(5, "after-reply", 120.0), (10, "after-reply", 60.0), (10, "at-once", 120.0)],
)
def test_default_reply_timeouts_of_all_activations_fit_in_the_interval(
    tmp_path, number, order, timeout
):
    sensors = [f"s{n}" for n in range(10)]
    text = with_line(f"sensors = {json.dumps(sensors)}", with_line(f"per_interval = {number}"))
    text = "\n".join(each for each in text.splitlines() if not each.startswith("positions"))
    text = with_line(
        'kernel = { name = "exchangeable", variance = 4.0, noise_variance = 1, mean = 9 }', text
    )
    field = load(tmp_path, with_line(f'next_activation = "{order}"', text)).fields["heat"]
    assert field.reply_timeout == timeout
    assert field.max_per_interval == number


def test_survey_counts_the_intervals_that_begin_in_it(tmp_path):
    line = 'survey = { for = "25min", per_interval = 2 }'
    field = load(tmp_path, with_line(line)).fields["heat"]
    assert (field.survey.length, field.survey.per_interval) == (1500.0, 2)
    assert (field.survey_intervals, field.max_per_interval) == (3, 2)
    assert load(tmp_path, PLAIN).fields["heat"].survey_intervals == 0


def test_a_model_replaces_kernel_and_positions(tmp_path):
    lines = [each for each in PLAIN.splitlines() if not each.startswith(("kernel", "positions"))]

    field = load(tmp_path, "\n".join([*lines, 'model = "m.json"']), **{"m.json": "{}"})

    assert field.fields["heat"].model == tmp_path / "m.json"


def test_positions_are_read_from_a_file_by_id_or_by_number(tmp_path):
    text = with_line('sensors = ["mote-1", "mote-12"]', with_line('positions = "locs.txt"'))

    field = load(tmp_path, text, **{"locs.txt": "# id x y\n1 21.5 23\n\nmote-12 1 2\n12 9 9\n"})

    assert field.fields["heat"].positions == {"mote-1": (21.5, 23.0), "mote-12": (1.0, 2.0)}


def test_a_positions_file_may_begin_with_a_byte_order_mark(tmp_path):
    text = with_line('sensors = ["a", "b"]', with_line('positions = "locs.txt"'))

    field = load(tmp_path, text, **{"locs.txt": "\ufeffa 1 2\nb 3 4\n"}).fields["heat"]

    assert field.positions == {"a": (1.0, 2.0), "b": (3.0, 4.0)}


def test_a_coordinate_with_an_underscore_or_another_digit_is_rejected(tmp_path):
    text = with_line('sensors = ["a", "b"]', with_line('positions = "locs.txt"'))

    found = findings(tmp_path, text, **{"locs.txt": "a 1_5 2\nb 3 ٤\n"})

    messages = " ".join(each.message for each in found)
    assert '"a 1_5 2" is not a position' in messages
    assert '"b 3 ٤" is not a position' in messages


def test_positions_of_a_file_and_of_a_table_have_the_same_range(tmp_path):
    text = with_line('sensors = ["a", "b"]')
    by_file = with_line('positions = "locs.txt"', text)
    by_table = with_line("positions = { a = [1e10, 0], b = [1e9, 0] }", text)

    of_file = findings(tmp_path, by_file, **{"locs.txt": "a 1e10 0\nb 1e9 0\n"})
    of_table = findings(tmp_path, by_table)

    assert [each.line for each in of_file if each.file.endswith("locs.txt")] == [1]
    assert any('the position of "a" must be -1e9 to 1e9' in each.message for each in of_file)
    assert [each.key for each in of_table] == ["fields.heat.positions.a"]


def test_payload_and_policy_settings_are_read(tmp_path):
    text = with_line('policy = { name = "et-gp-ucb", delta_b = 0.2, beta = { c1 = 1, c2 = 4 } }')
    text = with_line('reading = { topic = "x/{sensor}", payload = "json", value = "t" }', text)

    field = load(tmp_path, text).fields["heat"]

    assert field.reading.settings == {"value": "t"}
    assert field.policy == EtGpUcbSettings(delta_b=0.2, beta=LogBeta(1.0, 4.0))


def test_policy_table_builds_the_policy_of_its_keywords(tmp_path):
    from edge_tvbo import SensorField, make_policy
    from edge_tvbo.policy import build_policy

    text = "delta_b = 0.2, n_upper = 9, beta = { c1 = 1, c2 = 4 }, seed = 3"
    text = with_line(f'policy = {{ name = "et-gp-ucb", {text} }}')
    settings = load(tmp_path, text).fields["heat"].policy

    field = SensorField(("a", "b"), [[1, 0.5], [0.5, 1]], noise_variance=0.01)
    beta = {"c1": 1, "c2": 4}
    same = make_policy("et-gp-ucb", field, delta_b=0.2, n_upper=9, beta=beta, seed=3)
    assert build_policy(settings, field).select() == same.select()


def test_payload_formats_are_not_checked_without_a_list_of_formats(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(with_line('reading = { topic = "x/{sensor}", payload = "mine" }'))

    assert loader.load(path).fields["heat"].reading.payload == "mine"


def test_two_fields_read_different_values_of_a_message_with_the_settings_of_another_package(
    tmp_path,
):
    """A payload format of another package may choose the value by any setting, such as `column`."""
    field = PLAIN[PLAIN.index("[fields") :]
    path = tmp_path / "config.toml"

    def load_with(heat, damp):
        tables = [
            field.replace("heat", name).replace('t" }', f't", payload = "delimited", {chosen} }}')
            for name, chosen in (("heat", heat), ("damp", damp))
        ]
        path.write_text("\n".join(tables))
        return loader.load(path, AnyFormats((*PAYLOADS, "delimited")))

    assert list(load_with('column = "2"', 'column = "3"').fields) == ["heat", "damp"]
    with pytest.raises(loader.ConfigErrors, match="also reads a"):
        load_with('column = "2"', 'column = "2", timezone = "UTC"')


def test_windows_line_ends_byte_order_mark_and_tabs_are_accepted(tmp_path):
    text = "\ufeff" + PLAIN.replace("\n", "\r\n").replace(" = ", "\t=\t")

    assert load(tmp_path, text).mqtt.host == "broker.lan"


def test_a_password_is_read_from_a_file_and_never_printed(tmp_path):
    text = PLAIN.replace("[mqtt]", '[mqtt]\nusername = "u"\npassword_file = "pw"')

    mqtt = load(tmp_path, text, pw="\ufeffhunter2\r\n").mqtt  # of a Windows editor

    assert mqtt.password is not None and mqtt.password.reveal() == "hunter2"
    assert "hunter2" not in f"{mqtt} {mqtt!r} {mqtt.password} {mqtt.password!s:>9}"


def test_the_example_configuration_is_valid():
    settings = loader.load(EXAMPLE, PAYLOADS)

    assert list(settings.fields["temperature"].positions or ()) == ["mote-1", "mote-2", "mote-3"]


def every_name(kind, prefix=""):
    for name, setting in settings_of(kind).items():
        yield prefix + name
        if setting.named:
            yield from every_name(setting.named[1], f"{prefix}{name}.<name>.")
        elif setting.table:
            yield from every_name(setting.table, f"{prefix}{name}.")


@pytest.mark.parametrize("name", ["config.toml", "pw"])
def test_a_file_that_every_user_can_change_is_warned_of(tmp_path, caplog, name):
    text = PLAIN.replace("[mqtt]", '[mqtt]\nusername = "u"\npassword_file = "pw"')
    load(tmp_path, text, pw="hunter2\n")
    assert caplog.messages == []
    (tmp_path / name).chmod(0o602)
    loader.load(tmp_path / "config.toml", PAYLOADS)

    assert f"every user of this machine can change {tmp_path / name}" in caplog.text
    assert f"chmod o-w {tmp_path / name}" in caplog.text


def test_the_printed_command_that_protects_a_file_quotes_its_path(tmp_path, caplog):
    directory = tmp_path / "my lab"
    directory.mkdir()
    load(directory, PLAIN)
    (directory / "config.toml").chmod(0o602)
    loader.load(directory / "config.toml", PAYLOADS)

    assert f"chmod o-w '{directory / 'config.toml'}'" in caplog.text


def test_the_token_of_the_metrics_is_read_from_its_file_and_not_shown(tmp_path):
    text = f'{PLAIN}[metrics]\nport = 9464\ntoken_file = "secret"\n'

    assert load(tmp_path, text, secret="correct horse\n").metrics.token == Secret("correct horse")
    with pytest.raises(ConfigError, match="metrics.token_file is set together with token"):
        load(tmp_path, f'{text}token = "battery staple"\n', secret="correct horse\n")
    path = tmp_path / "shown.toml"
    path.write_text(f'{PLAIN}[metrics]\nport = 9464\ntoken = "correct horse"\n')
    assert "correct horse" not in "\n".join(loader.origins(path))


def test_explain_has_every_setting_with_a_description():
    said = explain()

    names = list(every_name(Settings))
    assert {"mqtt.reconnect.min", "fields.<name>.policy.seed"} <= set(names)
    for name in names:
        assert re.search(rf"^{re.escape(name)} = .+\n    [A-Z].+", said, re.MULTILINE), name


def test_a_policy_without_a_docstring_is_explained_by_its_parameters_alone():
    """Base classes have docstrings for programmers; with `python -OO`, no policy has its own."""

    class Undocumented(PolicySettings, frozen=True, kw_only=True, tag="undocumented"):
        rate: Annotated[float, Meta(ge=0, description="The rate.")] = 0.5

    (entry,) = policy_entries([Undocumented])
    assert entry.description == ""
    assert [one.description for one in entry.parameters] == ["The rate."]


def test_explain_has_every_parameter_of_every_policy_with_its_range():
    said = explain()

    key = re.escape("fields.<name>.policy")
    for name in policies():
        assert re.search(rf'^{key}\.name = "{name}"\n    [A-Z].+', said, re.MULTILINE), name
        for one in parameters_of(settings_class(name)):
            if one.name not in PolicySettings.__struct_fields__:
                pattern = rf"^{key}\.{one.name} = .+\n    {name}: [A-Z].+"
                assert re.search(pattern, said, re.MULTILINE), (name, one.name)
    assert "policy.gamma = a number, above 0, at most 1\n    w-gp-ucb: " in said
    assert "policy.window = a whole number, 1 to 4096\n    w-gp-ucb: " in said


def test_loading_a_configuration_imports_no_numpy():
    """Heavy libraries would make `check` slow on a small computer."""
    code = (
        "import sys, pathlib; from edge_tvbo.config import loader;"
        f"loader.load(pathlib.Path({str(EXAMPLE)!r}));"
        "assert not {'numpy', 'numba', 'paho'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- mistakes ---------------------------------------------------------------------------------

TWELVE = """\
instance = "Lab 1"
helth = "60s"

[mqtt]
port = 70000
passwd = "hunter2"
keepalive = "2s"

[fields.temperature]
objective = "maximum"
interval = "10m"
kernel = { name = "matern-5/2", length_scale = 0, variance = 12, noise_variance = 0.05, mean = 21 }
positions = { mote-1 = [0, 0], mote-2 = [1, 1] }
sensors = [
    "mote-1",   # = [
    "mote 2",
    "mote-3",
]
policy = { name = "et-gp-ucb", delta = 0.1 }
reading = { topic = "lab/#/temperature", payload = "json" }
activate = { mode = "live" }
"""


def test_twelve_mistakes_are_reported_at_once_each_with_its_line(tmp_path):
    found = findings(tmp_path, TWELVE)

    assert [(each.line, each.key.removeprefix("fields.temperature.")) for each in found] == [
        (1, "instance"),
        (2, "helth"),
        (5, "mqtt.port"),
        (6, "mqtt.passwd"),
        (7, "mqtt.keepalive"),
        (10, "objective"),
        (11, "interval"),
        (12, "kernel.length_scale"),
        (16, "sensors[1]"),
        (19, "policy.delta"),
        (20, "reading.topic"),
        (21, "activate.topic"),
    ]
    text = str(loader.ConfigErrors(found))
    assert text.splitlines() == [str(each) for each in found]
    assert 'did you mean "password"?' in text
    assert 'did you mean "10min"?' in text
    assert "hunter2" not in text


FIELD = [
    ('interval = "5ms"', "interval", "10ms to 366d"),
    ("interval = 600", "interval", 'did you mean "600s"?'),
    ('interval = "10 minutes"', "interval", 'did you mean "10min"?'),
    ('interval = "5 minuts"', "interval", 'did you mean "5min"?'),
    ('interval = "1,5 hours"', "interval", 'did you mean "1.5h"?'),
    ('interval = "on_reading"', "interval", '(did you mean "on-reading"?)'),
    ('reply_timeout = "11min"', "reply_timeout", "at most the interval, 10min"),
    ("per_interval = 17", "per_interval", "1 to 16"),
    ("per_interval = 3", "per_interval", "at most the number of sensors, 2"),
    ("survey = { per_interval = 1 }", "survey.per_interval", "2 to 16"),
    ('survey = { for = "1 day" }', "survey.for", "a duration, 1min to 366d"),
    ("survey = { days = 1 }", "survey.days", "the settings of fields.heat.survey are for"),
    ('next_activation = "at_once"', "next_activation", 'did you mean "at-once"?'),
    ('objective = "mx"', "objective", 'did you mean "max"?'),
    ('learn_from = "none"', "learn_from", '"all" or "activated"'),
    ("unit = 3", "unit", "a text"),
    ("max_backoff = 0", "max_backoff", "1 to 65536"),
    ("max_backoff = true", "max_backoff", "is true"),
    ('max_age = "1y"', "max_age", "a duration"),
    ('max_future = ""', "max_future", "a duration"),
    ("sensors = []", "sensors", "1 to 2000"),
    (f"sensors = {[f's{i}' for i in range(2001)]}", "sensors", "has 2001 items"),
    ('sensors = ["a", "b", "a"]', "sensors[2]", "once"),
    ('sensors = ["a", 3]', "sensors[1]", "is 3"),
    ('sensors = ["a", "b", "c"]', "positions", "no position for c"),
    ('sensors = "a"', "sensors", "an array"),
    ("positions = { a = [0, 0], b = [1] }", "positions.b", "[x, y]"),
    ("positions = { a = [0, 0], b = [1, nan] }", "positions.b", "[x, y]"),
    ("positions = { a = [0, 0], b = [1, 2], bb = [1, 2] }", "positions.bb", "not one of"),
    ("positions = {}", "positions", "empty"),
    ("positions = 3", "positions", "the name of a file"),
    ('positions = "none.txt"', "positions", "does not exist"),
    ('positions = "empty.txt"', "positions", "no line `id x y`"),
    ('model = "none.json"', "model", "does not exist"),
    ("kernel = 3", "kernel", "a table"),
    ("kernel.name = 'se'", "kernel.mean", "expected to have on average"),
    ('policy = "et-gp-ucb"', "policy", 'a table (write policy = { name = "et-gp-ucb" })'),
    ('policy = "et-gp-ubc"', "policy", 'a table (write policy = { name = "et-gp-ucb" })'),
    ('policy = { name = "et-gp-ubc" }', "policy.name", 'did you mean "et-gp-ucb"?'),
    ("policy = { window = 64 }", "policy.window", "not a parameter of auto"),
    ('policy = { name = "sw-gp-ucb", windw = 9 }', "policy.windw", 'did you mean "window"?'),
    ('policy = { name = "sw-gp-ucb", window = 0 }', "policy.window", "1 to 4096"),
    ('policy = { name = "sw-gp-ucb", window = 4097 }', "policy.window", "1 to 4096"),
    ('policy = { name = "sw-gp-ucb", window = 6.5 }', "policy.window", "a whole number"),
    ('policy = { name = "tv-gp-ucb", epsilon = 1.1 }', "policy.epsilon", '0 to 1, or "fitted"'),
    ('policy = { name = "tv-gp-ucb", epsilon = "fit" }', "policy.epsilon", 'mean "fitted"?'),
    ('policy = { name = "w-dbo", epsilon = 1 }', "policy.epsilon", "at least 0, below 1"),
    ('policy = { name = "mtv-gp-ucb", alpha = 0.99 }', "policy.alpha", "at most epsilon (0.95)"),
    ('policy = { name = "ui-tvbo", sigma_w2 = -1 }', "policy.sigma_w2", "at least 0"),
    ('policy = { name = "r-gp-ucb", period = 0 }', "policy.period", "at least 1"),
    ('policy = { name = "w-dbo", alpha = [] }', "policy.alpha", "a number"),
    ('policy = { name = "rexp3", gamma = 1.5 }', "policy.gamma", "above 0, at most 1"),
    ('policy = { name = "mcmc-gp-ucb", prior = [1] }', "policy.prior", "an array of 2"),
    ('policy = { name = "static", sensor = 3 }', "policy.sensor", "a text"),
    ('policy = { name = "random", window = 3 }', "policy.window", "allowed: seed"),
    ('policy = { name = "gp-ucb", beta = "least-bound" }', "policy.beta", "a table { c1 = ..."),
    ('policy = { name = 3 }', "policy.name", "the name of a policy"),
    ('window = 3', "window", "window belongs in policy"),
    ('name = "gp-ucb"', "name", "name belongs in policy"),
    ("policy = { delta_b = 1 }", "policy.delta_b", "above 0, below 1"),
    ("policy = { delta_b = nan }", "policy.delta_b", "above 0, below 1"),
    (
        'policy = { name = "et-gp-ucb", n_lower = 9, n_upper = 8 }',
        "policy.n_lower",
        "at most n_upper (8)",
    ),
    ('policy = { name = "et-gp-ucb", keep_last = 1 }', "policy.keep_last", "true or false"),
    ('policy = { name = "et-gp-ucb", noise_cap = 0 }', "policy.noise_cap", "at least 1"),
    (
        'policy = { name = "et-gp-ucb", noise_cap = 3, trigger = "likelihood-ratio" }',
        "policy.noise_cap",
        'only the trigger "error-bound" has this parameter',
    ),
    (
        'policy = { name = "tv-gp-ucb", epsilon = "fitted", beta = "least-bound" }',
        "policy.beta",
        "epsilon must then be a number",
    ),
    ("policy = { seed = -1 }", "policy.seed", "0 to 9223372036854775807"),
    ("policy = { beta = 0 }", "policy.beta", "above 0"),
    ("policy = { beta = { c1 = 1, c2 = 0 } }", "policy.beta.c2", "above 0"),
    ("policy = { beta = { c1 = 1, c2 = 1, c3 = 1 } }", "policy.beta.c3", "not a setting"),
    ('reading = { topic = "lab/t" }', "reading.topic", "{sensor}"),
    ('reading = { topic = "{sensor}/{sensor}" }', "reading.topic", "once"),
    ('reading = { topic = "{sensor}/x-{sensor}" }', "reading.topic", "exactly once"),
    ('activate = { mode = "sleepy" }', "activate.topic", 'mode "sleepy" needs a topic'),
    ('names = { c = "Living room" }', "names.c", "is not one of the sensors"),
    ('names = { a = "Living/room" }', "names.a", 'is "Living/room"; allowed: 1 to 64'),
    ('names = { a = "hall", b = "hall" }', "names.b", "each sensor needs its own name"),
    ('names = { a = "" }', "names.a", "1 to 64"),
    ('names = { a = "hall\\u202e" }', "names.a", "1 to 64"),
    ('reading = { topic = "lab/+/{sensor}" }', "reading.topic", "wildcards"),
    ('reading = { topic = "$SYS/{sensor}" }', "reading.topic", "reserved for the broker"),
    ('reading = { topic = "a\\u0000/{sensor}" }', "reading.topic", "control character"),
    ('reading = { topic = "{sensor}/{room}" }', "reading.topic", "{room} is not a placeholder"),
    ('reading = { topic = "{sensor}/{" }', "reading.topic", "braces"),
    ('reading = { topic = "edge_tvbo/{sensor}" }', "reading.topic", "reserved for the daemon"),
    (f'reading = {{ topic = "{{sensor}}/{"a" * 65535}" }}', "reading.topic", "too long"),
    ('reading = { topic = "x/{sensor}", payload = "jsn" }', "reading.payload", '"json"'),
    ('reading = { topic = "x/{sensor}", value = 3 }', "reading.value", "a text"),
    ('reading = { payload = "json" }', "reading.topic", "is missing"),
    ('activate = { mode = "live" }', "activate.topic", "is missing"),
    ('activate = { mode = "alive" }', "activate.mode", 'did you mean "live"?'),
    ('activate = { topic = "lab/go" }', "activate.topic", "all sensors"),
    ('activate = { topic = "lab/{sensor}/#" }', "activate.topic", "wildcards"),
    ('activate = { topic = "lab/{sensor}/\\u200bgo" }', "activate.topic", "cannot be printed"),
    ('activate = { topic = "edge_tvbo/{sensor}" }', "activate.topic", "reserved for the daemon"),
    ('activate = { topic = "lab/{sensor}/t" }', "activate.topic", "reading topic of fields.heat"),
    ('activate = { payload = "{sensr}" }', "activate.payload", "{sensr}"),
    ('port = 1883', "port", "port belongs in [mqtt]"),
    ("objectiv = 'max'", "objectiv", 'did you mean "objective"?'),
]  # fmt: skip


@pytest.mark.parametrize(("line", "key", "says"), FIELD, ids=[each[0][:50] for each in FIELD])
def test_a_mistake_in_a_field_is_reported_with_its_key_and_line(tmp_path, line, key, says):
    text = with_line(line)
    if line.startswith("model"):
        text = re.sub("(?m)^(kernel|positions).*$", "", text)
    if line.startswith("kernel."):
        text = re.sub("(?m)^kernel = .*$", "", text)

    found = findings(tmp_path, text, **{"empty.txt": "# nothing\n"})

    named = [each for each in found if each.key == f"fields.heat.{key}"]
    assert len(named) == 1, found
    assert says in named[0].message
    at = 1 + text.splitlines().index(line)
    assert named[0].line == (at if line.startswith(key[:3]) else 7)


def test_a_field_without_sensors_has_no_finding_for_each_sensor_of_its_sources(tmp_path):
    """One half of a field whose name was changed in only one of its tables."""
    text = """
[fields.heat]
interval = "10s"
kernel = { name = "exchangeable", variance = 1, noise_variance = 0.1, mean = 20 }

[[fields.heat.readings]]
topic = "lab/{sensor}/t"
sensors = ["a", "b", "c"]
"""
    assert [each.key for each in findings(tmp_path, text)] == ["fields.heat.sensors"]


def test_every_invalid_name_is_reported(tmp_path):
    found = findings(tmp_path, with_line('names = { a = "x/y", b = 3, c = "hall" }'))

    assert [each.key for each in found] == [f"fields.heat.names.{name}" for name in "abc"]


def test_one_table_of_readings_gets_both_right_headers_as_a_hint(tmp_path):
    text = """
[fields.heat]
interval = "10s"
sensors = ["a", "b", "c"]
kernel = { name = "exchangeable", variance = 1, noise_variance = 0.1, mean = 20 }

[fields.heat.readings]
topic = "lab/{sensor}/t"
"""
    (finding,) = findings(tmp_path, text)
    assert finding.key == "fields.heat.readings"
    assert "[[fields.<name>.readings]]" in finding.message
    assert "[fields.<name>.reading]" in finding.message


MQTT = [
    ("port = 0", "port", "1 to 65535"),
    ('port = "1883"', "port", "a whole number"),
    ("port = 0xfffffffffffffffffffffffffffffffffffffffffff", "port", "a huge number"),
    ('keepalive = "4s"', "keepalive", "5 to 3600"),
    ("keepalive = 3601", "keepalive", "5 to 3600"),
    ('keepalive = "5500ms"', "keepalive", "whole seconds"),
    ("keepalive = inf", "keepalive", "whole seconds"),
    ('username = ""', "username", "1 to 4096 characters"),
    ('password = "hunter2"', "password", "add username"),
    ("password = { hunter2 = 1 }", "password", "a text"),
    ('username = "u"\npassword = "hunter2"\npassword_file = "pw"', "password_file", "remove one"),
    ('username = "u"\npassword_file = "none"', "password_file", "does not exist"),
    ('username = "u"\npassword_file = "empty"', "password_file", "empty"),
    ('password_file = "pw"', "password_file", "add username"),
    ('reconnect = { min = "2min" }', "reconnect.min", "at most reconnect.max, 1min"),
    ('reconnect = { mn = "2min" }', "reconnect.mn", 'did you mean "min"?'),
    ('reconnect = { max = "0s" }', "reconnect.max", "100ms to 1d"),
    ("client_id = []", "client_id", "an empty array"),
    ('passwd = "hunter2"', "passwd", 'did you mean "password"?'),
    ('health = "1s"', "health", "at the top, before the first [table]"),
]


@pytest.mark.parametrize(("lines", "key", "says"), MQTT, ids=[each[0] for each in MQTT])
def test_a_mistake_in_mqtt_is_reported_with_its_key_and_line(tmp_path, lines, key, says):
    text = PLAIN.replace('host = "broker.lan"', lines)

    found = findings(tmp_path, text, pw="hunter2", empty="\n")

    assert [each.key for each in found] == [f"mqtt.{key}"]
    assert says in found[0].message
    assert found[0].line == 2 + lines.count("\n")
    assert "hunter2" not in str(found)


@pytest.mark.parametrize("host", ["mqtt://u:hunter2@lan", "u:hunter2@lan", "a b", "", "lan/x"])
def test_a_url_as_host_is_rejected_and_its_password_not_repeated(tmp_path, host):
    found = findings(tmp_path, PLAIN.replace("broker.lan", host))

    assert [(each.key, each.line) for each in found] == [("mqtt.host", 2)]
    assert "hunter2" not in str(found)


OTHER = [
    ("fields = {}", 1, "is empty; add a table"),
    ("", 1, "fields is missing"),
    ("mqtt = 3\n" + PLAIN.partition("\n\n")[2], 1, "mqtt is 3; allowed: a table"),
    ('instance = "A"\n' + PLAIN, 1, "a-z 0-9"),
    ('instance = "a\\n"\n' + PLAIN, 1, "a-z 0-9"),
    ("health = 60\n" + PLAIN, 1, 'did you mean "60s"?'),
    (PLAIN.replace("heat", "Heat"), 4, "not a valid name"),
    (PLAIN.replace("heat", "status"), 4, "a topic of the daemon"),
    ("fields.unit = 'K'\n" + PLAIN, 1, "unit belongs in [fields.<name>]"),
    (re.sub("(?m)^(kernel|positions).*$", "", PLAIN), 4, "neither model nor kernel"),
    (re.sub("(?m)^positions.*$", "", PLAIN), 6, "needs positions"),
    (re.sub("(?m)^kernel.*$", "", PLAIN), 4, "neither model nor kernel"),
    (PLAIN + '\nmodel = "pw"', 6, "is set together with model"),
    (
        PLAIN + PLAIN.partition("\n\n")[2].replace("heat", "cold"),
        15,
        "differ in the setting `value`",
    ),
    (
        PLAIN.replace('"a"', '"edge_tvbo"').replace("lab/{sensor}", "{sensor}"),
        9,
        "would use topics of the daemon",
    ),
]


@pytest.mark.parametrize(("text", "line", "says"), OTHER)
def test_a_mistake_elsewhere_is_reported_with_its_line(tmp_path, text, line, says):
    found = findings(tmp_path, text, pw="x")

    assert any(each.line == line and says in each.message for each in found), found


def test_fields_that_read_different_values_may_share_a_topic(tmp_path):
    line = 'reading = { topic = "x/{sensor}", payload = "json", value = "t" }'
    text = with_line(line)

    both = text + "\n" + text.partition("\n\n")[2].replace("heat", "wet").replace('"t"', '"h"')

    assert list(load(tmp_path, both).fields) == ["heat", "wet"]


SHARED_TOPIC = """
[fields.heat.energy]
battery = {{ topic = "lab/{{sensor}}/x", payload = "json", value = "{charge}" }}

[fields.{other}]
unit = "{unit}"
interval = "10min"
kernel = {{ name = "exchangeable", variance = 12.0, noise_variance = 0.05, mean = 21 }}
sensors = ["{sensor}", "c"]
reading = {{ topic = "lab/{{sensor}}/x", payload = "json", value = "x", time = "ts" }}
"""


@pytest.mark.parametrize(
    ("changes", "accepted"),
    [
        ({"other": "humidity"}, False),
        ({"unit": "lx"}, False),
        ({}, True),  # a field of charges, which looks for the emptiest battery
        ({"unit": "percent"}, True),  # an unknown unit may be another name of %
        ({"other": "humidity", "charge": "battery"}, True),
        ({"other": "humidity", "sensor": "d"}, True),
    ],
)
def test_a_battery_charge_is_no_reading_of_another_quantity(tmp_path, changes, accepted):
    usual = {"other": "charges", "unit": "%", "charge": "x", "sensor": "a"}
    text = PLAIN + SHARED_TOPIC.format(**usual | changes)

    if accepted:
        load(tmp_path, text)
        return
    (found,) = findings(tmp_path, text)
    assert found.key == "fields.heat.energy.battery.topic"
    other = changes.get("other", "charges")
    assert f"the reading of fields.{other} would be the same value of a message" in found.message


def test_invalid_topics_of_a_battery_and_of_another_field_are_reported(tmp_path):
    text = PLAIN + SHARED_TOPIC.format(other="humidity", unit="%", charge="x", sensor="a")

    found = findings(tmp_path, text.replace('"lab/{sensor}/x"', "5"))

    topics = ["fields.heat.energy.battery.topic", "fields.humidity.reading.topic"]
    assert [each.key for each in found] == topics


def test_a_battery_charge_is_no_reading_of_its_field_whatever_the_time(tmp_path):
    reading = 'topic = "x/{sensor}", payload = "json", value = "t"'
    text = with_line(f'reading = {{ {reading}, time = "ts" }}\nenergy.battery = {{ {reading} }}')

    (found,) = findings(tmp_path, text)

    assert found.key == "fields.heat.energy.battery.topic"
    assert "the same value of a message" in found.message


def test_two_lines_of_a_positions_file_with_one_id_are_an_error_with_both_lines(tmp_path):
    text = with_line('sensors = ["mote-1", "mote-2"]', with_line('positions = "locs.txt"'))

    (found,) = findings(tmp_path, text, **{"locs.txt": "1 0 0\n2 1 1\n1 5 5\n"})

    assert (found.file, found.line) == (str(tmp_path / "locs.txt"), 3)
    assert found.message == '"1" has another position in line 1; remove one of the two lines'


def test_two_positions_for_one_sensor_in_a_table_are_an_error_with_both_places(tmp_path):
    table = "positions = { 1 = [0, 0], mote-1 = [5, 5], mote-2 = [1, 1] }"
    text = with_line('sensors = ["mote-1", "mote-2"]', with_line(table))

    (found,) = findings(tmp_path, text)

    line, column = found.line, 1 + table.index("mote-1")
    assert (found.key, found.column) == ("fields.heat.positions.1", 1 + table.index("1"))
    assert f"another position at {found.file}:{line}:{column};" in found.message


@pytest.mark.parametrize("sensors", [("1", "mote-1"), ("north-1", "south-1")])
def test_a_number_is_not_the_position_of_two_sensors(sensors, tmp_path):
    text = with_line(f"sensors = {list(sensors)}", with_line('positions = "locs.txt"'))

    (found,) = findings(tmp_path, text, **{"locs.txt": "1 0 0\n"})

    missing = [each for each in sensors if each != "1"]
    assert f"has no position for {', '.join(missing)}; each sensor needs" in found.message
    assert '"1" could mean several sensors; list each sensor by its id' in found.message


def test_a_sensor_whose_id_is_a_number_has_its_own_position(tmp_path):
    text = with_line('sensors = ["1", "mote-1"]', with_line('positions = "locs.txt"'))
    (tmp_path / "locs.txt").write_text("mote-1 5 5\n1 0 0\n")

    positions = load(tmp_path, text).fields["heat"].positions

    assert positions == {"1": (0.0, 0.0), "mote-1": (5.0, 5.0)}


def test_an_invalid_line_of_a_positions_file_is_reported_with_that_file(tmp_path):
    lines = "a 0 0\nb 1\nb 1 nan\na 1 1\nb 1 1\n"

    found = findings(tmp_path, with_line('positions = "locs.txt"'), **{"locs.txt": lines})

    assert {each.file for each in found} == {str(tmp_path / "locs.txt")}
    assert [each.line for each in found] == [2, 3, 4]


SYNTAX = [
    (b'a = 1\nb = "x', 2, "this is not TOML"),
    (b"a = [1,\n2,\n\n", 2, "this is not TOML"),
    (b'a = [\n"b" "c"]\n', 2, "separate the items by commas"),
    (b"[a.b]\n[a]\n[[c]]\n[a.b]\n", 4, "declare [a.b] twice"),
    (b"[a]\n[a]\n", 2, "declare [a] twice"),
    (b"a = 1\n[b\nc = 2\n", 2, "end the name of the table with ]"),
    (b"a = 1\n[[b.c]\nd = 2\n", 2, "end the name of the table with ]]"),
    (b"a = 1\nb = True\n", 2, "write true or false"),
    (b"a = 1\nb = { c = False }\n", 2, "write true or false"),
    ("a = 1\nb = “c”\n".encode(), 2, 'with the straight quotes "'),
    ("a = 1\nb = „c“\n".encode(), 2, 'with the straight quotes "'),
    (b'a = 1\nb = "c\nd = 2\n', 2, "end the text with a quote"),
    (b"a = 1\nb = 'c\nd = 2\n", 2, "end the text with a quote"),
    (b"a = 1\nb = 'c'\nd = 'e\nf = 2\n", 3, "end the text with a quote"),
    (b'a = 1\nb = """c\nd = 2\n', 2, "end the text with the same quotes"),
    (b"a = 1\nb = '''c\nd = 2\n", 2, "end the text with the same quotes"),
    (b"a = 1\nb = 5/9\n", 2, "write a number with a decimal point"),
    (b"a = 1\nhost = 10.0.0.1\n", 2, 'write texts in quotes: "10.0.0.1"'),
    (b"a = 1\ntopic = 10/8/c\n", 2, 'write texts in quotes: "10/8/c"'),
    (b"a = 1\nname = auto # c\n", 2, 'write texts in quotes: "auto"'),
    (b"a = 1\ninterval = 10min\n", 2, 'write texts in quotes: "10min"'),
    (b"a = 1\ninterval = 10 min\n", 2, 'write texts in quotes: "10 min"'),
    ("a = 1\nunit = °C\n".encode(), 2, 'write texts in quotes: "°C"'),
    (b"a = 1\nb = { topic = x/{sensor} }\n", 2, 'write texts in quotes: "x/{sensor}"'),
    (b'sensors = ["c", d-2]\n', 1, 'write texts in quotes: "d-2"'),
    (b'sensors = ["c",\n  d-2]\n', 2, 'write texts in quotes: "..."'),
    (b"a = 1\npassword = hunter2\n", 2, 'write texts in quotes: "..."'),
    (b"a = 1\npw = hunter2\n", 2, 'write texts in quotes: "..."'),
    (b"Password = hunter2\n", 1, 'write texts in quotes: "..."'),
    (b"password = [\nhunter2\n]\n", 2, 'write texts in quotes: "..."'),
    (b"host = mqtt://me:hunter2@hall\n", 1, 'write texts in quotes: "..."'),
    (b"mqtt = { host = hall, password = hunter2 }\n", 1, 'write texts in quotes: "hall"'),
    (b"a = 1\nb = .5\n", 2, "write each line as `key = value`"),
    (b"a = 1\nb = 007\n", 2, "write each line as `key = value`"),
    (b"a = [0 -1]\n", 1, "separate the items by commas"),
    (b'a = ["b"\nc = 1\n', 2, "end the array before this line with ]"),
    (b'a = ["b",\n[c]\nd = 1\n', 2, "end the array before this line with ]"),
    (b"a = [1, 2\n", 1, "separate the items by commas, and end the array with ]"),
    (b"a = { b = [1, 2\n", 1, "separate the items by commas, and end the array with ]"),
    (b'a = 1\nb = { c = "d"\n', 2, "write the table on one line, and end it with }"),
    (b"a = [1 true]\n", 1, "separate the items by commas"),
    (b"a = 1\nb = 2 true\n", 2, "write each line as `key = value`"),
    (b"a = 1\nname = True-ish\n", 2, 'write texts in quotes: "True-ish"'),
    (b"a = 1\n[b.living room]\n", 2, "only the characters A-Z a-z 0-9 _ - in the names"),
    ("a = 1\n[[b.küche]]\n".encode(), 2, "only the characters A-Z a-z 0-9 _ - in the names"),
    (b"a = 1\n[b = 2\n", 2, "write each line as `key = value`"),
    (b'a = """b"""\nc = "d', 2, "end the text with the same quotes"),
    (b"a = 1\n\na = 2\n", 3, "once"),
    (b"a = 1\nb = \xff\n", 2, "UTF-8"),
    (b"a = 1\nb = " + b"[" * 100_000 + b"\nc = 1\n", 0, "nested too deeply"),
    (b"a = 1\nb = " + b"9" * 10_000 + b"\nc = 1\n", 2, "too many digits"),
    (b"a = 1\nb = -" + b"9_" * 5000 + b"9\nc = 1\n", 2, "at most 4300 digits"),
    (b"a = 1\nb = 2024-02-31\nc = 1\n", 2, "this is not TOML"),
]


@pytest.mark.parametrize(("data", "line", "says"), SYNTAX, ids=[each[2] for each in SYNTAX])
def test_a_syntax_error_is_reported_with_its_line(tmp_path, data, line, says):
    (found,) = findings(tmp_path, data)

    assert found.line == line
    assert says in found.message
    assert "\n" not in str(found)


@pytest.mark.parametrize("name", ["none.toml", "x" * 5000, "nul\0", "."])
def test_a_missing_file_is_reported_with_the_command_that_writes_one(tmp_path, name):
    with pytest.raises(loader.ConfigErrors, match="edge-tvbo init my.toml"):
        loader.load(tmp_path / name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_read_permission_is_reported(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(PLAIN)
    path.chmod(0)

    with pytest.raises(loader.ConfigErrors, match="Permission denied"):
        loader.load(path)


@pytest.mark.parametrize("name", ["config.toml", "mqtt.password"])
def test_an_error_names_the_user_who_must_be_allowed_to_read_the_file(tmp_path, monkeypatch, name):
    """The daemon runs as another user than root, who wrote the file and checked it."""
    path = tmp_path / "config.toml"
    path.write_text(
        PLAIN.replace("[mqtt]", '[mqtt]\nusername = "u"\npassword_file = "mqtt.password"')
    )
    (tmp_path / "mqtt.password").write_text("secret")
    may_open = Path.open

    def refuse(file, *arguments, **options):
        if file.name == name:
            raise PermissionError(13, "Permission denied", str(file))
        return may_open(file, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    with pytest.raises(loader.ConfigErrors) as caught:
        loader.load(path)

    (error,) = str(caught.value).splitlines()
    says = "cannot be read: Permission denied; the user root needs the permission to read it ["
    assert says in error


@pytest.mark.parametrize("text", ["10", "s", "-1s", "1e3s", "1m", "1 month", "", "1..5s", "١s"])
def test_an_invalid_duration_is_rejected(text):
    with pytest.raises(ConfigError, match="is not a duration"):
        seconds(text)


# --- lines ------------------------------------------------------------------------------------

tricky = st.sampled_from(['"', "'", "\\", "\n", "=", "[", "]", "{", "}", "#", ",", ".", " ", "é"])
words = st.text(tricky | st.sampled_from("ab-_1"), min_size=1, max_size=6)
scalars = words | st.integers() | st.booleans() | st.floats(allow_nan=False) | st.dates()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3)
)
tables = st.dictionaries(
    words, values | st.lists(st.dictionaries(words, values, max_size=3), min_size=1, max_size=3)
)
STYLES = st.randoms(use_true_random=True)  # one draw instead of hundreds for a file


class Writer:
    """Writer of nested dicts as TOML in a random style; `lines` has the line of each key."""

    def __init__(self, random):
        self.random = random
        self.text = ""
        self.lines = {}

    def maybe(self):
        return self.random.random() < 0.5

    def note(self, path):
        self.lines.setdefault(path, 1 + self.text.count("\n"))

    def key(self, name):
        if re.fullmatch("[A-Za-z0-9_-]+", name) and self.maybe():
            return name
        if not set("'\n") & set(name) and self.maybe():
            return f"'{name}'"
        return json.dumps(name)

    def string(self, text):
        if self.maybe():
            return '"""\n' + text.replace("\\", "\\\\").replace('"', '\\"') + '"""'
        if "'''" not in text and not text.endswith("'") and self.maybe():
            return f"'''\n{text}'''"
        return json.dumps(text)

    def blank(self):
        if self.maybe():
            self.text += self.random.choice(["\n", " # [a] = 'x\n", "\t", "\n\n"])

    def value(self, value, path):
        match value:
            case dict():
                self.inline(value, path)
            case list():
                self.array(value, path)
            case str():
                self.text += self.string(value)
            case bool():
                self.text += "true" if value else "false"
            case _:
                self.text += str(value)

    def array(self, items, path):
        self.text += "["
        for index, item in enumerate(items):
            self.blank()
            self.note((*path, index))
            self.value(item, (*path, index))
            self.blank()
            self.text += "," if index + 1 < len(items) or self.maybe() else ""
        self.blank()
        self.text += "]"

    def inline(self, table, path):
        self.text += "{ "
        for index, (name, value) in enumerate(table.items()):
            self.text += ", " if index else ""
            self.pair(name, value, path)
        self.text += " }"

    def pair(self, name, value, path):
        self.note((*path, name))
        self.text += self.key(name)
        if isinstance(value, dict) and len(value) == 1 and self.maybe():
            self.text += " . "
            self.pair(*next(iter(value.items())), (*path, name))
            return
        self.text += " = "
        self.value(value, (*path, name))

    def document(self, table, path=(), header=()):
        later = []
        for name, value in table.items():
            of_tables = isinstance(value, list) and value and all(type(v) is dict for v in value)
            if (isinstance(value, dict) or of_tables) and self.maybe():
                later.append((name, value))
                continue
            self.pair(name, value, path)
            self.text += self.random.choice(["\n", " # ]]\n", "\n\n"])
        for name, value in later:
            down = (*header, name)
            title = ".".join(map(self.key, down))
            if isinstance(value, dict):
                self.note((*path, name))
                self.text += f"[{title}]\n"
                self.document(value, (*path, name), down)
            for index, item in enumerate(value if isinstance(value, list) else ()):
                self.note((*path, name))
                self.note((*path, name, index))
                self.text += f"[[ {title} ]]\n"
                self.document(item, (*path, name, index), down)


@given(tables, STYLES)
def test_every_key_of_a_random_file_is_found_on_its_line(table, style):
    writer = Writer(style)
    writer.document(table)

    assert tomllib.loads(writer.text) == table
    found = key_places(writer.text)
    assert {key: place.line for key, place in found.items()} == writer.lines


def test_the_place_of_a_table_is_its_header_not_its_first_subtable():
    assert key_places("[a.b]\nc = 1\n[a]\nd = 1\n")["a",] == (3, 2)


# --- random input -----------------------------------------------------------------------------

names = sorted(
    {each.rpartition(".")[2] for each in every_name(Settings)} | {"heat", "a", *policy_parameters()}
)
real = st.sampled_from(
    ["10min", "on-reading", "se", "et-gp-ucb", "a/{sensor}", "live", "json", "a", "../x", "\0"]
)
leaves = real | words | st.integers() | st.floats() | st.booleans() | st.dates() | st.times()
junk = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(names), inner, max_size=6)
    ),
    max_leaves=30,
)
field = st.fixed_dictionaries({}, optional=dict.fromkeys(settings_of(FieldSettings), junk))
broker = st.fixed_dictionaries({}, optional=dict.fromkeys(settings_of(Mqtt), junk))
files = st.dictionaries(st.sampled_from(names) | words, junk) | st.fixed_dictionaries(
    {"fields": st.dictionaries(st.just("heat") | words, field | junk)}, optional={"mqtt": broker}
)


@given(files, STYLES)
def test_random_toml_raises_only_config_errors(tmp_path_factory, table, style):
    writer = Writer(style)
    writer.document(table)
    path = tmp_path_factory.getbasetemp() / "junk.toml"
    path.write_bytes(re.sub("\0", r"\\u0000", writer.text).encode())

    try:
        loader.load(path, PAYLOADS)
    except ConfigError as error:
        lines = str(error).split("\n")
        assert all(
            re.match(rf"{re.escape(str(path))}:\d+(:\d+)?: \S.* \[E\d+\]$", line) for line in lines
        )


@given(st.binary() | st.text().map(str.encode))
def test_random_bytes_raise_only_config_errors(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "bytes.toml"
    path.write_bytes(data)

    with pytest.raises(ConfigError):
        loader.load(path)


# --- energy -------------------------------------------------------------------------------------

ENERGY = """
[fields.heat.energy]
budget = 24
field_budget = 100
sensors = { b = { cost = 2.5, budget = 12 } }
battery = { topic = "zigbee2mqtt/{sensor}", payload = "json", value = "battery", least = 20 }
"""


def test_energy_settings_have_costs_budgets_and_batteries(tmp_path):
    assert load(tmp_path, PLAIN).fields["heat"].energy is None
    energy = load(tmp_path, PLAIN + ENERGY).fields["heat"].energy
    assert (energy.unit, energy.cost, energy.budget, energy.field_budget) == ("J", 1.0, 24, 100)
    assert (energy.period, energy.battery.max_age) == (86400.0, 604800.0)
    assert (energy.sensors["b"].cost, energy.sensors["b"].budget) == (2.5, 12)
    assert (energy.battery.settings, energy.battery.least) == ({"value": "battery"}, 20)


@pytest.mark.parametrize(
    ("old", "new", "where", "words"),
    [
        ('"10min"', '"on-reading"', "fields.heat.energy", "set a duration"),
        ("{ b = {", "{ bb = {", "fields.heat.energy.sensors.bb", 'did you mean "b"?'),
        ('"json"', '"jsn"', "fields.heat.energy.battery.payload", 'did you mean "json"?'),
        ("cost = 2.5", "cost = 0", "fields.heat.energy.sensors.b.cost", "above 0"),
        ("least = 20", "least = 120", "fields.heat.energy.battery.least", "0 to 100"),
    ],
)
def test_a_mistake_in_energy_is_reported_with_its_key(tmp_path, old, new, where, words):
    text = PLAIN + ENERGY
    assert old in text
    (finding,) = findings(tmp_path, text.replace(old, new))
    assert where in str(finding)
    assert words in str(finding)


def test_a_sensor_that_costs_more_than_the_budget_of_the_field_is_warned_of(tmp_path, caplog):
    live = with_line('activate = { mode = "live", topic = "lab/{sensor}/activate" }') + "\n"
    text = live + ENERGY.replace("budget = 12", "budget = %s").replace("field_budget = 100", "%s")
    load(tmp_path, text % ("field_budget = 2.5", 12))
    load(tmp_path, text % ("field_budget = 2", 0))
    assert not caplog.records

    load(tmp_path, text % ("field_budget = 2", 12))

    (record,) = caplog.records
    words = "fields.heat.energy.field_budget is 2, but an activation of b costs more"
    assert f"config.toml:14:1: {words}" in record.message


@pytest.mark.parametrize(
    ("energy", "where", "words"),
    [
        (
            "sensors = { a = { budget = 0 }, b = { budget = 0, cost = 2.5 } }",
            "%s: fields.heat.energy.sensors",
            "the budget of every sensor is 0; give at least one sensor a budget that covers an"
            " activation, such as budget = 1",
        ),
        (
            "field_budget = 1\nsensors = { a = { budget = 0 }, b = { cost = 2.5 } }",
            "%s: fields.heat.energy.field_budget",
            "the budget of a period is 1, and an activation costs 2.5",
        ),
    ],
)
@pytest.mark.parametrize("mode", ["advise", "live"])
def test_budgets_that_allow_no_sensor_to_be_activated_are_rejected(
    tmp_path, caplog, mode, energy, where, words
):
    topic = ', topic = "lab/{sensor}/activate"' if mode == "live" else ""
    text = with_line(f'activate = {{ mode = "{mode}"{topic} }}')

    text = f"{text}\n\n[fields.heat.energy]\n{energy}\n"
    line = text.splitlines().index(energy.splitlines()[0]) + 1

    (finding,) = findings(tmp_path, text)

    assert where % f"config.toml:{line}:1" in str(finding)
    assert f"does not allow any activation: {words}" in str(finding)
    assert not caplog.records


AMOUNTS = st.sampled_from([None, 0.5, 1.0, 2.0])


@given(AMOUNTS, AMOUNTS, st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=2, max_size=2))
@example(None, 0.5, [(0.5, None), (0.5, None)])  # no sensor has the default cost of 1
def test_a_budget_is_rejected_if_a_sensor_that_has_it_can_never_be_activated(
    tmp_path_factory, cost, budget, own
):
    def table(**settings):
        return {name: value for name, value in settings.items() if value is not None}

    sensors = {sensor: table(cost=c, budget=b) for sensor, (c, b) in zip("ab", own, strict=True)}
    energy = table(cost=cost, budget=budget)
    lines = [f"{key} = {value}" for key, value in energy.items()]
    lines += [
        f"sensors.{sensor}.{key} = {value}"
        for sensor, each in sensors.items()
        for key, value in each.items()
    ]
    text = PLAIN + "\n".join(["[fields.heat.energy]", *lines])
    usual = {"cost": 1.0, **energy}
    has = [{**usual, **each} for each in sensors.values()]
    too_small = any("budget" in each and each["budget"] < each["cost"] for each in has)

    directory = tmp_path_factory.getbasetemp()
    if too_small:
        assert "does not allow any activation" in str(findings(directory, text)[0])
    else:
        load(directory, text)


# --- the environment ----------------------------------------------------------------------------


def test_environment_variables_override_the_file(tmp_path, monkeypatch):
    for name, text in {
        "MQTT__PORT": "8883",
        "MQTT__USERNAME": "1234",
        "MQTT__PASSWORD": "5678",
        "MQTT__RECONNECT__MAX": "5min",
        "FIELDS__HEAT__KERNEL__MEAN": "-3",
        "FIELDS__HEAT__SENSORS": '["b", "a"]',
        "FIELDS__HEAT__POLICY__DELTA_B": "0.2",
    }.items():
        monkeypatch.setenv(f"EDGE_TVBO__{name}", text)

    settings = load(tmp_path, PLAIN)

    mqtt, field = settings.mqtt, settings.fields["heat"]
    assert (mqtt.port, mqtt.username, mqtt.password.reveal()) == (8883, "1234", "5678")
    assert mqtt.reconnect.max == 300
    assert (field.kernel.mean, field.sensors) == (-3, ("b", "a"))
    assert field.policy == AutoSettings(delta_b=0.2)


@pytest.mark.parametrize("text", ["1", "[0]", "-2.5", "true"])
@pytest.mark.parametrize("table", ["READING", "ENERGY__BATTERY"])
def test_an_environment_variable_for_an_option_of_a_payload_is_a_text(
    tmp_path, monkeypatch, table, text
):
    monkeypatch.setenv(f"EDGE_TVBO__FIELDS__HEAT__{table}__VALUE", text)
    payload = 'topic = "lab/{sensor}/t", payload = "json", value = "t"'
    battery = f"energy = {{ battery = {{ {payload} }} }}\n"

    settings = load(tmp_path, PLAIN.replace('topic = "lab/{sensor}/t"', payload) + battery)

    heat = settings.fields["heat"]
    source = heat.reading if table == "READING" else heat.energy.battery
    assert source.settings == {"value": text}


def test_an_invalid_or_unknown_environment_variable_is_reported_by_its_name(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGE_TVBO__MQTT__PORT", "99999")
    monkeypatch.setenv("EDGE_TVBO__MQTT__PASSWD", "hunter2")

    found = findings(tmp_path, PLAIN)

    assert [(each.file, each.line, str(each.code)) for each in found] == [
        ("$EDGE_TVBO__MQTT__PASSWD", 0, "E103"),
        ("$EDGE_TVBO__MQTT__PORT", 0, "E105"),
    ]
    assert "hunter2" not in str(found)


@pytest.mark.parametrize(
    "name",
    ["MQT__HOST", "FIELDS__HEATT__INTERVAL", "MQTT__RECONECT__MAX", "MQTT__READONLY__PASSWORD"],
)
def test_an_error_in_a_table_of_an_environment_variable_names_the_variable(
    tmp_path, monkeypatch, name
):
    """A misspelt table is in no line of the file, and neither is one that only a variable sets."""
    monkeypatch.setenv(f"EDGE_TVBO__{name}", "5min")

    found = findings(tmp_path, PLAIN)

    assert {(each.file, each.line) for each in found} == {(f"$EDGE_TVBO__{name}", 0)}


def test_a_variable_in_a_text_is_replaced_by_its_value_or_default(tmp_path, monkeypatch):
    monkeypatch.setenv("BROKER", "lan")
    text = PLAIN.replace("broker.lan", "${BROKER}.${ZONE:-home}")

    assert load(tmp_path, text).mqtt.host == "lan.home"
    monkeypatch.delenv("BROKER")
    (found, *_) = findings(tmp_path, text)
    assert (found.code, found.line, found.column) == ("E110", 2, 1)


@pytest.mark.parametrize("value", [None, ""])
def test_a_missing_variable_is_reported_with_the_message_in_the_text(tmp_path, monkeypatch, value):
    text = PLAIN.replace("broker.lan", "${BROKER:?set it in $HOME: now}")
    monkeypatch.setenv("BROKER", "lan")
    assert load(tmp_path, text).mqtt.host == "lan"

    if value is None:
        monkeypatch.delenv("BROKER")
    else:
        monkeypatch.setenv("BROKER", value)
    (found,) = findings(tmp_path, text)
    assert found.code == "E110"
    assert found.message == (
        "mqtt.host refers to the environment variable BROKER, which is not set, or is empty: "
        '"set it in $HOME: now"'
    )


@pytest.mark.parametrize(
    "form",
    [
        "${BROKER:+x}",
        "${BROKER-x}",
        "${BROKER?x}",
        "${1}",
        "${a b}",
        "${BROKER",
        "${}",
        "${",
        "${BROKER:-${ZONE:-lan}}",
        "$${${",
    ],
)
def test_any_other_form_of_a_variable_is_an_error_that_names_the_allowed_forms(
    tmp_path, monkeypatch, form
):
    monkeypatch.setenv("BROKER", "lan")
    password = f"hunter2{form}"
    lines = f'"lan"\nusername = "u"\npassword = "{password}"'
    (found,) = findings(tmp_path, PLAIN.replace('"broker.lan"', lines))

    assert (found.code, found.key) == ("E110", "mqtt.password")
    assert "allowed: ${NAME}, ${NAME:-default}, ${NAME:?message}; " in found.message
    assert "write $${" in found.message
    assert "hunter2" not in found.message


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a$${b", "a${b"),
        ("$${B}$${", "${B}${"),
        ("$$${NO:-x}", "$${NO:-x}"),
        ("$b$$c{d}$", "$b$$c{d}$"),
    ],
)
def test_a_dollar_before_a_variable_makes_it_a_text(tmp_path, text, read):
    lines = f'"lan"\nusername = "u"\npassword = "{text}"'
    settings = load(tmp_path, PLAIN.replace('"broker.lan"', lines))

    assert settings.mqtt.password.reveal() == read


def test_only_the_variable_of_a_setting_is_reported_if_it_is_not_set(tmp_path):
    (found,) = findings(tmp_path, PLAIN.replace("broker.lan", "${BROKER}"))

    assert (found.code, found.key) == ("E110", "mqtt.host")


def test_an_overridden_setting_needs_no_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGE_TVBO__MQTT__HOST", "lan")

    assert load(tmp_path, PLAIN.replace("broker.lan", "${BROKER}")).mqtt.host == "lan"


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ("BROKER", "mqtt.host refers to the environment variable BROKER, which is not UTF-8"),
        ("EDGE_TVBO__MQTT__HOST", "mqtt.host is not UTF-8; set it to a text in UTF-8"),
    ],
)
def test_a_variable_that_is_not_utf_8_is_reported(tmp_path, monkeypatch, variable, expected):
    monkeypatch.setenv(variable, os.fsdecode(b"caf\xe9"))

    (found,) = findings(tmp_path, PLAIN.replace("broker.lan", "${BROKER:-lan}"))

    assert (found.code, expected in found.message) == ("E110", True), found.message


@pytest.mark.parametrize(
    ("directory", "expected"),
    [
        ("~/state", "the daemon does not replace ~; write the whole path, or ${HOME}"),
        ("$STATE/x", "the daemon does not replace $STATE; write the whole path, or ${STATE}"),
        ("a~/$", None),
    ],
)
def test_a_state_directory_in_the_syntax_of_a_shell_is_warned_of(
    tmp_path, caplog, directory, expected
):
    load(tmp_path, f'{PLAIN}[state]\ndir = "{directory}"\n')

    assert [expected] * (expected is not None) == [
        each.partition(", but ")[2] for each in caplog.messages
    ]


@pytest.mark.parametrize("topic", ["lab/{sensor}/t ", " lab/{sensor}/t", "lab/{sensor}/t"])
def test_a_topic_with_a_space_at_its_start_or_end_is_warned_of(tmp_path, caplog, topic):
    text = PLAIN.replace('"lab/{sensor}/t"', f'"{topic}"')
    load(tmp_path, text)

    assert len(caplog.messages) == (topic != topic.strip())
    for each in caplog.messages:
        assert f'fields.heat.reading.topic is "{topic}", which begins or ends with a space' in each


@pytest.mark.parametrize("line", ['[state]\ndir = "zustände"', 'password_file = "schlüssel"'])
def test_a_path_that_the_locale_cannot_encode_is_reported_with_its_line(tmp_path, line):
    table = "mqtt" if "password" in line else "state"
    key = line.rpartition("\n")[2].partition(" ")[0]
    text = f"{PLAIN}{line}\n" if table == "state" else PLAIN.replace("[mqtt]", f"[mqtt]\n{line}")
    path = tmp_path / "my.toml"
    path.write_text(text, "utf-8")

    done = subprocess.run(
        [sys.executable, "-m", "edge_tvbo", "check", path],
        env=os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        capture_output=True,
        text=True,
    )

    (error,) = [each for each in done.stderr.splitlines() if f" {table}.{key} " in each]
    assert done.returncode == 2
    number = text.splitlines().index(line.rpartition("\n")[2]) + 1
    assert error.startswith(f"{path}:{number}:1: {table}.{key} is ")
    assert "which cannot be encoded in the locale's encoding, ascii" in error
    assert error.endswith("start edge-tvbo with LC_ALL=C.UTF-8 [E107]")


def test_the_origin_of_every_setting_is_listed_without_the_password(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGE_TVBO__MQTT__PASSWORD", "hunter2")
    path = tmp_path / "heat.toml"
    path.write_text(PLAIN)

    lines = loader.origins(path)

    assert f'{path}:2:1: mqtt.host = "broker.lan"' in lines
    assert "$EDGE_TVBO__MQTT__PASSWORD: mqtt.password = ***" in lines


# --- deprecated names ---------------------------------------------------------------------------

VISITOR = PLAIN.replace("[fields", '[mqtt.visitor]\nusername = "watcher"\n\n[fields')


@pytest.mark.parametrize(
    "line", ['host = "0.0.0.0"', 'token = "s3cret"', 'allow_hosts = ["gateway.lan"]']
)
def test_settings_of_metrics_without_a_port_are_warned_of(tmp_path, caplog, line):
    load(tmp_path, f"{PLAIN}\n[metrics]\nport = 9464\n{line}\n")
    assert not caplog.records

    load(tmp_path, f"{PLAIN}\n[metrics]\n{line}\n")

    (record,) = caplog.records
    assert "config.toml:11" in record.message and "set port = 9464" in record.message
    assert "s3cret" not in record.message


def test_a_deprecated_name_is_read_with_a_warning_that_names_line_and_successor(tmp_path, caplog):
    settings = load(tmp_path, VISITOR)

    assert settings.mqtt.readonly == ReadonlyLogin(username="watcher")
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == (
        f"{tmp_path}/config.toml:4:2: mqtt.visitor is deprecated; rename it to mqtt.readonly"
    )


def test_the_current_name_is_read_without_a_warning(tmp_path, caplog):
    settings = load(tmp_path, VISITOR.replace("visitor", "readonly"))

    assert settings.mqtt.readonly == ReadonlyLogin(username="watcher")
    assert not caplog.records


def test_a_deprecated_name_beside_its_successor_is_an_error_with_the_line_of_the_old_one(tmp_path):
    text = VISITOR.replace("[fields", '[mqtt.readonly]\nusername = "reader"\n\n[fields')

    (found,) = findings(tmp_path, text)

    assert (found.line, found.key, found.code) == (4, "mqtt.visitor", "E108")
    assert "mqtt.readonly" in found.message


@pytest.mark.parametrize(
    ("line", "at", "key"),
    [
        ("username = 3", 5, "mqtt.readonly.username"),
        ('username = "w"\npassword_file = "absent"', 6, "mqtt.readonly.password_file"),
        ('username = "w"\ncolour = "red"', 6, "mqtt.readonly.colour"),
    ],
)
def test_a_mistake_under_a_deprecated_name_has_its_line(tmp_path, line, at, key):
    (found,) = findings(tmp_path, VISITOR.replace('username = "watcher"', line))

    assert (found.line, found.key) == (at, key)


def test_a_variable_with_a_deprecated_name_is_read_as_its_setting(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("EDGE_TVBO__MQTT__VISITOR__USERNAME", "1234")
    monkeypatch.setenv("EDGE_TVBO__MQTT__VISITOR__PASSWORD", "5678")

    readonly = load(tmp_path, PLAIN).mqtt.readonly

    assert (readonly.username, readonly.password.reveal()) == ("1234", "5678")
    (record,) = caplog.records
    assert "mqtt.visitor is deprecated" in record.getMessage()
    assert "5678" not in caplog.text


@pytest.mark.parametrize("value", ["3", '"x"', "[]"])
def test_a_deprecated_name_with_a_value_that_is_no_table_is_an_error(tmp_path, value):
    text = PLAIN.replace("[mqtt]\n", f"[mqtt]\nvisitor = {value}\n")

    (found,) = findings(tmp_path, text)

    assert (found.line, found.key) == (2, "mqtt.readonly")


def test_clients_that_only_read_have_the_readonly_login_if_there_is_one():
    own = Mqtt(host="lan", username="daemon", password=Secret("a"))
    both = replace(own, readonly=ReadonlyLogin(username="watcher", password=Secret("b")))

    assert own.for_readers().login() == ("daemon", "a")
    assert both.login() == ("daemon", "a")
    assert both.for_readers().login() == ("watcher", "b")
    assert both.for_readers().host == "lan"
    assert Mqtt().login() == (None, None)


@pytest.mark.parametrize(("value", "is_right"), [('"5"', True), ('"3.1.1"', True), ("5", False)])
def test_the_version_of_mqtt_is_one_of_two_texts(tmp_path, value, is_right):
    text = PLAIN.replace("[mqtt]\n", f"[mqtt]\nversion = {value}\n")

    if is_right:
        assert load(tmp_path, text).mqtt.version == value.strip('"')
    else:
        assert [each.key for each in findings(tmp_path, text)] == ["mqtt.version"]


# --- places -------------------------------------------------------------------------------------


@pytest.mark.acceptance(2)
def test_five_mistakes_are_reported_with_line_column_and_code(tmp_path):
    text = (
        PLAIN.replace("broker.lan", "broker\tlan")
        .replace("[fields", 'passwd = "x"\n[fields')
        .replace('["a", "b"]', '["a", "b", "a"]')
        .replace("lab/{sensor}/t", "#/x")
        + "\nunit = 3\n"
    )
    found = findings(tmp_path, text)

    assert sorted((each.key.rpartition(".")[2], str(each.code)) for each in found) == [
        ("host", "E105"),
        ("passwd", "E103"),
        ("sensors[2]", "E108"),
        ("topic", "E105"),
        ("unit", "E105"),
    ]
    lines = text.split("\n")
    for each in found:
        key = each.key.rpartition(".")[2].replace("sensors[2]", '"a"')
        assert lines[each.line - 1][each.column - 1 :].startswith(key), each


# --- a kernel without positions -----------------------------------------------------------------

ALIKE = 'kernel = { name = "exchangeable", variance = 9, noise_variance = 0.1, mean = 20 }'
ALONE = re.sub("(?m)^kernel = .*$", ALIKE, re.sub("(?m)^positions.*$", "", PLAIN))


def test_without_positions_all_sensors_have_the_same_correlation(tmp_path):
    settings = load(tmp_path, ALONE)

    (controller,) = controllers(settings).values()
    kernel = controller.policy.field.kernel
    assert (kernel.diagonal() == 1.0).all()
    assert kernel[0, 1] == settings.fields["heat"].kernel.correlation == 0.5


def test_a_stationary_kernel_needs_a_length_scale(tmp_path):
    (found,) = findings(tmp_path, PLAIN.replace("length_scale = 6, ", ""))

    assert (found.key, found.code) == ("fields.heat.kernel.length_scale", "E104")


def test_a_linear_kernel_needs_no_length_scale(tmp_path):
    text = PLAIN.replace('"se", length_scale = 6', '"linear"').replace("[0, 0]", "[2, 0]")

    (controller,) = controllers(load(tmp_path, text)).values()

    assert controller.policy.field.kernel[0, 0] == pytest.approx(4 / 7.25)


def test_a_linear_kernel_cannot_have_a_sensor_at_the_origin(tmp_path):
    text = PLAIN.replace('"se", length_scale = 6', '"linear"')

    with pytest.raises(
        ConfigError,
        match="at the origin of the positions, so the values of sensors at the origin would never",
    ):
        controllers(load(tmp_path, text))


# --- season and scale ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "season"),
    [
        ("", 86_400.0),
        ('period = "auto"', 86_400.0),
        ('period = "day"', 86_400.0),
        ('period = "week"', 86_400.0),  # the course of a week is learned from training readings
        ('period = "year"', 31_557_600.0),
        ('period = "none"', 0.0),
        ('period = "28d"', 2_419_200.0),
    ],
)
def test_the_season_without_a_model_is_that_of_the_setting(tmp_path, line, season):
    (controller,) = controllers(load(tmp_path, with_line(line) if line else PLAIN)).values()
    assert controller.policy.field.structure.period == season


@pytest.mark.parametrize("value", ['"fortnight"', '"2"', "7", '"400d"', '"Day"', "true"])
def test_an_invalid_period_is_rejected_with_what_is_allowed(tmp_path, value):
    (found,) = findings(tmp_path, with_line(f"period = {value}"))
    assert found.key == "fields.heat.period"
    assert '"auto", "day", "week", "year", "none" or a duration, 1s to 366d' in found.message


def test_a_log_scale_without_a_model_is_that_of_the_kernel(tmp_path):
    (controller,) = controllers(load(tmp_path, with_line('transform = "log1p"'))).values()
    field = controller.policy.field
    assert field.log1p_scale == field.scale == 12.0**0.5
    assert field.to_model(21.0) == 0.0


def test_a_log_scale_needs_a_mean_of_at_least_0(tmp_path):
    text = with_line('transform = "log1p"').replace("mean = 21", "mean = -4")
    with pytest.raises(ConfigError, match="heat.* transform is .* the mean of the kernel is -4"):
        controllers(load(tmp_path, text))


@pytest.mark.parametrize("name", ["random", "rexp3", "ada-opkb", "d-ucb"])
def test_an_alert_needs_a_policy_that_estimates_the_field(tmp_path, name):
    text = re.sub("(?m)^policy = .*$", "", PLAIN) + f'policy = {{ name = "{name}" }}\n'
    controllers(load(tmp_path, text))
    with pytest.raises(ConfigError, match=f"the policy {name} has no model"):
        controllers(load(tmp_path, text + "alert = { threshold = 30.0 }"))


def test_a_fitted_model_keeps_its_pace_and_its_side_in_other_intervals_and_objectives(tmp_path):
    """What is known of a field fades with time, however long the intervals are."""
    rng = np.random.default_rng(0)
    readings = 20.0 + np.sin(np.arange(192) * np.pi / 12)[:, None] + rng.standard_normal((192, 2))
    write(tmp_path / "lab.json", with_structure(train(readings, ("a", "b")), readings, 3600.0, 0.0))
    fitted = re.sub("(?m)^kernel = .*$", 'model = "lab.json"', PLAIN)
    fitted = re.sub("(?m)^positions.*$", "", fitted)

    def estimates(interval, step, objective="max"):
        text = re.sub("(?m)^interval = .*$", f"interval = {interval}", fitted)
        (controller,) = controllers(load(tmp_path, text + f'objective = "{objective}"')).values()
        policy, end = controller.policy, 192 * 3600.0
        policy.set_time(end)
        policy.observe(0, policy.field.to_model(25.0))
        for second in range(step, 6 * 3600 + 1, step):
            policy.advance()
            policy.set_time(end + second)
        mean, std = policy.posterior()
        return [policy.field.to_unit(each) for each in mean], std.tolist()

    expected = estimates('"1h"', 3600)
    for each in (('"10min"', 600), ('"on-reading"', 60), ('"1h"', 3600, "min")):
        for found, known in zip(estimates(*each), expected, strict=True):
            assert found == pytest.approx(known, rel=0.02), each


def test_the_textbook_baseline_measures_intervals_that_end_with_a_reading(tmp_path):
    """Replies every second aged a fitted model by the interval of the recording, each time."""
    rng = np.random.default_rng(0)
    rest = np.zeros((192, 2))
    for t in range(1, len(rest)):
        rest[t] = 0.9 * rest[t - 1] + rng.standard_normal(2)
    readings = 20.0 + rest
    write(tmp_path / "lab.json", with_structure(train(readings, ("a", "b")), readings, 3600.0, 0.0))
    fitted = re.sub("(?m)^kernel = .*$", 'model = "lab.json"', PLAIN)
    fitted = re.sub("(?m)^positions.*$", 'policy = { name = "kalman-ucb" }', fitted)
    fitted = re.sub("(?m)^interval = .*$", 'interval = "on-reading"', fitted)

    def after(moments):
        (controller,) = controllers(load(tmp_path, fitted)).values()
        policy, end = controller.policy, 192 * 3600.0
        policy.set_time(end)
        policy.observe(0, 2.0)
        for second in moments:
            policy.advance()
            policy.set_time(end + second)
        return policy.posterior()

    prior = after([])[1][1]  # of the sensor that was not read
    assert after([1e9])[1] == pytest.approx([prior, prior], rel=0.1)
    np.testing.assert_allclose(after(range(1, 61)), after([60]), rtol=1e-9)
    assert after([60])[0][0] == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("log", [False, True])
def test_season_and_scale_must_be_those_of_the_model(tmp_path, log):
    rng = np.random.default_rng(0)
    readings = 20.0 + rng.standard_normal((60, 2))
    transform = "log1p" if log else "none"
    field = with_structure(
        train(readings, ("a", "b")), readings, 3600.0, 0.0, period=86_400.0, transform=transform
    )
    write(tmp_path / "lab.json", field)
    fitted = re.sub("(?m)^kernel = .*$", 'model = "lab.json"', PLAIN)
    fitted = re.sub("(?m)^positions.*$", "", fitted)
    for line in ("", 'period = "day"', f'transform = "{transform}"'):
        (controller,) = controllers(load(tmp_path, fitted + line)).values()
        assert (controller.policy.field.log1p_scale is not None) == log
    other = "none" if log else "log1p"
    for line, text in (
        ('period = "week"', "period is a week, but the season of the model .* is a day"),
        ('period = "none"', "period is none, but the season of the model .* is a day"),
        (f'transform = "{other}"', f'transform is "{other}", but the model .* was fitted with'),
    ):
        with pytest.raises(ConfigError, match=text):
            controllers(load(tmp_path, fitted + line))


@pytest.mark.parametrize(
    ("fitted", "unit", "accepted"),
    [
        ("°C", "°C", True),
        ("°C", "C", True),
        ("°C", "", True),
        ("", "°F", True),
        ("°C", "°F", False),
        ("W", "kW", False),
    ],
)
def test_the_unit_of_a_field_must_be_that_of_its_model(tmp_path, fitted, unit, accepted):
    readings = 20.0 + np.random.default_rng(0).standard_normal((60, 2))
    field = train(readings, ("a", "b"), unit=fitted)
    write(tmp_path / "lab.json", with_structure(field, readings, 3600.0, 0.0))
    text = re.sub("(?m)^kernel = .*$", 'model = "lab.json"', PLAIN)
    text = re.sub("(?m)^positions.*$", f'unit = "{unit}"', text)
    settings = load(tmp_path, text)
    if accepted:
        (controller,) = controllers(settings).values()
        assert controller.policy.field.unit == (unit or fitted)
        return
    with pytest.raises(ConfigError) as caught:
        controllers(settings)
    assert str(caught.value) == (
        f'fields.heat.model cannot be used: unit is "{unit}", but the model {tmp_path}/lab.json '
        f'was fitted to readings in "{fitted}"; set unit = "{fitted}", or fit the model again to '
        f"readings in {unit}."
    )


# --- the schema ---------------------------------------------------------------------------------

SCHEMA = jsonschema.Draft202012Validator(json_schema())


def test_the_schema_is_a_valid_json_schema():
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize(
    "text", [PLAIN, ALONE, EXAMPLE.read_text("utf-8"), PLAIN + ENERGY, VISITOR]
)
def test_the_schema_accepts_valid_configurations(text):
    assert not list(SCHEMA.iter_errors(tomllib.loads(text)))


def test_the_schema_accepts_environment_variables_in_names(tmp_path):
    text = 'instance = "${NOT_SET:-lab}"\n' + PLAIN.replace('"a"', '"${NOT_SET:-a}"', 1)
    assert "${NOT_SET:-a}" in text
    assert load(tmp_path, text).instance == "lab"
    assert not list(SCHEMA.iter_errors(tomllib.loads(text)))


@pytest.mark.parametrize(
    "line",
    [
        'colour = "red"',
        "unit = 3",
        'objective = "maximum"',
        "max_backoff = 0",
        "sensors = []",
        "kernel = { name = 'se' }",
        "positions = { a = [0] }",
        'policy = { name = "gp-ubc" }',
        'policy = { name = "et-gp-ucb", delta_b = 2 }',
        'policy = { name = "et-gp-ucb", epsilon = 0.1 }',
        'policy = { name = "et-gp-ucb", beta = { c1 = 0 } }',
        'policy = { name = "mcmc-gp-ucb", prior = [1.0] }',
        "policy = { window = 5 }",
    ],
)
def test_the_schema_rejects_invalid_settings(line):
    assert list(SCHEMA.iter_errors(tomllib.loads(with_line(line))))


@pytest.mark.parametrize(
    "policy",
    [
        '{ name = "et-gp-ucb", delta_b = 0.2, n_upper = 9, trigger = "likelihood-ratio" }',
        '{ name = "tv-gp-ucb", epsilon = "fitted", beta = { c1 = 0.4, c2 = 4 } }',
        '{ name = "tv-gp-ucb", beta = "least-bound", window = 4096 }',
        '{ name = "mcmc-gp-ucb", prior = [3, 6], samples = 16, nu = 1.5 }',
        '{ name = "static", sensor = "a" }',
        '{ length_scale = "learned", delta_b = 0.05 }',
        "{}",
    ],
)
def test_schema_and_reader_accept_a_policys_own_parameters(tmp_path, policy):
    text = with_line(f"policy = {policy}")
    assert not list(SCHEMA.iter_errors(tomllib.loads(text)))
    assert isinstance(load(tmp_path, text).fields["heat"].policy, PolicySettings)


def test_schema_has_the_range_and_the_default_of_every_parameter():
    schema = json_schema()["properties"]["fields"]["additionalProperties"]["properties"]["policy"]
    tables = {each["title"]: each for each in schema["anyOf"]}
    assert tuple(tables) == policies()
    for name, table in tables.items():
        names = {one.name for one in parameters_of(settings_class(name))}
        assert set(table["properties"]) == {"name", *names}
        assert table["properties"]["name"]["enum"] == [name]
    epsilon = tables["mtv-gp-ucb"]["properties"]["epsilon"]
    assert epsilon["anyOf"][0] == {"type": "number", "minimum": 0, "exclusiveMaximum": 1}
    assert epsilon["default"] == 0.95
    assert tables["sw-gp-ucb"]["properties"]["window"]["default"] == 32


TABLES = [
    (), ("mqtt",), ("mqtt", "reconnect"), ("mqtt", "tls"), ("state",), ("metrics",),
    ("fields", "heat"), ("fields", "heat", "kernel"), ("fields", "heat", "policy"),
    ("fields", "heat", "reading"), ("fields", "heat", "activate"), ("fields", "heat", "energy"),
]  # fmt: skip
likely = st.sampled_from([1, 0.5, 7, 60, True, "5min", "64MiB", "min", "a", "x/{sensor}", "fitted"])


@given(st.sampled_from(TABLES), st.sampled_from(names), likely | junk)
@example(("metrics",), "allow_hosts", ["gateway.lan"])
def test_the_schema_accepts_every_table_that_the_reader_accepts(path, name, value):
    raw = table = tomllib.loads(PLAIN)
    for part in path:
        table = table.setdefault(part, {"name": "auto"} if part == "policy" else {})
    table[name] = value
    report = Report(Path("any.toml"), dict, {})
    read_table(Settings, raw, (), report)

    if not report.findings():
        assert not list(SCHEMA.iter_errors(raw))


def test_a_name_that_two_sensors_have_is_not_shown_in_texts():
    names = {"hall-2": "hall", "living": "Living room"}
    settings = field_settings(("hall", "hall-2", "living"), "home/{sensor}", names=names)

    assert settings.sensor_names == {"living": "Living room"}
