"""SenML payloads against RFC 8428: base fields, relative times, mandatory fields."""

import json
from datetime import timedelta

import pytest
from edge_tvbo_adapters.payloads import senml
from hypothesis import given
from hypothesis import strategies as st

from edge_tvbo.errors import PayloadError

numbers = st.floats(-1e6, 1e6)
records = st.lists(
    st.fixed_dictionaries(
        {"v": numbers, "t": st.integers(-1000, 1000)},
        optional={
            "n": st.sampled_from(["temp", "rh", ""]),
            "u": st.sampled_from(["Cel", "%RH"]),
            "bn": st.sampled_from(["a:", "b:"]),
            "bt": st.sampled_from([0, 1.3e9, 1.5e9]),
            "bu": st.sampled_from(["Cel", "K"]),
            "bv": numbers,
        },
    ),
    min_size=1,
    max_size=6,
)


def resolve(pack):
    """Return the records with the base fields added, so that each stands alone."""
    base, resolved = {"bn": "", "bt": 0, "bu": None, "bv": 0}, []
    for record in pack:
        base |= {key: value for key, value in record.items() if key[0] == "b"}
        unit = record.get("u", base["bu"])
        resolved.append(
            {"n": base["bn"] + record.get("n", ""), "v": base["bv"] + record["v"]}
            | {"t": base["bt"] + record["t"]}
            | ({"u": unit} if unit else {})
        )
    return resolved


@given(records, st.sampled_from(["", "temp", "rh"]), st.sampled_from([{}, {"unit": "Cel"}]))
def test_base_fields_apply_to_later_records(pack, name, unit):
    codec = senml.codec({"value": name, **unit})
    assert outcome(codec, pack) == outcome(codec, resolve(pack))


def outcome(codec, pack):
    try:
        return codec(json.dumps(pack).encode())
    except PayloadError as error:
        return error.reason


@pytest.mark.parametrize(
    ("pack", "expected"),
    [
        ([{"v": 1}], (1.0, timedelta(0))),
        ([{"v": 1, "t": -60}], (1.0, timedelta(seconds=-60))),
        ([{"v": 1, "t": -60}, {"v": 2, "t": -90}], (1.0, timedelta(seconds=-60))),
        ([{"v": 1, "t": 2**28 - 1}], (1.0, timedelta(seconds=2**28 - 1))),
        ([{"v": 1, "t": 2**28}], (1.0, 268435456.0)),
        ([{"bt": 1.3e9, "v": 1}, {"v": 2}], (2.0, 1.3e9)),
        ([{"v": 1, "t": -1e300}], "bad-time"),
        ([{"v": 1, "x": 7}], (1.0, timedelta(0))),
        ([{"v": 1, "x_": 7}], "not-understood"),
        ([{"vs": "on"}, {"v": 1, "bver_": 2}], "not-understood"),
        ([{"bver": 11, "v": 1}], "not-understood"),
        ([{"bver": 10, "v": 1}], (1.0, timedelta(0))),
        ([{"vs": "21.3"}], "missing-value"),
        ([{"v": "21.3"}], (21.3, timedelta(0))),
        ([{"v": True}], "not-a-number"),
        ([{"bv": 1e308, "v": 1e308}], "non-finite"),
        ([{"n": 7, "v": 1}], "not-senml"),
        ([], "missing-value"),
        ({"v": 1}, "not-senml"),
        ([7], "not-senml"),
    ],
)
def test_rule_of_the_standard(pack, expected):
    assert outcome(senml.codec({}), pack) == expected


@pytest.mark.parametrize(
    ("value", "pack", "expected"),
    [
        ("", [{"n": "temp", "v": 21}, {"n": "rh", "v": 50}], "ambiguous"),
        ("temp", [{"n": "temp", "v": 21}, {"n": "outdoor-temp", "v": 5}], 21.0),
        (
            "1:temp",
            [{"bn": "urn:dev:1:", "n": "temp", "v": 21}, {"n": "outdoor-temp", "v": 5}],
            21.0,
        ),
        ("temp", [{"n": "indoor-temp", "v": 21}, {"n": "outdoor-temp", "v": 5}], "ambiguous"),
        (
            "temp",
            [{"bn": "a:", "n": "temp", "v": 21}, {"bn": "b:", "n": "temp", "v": 5}],
            "ambiguous",
        ),
        ("b:temp", [{"bn": "a:", "n": "temp", "v": 21}, {"bn": "b:", "n": "temp", "v": 5}], 5.0),
        ("temp", [{"n": "temp", "v": 21, "t": -9}, {"n": "temp", "v": 22}], 22.0),
        ("", [{"n": "temp", "u": "Cel", "v": 21}, {"n": "rh", "u": "%RH", "v": 50}], "ambiguous"),
    ],
)
def test_record_of_another_quantity_or_sensor_is_not_taken(value, pack, expected):
    found = outcome(senml.codec({"value": value}), pack)
    assert (found if isinstance(found, str) else found[0]) == expected


def test_unit_may_distinguish_the_records():
    pack = [{"n": "temp", "u": "Cel", "v": 21}, {"n": "rh", "u": "%RH", "v": 50}]
    assert outcome(senml.codec({"unit": "Cel"}), pack) == (21.0, timedelta(0))


@pytest.mark.parametrize("value", [b"NaN", b"null", b"true"])
def test_a_sensor_without_a_value_does_not_affect_the_others(value):
    """Programs write NaN or null for a sensor that has failed; RFC 8428 allows only numbers."""
    body = b'[{"bn": "dev:1:", "n": "temp", "v": 21.3}, {"n": "rh", "v": %s}]' % value
    assert senml.codec({"value": "temp"})(body) == (21.3, timedelta(0))
    with pytest.raises(PayloadError):
        senml.codec({"value": "rh"})(body)
