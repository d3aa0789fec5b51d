"""Timed rounds of intervals: the policies, and bare kernels for comparison.

A bare kernel is one compiled function with the same arithmetic and nothing else.
"""

import numba
import numpy as np

from edge_tvbo import ConstantBeta, SensorField, make_policy
from edge_tvbo.models.spatial_kernels import SpatialKernel

READINGS = np.random.default_rng(1).standard_normal(2000).tolist()
WIDTH = 2.0**0.5


def field_of(M, length_scale=0.2):
    """Return a field of M sensors at random positions in [0, 1]²."""
    places = np.random.default_rng(0).uniform(0, 1, (M, 2))
    names = [f"s{i}" for i in range(M)]
    K = SpatialKernel(length_scale=length_scale)(places, places)
    return SensorField(names, (K + K.T) / 2, 0.01, positions=places)


def intervals_of(field):
    """Return the number of intervals in a round: few for large fields, so that rounds are short."""
    return max(10, min(len(READINGS), 8_000_000 // len(field) ** 2))


class Ours:
    """A policy through select, observe and advance."""

    def __init__(self, name, field, **settings):
        self.policy = make_policy(name, field, beta=ConstantBeta(WIDTH**2), seed=0, **settings)
        self.intervals = intervals_of(field)

    def live(self, readings):
        policy = self.policy
        for y in readings:
            policy.observe(policy.select().arm, y)
            policy.advance()
        return len(readings)

    def __call__(self):
        return self.live(READINGS[: self.intervals])


class Fused:
    """One kernel: condition on a reading, move on, and give the arm with the highest bound."""

    def __init__(self, field, epsilon=0.03):
        M = len(field)
        self.arrays = np.zeros(M), field.kernel.copy(), field.kernel, np.empty(M)
        self.numbers = field.noise_variance, 1.0 - epsilon, epsilon, WIDTH
        self.intervals = intervals_of(field)

    def __call__(self):
        arm = 0
        readings = READINGS[: self.intervals]
        for y in readings:
            arm = fused(*self.arrays, arm, y, *self.numbers)
        return len(readings)


class FusedWindow:
    """One kernel: drop the oldest of W readings, take one in, and give the arm for the next."""

    def __init__(self, field, W):
        M = len(field)
        self.arrays = np.zeros((W, W)), np.zeros((W, M)), np.zeros(W), field.kernel
        self.into = np.zeros(M), np.zeros(M)
        self.noise_variance, self.W, self.n, self.arm = field.noise_variance, W, 0, 0

    def __call__(self):
        for y in READINGS:
            self.arm = fused_window(
                *self.arrays, *self.into, self.n, self.arm, y, self.noise_variance, WIDTH
            )
            self.n = min(self.n + 1, self.W)
        return len(READINGS)


@numba.njit("i8(f8[::1], f8[:, ::1], f8[:, ::1], f8[::1], i8, f8, f8, f8, f8, f8)")
def fused(m, C, K, g, arm, y, noise_variance, retain, inject, width):
    n = m.shape[0]
    scale = 1.0 / np.sqrt(C[arm, arm] + noise_variance)
    surprise = (y - m[arm]) * scale
    for i in range(n):
        g[i] = C[arm, i] * scale
    shrink = np.sqrt(retain)
    best = 0
    highest = -np.inf
    for i in range(n):
        gi = g[i]
        m[i] = shrink * (m[i] + gi * surprise)
        for j in range(n):
            C[i, j] = retain * (C[i, j] - gi * g[j]) + inject * K[i, j]
        bound = m[i] + width * np.sqrt(max(C[i, i], 0.0))
        if bound > highest:
            highest = bound
            best = i
    return best


@numba.njit("i8(f8[:, ::1], f8[:, ::1], f8[::1], f8[:, ::1], f8[::1], f8[::1], i8, i8, f8, f8, f8)")
def fused_window(L, V, z, K, mean, variance, n, arm, y, noise_variance, width):
    W, M = V.shape
    if n == W:  # rotate the oldest out, as `window.drop_oldest` does
        for k in range(n - 1):
            diagonal, below = L[k + 1, k + 1], L[k + 1, 0]
            r = np.sqrt(diagonal * diagonal + below * below)
            c, s = diagonal / r, below / r
            for i in range(k + 1, n):
                kept, gone = L[i, k + 1], L[i, 0]
                L[i, k + 1] = c * kept + s * gone
                L[i, 0] = c * gone - s * kept
            for j in range(M):
                kept, gone = V[k + 1, j], V[0, j]
                V[k + 1, j] = c * kept + s * gone
                V[0, j] = c * gone - s * kept
            kept, gone = z[k + 1], z[0]
            z[k + 1] = c * kept + s * gone
            z[0] = c * gone - s * kept
        n -= 1
        for k in range(n):
            z[k] = z[k + 1]
            for i in range(k + 1):
                L[k, i] = L[k + 1, i + 1]
            for j in range(M):
                V[k, j] = V[k + 1, j]
    rest = K[arm, arm] + noise_variance
    residual = y
    for j in range(M):
        V[n, j] = K[arm, j]
    for i in range(n):
        row = V[i, arm]
        L[n, i] = row
        rest -= row * row
        residual -= row * z[i]
        for j in range(M):
            V[n, j] -= row * V[i, j]
    pivot = np.sqrt(max(rest, noise_variance))
    L[n, n] = pivot
    z[n] = residual / pivot
    for j in range(M):
        V[n, j] /= pivot
        mean[j] = 0.0
        variance[j] = K[j, j]
    for i in range(n + 1):
        for j in range(M):
            mean[j] += V[i, j] * z[i]
            variance[j] -= V[i, j] * V[i, j]
    best = 0
    highest = -np.inf
    for j in range(M):
        bound = mean[j] + width * np.sqrt(max(variance[j], 0.0))
        if bound > highest:
            highest = bound
            best = j
    return best
