"""Benchmark: no value beats the known maximum, results are reproducible, tests equal scipy's."""

import sys

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from support.examples import max_examples

from edge_tvbo import SensorField, plugins
from edge_tvbo.cli import main
from edge_tvbo.errors import ConfigError, MissingExtra
from edge_tvbo.models.box import BoxField
from edge_tvbo.research import Problem, benchmark
from edge_tvbo.research.benchmark import run_benchmark
from edge_tvbo.research.executors import SerialExecutor, process_pool
from edge_tvbo.research.experiments.result_table import Row
from edge_tvbo.research.experiments.statistics import summarise
from edge_tvbo.research.problems import GridTruth, load_problem, moving_functions, problems
from edge_tvbo.research.problems.moving_functions import (
    HARTMANN_3_A,
    HARTMANN_3_P,
    HARTMANN_6_A,
    HARTMANN_6_P,
    ackley_4,
    ackley_value,
    branin,
    branin_value,
    hartmann_3,
    hartmann_6,
    hartmann_value,
    levy_4,
    levy_value,
)
from edge_tvbo.research.ranking import compare_runs, rank_policies

T = 12  # intervals of a moving function; the minimum of each interval is searched
MOVING = {
    "branin": branin,
    "hartmann-3": hartmann_3,
    "hartmann-6": hartmann_6,
    "ackley-4": ackley_4,
    "levy-4": levy_4,
}
PACKAGE = """
from edge_tvbo import SensorField
from edge_tvbo.research.problems import GridTruth
from edge_tvbo.errors import DataError
import numpy as np

def silted():
    raise DataError("all readings are equal")

class Tides:
    field = SensorField(("a", "b", "c"), np.eye(3), 0.01)
    horizon = 12
    noise_variance = 0.01

    def truth(self, generator):
        return GridTruth(generator.standard_normal((12, 3)))
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install a package with one problem, as pip would leave it."""
    (tmp_path / "pier_problems.py").write_text(PACKAGE)
    info = tmp_path / "pier_problems-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pier-problems\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[edge_tvbo.problems]\ntides = pier_problems:Tides\nfaulty = pier_problems:SensorField\n"
        "silted = pier_problems:silted\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    plugins._entry_points.cache_clear()
    yield
    plugins._entry_points.cache_clear()


def test_without_scipy_a_moving_function_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    monkeypatch.setattr(moving_functions, "branin", branin.__wrapped__)
    with pytest.raises(MissingExtra, match=r"edge-tvbo\[science\]"):
        load_problem("branin")


@pytest.mark.slow
@pytest.mark.parametrize("name", problems())
@max_examples(10)
@given(seed=st.integers(0, 2**31), share=st.floats(0, 1), data=st.data())
def test_no_value_of_a_problem_is_better_than_the_best(name, seed, share, data):
    assert isinstance(load_problem(name), Problem)
    problem = MOVING[name](T) if name in MOVING else load_problem(name)
    field, truth = problem.field, problem.truth(np.random.default_rng(seed))
    t = data.draw(st.integers(0, problem.horizon - 1))
    arm = field.arm(int(share * (len(field) - 1)))

    value, best = (field.to_model(x) for x in (truth.value(t, arm), truth.best(t)))

    assert np.isfinite([value, best]).all()
    assert value <= best + 1e-9
    assert problem.truth(np.random.default_rng(seed)).value(t, arm) == truth.value(t, arm)


@pytest.mark.parametrize(("name", "minimiser"), [("ackley-4", [0.0] * 3), ("levy-4", [1.0] * 3)])
def test_the_best_value_of_a_moving_function_is_that_of_its_minimiser(name, minimiser):
    problem = MOVING[name](T)
    for t in range(T):
        assert problem.best(t) == pytest.approx(problem.value(t, minimiser), abs=1e-12)


@pytest.mark.parametrize(("name", "points"), [("branin", 20_001), ("hartmann-3", 301)])
def test_the_best_value_of_a_moving_function_is_the_lowest_of_a_fine_grid(name, points):
    problem = MOVING[name](T)
    bounds = zip(problem.field.lower, problem.field.upper, strict=True)
    sides = np.meshgrid(*(np.linspace(*each, points) for each in bounds))
    grid = np.column_stack([side.ravel() for side in sides])
    for t in range(T):
        lowest = problem._at(t, grid).min()
        assert lowest - 1e-4 < problem.best(t) < lowest + 1e-9


def test_no_local_search_from_a_candidate_finds_a_better_value_than_the_best():
    optimize = pytest.importorskip("scipy.optimize")
    problem = hartmann_6(T)
    field = problem.field
    bounds = list(zip(field.lower, field.upper, strict=True))
    for t in range(0, T, 3):
        order = problem._at(t, field.positions).argsort()
        for start in field.positions[order[:8]]:
            end = optimize.minimize(
                lambda x, t=t: problem.value(t, x), start, method="L-BFGS-B", bounds=bounds
            )
            assert problem.best(t) <= end.fun + 1e-9


def test_the_test_functions_have_their_published_minima():
    three = np.array([[0.114614, 0.555649, 0.852547]])
    six = np.array([[0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573]])

    assert branin_value(np.array([[np.pi, 2.275]]))[0] == pytest.approx(0.397887, abs=1e-6)
    assert hartmann_value(three, HARTMANN_3_A, HARTMANN_3_P)[0] == pytest.approx(-3.86278, abs=1e-5)
    assert hartmann_value(six, HARTMANN_6_A, HARTMANN_6_P)[0] == pytest.approx(-3.32237, abs=1e-5)
    assert ackley_value(np.zeros((1, 4)))[0] == pytest.approx(0.0, abs=1e-12)
    assert levy_value(np.ones((1, 4)))[0] == pytest.approx(0.0, abs=1e-12)


def stored(directory):
    return {each.name: each.read_bytes() for each in (directory / "parts").iterdir()}


def test_results_are_the_same_bytes_whatever_the_executor(installed, tmp_path):
    names, played = ["tides", "branin"], ["auto", "tv-gp-ucb", "random"]
    with process_pool(2) as pool:
        run_benchmark(names, played, tmp_path / "pool", runs=2, seed=3, executor=pool)
    serial = {"runs": 2, "seed": 3, "executor": SerialExecutor()}
    rows = run_benchmark(names, played, tmp_path / "serial", **serial)

    assert stored(tmp_path / "pool") == stored(tmp_path / "serial")
    assert len(rows) == 12
    assert all(row.numbers["R_T/T"] >= 0.0 for row in rows)


def test_an_interrupted_benchmark_continues_and_can_be_extended(installed, tmp_path):
    options = {"seed": 0, "executor": SerialExecutor()}
    run_benchmark(["tides"], ["random"], tmp_path, runs=2, **options)
    (tmp_path / "parts" / "tides+random+000001.json").unlink()
    before, steps = stored(tmp_path), []
    run_benchmark(
        ["tides"],
        ["random", "gp-ucb"],
        tmp_path,
        runs=2,
        progress=lambda *n: steps.append(n),
        **options,
    )

    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert stored(tmp_path).items() >= before.items()
    with pytest.raises(ConfigError, match="contains the results of another run"):
        run_benchmark(["tides"], ["random"], tmp_path, runs=1, seed=1, executor=SerialExecutor())


def test_runs_of_different_problems_are_not_mixed(monkeypatch, tmp_path):
    """The names of `tides-tv` with `gp-ucb`, and of `tides` with `tv-gp-ucb`, are not the same."""

    class Drawn:
        field = SensorField(("a", "b", "c"), np.eye(3), 0.01)
        horizon = 5
        noise_variance = 0.01

        def __init__(self, size):
            self.size = size

        def truth(self, generator):
            return GridTruth(self.size * generator.standard_normal((self.horizon, 3)))

    made = {"tides": Drawn(1.0), "tides-tv": Drawn(50.0)}
    monkeypatch.setattr(benchmark, "load_problem", made.get)
    options = {"runs": 1, "seed": 0, "executor": SerialExecutor()}
    policies = ["gp-ucb", "tv-gp-ucb"]
    together = run_benchmark(list(made), policies, tmp_path / "both", **options)
    alone = [
        row for name in made for row in run_benchmark([name], policies, tmp_path / name, **options)
    ]

    assert [row.numbers for row in together] == [row.numbers for row in alone]


def table(regrets):
    """Return a table of `regrets`, float64[problems, policies, runs]."""
    return summarise(
        Row(run, {"problem": f"x{i}", "policy": f"p{j}"}, {"r": float(value)})
        for i, of_problem in enumerate(regrets)
        for j, of_policy in enumerate(of_problem)
        for run, value in enumerate(of_policy)
    )


def test_ranks_and_tests_agree_with_scipy():
    from scipy import stats  # its import takes half a second

    regrets = np.random.default_rng(0).random((14, 4, 6)) + 0.2 * np.arange(4)[:, None]
    ranking = rank_policies(table(regrets), "r")
    expected = stats.friedmanchisquare(*regrets.mean(axis=2).T)

    assert (ranking.statistic, ranking.p) == pytest.approx((expected.statistic, expected.pvalue))
    assert ranking.policies[0] == "p0"
    assert ranking.critical_difference == pytest.approx(2.569 * (4 * 5 / (6 * 14)) ** 0.5, abs=1e-3)
    p = compare_runs(table(regrets), "r", "x0")
    first, *others = p
    raw = [
        stats.wilcoxon(regrets[0, int(each[1])] - regrets[0, int(first[1])]).pvalue
        for each in others
    ]
    assert min(p.values()) == pytest.approx(min(1.0, 3 * min(raw)))


def test_tied_policies_are_not_told_apart():
    ranking = rank_policies(table(np.ones((3, 3, 2))), "r")

    assert (ranking.statistic, ranking.p) == (0.0, 1.0)
    assert ranking.groups() == [(0, 2)]
    assert ranking.wilcoxon == (1.0, 1.0, 1.0)


@pytest.mark.slow
def test_the_command_prints_a_ranking_and_lists_an_installed_problem(installed, tmp_path):
    command = ["benchmark", "--policies", "gp-ucb,random", "--runs", "2", "--jobs", "1"]
    listed = CliRunner().invoke(main, ["benchmark", "--problems", "tides", "--policies", "nope"])
    assert listed.exit_code == 2
    assert "There is no policy 'nope'" in listed.output
    refused = CliRunner().invoke(main, ["benchmark", "--policies", "random,oracle"])
    assert refused.exit_code == 2
    assert "Leave the policy oracle out." in refused.output
    done = CliRunner().invoke(
        main, [*command, "--problems", "tides,static", "--out", str(tmp_path / "out")]
    )

    assert done.exit_code == 0, done.output
    assert "average rank" in done.output
    assert "Friedman's test over 2 problems" in done.output
    assert "2 runs cannot show a significant difference" in done.output
    assert "the p value is at least 0.5. Use --runs 6 or more." in done.output
    assert {"ranks.png", "regret.png", "runs.csv", "comparisons.csv"} <= {
        each.name for each in (tmp_path / "out").iterdir()
    }


def test_unusable_problems_are_named(installed):
    with pytest.raises(ConfigError, match="'tide' among the problems: .*Did you mean 'tides'"):
        load_problem("tide")
    with pytest.raises(ConfigError, match="The problem 'faulty' cannot be built: TypeError"):
        load_problem("faulty")
    with pytest.raises(ConfigError, match="The problem 'silted' cannot be built: DataError: all "):
        load_problem("silted")
    assert isinstance(load_problem("tides").field, SensorField)
    assert isinstance(load_problem("levy-4").field, BoxField)
