"""Slow twins of the fast code in edge_tvbo: the formulas of the papers, as printed.

A twin is a textbook formula over the whole history, recomputed in O(n³) at every call, without any
state carried over. It is short enough to be checked against the paper by reading; it is written
from the papers and never from ``edge_tvbo``. It uses only numpy, and scipy for two special
functions.

Time is an integer that starts at 0 and moves by ``advance``; several observations may share one
time. The policies' ``t`` (``log_beta``) and the trigger's ``age`` count from 1, as printed.

[ET]    Brunzema, von Rohr, Solowjow, Trimpe, event-triggered time-varying Bayesian optimisation.
[B16]   Bogunovic, Scarlett, Cevher 2016, time-varying Gaussian process bandit optimisation.
[ZS21]  Zhou, Shroff 2021, no-regret algorithms for time-varying Bayesian optimisation.
"""

import math

import numpy as np

# --- temporal kernels ---------------------------------------------------------------------------


def temporal(kind, parameter=None):
    """Return the temporal kernel d(s, t) of a model of change; the prior covariance is K·d.

    The times are numbers or arrays, as those of a numpy function.
    ``"static"`` has no parameter; that of ``"tv"`` is ε ([B16] after eq. 8), that of ``"ui"`` is
    σ_w², the variance that an interval adds ([ET] §6).
    """
    if kind == "static":
        return lambda s, t: np.ones(np.broadcast(s, t).shape)
    if kind == "tv":
        return lambda s, t: (1.0 - parameter) ** (np.abs(t - s) / 2)  # 0⁰ = 1: ε may be 1
    if kind == "ui":
        return lambda s, t: 1.0 + parameter * np.minimum(s, t)
    raise ValueError(f"no temporal kernel is called {kind!r}")


# --- posterior ----------------------------------------------------------------------------------


class NaivePosterior:
    """The mean and standard deviation of the noise-free field at every arm at the current time.

    Parameters
    ----------
    K : (M, M)
        Prior covariance between the arms at time 0.
    noise_variance : float
        σ_n² of one observation.
    d : function of two times, or of arrays of times
        See ``temporal``.
    window : int, optional
        Number of observations that count, the latest ones; all of them without it.
    own : (M,), optional
        Prior variance of each arm at time 0 in addition to K, drawn again for each observation.
    """

    def __init__(self, K, noise_variance, d, window=None, own=0.0):
        self.K = np.array(K, dtype=float)
        self.noise_variance = noise_variance
        self.d = d
        self.window = window
        self.own = own * np.ones(len(K))
        self.time = 0
        self.history = []  # (time, arm, y), oldest first

    def observe(self, arm, y):
        self.history.append((self.time, arm, y))

    def advance(self):
        self.time += 1

    def reset(self):
        """Drop the observations and keep the time: the prior at time t is K·d(t, t)."""
        self.history = []

    def mean_std(self):
        """Return (mean, std), each (M,), by [B16] eq. 7-8 with a general d; O(n³)."""
        now = self.time
        prior = (np.diag(self.K) + self.own) * self.d(now, now)
        used = self.history if self.window is None else self.history[-self.window :]
        if not used:
            return np.zeros(len(self.K)), np.sqrt(np.maximum(prior, 0.0))
        times = np.array([time for time, _, _ in used])
        arms = [arm for _, arm, _ in used]
        y = np.array([y for _, _, y in used])
        D = self.d(times[:, None], times)  # (n, n)
        d_now = self.d(times, now)  # (n,)
        K_data = self.K[np.ix_(arms, arms)] * D  # (n, n)
        k = self.K[arms, :] * d_now[:, None]  # (n, M), from each observation to each arm now
        A = K_data + np.diag(self.noise_variance + self.own[arms] * np.diag(D))
        mean = k.T @ np.linalg.solve(A, y)
        variance = prior - np.sum(k * np.linalg.solve(A, k), axis=0)
        return mean, np.sqrt(np.maximum(variance, 0.0))


def components(K, most, room):
    """Return (B, rest): rows of the pivoted Cholesky factor until no remainder is above `most`.

    Each step subtracts the row of the largest remainder from the rest of K.
    """
    left, rows = np.array(K, dtype=float), []
    while len(rows) < room and left.diagonal().max() > most:
        arm = int(np.argmax(left.diagonal()))
        rows.append(left[arm] / math.sqrt(left[arm, arm]))
        left = left - np.outer(rows[-1], rows[-1])
    return np.array(rows).reshape(-1, len(left)), left.diagonal()


# --- confidence widths and choice ---------------------------------------------------------------


def log_beta(c1, c2, t):
    """Return β_t = c₁ ln(c₂ t), or 0 if that is negative ([B16] §5); the width is its root.

    ``t`` is global, 1 at the first choice, and is not changed by resets.
    """
    return max(0.0, c1 * math.log(c2 * t))


def agnostic_width(B, R, gamma, delta):
    """Return β_t of [ZS21], algorithms 1 and 2; it multiplies σ without a root."""
    return B + R * math.sqrt(2.0 * (gamma + 1.0 + math.log(1.0 / delta)))


def ucb(mean, std, width):
    """Return the set of arms with the highest mean + width·std, ties within 1e-9 included."""
    score = np.asarray(mean) + width * np.asarray(std)
    best = np.max(score)
    return {arm for arm in range(len(score)) if score[arm] >= best - 1e-9}


# --- event trigger ------------------------------------------------------------------------------


def event_threshold(age, delta_b, noise_variance, std, cap=None):
    """Return the largest |y - mean| of a field that has not changed ([ET] Lemma 3).

    Parameters
    ----------
    age : int
        t', 1 at the start and after each reset.
    delta_b : float
        δ_B in (0, 1), probability of a false alarm over all time.
    noise_variance : float
        σ_n².
    std : float
        Posterior standard deviation of the noise-free field at the arm, before y.
    cap : int, optional
        Age at which the noise bound w̄ stops growing ([ET] §7); ρ continues to grow.
    """

    def pi(n):
        return math.pi**2 * n**2 / 6.0  # Σ 1/π = 1 over n = 1, 2, ...

    rho = 2.0 * math.log(2.0 * pi(age) / delta_b)
    noise_age = age if cap is None else min(age, cap)
    w_bar = math.sqrt(2.0 * noise_variance * math.log(2.0 * pi(noise_age) / delta_b))
    return math.sqrt(rho) * std + w_bar


class NaiveEventTriggered:
    """Lines 6 to 11 of [ET] algorithm 1: the effect of an observation on data and age.

    The choice of the arm is not part of it; see ``posterior`` and ``ucb``.

    Parameters
    ----------
    K, noise_variance
        As of ``NaivePosterior``; the temporal kernel is static.
    delta_b, noise_cap
        As ``delta_b`` and ``cap`` of ``event_threshold``.
    n_lower, n_upper : int
        Ages between which the trigger may reset, both included. At ``n_upper`` it always resets;
        None stands for infinity.
    keep_last : bool
        Whether the observation that caused the reset is kept (as printed) or dropped.
    """

    def __init__(
        self,
        K,
        noise_variance,
        delta_b,
        n_lower=1,
        n_upper=None,
        keep_last=True,
        noise_cap=None,
    ):
        self.posterior = NaivePosterior(K, noise_variance, temporal("static"))
        self.noise_variance = noise_variance
        self.delta_b = delta_b
        self.n_lower = n_lower
        self.n_upper = math.inf if n_upper is None else n_upper
        self.keep_last = keep_last
        self.noise_cap = noise_cap
        self.age = 1  # t'

    def step(self, arm, y):
        """Process one observation; return (reset, error, threshold, age) of the test."""
        mean, std = self.posterior.mean_std()  # before y
        age = self.age
        error = abs(y - mean[arm])  # ψ, eq. 11
        threshold = event_threshold(
            age, self.delta_b, self.noise_variance, std[arm], self.noise_cap
        )  # κ, eq. 11
        triggered = error > threshold and self.n_lower <= age <= self.n_upper
        reset = bool(triggered or age == self.n_upper)  # line 8
        if reset:  # line 9
            self.posterior.reset()
            self.age = 1
        else:  # line 11
            self.age = age + 1
        if not reset or self.keep_last:
            self.posterior.observe(arm, y)
        return reset, error, threshold, age

    def advance(self):
        self.posterior.advance()


# --- spatial kernels ----------------------------------------------------------------------------


def distances(X):
    """Return the Euclidean distances between the rows of X, (n, n)."""
    X = np.asarray(X, dtype=float)
    return np.array([[math.dist(a, b) for b in X] for a in X])


def se(X, l):  # noqa: E741  the papers' letter for the length scale
    """Return the squared exponential covariance exp(-r²/(2l²)) of the rows of X."""
    return np.exp(-(distances(X) ** 2) / (2.0 * l**2))


def matern(X, l, nu):  # noqa: E741
    """Return the Matérn covariance of the rows of X for ν > 0 (Rasmussen & Williams, eq. 4.14)."""
    from scipy.special import gamma, kv

    z = math.sqrt(2.0 * nu) * distances(X) / l
    K = np.ones_like(z)  # the limit at distance 0
    apart = z > 0
    K[apart] = 2.0 ** (1.0 - nu) / gamma(nu) * z[apart] ** nu * kv(nu, z[apart])
    return K


def linear(X):
    """Return the inner products of the rows of X, not normalised."""
    X = np.asarray(X, dtype=float)
    return X @ X.T


def empirical(X):
    """Return the covariance of the columns of X, whose rows are readings (divides by n-1)."""
    X = np.asarray(X, dtype=float)
    centred = X - X.mean(axis=0)
    return centred.T @ centred / (len(X) - 1)
