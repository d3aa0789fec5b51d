"""JSON objects: which values of a message `init` finds, and what their paths are."""

import json

import pytest
from edge_tvbo_adapters.payloads.formats import make_codec
from hypothesis import given
from hypothesis import strategies as st

from edge_tvbo.setup import json_objects
from edge_tvbo.setup.json_objects import decode_object, objects_in, quantity_paths

keys = st.sampled_from(["temperature", "co2", "value", "air", "a.b", "temp[0]", "", "state", "x"])
objects = st.recursive(
    st.floats(-50, 50) | st.integers(-50, 50).map(str),
    lambda inner: st.dictionaries(keys, inner, max_size=4) | st.lists(inner, max_size=2),
    max_leaves=12,
)


@given(st.dictionaries(keys, objects, max_size=4))
def test_the_codec_reads_the_value_at_each_path_that_is_found(document):
    payload = json.dumps(document).encode()
    for path in quantity_paths(decode_object(payload)):
        expected = document
        for key in path.split("."):
            expected = expected[key]
        if not isinstance(expected, list):
            assert make_codec("json", {"value": path})(payload) == (float(expected), None)


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        ({"temperature": 21.3, "humidity": "40"}, ("temperature", "humidity")),
        ({"data": {"temperature": 21.3}}, ("data.temperature",)),
        ({"bme280": {"Temperature": 21.3, "address": 118}}, ("bme280.Temperature",)),
        ({"temperature": {"value": 21.3, "unit": "C"}}, ("temperature.value",)),
        ({"temperature": {"id": 3, "max": 30}, "Forecast": {"temperature": 25}}, ()),
        ({"a.b": {"temperature": 21.3}, "": {"co2": 415}}, ()),
        ({"list": [{"temperature": 21.3}]}, ()),
        ({"a": {"b": {"c": {"temperature": 21.3}}}}, ("a.b.c.temperature",)),
        ({"a": {"b": {"c": {"d": {"temperature": 21.3}}}}}, ()),
    ],
)
def test_values_of_known_quantities_are_found_in_nested_objects(document, paths):
    assert quantity_paths(document) == paths


def test_the_number_of_paths_and_the_length_of_a_message_are_bounded(monkeypatch):
    many = {f"temperature_{number}": number for number in range(json_objects.MAX_PATHS + 5)}
    assert len(quantity_paths(many)) == json_objects.MAX_PATHS
    payload = b'{"co2": 415}'
    monkeypatch.setattr(json_objects, "MAX_PAYLOAD", len(payload))
    assert decode_object(payload) == {}
    assert decode_object(payload.replace(b" ", b"")) == {"co2": 415}


@given(st.binary() | st.sampled_from([b"[" * 5000, b'{"a":' * 5000, b"[1]", b"3"]))
def test_a_message_without_an_object_has_none(payload):
    found = decode_object(payload)
    assert isinstance(found, dict)
    assert all(isinstance(each, dict) for _, each in objects_in(found))
