"""Policies and other packages on moving test functions: regret and time of a step.

    make bench  # or pip install 'edge-tvbo[bench]'
    cd tests && OPENBLAS_NUM_THREADS=1 ../.venv/bin/python -m benchmarks.moving_functions --out DIR

All search the unit box for the highest value of the same function, with the same noise, one reading
in each step, in one thread. Readings have about the mean 0 and the variance 1. Finished runs are
files in DIR, so that the same command continues. The table is printed as Markdown.
"""

import argparse
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np

from edge_tvbo import BoxField, LogBeta, SpatialKernel, make_policy
from edge_tvbo.research.executors import SerialExecutor
from edge_tvbo.research.experiments.result_table import Row
from edge_tvbo.research.experiments.statistics import summarise, with_error
from edge_tvbo.research.problems.moving_functions import (
    LENGTH_SCALE,
    NOISE_VARIANCE,
    ackley_4,
    hartmann_6,
)
from edge_tvbo.research.ranking import compare_runs
from edge_tvbo.research.resumable_jobs import ResumableJobs

T = 60
PROBLEMS = {"hartmann-6": hartmann_6, "ackley-4": ackley_4}
WINDOW = 30  # readings of BoTorch's model
RANDOM_FIRST = 15  # random points before the first fit, the default of wdbo-algo
REGRET, LATE, STEP = "regret", "regret of the second half", "ms of a step"


class Ours:
    """A policy of this package; without given length scales it fits one for each dimension."""

    def __init__(self, name, d, seed, *, fitted, first=0):
        nu, mode = (np.inf, "fitted") if fitted else (2.5, "given")
        spatial = SpatialKernel(nu, (LENGTH_SCALE,) * d)
        box = BoxField([0.0] * d, [1.0] * d, spatial, NOISE_VARIANCE, length_scales=mode)
        self.policy = make_policy(name, box, seed=seed)
        self.first = np.random.default_rng(seed).uniform(size=(first, d)).tolist()

    def ask(self, t):
        return self.first[t] if t < len(self.first) else self.policy.select().arm

    def tell(self, x, t, y):
        self.policy.observe(x, y)
        self.policy.advance()


class BoTorch:
    """UCB on BoTorch's SingleTaskGP of the last readings, which has no time; fitted in each step.

    The first points are random. β is that of the policies here.
    """

    def __init__(self, d, seed, *, first):
        import torch
        from botorch.acquisition import UpperConfidenceBound
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from botorch.optim import optimize_acqf
        from gpytorch.mlls import ExactMarginalLogLikelihood

        torch.set_num_threads(1)
        torch.set_default_dtype(torch.float64)
        torch.manual_seed(seed)
        corners = torch.tensor([[0.0] * d, [1.0] * d])

        def best(X, y, beta):
            model = SingleTaskGP(torch.tensor(X), torch.tensor(y)[:, None])
            fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
            bound = UpperConfidenceBound(model, beta=beta)
            found, _ = optimize_acqf(bound, corners, q=1, num_restarts=10, raw_samples=512)
            return found[0].numpy()

        self.best, self.first = best, np.random.default_rng(seed).uniform(size=(first, d))
        self.X, self.y = [], []

    def ask(self, t):
        if t < len(self.first):
            return self.first[t]
        held = np.array(self.X[-WINDOW:]), np.array(self.y[-WINDOW:])
        return self.best(*held, LogBeta().width(t + 1, 0) ** 2)

    def tell(self, x, t, y):
        self.X.append(x)
        self.y.append(y)


class WDbo:
    """wdbo-algo as its page shows it, with Matérn 5/2 in space and in time; times are t / T."""

    def __init__(self, d, seed):
        import torch
        from gpytorch.kernels import MaternKernel
        from wdbo_algo.optimizer import WDBOOptimizer

        torch.set_num_threads(1)
        torch.set_default_dtype(torch.float64)  # it mixes what numpy and torch take by default
        torch.manual_seed(seed)
        np.random.seed(seed)  # of its random points
        box = np.array([[0.0, 1.0]] * d)
        self.optimizer = WDBOOptimizer(
            box, MaternKernel, MaternKernel, [2.5], [2.5], n_initial_observations=RANDOM_FIRST
        )

    def ask(self, t):
        return self.optimizer.next_query(t / T)

    def tell(self, x, t, y):
        self.optimizer.tell(x, t / T, y)
        self.optimizer.clean(t / T)


def ours(name, **options):
    return lambda d, seed: Ours(name, d, seed, **options)


SEARCHES = {
    "tv-gp-ucb, fitted": ours("tv-gp-ucb", fitted=True),
    "ui-tvbo, fitted": ours("ui-tvbo", fitted=True),
    "tv-gp-ucb, fitted, 15 random points first": ours("tv-gp-ucb", fitted=True, first=RANDOM_FIRST),
    "ui-tvbo, fitted, 15 random points first": ours("ui-tvbo", fitted=True, first=RANDOM_FIRST),
    "tv-gp-ucb, given length scales": ours("tv-gp-ucb", fitted=False),
    "w-dbo, fitted": ours("w-dbo", fitted=True),
    "w-dbo, given length scales": ours("w-dbo", fitted=False),
    "random": ours("random", fitted=False),
    "wdbo-algo": WDbo,
    "BoTorch, window": lambda d, seed: BoTorch(d, seed, first=2 * d),
    "BoTorch, window, 15 random points first": lambda d, seed: BoTorch(d, seed, first=RANDOM_FIRST),
}


def play(job):
    """Return the regret in model units, and the processor's time of a step in ms."""
    name, search, run = job
    problem = PROBLEMS[name](T)
    field, sides = problem.field, problem.field.upper - problem.field.lower
    noise = np.random.default_rng(run).standard_normal(T) * problem.noise_variance**0.5
    one = SEARCHES[search](len(sides), run)
    regret, taken = np.empty(T), 0.0
    for t in range(T):
        start = time.process_time()
        x = np.clip(one.ask(t), 0.0, 1.0)
        taken += time.process_time() - start
        value = field.to_model(problem.value(t, tuple(field.lower + x * sides)))
        start = time.process_time()
        one.tell(x, t, float(value + noise[t]))
        taken += time.process_time() - start
        regret[t] = max(field.to_model(problem.best(t)) - value, 0.0)
    numbers = {REGRET: regret.mean(), LATE: regret[T // 2 :].mean(), STEP: 1e3 * taken / T}
    case = {"problem": name, "policy": search}
    return Row(run, case, {key: float(each) for key, each in numbers.items()})


def table(results):
    """Return a Markdown table, with p against the least regret on each problem."""
    lines = [
        f"| problem | search | R_T/T | of the last {T // 2} steps | p | ms of a step |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for problem in results.values_of("problem"):
        for rank, (search, p) in enumerate(compare_runs(results, REGRET, problem).items()):
            case = {"problem": problem, "policy": search}
            cells = [results.cell(each, case) for each in (REGRET, LATE, STEP)]
            regret, late = (with_error(each.mean, each.error) for each in cells[:2])
            against = f"{p:.2g}" if rank else "–"
            lines.append(
                f"| `{problem}` | {search} | {regret} | {late} | {against} | {cells[2].mean:.3g} |"
            )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    every = product(range(options.runs), PROBLEMS, SEARCHES)
    jobs = {
        f"{problem}-{search}-{run:03}": (problem, search, run) for run, problem, search in every
    }
    finished = ResumableJobs(options.out, {"T": T})
    finished.run(SerialExecutor(), play, jobs, lambda *n: print(*n, sep=" of ", flush=True))
    print(table(summarise(finished.read(job, Row) for job in jobs)))


if __name__ == "__main__":
    main()
