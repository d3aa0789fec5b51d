"""Recorded messages of every integration decode as documented; any other bytes are rejected."""

import json
import subprocess
import sys
from datetime import timedelta
from math import isfinite

import pytest
from edge_tvbo_adapters.payloads.formats import FORMATS, make_codec
from hypothesis import given
from hypothesis import strategies as st
from support.examples import max_examples
from support.recorded import MESSAGES

from edge_tvbo.errors import ConfigError, PayloadError

REASONS = {
    "ambiguous",
    "availability",
    "bad-time",
    "empty",
    "missing-time",
    "missing-value",
    "naive-time",
    "non-finite",
    "not-a-number",
    "not-json",
    "not-senml",
    "not-understood",
    "not-utf8",
    "other-event",
    "several-devices",
    "too-deep",
    "wrong-unit",
}
CODECS = [(each.payload, each.codec()) for each in MESSAGES]
documents = [json.loads(each.body) for each in MESSAGES if each.body.startswith((b"{", b"["))]
bodies = [each.body for each in MESSAGES]
words = sorted(
    {word for each in MESSAGES for word in each.body.decode().split('"')[1::2] if len(word) < 20}
)
odd_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["NaN", "2024-01-15T12:00:00", "0001-01-01T00:00:00Z", 2**28, -1e300, 1e308]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(words), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def changed_document(draw):
    """Draw a recorded document in which one value is replaced or removed."""
    node = document = json.loads(json.dumps(draw(st.sampled_from(documents))))
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return document
        key = draw(st.sampled_from(keys))
        if isinstance(node[key], dict | list) and draw(st.booleans()):
            node = node[key]
            continue
        if draw(st.booleans()):
            node[key] = draw(odd_values)
        else:
            del node[key]
        return document


@st.composite
def truncated_message(draw):
    """Draw the beginning of a recorded message."""
    body = bodies[draw(st.integers(0, len(bodies) - 1))]
    return body[: draw(st.integers(0, len(body)))]


def outcome(codec, payload):
    """Return the value and the time that a codec decodes, or the reason of its error."""
    try:
        return codec(payload)
    except PayloadError as error:
        return error.reason


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: f"{each.payload}: {each.body[:30]}")
def test_recorded_message_is_decoded_as_documented(message):
    assert outcome(message.codec(), message.body) == message.expected


@max_examples(400)
@given(
    st.binary()
    | st.text().map(str.encode)
    | (odd_values | changed_document()).map(json.dumps).map(str.encode)
    | truncated_message()
)
def test_any_payload_is_a_finite_value_or_has_a_known_reason(payload):
    for name, codec in CODECS:
        result = outcome(codec, payload)
        if isinstance(result, str):
            assert result in REASONS, name
            continue
        value, at = result
        assert type(value) is float
        assert isfinite(value), name
        assert at is None or isinstance(at, timedelta) or (type(at) is float and isfinite(at)), name


def test_every_format_has_messages_and_rejects_unknown_settings():
    tested_elsewhere = {"number", "json"}  # in test_payloads.py
    assert {each.payload for each in MESSAGES} | tested_elsewhere == set(FORMATS)
    for name in FORMATS:
        with pytest.raises(ConfigError, match=rf"payload '{name}' has no setting 'valeu'"):
            make_codec(name, {"valeu": "t"})


@pytest.mark.parametrize(
    ("name", "settings", "text"),
    [
        ("tasmota", {"unit": "K"}, "can be C or F"),
        ("tasmota", {"unit": "bar", "value": "Pressure"}, "can be hPa, mmHg or inHg"),
        ("tasmota", {"timezone": "Europe/Berlim"}, "Europe/Berlin"),
        ("jmespath", {"value": "a[?"}, "is not a JMESPath expression"),
        ("jmespath", {"value": "(" * 5000}, "is not a JMESPath expression"),
        ("zigbee2mqtt", {"value": "a..b"}, "is not a path"),
        ("shelly", {"value": "a..b"}, "is not a path"),
    ],
)
def test_invalid_setting_is_a_configuration_error(name, settings, text):
    with pytest.raises(ConfigError, match=text):
        make_codec(name, settings)


def test_jmespath_is_imported_only_when_configured():
    code = (
        "import sys; from edge_tvbo_adapters.payloads.formats import FORMATS;"
        "[FORMATS.load(each) for each in FORMATS];"
        "sys.exit('jmespath' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
