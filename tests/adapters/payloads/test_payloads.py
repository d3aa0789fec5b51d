"""Payload formats `number` and `json`: any bytes give a finite value or a known reason."""

import json
import math
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
NUMBER, DOCUMENT, VALUE, TIMED = CODECS[:4]

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["t", "ts", "a", "b", "c"]), inner, max_size=4)
    ),
    max_leaves=12,
)
timed_documents = st.fixed_dictionaries(
    {"t": st.floats() | st.text() | documents, "ts": st.floats() | st.datetimes().map(str)}
)


def outcome(codec, payload):
    """Return the value and the time that a codec decodes, or the reason of its error."""
    try:
        return codec(payload)
    except PayloadError as error:
        return error.reason


@given(
    st.binary()
    | st.text().map(str.encode)
    | (documents | timed_documents).map(json.dumps).map(str.encode)
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
def test_any_payload_is_a_finite_value_or_has_a_known_reason(payload):
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
def test_nested_array_as_time_is_rejected_at_any_depth(depth):
    payload = b'{"t": 1, "ts": ' + b"[" * depth + b"]" * depth + b"}"
    assert outcome(TIMED, payload) in {"bad-time", "too-deep"} | REASONS
    assert outcome(json_format.codec(SETTINGS[2]), payload) in {"bad-time", "too-deep"}


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_finite_number_is_decoded_exactly(value):
    text = repr(value).encode()
    assert outcome(NUMBER, text) == (value, None)
    assert outcome(NUMBER, b" " + text + b"\r\n") == (value, None)
    assert outcome(DOCUMENT, text) == (value, None)
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
def test_number_format_names_the_reason(payload, reason):
    assert outcome(NUMBER, payload) == reason


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "empty"),
        (b"NaN", "non-finite"),
        (b"-Infinity", "non-finite"),
        (b'{"t": "NaN"}', "non-finite"),
        (b'{"t": -Infinity}', "non-finite"),
        (b'{"t": NaN, }', "not-json"),
        (b'{"t": ' + b"[" * 100_000 + b"NaN", "too-deep"),
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
def test_json_format_names_the_reason(payload, reason):
    assert outcome(VALUE, payload) == reason


def test_values_beside_a_nan_are_decoded():
    """Python's json writes NaN for a sensor without a reading."""
    assert outcome(VALUE, json.dumps({"t": 21.3, "humidity": math.nan}).encode()) == (21.3, None)
    assert outcome(VALUE, b'{"dew": -Infinity, "t": "21.3", "n": Infinity}') == (21.3, None)


def test_error_mentions_a_decimal_comma():
    with pytest.raises(PayloadError, match="decimal comma"):
        NUMBER(b"21,3")


@pytest.mark.parametrize(
    ("written", "time"),
    [
        ("1078646400", 1078646400.0),
        ("1078646400.25", 1078646400.25),
        ("1078646400250", 1078646400.25),
        ("1078646400250000", 1078646400.25),
        ("1078646400250000000", 1078646400.25),  # as Telegraf and Python's time_ns() write it
        ('"1078646400250000000"', 1078646400.25),
        ('"1078646400"', 1078646400.0),
        ('"1078646400.25"', 1078646400.25),
        ('"1796010112030"', 1796010112.03),  # not 20:30 on 1 January 1796
        ('"1.078.646"', "bad-time"),
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
def test_time_is_a_number_in_any_usual_unit_or_rfc3339(written, time):
    codec = json_format.codec({"value": "t", "time": "ts"})
    expected = time if isinstance(time, str) else (21.3, time)
    assert outcome(codec, f'{{"t": 21.3, "ts": {written}}}'.encode()) == expected


@pytest.mark.parametrize(
    ("written", "utc"),
    [
        ("2026-01-15T12:00:00", "2026-01-15T11:00:00+00:00"),
        ("2026-07-15 12:00:00.5", "2026-07-15T10:00:00.500+00:00"),
        ("2026-07-15T12:00:00Z", "2026-07-15T12:00:00+00:00"),
        ("2026-03-29T01:59:59", "2026-03-29T00:59:59+00:00"),
        ("2026-03-29T02:30:00", "2026-03-29T01:30:00+00:00"),  # skipped in spring
        ("2026-03-29T03:00:00", "2026-03-29T01:00:00+00:00"),
        ("2026-10-25T02:30:00", "2026-10-25T00:30:00+00:00"),  # occurs twice
        ("2026-10-25T03:00:00", "2026-10-25T02:00:00+00:00"),
    ],
)
def test_time_without_offset_is_local_in_the_configured_zone(written, utc, monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    codec = json_format.codec({"value": "t", "time": "ts", "timezone": "Europe/Berlin"})
    expected = (21.3, datetime.fromisoformat(utc).timestamp())
    assert outcome(codec, f'{{"t": 21.3, "ts": "{written}"}}'.encode()) == expected


@pytest.mark.parametrize("name", ["Europe/Berln", "", "Europe", "/etc/passwd", "../x", "a\0b"])
def test_unknown_timezone_is_a_configuration_error(name):
    with pytest.raises(ConfigError, match=f"timezone is {re.escape(repr(name))}; it can be"):
        json_format.codec({"value": "t", "time": "ts", "timezone": name})


def test_error_without_timezone_database_names_the_package():
    program = """if True:
        import sys
        sys.modules["tzdata"] = None
        from edge_tvbo.config.time_zones import load_timezone
        load_timezone("Europe/Berlin")
    """
    environment = os.environ | {"PYTHONTZPATH": ""}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True)
    assert b"ConfigError: timezone is 'Europe/Berlin'" in done.stderr
    assert b"apt install tzdata" in done.stderr


def test_missing_time_is_rejected():
    codec = json_format.codec({"value": "t", "time": "ts"})
    assert outcome(codec, b'{"t": 21.3}') == "missing-time"


def test_common_json_is_decoded_in_two_calls():
    """Every reading passes this codec: the walk from the socket to the kernel stays short."""
    calls = []

    def record(frame, event, argument):
        if event == "call" and "payloads" in frame.f_code.co_filename:
            calls.append(frame.f_code.co_name)

    codec = json_format.codec({"value": "t", "time": "ts"})
    sys.setprofile(record)
    try:
        decoded = codec(b'{"t": 21.3, "ts": 1078646400}')
    finally:
        sys.setprofile(None)
    assert decoded == (21.3, 1078646400.0)
    assert calls == ["decode", "to_seconds"]


def test_path_follows_names_and_indices():
    codec = json_format.codec({"value": "a.b[1].c", "time": "[0]"})
    assert outcome(codec, b'{"a": {"b": [0, {"c": 5}]}}') == "missing-time"
    assert outcome(json_format.codec({"value": "[1].x"}), b'[0, {"x": 5}]') == (5.0, None)
    assert outcome(json_format.codec({"value": "a.b[2]"}), b'{"a": {"b": [1, 2]}}') == (
        "missing-value"
    )


@pytest.mark.parametrize("text", ["a..b", "a.", ".a", "a[", "a[x]", "a[-1]", "]"])
def test_malformed_path_is_a_configuration_error(text):
    with pytest.raises(ConfigError, match="path"):
        json_format.codec({"value": text})


def test_unknown_setting_is_an_error_with_a_suggestion():
    with pytest.raises(ConfigError, match=r"'valeu'.*Did you mean 'value'"):
        json_format.codec({"valeu": "t"})
    with pytest.raises(ConfigError, match=r"'unit'; it has no settings of its own\.$"):
        number_format.codec({"unit": "K"})
