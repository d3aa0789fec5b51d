"""The payload codecs: any bytes are a finite reading, or refused for a known reason."""

import json
import os
import re
import subprocess
import sys
from datetime import datetime
from math import isfinite

import pytest
from edge_tvbo_adapters.payloads import json as json_format
from edge_tvbo_adapters.payloads import number as number_format
from hypothesis import example, given
from hypothesis import strategies as st

from edge_tvbo.errors import ConfigError, PayloadError

REASONS = {
    "bad-time",
    "empty",
    "missing-time",
    "missing-value",
    "naive-time",
    "non-finite",
    "not-a-number",
    "not-json",
    "not-utf8",
    "too-deep",
}
SETTINGS = [
    {},
    {"value": "t"},
    {"value": "t", "time": "ts"},
    {"value": "a.b[1].c", "time": "[0]"},
    {"value": "[0]", "time": "[1]"},
]
CODECS = [number_format.codec({}), *(json_format.codec(each) for each in SETTINGS)]
NUMBER, WHOLE, VALUE, TIMED = CODECS[:4]

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["t", "ts", "a", "b", "c"]), inner, max_size=4)
    ),
    max_leaves=12,
)
timed = st.fixed_dictionaries(
    {"t": st.floats() | st.text() | documents, "ts": st.floats() | st.datetimes().map(str)}
)


def outcome(codec, payload):
    """Give what a codec makes of a payload: the word of refusal, or the value and the time."""
    try:
        value, at = codec(payload)
    except PayloadError as error:
        return error.reason
    return value, at


@given(
    st.binary() | st.text().map(str.encode) | (documents | timed).map(json.dumps).map(str.encode)
)
@example(b"")
@example(b"NaN")
@example(b"Infinity")
@example(b"-inf")
@example(b"21,3")
@example(b"1_0")
@example(b"true")
@example(b"\xff\xfe2\x001\x00")
@example(b"9" * 5000)
@example(b'{"t": ' + b"9" * 5000 + b', "ts": -1e308}')
@example(b'{"t": "\\ud800", "ts": "\\ud800"}')
@example(b'{"t": 1, "ts": "0001-01-01T00:00:00+23:59"}')
@example(b'{"t": 1, "ts": "9999-12-31T23:59:59-23:59"}')
@example(b"0" * 2_000_000)
@example(b"x" * 2_000_000)
@example(b'{"t": "' + b"7" * 2_000_000 + b'"}')
@example(b"[" * 10_000 + b"]" * 10_000)
@example(b'{"t": ' * 10_000 + b"1" + b"}" * 10_000)
def test_any_payload_is_a_finite_reading_or_refused_for_a_known_reason(payload):
    for codec in CODECS:
        result = outcome(codec, payload)
        if isinstance(result, str):
            assert result in REASONS
            continue
        value, at = result
        assert type(value) is float
        assert isfinite(value)
        assert at is None or (type(at) is float and isfinite(at))


@pytest.mark.parametrize("depth", [1, 100, 300, 900, 990, 1000, 10_000])
def test_a_nest_where_the_time_should_be_is_refused_at_any_depth(depth):
    nest = b'{"t": 1, "ts": ' + b"[" * depth + b"]" * depth + b"}"
    assert outcome(TIMED, nest) in {"bad-time", "too-deep"} | REASONS
    assert outcome(json_format.codec(SETTINGS[2]), nest) in {"bad-time", "too-deep"}


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_finite_number_comes_out_as_it_went_in(value):
    text = repr(value).encode()
    assert outcome(NUMBER, text) == (value, None)
    assert outcome(NUMBER, b" " + text + b"\r\n") == (value, None)
    assert outcome(WHOLE, text) == (value, None)
    assert outcome(VALUE, b'{"t": ' + text + b"}") == (value, None)
    assert outcome(VALUE, b'{"t": "' + text + b'"}') == (value, None)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"NaN", "non-finite"),
        (b"Infinity", "non-finite"),
        (b"-inf", "non-finite"),
        (b"1e400", "non-finite"),
        (b"21,3", "not-a-number"),
        (b"1_0", "not-a-number"),
        (b"0x15", "not-a-number"),
        (b"true", "not-a-number"),
        ("２１".encode(), "not-a-number"),
        (b"21.3 C", "not-a-number"),
        (b"\xff\xfe", "not-utf8"),
        (b"x" * 2_000_000, "not-a-number"),
    ],
)
def test_the_number_codec_says_why(payload, reason):
    assert outcome(NUMBER, payload) == reason


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "empty"),
        (b"NaN", "non-finite"),
        (b"-Infinity", "non-finite"),
        (b'{"t": "NaN"}', "non-finite"),
        (b'{"t": "21,3"}', "not-a-number"),
        (b'{"t": "1_0"}', "not-a-number"),
        (b'{"t": ""}', "empty"),
        (b'{"t": true}', "not-a-number"),
        (b'{"t": null}', "not-a-number"),
        (b'{"t": {}}', "not-a-number"),
        (b'{"T": 1}', "missing-value"),
        (b"[1]", "missing-value"),
        (b"21.3", "missing-value"),
        (b'{"t": 21,3}', "not-json"),
        (b"{'t': 21.3}", "not-json"),
        (b'\xef\xbb\xbf{"t": 1}', "not-json"),
        (b'{"t": "\xff"}', "not-utf8"),
        (b"[" * 10_000 + b"]" * 10_000, "too-deep"),
    ],
)
def test_the_json_codec_says_why(payload, reason):
    assert outcome(VALUE, payload) == reason


def test_a_decimal_comma_is_named_as_the_likely_cause():
    with pytest.raises(PayloadError, match="decimal comma"):
        NUMBER(b"21,3")


@pytest.mark.parametrize(
    ("written", "at"),
    [
        ("1078646400", 1078646400.0),
        ("1078646400.25", 1078646400.25),
        ("1078646400250", 1078646400.25),
        ('"2004-03-07T08:00:00Z"', 1078646400.0),
        ('"2004-03-07T09:00:00.5+01:00"', 1078646400.5),
        ('"2004-03-07T08:00:00"', "naive-time"),
        ('"2004-03-07"', "naive-time"),
        ('"yesterday"', "bad-time"),
        ("null", "bad-time"),
        ("true", "bad-time"),
        ("[1078646400]", "bad-time"),
    ],
)
def test_times_are_seconds_milliseconds_or_rfc3339_with_an_offset(written, at):
    codec = json_format.codec({"value": "t", "time": "ts"})
    expected = at if isinstance(at, str) else (21.3, at)
    assert outcome(codec, f'{{"t": 21.3, "ts": {written}}}'.encode()) == expected


@pytest.mark.parametrize(
    ("written", "utc"),
    [
        ("2026-01-15T12:00:00", "2026-01-15T11:00:00+00:00"),
        ("2026-07-15 12:00:00.5", "2026-07-15T10:00:00.500+00:00"),
        ("2026-07-15T12:00:00Z", "2026-07-15T12:00:00+00:00"),
        ("2026-03-29T01:59:59", "2026-03-29T00:59:59+00:00"),
        ("2026-03-29T02:30:00", "2026-03-29T01:30:00+00:00"),  # there is none
        ("2026-03-29T03:00:00", "2026-03-29T01:00:00+00:00"),
        ("2026-10-25T02:30:00", "2026-10-25T00:30:00+00:00"),  # there are two
        ("2026-10-25T03:00:00", "2026-10-25T02:00:00+00:00"),
    ],
)
def test_a_time_without_an_offset_is_local_in_the_zone_that_is_named(written, utc, monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    codec = json_format.codec({"value": "t", "time": "ts", "timezone": "Europe/Berlin"})
    expected = (21.3, datetime.fromisoformat(utc).timestamp())
    assert outcome(codec, f'{{"t": 21.3, "ts": "{written}"}}'.encode()) == expected


@pytest.mark.parametrize("name", ["Europe/Berln", "", "Europe", "/etc/passwd", "../x", "a\0b"])
def test_a_zone_that_is_not_known_is_a_configuration_error_that_names_it(name):
    with pytest.raises(ConfigError, match=f"timezone is {re.escape(repr(name))}; it can be"):
        json_format.codec({"value": "t", "time": "ts", "timezone": name})


def test_in_a_process_that_finds_no_zones_the_error_says_what_to_install():
    program = """if True:
        import sys
        sys.modules["tzdata"] = None
        from edge_tvbo_adapters.payloads import json
        json.timezone("Europe/Berlin")
    """
    environment = os.environ | {"PYTHONTZPATH": ""}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True)
    assert b"ConfigError: timezone is 'Europe/Berlin'" in done.stderr
    assert b"apt install tzdata" in done.stderr


def test_a_time_that_is_wanted_and_missing_is_refused():
    codec = json_format.codec({"value": "t", "time": "ts"})
    assert outcome(codec, b'{"t": 21.3}') == "missing-time"


def test_paths_lead_through_names_and_indices():
    codec = json_format.codec({"value": "a.b[1].c", "time": "[0]"})
    assert outcome(codec, b'{"a": {"b": [0, {"c": 5}]}}') == "missing-time"
    assert outcome(json_format.codec({"value": "[1].x"}), b'[0, {"x": 5}]') == (5.0, None)
    assert outcome(json_format.codec({"value": "a.b[2]"}), b'{"a": {"b": [1, 2]}}') == (
        "missing-value"
    )


@pytest.mark.parametrize("text", ["a..b", "a.", ".a", "a[", "a[x]", "a[-1]", "]"])
def test_a_malformed_path_is_a_configuration_error(text):
    with pytest.raises(ConfigError, match="path"):
        json_format.codec({"value": text})


def test_an_unknown_setting_is_a_configuration_error_with_a_suggestion():
    with pytest.raises(ConfigError, match=r"'valeu'.*Did you mean 'value'"):
        json_format.codec({"valeu": "t"})
    with pytest.raises(ConfigError, match=r"'unit'.*it has none"):
        number_format.codec({"unit": "K"})
