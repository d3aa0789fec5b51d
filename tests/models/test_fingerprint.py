"""Fingerprints: exact digests, and digests that do not depend on rounding errors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.examples import max_examples

from edge_tvbo.errors import SnapshotError
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.fingerprint import Fingerprint, kinds_agree, rounded
from edge_tvbo.models.spatial_kernels import SpatialKernel
from edge_tvbo.models.structural_model import prior_structure
from edge_tvbo.policy import make_policy

PLACES = np.random.default_rng(1).uniform(size=(150, 2))
K = SpatialKernel(math.inf, 0.3, 4.0)(PLACES, PLACES)


def field(kernel):
    return SensorField([f"s{i}" for i in range(len(kernel))], kernel, 0.01)


def elsewhere(kernel, seed):
    """Return a kernel as another processor may compute it: the last bit of some numbers differs."""
    towards = np.random.default_rng(seed).choice([-9e9, 0.0, 9e9], size=kernel.shape)
    changed = np.where(towards == 0.0, kernel, np.nextafter(kernel, towards))
    return np.triu(changed) + np.triu(changed, 1).T


@given(st.integers(0, 99))
def test_the_rounded_digest_does_not_depend_on_the_last_bit_of_a_kernel(seed):
    here, there = (field(each).fingerprint() for each in (K, elsewhere(K, seed)))
    assert here.exact != there.exact
    assert here.rounded == there.rounded
    assert len(here.exact) == len(here.rounded) == 16
    assert here.agrees(there)


@given(st.floats(1e-40, 1e40))
def test_the_rounded_digest_depends_on_the_sixth_digit_of_each_kernel(factor):
    same, other = (list(rounded(factor * K * each)) for each in (1.0, 1.0 + 1e-6))
    assert same != other


@pytest.mark.parametrize("largest", [1.0, 4.0, 2.0**-30])
def test_a_power_of_two_and_the_number_below_it_are_rounded_alike(largest):
    both = (np.array([each, 0.3 * largest]) for each in (largest, np.nextafter(largest, 0.0)))
    first, second = (list(rounded(each)) for each in both)
    assert first == second


@pytest.mark.parametrize("shape", [(0,), (3,), (130, 2), (70, 2, 3)])
def test_arrays_of_any_shape_are_rounded_and_zeros_have_no_sign(shape):
    assert list(rounded(np.zeros(shape))) == list(rounded(np.full(shape, -0.0)))


@pytest.mark.parametrize("number", ["noise_variance", "center", "scale", "log1p_scale"])
def test_the_rounded_digest_depends_on_seven_digits_of_each_number(number):
    values = {"noise_variance": 0.01, "center": 20.0, "scale": 2.0**0.5, "log1p_scale": 3.0}

    def fingerprint(factor):
        changed = values | {number: factor * values[number]}
        return SensorField(["a"], [[1.0]], **changed).fingerprint()

    assert fingerprint(1.0 + 2e-16).agrees(fingerprint(1.0))
    assert fingerprint(1.0 + 2e-16).exact != fingerprint(1.0).exact
    assert not fingerprint(1.0 + 1e-7).agrees(fingerprint(1.0))


@given(st.floats(allow_nan=False), st.text(max_size=5), st.integers(0, 2**53))
def test_a_kind_agrees_with_itself_and_not_with_another(number, name, count):
    kind = f"{name} {number!r} {count}"
    assert kinds_agree(kind, kind)
    assert not kinds_agree(kind, f"{kind} x")
    assert not kinds_agree(kind, f"{name} {number!r} {2 * count + 1}")


def test_fingerprints_agree_in_one_of_two_digests():
    here = Fingerprint("a", "b")
    assert here.agrees(Fingerprint("a"))  # of version 0.1.0
    assert here.agrees(Fingerprint("x", "b"))
    assert not here.agrees(Fingerprint("x", "y"))
    assert not Fingerprint("x").agrees(Fingerprint("y"))


@pytest.mark.parametrize("name", ["gp-ucb", "tv-gp-ucb"])
def test_a_snapshot_of_another_processor_is_restored_and_one_of_another_kernel_is_not(name):
    there = make_policy(name, field(elsewhere(K, 5)), seed=0)
    there.observe(there.select().arm, 3.0)
    here = make_policy(name, field(K), seed=0)
    here.restore(there.snapshot())
    np.testing.assert_allclose(here.posterior(), there.posterior(), rtol=1e-9)

    with pytest.raises(SnapshotError, match="another kernel"):
        make_policy(name, field(1.00001 * K), seed=0).restore(there.snapshot())


@pytest.mark.parametrize("restore", ["restore", "restore_sensors"])
def test_a_structural_model_continues_from_a_snapshot_of_another_processor(restore):
    """The scale of a field is a root by pow, which rounds differently, too."""

    def auto(kernel, scale):
        structure = prior_structure(kernel, 600.0)
        names = [f"s{i}" for i in range(len(kernel))]
        made = SensorField(names, kernel, 0.01, scale=scale, structure=structure)
        return make_policy("auto", made, seed=0)

    kernel, scale = K[:12, :12] / 4.0, 2.0**0.5
    there = auto(elsewhere(kernel, 5), math.nextafter(scale, 9.0))
    there.observe(there.select().arm, 3.0)
    here = auto(kernel, scale)
    getattr(here, restore)(there.snapshot())
    np.testing.assert_allclose(here.posterior()[0], there.posterior()[0], rtol=1e-6, atol=1e-9)
    assert here.observations == there.observations


def trained(interval):
    """Return a field with a trained structural model and a configured interval, in s."""
    structure = replace(prior_structure(K[:5, :5], 600.0), rows=72, interval=interval)
    return SensorField(list("abcde"), K[:5, :5], 0.01, structure=structure)


@pytest.mark.parametrize(
    "name", ["gp-ucb", "tv-gp-ucb", "ui-tvbo", "mtv-gp-ucb", "et-gp-ucb", "d-ucb", "auto"]
)
@given(interval=st.floats(0.0, 1e5), readings=st.lists(st.floats(-3.0, 3.0), max_size=8))
@max_examples(5)
def test_a_model_continues_if_the_configured_interval_changes(name, interval, readings):
    before, after = (make_policy(name, trained(each), seed=0) for each in (600.0, interval))
    for number, y in enumerate(readings):
        before.set_time(600.0 * number)
        before.observe(before.select().arm, y)
        before.advance()
    before.set_time(600.0 * len(readings))
    after.restore(before.snapshot())
    assert after.observations == before.observations
    assert after.select() == before.select()


def test_kalman_ucb_whose_rate_depends_on_the_interval_does_not_continue():
    before, after = (make_policy("kalman-ucb", trained(each), seed=0) for each in (600.0, 300.0))
    before.observe(1, 0.5)
    with pytest.raises(SnapshotError, match="is of 'state-space"):
        after.restore(before.snapshot())
