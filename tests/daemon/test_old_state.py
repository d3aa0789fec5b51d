"""Old state files and snapshots are read, and continue with the same decisions.

``README.md`` in each of ``tests/data/state-*`` says how the files were written.
"""

import json
from contextlib import suppress

import msgspec
import numpy as np
import pytest
from support.old_state import (
    POLICIES,
    box_policies,
    controllers,
    fields,
    large_controller,
    run_controller,
    run_policy,
)
from support.paths import ROOT
from support.policy_snapshots import in_old_format

from edge_tvbo.control import sensor_health
from edge_tvbo.daemon.checkpoint_document import decode, encode
from edge_tvbo.errors import SnapshotError
from edge_tvbo.training import model_file

FOLDER = ROOT / "tests" / "data" / "state-0.1.0"
STATE = FOLDER / "lab.state"
BEFORE_PLANES = ROOT / "tests" / "data" / "state-before-planes"
EXPECTED = json.loads((FOLDER / "continuation.json").read_text(encoding="utf-8"))
# LAPACK, exp and log round differently on other machines; the kernels do not.
LIBRARY_MATH = (
    "tv-window",
    "mtv-window",
    "fitted",
    "ttv-gp-ucb",
    "w-gp-ucb",
    "w-dbo",
    "auto",
    "auto-learned",
    "lb-gp-ucb",
    "a-gp-ucb",
    "mle-gp-ucb",
    "mcmc-gp-ucb",
    "low-rank",
)


def assert_continues(decided, expected, *, exactly):
    assert [sensor for sensor, *_ in decided] == [sensor for sensor, *_ in expected]
    if exactly:
        assert decided == expected
    for (_, *sums), (_, *others) in zip(decided, expected, strict=True):
        numbers, known = ([float.fromhex(each) for each in pair] for pair in (sums, others))
        assert numbers == pytest.approx(known, rel=1e-7, abs=1e-9)


def test_fields_of_an_old_state_file_continue_unchanged(monkeypatch):
    """Version 0.1.0 backed a sensor off after one time-out, and counted no replies."""
    monkeypatch.setattr(sensor_health, "MAX_TIMEOUTS", 1)
    document = decode(STATE.read_bytes())
    assert set(document.fields) == {*POLICIES, "auto-daily"}  # there is no daily profile now
    for name, controller in controllers().items():
        snapshot = of_this_machine(document.fields[name].controller, controller)
        controller.restore(snapshot)
        if not name.startswith(("auto", "tv-window", "sw-gp-ucb")):  # these are stored otherwise
            assert without_new_names(controller) == snapshot, name
        decided = run_controller(controller, 30, 42)
        assert_continues(decided, EXPECTED["fields"][name], exactly=name not in LIBRARY_MATH)


def test_old_snapshots_are_restored_in_part_by_fields_with_another_model():
    """Only the field that counts energy stored the ids of its sensors."""
    document, same = decode(STATE.read_bytes()), controllers()
    for name, controller in controllers().items():
        snapshot = of_this_machine(document.fields[name].controller, controller)
        same[name].restore(snapshot)
        with suppress(SnapshotError):  # of the model: that of `auto` is of another kind
            controller.restore_partial(snapshot)
        before, after = same[name].health(), controller.health()
        for counter in ("answered", "missed", "refused", "paused", "ignored"):
            assert getattr(after, counter) == getattr(before, counter), name
        assert after.suspects == (before.suspects if before.energy else [])


def of_this_machine(snapshot, controller):
    """Return a snapshot of version 0.1.0 with the field's digest on this machine.

    In this digest, each bit of the kernel counts. The kernel of one of the fields contains exp,
    which rounds differently on other processors.
    """
    _, _, digest, _ = msgspec.msgpack.decode(snapshot)
    here = controller.policy.field.fingerprint().exact
    return snapshot.replace(digest.encode(), here.encode())


def without_new_names(controller):
    """Return the snapshot of a controller without what version 0.1.0 did not store.

    These are the rounded digests of the field, and some names: the counts of replies, the reported
    low batteries and the rises of the prices, which must be 0, the unit, the unit and the costs of
    the energy, the length of the interval, the ids of the sensors if no energy is counted, and the
    activations of the running interval, of which version 0.1.0 stored the awaited one.
    """
    envelope = list(msgspec.msgpack.decode(in_old_format(controller.snapshot())))
    state = envelope[-1]
    assert state.pop("unit", "") == controller.policy.field.unit
    assert state.pop("interval_s") == controller.settings.interval_s
    sensors = state["sensors"] if "energy" in state else state.pop("sensors")
    assert sensors == list(controller.policy.field.sensors)
    activations = msgspec.msgpack.decode(state.pop("activations"))
    assert activations["arms"] == activations["awaited"] and not activations["left"]
    of_energy = ["reported_low", "rises"] if "energy" in state else []
    if energy := controller.settings.energy:
        costs = [energy.sensors[sensor].cost for sensor in sensors]
        assert state.pop("energy_unit") == energy.unit
        *_, data = state.pop("costs")
        assert np.frombuffer(data).tolist() == costs
    for name in ["timeouts", "replies", "losses", *of_energy]:
        *_, data = state.pop(name)
        assert not any(data)
    return msgspec.msgpack.encode(envelope)


def test_state_file_is_written_in_the_old_format():
    """A daemon can be rolled back to version 0.1.0: all fields keep their settings and counts.

    The models of `auto`, and those of GP-UCB with a window, lose their readings.
    """
    data = STATE.read_bytes()
    assert decode(encode(decode(data))) == decode(data)
    assert encode(decode(data))[:20] == data[:20]


def test_old_snapshots_of_box_policies_continue():
    snapshots = msgspec.msgpack.decode((FOLDER / "box-policies.msgpack").read_bytes())
    for name, policy in box_policies().items():
        policy.restore(snapshots[name])
        assert in_old_format(policy.snapshot()) == snapshots[name]
        decided = run_policy(policy, 20, 26)
        known = EXPECTED["box"][name]
        assert len(decided) == len(known)
        for (arm, *sums), (known_arm, *known_sums) in zip(decided, known, strict=True):
            numbers = [*map(float, arm.split()), *map(float.fromhex, sums)]
            others = [*map(float, known_arm.split()), *map(float.fromhex, known_sums)]
            assert numbers == pytest.approx(others, rel=1e-5, abs=1e-5)


def test_old_model_file_contains_the_same_field_without_its_daily_profile():
    field = model_file.read(FOLDER / "daily.model.json")
    assert field.fingerprint() == fields()["plain"].fingerprint()


def test_a_covariance_that_is_not_in_planes_is_read_bit_for_bit_and_continues():
    snapshot = decode((BEFORE_PLANES / "hall.state").read_bytes()).fields["hall"].controller
    controller = large_controller()
    controller.restore(snapshot)
    old, new = (covariance_in(each) for each in (snapshot, controller.snapshot()))
    assert (old[0], new[0]) == ("<f8 triangles", "<f8 triangles planes")
    planes = np.frombuffer(new[2], np.uint8).reshape(8, -1)
    assert planes.T.tobytes() == old[2]
    expected = json.loads((BEFORE_PLANES / "continuation.json").read_text(encoding="utf-8"))
    assert_continues(run_controller(controller, 3, 15), expected, exactly=False)


def covariance_in(snapshot):
    """Return the type, the shape and the bytes of the covariance in a controller's snapshot."""
    for name in ("policy", "posterior", "covariance"):
        snapshot = msgspec.msgpack.decode(snapshot)[3][name]
    return snapshot
