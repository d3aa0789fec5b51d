"""SenML against RFC 8428: base fields, times from now, what must be understood."""

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


def spelt_out(pack):
    """Write each record so that it needs no record before it."""
    base, plain = {"bn": "", "bt": 0, "bu": None, "bv": 0}, []
    for record in pack:
        base |= {key: value for key, value in record.items() if key[0] == "b"}
        unit = record.get("u", base["bu"])
        plain.append(
            {"n": base["bn"] + record.get("n", ""), "v": base["bv"] + record["v"]}
            | {"t": base["bt"] + record["t"]}
            | ({"u": unit} if unit else {})
        )
    return plain


@given(records, st.sampled_from(["", "temp", "rh"]), st.sampled_from([{}, {"unit": "Cel"}]))
def test_a_pack_says_what_it_says_when_it_is_spelt_out(pack, name, unit):
    codec = senml.codec({"value": name, **unit})
    assert outcome(codec, pack) == outcome(codec, spelt_out(pack))


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
def test_the_rules_one_by_one(pack, expected):
    assert outcome(senml.codec({}), pack) == expected
