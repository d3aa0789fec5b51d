"""What each make says is read as its documentation means it, and any other bytes are refused."""

import json
import subprocess
import sys
from datetime import timedelta
from math import isfinite

import pytest
from edge_tvbo_adapters.payloads import FORMATS, make_codec
from hypothesis import given, settings
from hypothesis import strategies as st
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
odd = st.recursive(
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
def spoilt(draw):
    """Draw a recorded document, one place of which holds something else, or nothing."""
    here = document = json.loads(json.dumps(draw(st.sampled_from(documents))))
    while True:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        if not keys:
            return document
        key = draw(st.sampled_from(keys))
        if isinstance(here[key], dict | list) and draw(st.booleans()):
            here = here[key]
            continue
        if draw(st.booleans()):
            here[key] = draw(odd)
        else:
            del here[key]
        return document


@st.composite
def cut(draw):
    """Draw the beginning of a recorded message."""
    body = bodies[draw(st.integers(0, len(bodies) - 1))]
    return body[: draw(st.integers(0, len(body)))]


def outcome(codec, payload):
    """Give what a codec makes of a payload: the word of refusal, or the value and the time."""
    try:
        return codec(payload)
    except PayloadError as error:
        return error.reason


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: f"{each.payload}: {each.body[:30]}")
def test_a_recorded_message_is_read_as_it_was_meant(message):
    assert outcome(message.codec(), message.body) == message.expected


@settings(max_examples=400)
@given(
    st.binary()
    | st.text().map(str.encode)
    | (odd | spoilt()).map(json.dumps).map(str.encode)
    | cut()
)
def test_any_payload_is_a_finite_reading_or_refused_for_a_known_reason(payload):
    for name, codec in CODECS:
        result = outcome(codec, payload)
        if isinstance(result, str):
            assert result in REASONS, name
            continue
        value, at = result
        assert type(value) is float
        assert isfinite(value), name
        assert at is None or isinstance(at, timedelta) or (type(at) is float and isfinite(at)), name


def test_every_payload_format_has_a_recorded_message_and_says_which_settings_it_has():
    ours = {"number", "json"}  # in test_payloads.py
    assert {each.payload for each in MESSAGES} | ours == set(FORMATS)
    for name in FORMATS:
        with pytest.raises(ConfigError, match=rf"payload '{name}' has no setting 'valeu'"):
            make_codec(name, {"valeu": "t"})


@pytest.mark.parametrize(
    ("name", "settings", "says"),
    [
        ("tasmota", {"unit": "K"}, "in C or in F"),
        ("tasmota", {"timezone": "Europe/Berlim"}, "Europe/Berlin"),
        ("jmespath", {"value": "a[?"}, "is no JMESPath"),
        ("jmespath", {"value": "(" * 5000}, "is no JMESPath"),
        ("zigbee2mqtt", {"value": "a..b"}, "is no path"),
        ("shelly", {"value": "a..b"}, "is no path"),
    ],
)
def test_a_setting_that_cannot_be_is_a_configuration_error(name, settings, says):
    with pytest.raises(ConfigError, match=says):
        make_codec(name, settings)


def test_jmespath_is_imported_by_those_alone_who_use_it():
    code = (
        "import sys; from edge_tvbo_adapters.payloads import FORMATS;"
        "[FORMATS.load(each) for each in FORMATS];"
        "sys.exit('jmespath' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
