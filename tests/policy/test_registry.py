"""Policy registry: names, parameters and their ranges, and policies of other packages."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module

import numpy as np
import pytest
from support.paths import DOCS
from support.policy_cases import K, every_policy, field_of, make, parameters

from edge_tvbo.errors import ConfigError
from edge_tvbo.messages.declared_types import split
from edge_tvbo.models.beta import ConstantBeta, LogBeta
from edge_tvbo.policy import make_policy, policies
from edge_tvbo.policy.built_in import BUILT_IN
from edge_tvbo.policy.gp_settings import EtGpUcbSettings
from edge_tvbo.policy.registry import build_policy, read_settings, settings_class
from edge_tvbo.policy.settings import PolicySettings

# --- names --------------------------------------------------------------------------------------


def test_public_functions_work_in_a_new_process():
    script = "from edge_tvbo import SensorField, make_policy, policies; print(*policies())"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ran.stdout.split() == list(policies()), ran.stderr


def test_settings_and_registry_import_neither_numpy_nor_the_entry_points():
    script = (
        "import sys; import edge_tvbo.policy.settings, edge_tvbo.policy.registry as registry;"
        "registry.settings_class('et-gp-ucb');"
        "assert not {'numpy', 'numba', 'importlib.metadata'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_every_settings_struct_is_registered():
    structs = [
        each
        for each in of_policies(PolicySettings)
        if each.__module__.startswith("edge_tvbo.policy.")
    ]
    assert sorted(structs, key=str) == sorted(BUILT_IN, key=str)


def of_policies(base):
    """Return the structs below `base` that are not the base of other structs."""
    structs = base.__subclasses__()
    return [each for one in structs for each in of_policies(one)] if structs else [base]


@every_policy
def test_policy_has_the_name_it_was_built_by(name):
    assert make(name).name == name


@every_policy
def test_struct_has_defaults_descriptions_and_a_maker(name):
    kind = settings_class(name)
    assert kind().name == name
    assert len(kind.__doc__.splitlines()[0]) > 20
    for parameter in parameters(name).values():
        _, meta = split(parameter.type)
        assert meta.description.endswith("."), parameter.name
        assert meta.description[0].isupper(), parameter.name
    module, _, function = kind.maker.partition(":")
    assert getattr(import_module(module), function).__doc__


def test_misspelt_name_is_rejected_with_a_suggestion():
    for name in policies():
        with pytest.raises(ConfigError, match=f"Did you mean '{name}'"):
            make_policy(name + "x", field_of(K))


@pytest.mark.parametrize("field", [K, None, "lab"])
def test_an_object_that_is_no_field_is_rejected(field):
    with pytest.raises(ConfigError, match=rf"field is of the type {type(field).__name__}; it must"):
        make_policy("tv-gp-ucb", field)


def test_name_like_no_other_is_rejected_without_a_suggestion():
    with pytest.raises(ConfigError) as error:
        make_policy("zzz", field_of(K))
    assert "'zzz'" in str(error.value)
    assert "Did you mean" not in str(error.value)


# --- parameters ---------------------------------------------------------------------------------


@every_policy
def test_misspelt_parameter_is_rejected_with_a_suggestion(name):
    for key in parameters(name):
        with pytest.raises(ConfigError, match=f"Did you mean '{key}'"):
            make_policy(name, field_of(K), **{key + "s": 1})


def test_all_wrong_parameters_are_named_at_once():
    with pytest.raises(ConfigError) as error:
        make_policy("et-gp-ucb", field_of(K), delta_b=1.0, n_uper=3, window=0, keep_last=True)
    lines = str(error.value).splitlines()
    assert lines[0] == "delta_b is 1.0; allowed: a number, above 0, below 1."
    assert lines[1].startswith("et-gp-ucb has no parameter 'n_uper'; its parameters are delta_b, ")
    assert lines[1].endswith("Did you mean 'n_upper'?")
    assert lines[2] == "window is 0; allowed: a whole number, 1 to 4096."
    assert len(lines) == 3


OUT_OF_RANGE = [
    ("tv-gp-ucb", {"epsilon": -0.1}),
    ("tv-gp-ucb", {"epsilon": 1.1}),
    ("tv-gp-ucb", {"epsilon": float("nan")}),
    ("ui-tvbo", {"sigma_w2": -0.1}),
    ("ui-tvbo", {"sigma_w2": float("inf")}),
    ("r-gp-ucb", {"period": 0}),
    *((name, {"window": 0}) for name in policies() if "window" in parameters(name)),
    *((name, {"window": 4097}) for name in policies() if "window" in parameters(name)),
    ("tv-gp-ucb", {"window": 0, "epsilon": "fitted"}),
    ("mtv-gp-ucb", {"alpha": 0.6, "epsilon": 0.5}),
    ("mtv-gp-ucb", {"epsilon": 1.0}),
    ("mtv-gp-ucb", {"alpha": 0.6, "epsilon": 0.5, "window": 4}),
    ("ttv-gp-ucb", {"rho": 0.0}),
    ("ttv-gp-ucb", {"tau": float("inf"), "window": 4}),
    ("w-gp-ucb", {"gamma": 0.0}),
    ("w-gp-ucb", {"gamma": 1.1}),
    ("w-gp-ucb", {"gamma": float("nan")}),
    ("rexp3", {"period": 0}),
    ("rexp3", {"gamma": 0.0}),
    ("rexp3", {"gamma": 1.1}),
    ("d-ucb", {"gamma": 0.0}),
    ("d-ucb", {"gamma": 1.1}),
    ("d-ucb", {"xi": 0.0}),
    ("d-ucb", {"xi": float("nan")}),
    ("w-dbo", {"epsilon": -0.1}),
    ("w-dbo", {"epsilon": 1.0}),
    ("w-dbo", {"alpha": -0.1}),
    ("et-gp-ucb", {"delta_b": 0.0}),
    ("et-gp-ucb", {"delta_b": 1.0}),
    ("et-gp-ucb", {"n_lower": 0}),
    ("et-gp-ucb", {"n_lower": 5, "n_upper": 4}),
    ("et-gp-ucb", {"noise_cap": 0}),
    ("gp-ucb", {"beta": 0.0}),
    ("gp-ucb", {"beta": {"c3": 1.0}}),
    ("gp-ucb", {"beta": {"c1": -1.0}}),
    ("mcmc-gp-ucb", {"samples": 1025}),
    ("random", {"seed": -1}),
    ("random", {"seed": 2**63}),
    ("random", {"seed": 10**30}),
]
WRONG_TYPE = [
    ("random", {"seed": 1.5}),
    ("sw-gp-ucb", {"window": 2.5}),
    ("sw-gp-ucb", {"window": None}),
    ("et-gp-ucb", {"n_lower": True}),
    ("et-gp-ucb", {"keep_last": 1}),
    ("gp-ucb", {"beta": True}),
    ("gp-ucb", {"beta": "x"}),
    ("gp-ucb", {"beta": "least-bound"}),
    ("tv-gp-ucb", {"epsilon": "fit"}),
    ("tv-gp-ucb", {"epsilon": True}),
    ("tv-gp-ucb", {"beta": "least-bound", "epsilon": "fitted"}),
    ("mtv-gp-ucb", {"epsilon": "x"}),
    ("w-dbo", {"epsilon": "fitted"}),
    ("w-dbo", {"epsilon": True}),
    ("ttv-gp-ucb", {"tau": "x"}),
    ("et-gp-ucb", {"trigger": "x"}),
    ("et-gp-ucb", {"noise_cap": 3, "trigger": "likelihood-ratio"}),
    ("auto", {"length_scale": 3.0}),
    ("static", {"sensor": 3}),
]


def error_of(name, parameters):
    try:
        make_policy(name, field_of(K), **parameters)
    except ConfigError as error:
        return str(error)
    return "accepted"


def test_wrong_value_is_rejected_by_its_name():
    """The first of the parameters is the one that is wrong."""
    for name, wrong in (*OUT_OF_RANGE, *WRONG_TYPE):
        key = next(iter(wrong))
        assert re.match(rf"{key} is .*; ", error_of(name, wrong)), (name, wrong)


def test_largest_values_are_accepted_by_every_policy():
    for name in policies():
        policy = make_policy(name, field_of(K), seed=2**63 - 1)
        for _ in range(3):
            policy.observe(policy.select().arm, 1.0)
            policy.select_many(2)
            policy.advance()


def test_numbers_of_numpy_are_accepted_as_python_numbers():
    given = {"delta_b": np.float32(0.5), "n_upper": np.int64(9), "beta": np.float64(2.0)}
    read = read_settings(EtGpUcbSettings, given)
    assert read == EtGpUcbSettings(delta_b=0.5, n_upper=9, beta=2.0)
    assert (type(read.delta_b), type(read.n_upper)) == (float, int)


def test_beta_can_be_a_number_a_table_or_a_schedule():
    for beta, expected in (
        (2.0, 2.0),
        ({"c1": 0.4, "c2": 4}, LogBeta(0.4, 4.0)),
        ({"c2": 4.0}, LogBeta(0.8, 4.0)),
        (ConstantBeta(3.0), ConstantBeta(3.0)),
    ):
        assert read_settings(EtGpUcbSettings, {"beta": beta}).beta == expected


def test_settings_struct_builds_the_policy_of_its_keywords():
    policy = build_policy(EtGpUcbSettings(delta_b=0.2, seed=4), field_of(K))
    assert (
        policy.snapshot() == make_policy("et-gp-ucb", field_of(K), delta_b=0.2, seed=4).snapshot()
    )


# --- a policy of another package ----------------------------------------------------------------

GUIDE = (DOCS / "policies.md").read_text("utf-8")
(MODULE,) = re.findall(r"^```python patrol/edge_tvbo_patrol.py\n(.*?)^```", GUIDE, re.M | re.S)
(PROJECT,) = re.findall(r"^```toml patrol/pyproject.toml\n(.*?)^```", GUIDE, re.M | re.S)
((NAME, PLACE),) = tomllib.loads(PROJECT)["project"]["entry-points"]["edge_tvbo.policies"].items()
PATROL = f"{NAME} = {PLACE}\n"
BROKEN = """\
broken = no_such_module:Settings
renamed = edge_tvbo_patrol:PatrolSettings
function = edge_tvbo_patrol:make_patrol
bare = edge_tvbo.policy.settings:PolicySettings
"""
IN_PYTHON = """
import json
from edge_tvbo import SensorField, make_policy, policies
from edge_tvbo.cli.replay import _without_positions
from edge_tvbo.errors import ConfigError
from edge_tvbo.policy import needing_positions

field = SensorField(("a", "b", "c"), [[1, 0, 0], [0, 1, 0], [0, 0, 1]], noise_variance=0.01)

def error(name, **parameters):
    try:
        make_policy(name, field, **parameters)
    except ConfigError as error:
        return str(error)

policy = make_policy("patrol", field, stay=2)
selected = []
for _ in range(7):
    selected.append(policy.select().sensor)
    policy.advance()
print(json.dumps({
    "name": policy.name,
    "selected": selected,
    "policies": policies(),
    "parameters": error("patrol", stay=0, sta=1),
    "broken": [error(name) for name in ("broken", "renamed", "function", "bare")],
    "needing positions": sorted(needing_positions()),
    "without positions": _without_positions(),
}))
"""
CONFIGURATION = """\
[fields.heat]
interval = "10min"
policy = { name = "patrol", stay = 2 }
kernel = { name = "exchangeable", variance = 12.0, noise_variance = 0.05, mean = 21 }
sensors = ["a", "b"]
reading = { topic = "lab/{sensor}/t" }
"""


@pytest.fixture(scope="module")
def run_with_package(tmp_path_factory):
    """Return a function that runs Python with the guide's package installed."""
    place = tmp_path_factory.mktemp("package")
    (place / "edge_tvbo_patrol.py").write_text(MODULE, encoding="utf-8")
    metadata = place / "edge_tvbo_patrol-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: edge-tvbo-patrol\n")

    def run(*arguments, entry_points=PATROL, code=0):
        (metadata / "entry_points.txt").write_text(f"[edge_tvbo.policies]\n{entry_points}")
        environment = {**os.environ, "PYTHONPATH": str(place)}
        ran = subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, env=environment
        )
        assert ran.returncode == code, ran.stderr
        return ran

    return run


@pytest.fixture(scope="module")
def printed_by(run_with_package):
    """Return a function that returns all that such a program prints."""

    def printed(*arguments, **settings):
        ran = run_with_package(*arguments, **settings)
        return ran.stdout + ran.stderr

    return printed


@pytest.fixture(scope="module")
def in_python(run_with_package, fixtures_with_library):
    """Return what Python says of the guide's policy, and of policies that cannot be loaded."""
    return json.loads(run_with_package("-c", IN_PYTHON, entry_points=PATROL + BROKEN).stdout)


def test_policy_of_another_package_is_built_and_selects(in_python):
    assert in_python["name"] == "patrol"
    assert in_python["selected"] == ["a", "a", "b", "b", "c", "c", "a"]
    names = ["broken", "renamed", "function", "bare", "patrol"]
    assert sorted(in_python["policies"]) == sorted([*policies(), *names])


def test_parameters_of_another_package_are_checked(in_python):
    assert in_python["parameters"].splitlines() == [
        "stay is 0; allowed: a whole number, 1 to 1000.",
        "patrol has no parameter 'sta'; its parameters are stay, seed. Did you mean 'stay'?",
    ]


def test_broken_policy_of_another_package_is_rejected_by_name(in_python):
    printed = [
        each.replace(" among the policies of installed packages cannot be loaded", "")
        for each in in_python["broken"]
    ]
    assert printed[0] == (
        "'broken': ModuleNotFoundError: No module named 'no_such_module'; "
        "update or uninstall the package edge-tvbo-patrol"
    )
    assert printed[1] == ("'renamed': the tag of PatrolSettings is 'patrol'; it must be 'renamed'.")
    assert printed[2].startswith("'function': <function make_patrol at ")
    assert printed[2].endswith("> is not a subclass of PolicySettings.")
    assert printed[3] == "'bare': PolicySettings has no attribute `maker`."


def test_policies_that_cannot_be_loaded_are_left_out_of_those_that_need_positions(in_python):
    assert "lb-gp-ucb" in in_python["needing positions"]
    assert in_python["without positions"][-1] == "patrol"


def test_configuration_accepts_a_policy_of_another_package(printed_by, tmp_path):
    path = tmp_path / "lab.toml"
    path.write_text(CONFIGURATION)
    printed_by("-m", "edge_tvbo", "check", str(path))

    path.write_text(CONFIGURATION.replace("stay = 2", "stay = 0"))
    printed = printed_by("-m", "edge_tvbo", "check", str(path), code=2)
    assert "fields.heat.policy.stay is 0; allowed: a whole number, 1 to 1000" in printed
    assert "lab.toml:3:" in printed

    path.write_text(CONFIGURATION.replace("patrol", "broken"))
    printed = printed_by(
        "-m", "edge_tvbo", "check", str(path), entry_points=PATROL + BROKEN, code=2
    )
    assert "fields.heat.policy.name cannot be used: 'broken' among the policies" in printed


def test_a_report_names_a_policy_that_cannot_be_loaded(printed_by, tmp_path):
    path = tmp_path / "lab.toml"
    path.write_text(CONFIGURATION.replace("patrol", "broken"))
    command = ("-m", "edge_tvbo", "report", str(path))
    printed = printed_by(*command, entry_points=PATROL + BROKEN)

    assert "Traceback" not in printed
    assert "fields.heat.policy.name cannot be used" in printed


def test_replay_runs_a_policy_of_another_package(run_with_package):
    command = ("-m", "edge_tvbo", "replay", "--policy", "patrol", "--set", "stay=5", "--json")
    (result,) = json.loads(run_with_package(*command).stdout)["results"]
    assert (result["policy"], result["settings"]) == ("patrol", {"stay": 5})
    assert result["activations"] > 0


def test_compare_replays_named_policies_beside_a_policy_that_cannot_be_loaded(run_with_package):
    command = ("-m", "edge_tvbo", "compare", "--policies", "static,random", "--seeds", "1")
    ran = run_with_package(*command, "--json", entry_points=PATROL + BROKEN)
    results = json.loads(ran.stdout)["results"]
    assert [result["policy"] for result in results] == ["static", "random", "kalman-ucb", "oracle"]


def test_schema_and_explain_list_only_the_policies_that_can_be_loaded(run_with_package):
    installed = {"entry_points": PATROL + BROKEN}
    schema = json.loads(run_with_package("-m", "edge_tvbo", "schema", **installed).stdout)
    policy = schema["properties"]["fields"]["additionalProperties"]["properties"]["policy"]
    titles = [each["title"] for each in policy["anyOf"]]
    assert not {"broken", "renamed", "function", "bare"} & set(titles)
    (patrol,) = (each for each in policy["anyOf"] if each["title"] == "patrol")
    assert patrol["properties"]["stay"]["maximum"] == 1000

    explained = run_with_package("-m", "edge_tvbo", "config", "explain", **installed).stdout
    assert "Traceback" not in explained
    assert "policy.stay = a whole number, 1 to 1000\n    patrol: Intervals with one" in explained
