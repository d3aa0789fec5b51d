"""Cost of one interval with 64 observations of 46 sensors, compared with other packages.

Every peer has fixed hyperparameters where it allows them, as the policy here has, and one thread:
two threads are slower at this size.
"""

import warnings
from importlib import import_module

import numpy as np
import pytest
from benchmarks.rounds import in_turns, ratios, spread
from benchmarks.runners import WIDTH, Ours, field_of

M, N = 46, 64
OURS = "an interval of tv-gp-ucb, M=46, 64 observations"
MISSING = "not installed: pip install 'edge-tvbo[bench]'"
LENGTH_SCALE = 0.2

# What the peers say of themselves at import, or of their numbers, is no error of this package.
pytestmark = pytest.mark.filterwarnings("ignore")


class History:
    """64 readings of sensors in [0, 1]², and where the sensors are."""

    def __init__(self, field):
        rng = np.random.default_rng(2)
        self.field, self.places = field, field.positions
        self.arms = rng.integers(M, size=N)
        self.X, self.y = self.places[self.arms], rng.standard_normal(N)

    def ours(self):
        run = Ours("tv-gp-ucb", self.field, epsilon=0.03)
        for arm, y in zip(self.arms.tolist(), self.y.tolist(), strict=True):
            run.policy.observe(arm, y)
        return run


def peer(bench, name, against):
    """Return a module of a peer; without it, add a row that says so, and skip."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_module(name)
    except ImportError:
        bench.absent(OURS, against, MISSING)
        pytest.skip(f"{name}: {MISSING}")


def compare(bench, against, theirs, least=None, rounds=15):
    history = History(field_of(M, LENGTH_SCALE))
    run = theirs(history)
    run()  # what is made once, is made
    others, ours = in_turns(run, history.ours(), rounds=rounds)
    detail = f"ours {spread(ours, 1e6)} µs, it {spread(others, 1e6)} µs"
    bench(OURS, against, ratios(others, ours), least=least, detail=detail)


def test_it_takes_a_hundredth_of_scikit_learn_s_refit_and_prediction(bench):
    against = "scikit-learn: refit without optimiser, predict (its time / ours)"
    gp = peer(bench, "sklearn.gaussian_process", against)
    pools = peer(bench, "threadpoolctl", against)

    def theirs(history):
        kernel = gp.kernels.RBF(LENGTH_SCALE)
        model = gp.GaussianProcessRegressor(kernel, alpha=0.01, optimizer=None)

        def interval():
            mean, std = model.fit(history.X, history.y).predict(history.places, return_std=True)
            np.argmax(mean + WIDTH * std)

        return interval

    with pools.threadpool_limits(1):
        compare(bench, against, theirs, least=100)


def test_it_takes_a_two_hundredth_of_botorch_s_posterior(bench):
    against = "BoTorch: SingleTaskGP, set_train_data, posterior (its time / ours)"
    models = peer(bench, "botorch.models", against)
    torch = peer(bench, "torch", against)

    def theirs(history):
        torch.set_num_threads(1)
        X, y = torch.tensor(history.X), torch.tensor(history.y)[:, None]
        places = torch.tensor(history.places)
        model = models.SingleTaskGP(X, y, torch.full_like(y, 0.01), outcome_transform=None)
        model.eval()

        @torch.no_grad()
        def interval():
            model.set_train_data(X, y[:, 0], strict=False)
            found = model.posterior(places)
            torch.argmax(found.mean + WIDTH * found.variance.sqrt())

        return interval

    compare(bench, against, theirs, least=200)


def test_beside_wdbo_which_fits_its_hyperparameters_anew(bench):
    against = "wdbo-algo: tell, clean, next_query; it fits hyperparameters anew (its time / ours)"
    wdbo = peer(bench, "wdbo_algo.optimizer", against)
    kernels = peer(bench, "gpytorch.kernels", against)
    torch = peer(bench, "torch", against)

    def theirs(history):
        torch.set_num_threads(1)
        torch.set_default_dtype(torch.float64)  # it mixes what numpy and torch take by default
        box = np.array([[0.0, 1.0], [0.0, 1.0]])
        one = wdbo.WDBOOptimizer(
            box, kernels.RBFKernel, kernels.RBFKernel, n_initial_observations=N
        )
        for t, (x, y) in enumerate(zip(history.X[1:], history.y[1:], strict=True)):
            one.tell(x, t / N, y)
        held, times = (one._xx_tt, one._yy), iter(range(N, 10 * N))

        def interval():
            one._xx_tt, one._yy = held  # 63 and the one that comes, each time
            t = next(times) / N
            one.tell(history.X[0], t, history.y[0])
            one.clean(t)
            one.next_query(t)

        return interval

    compare(bench, against, theirs, rounds=5)


def test_beside_a_bandit_of_river_which_has_no_model_of_how_sensors_are_related(bench):
    against = (
        "river: bandit.UCB over 46 unrelated arms; it has no Gaussian process (its time / ours)"
    )
    bandit = peer(bench, "river.bandit", against)

    def theirs(history):
        policy, arms = bandit.UCB(delta=1.0, seed=0), list(range(M))

        def intervals():
            for y in history.y.tolist():
                policy.update(policy.pull(arms), y)
            return N

        return intervals

    compare(bench, against, theirs)
