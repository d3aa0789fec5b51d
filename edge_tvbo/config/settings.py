"""The settings, frozen: what each one is, its unit, its range and its default.

`load` reads a file by these structs and `explain` prints them, so a setting is written once.
In `Meta(extra=...)`, `reads` turns what TOML gave into the value, `can` says what would do,
`default` says a default that depends on other settings, and `rest` takes a table's other keys.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from edge_tvbo.config import values
from edge_tvbo.config.values import Secret, duration

Position = tuple[float, float]  # m
Interval = float | Literal["on-reading"]  # s
_ID = r"^[a-z0-9_-]{1,64}\Z"
_ID_CAN = {"can": "1 to 64 of the characters a-z 0-9 _ -"}
_FILE = {"reads": values.file_name, "can": "the name of a file, from this file's directory"}
_SECRET_FILE = {
    "reads": values.file_name,
    "can": "the name of a file, in $CREDENTIALS_DIRECTORY or from this file's directory",
}


class Reconnect(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait before the broker is tried again."""

    min: Annotated[
        float,
        Meta(
            description="The first wait after a lost connection; each next one is longer.",
            extra=duration("100ms", "1d"),
        ),
    ] = 1.0
    max: Annotated[float, Meta(description="The longest wait.", extra=duration("100ms", "1d"))] = (
        60.0
    )


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """How the connection is encrypted; the table alone, [mqtt.tls], is enough for most brokers."""

    ca: Annotated[
        Path | None,
        Meta(
            description="The certificate of the CA that signed the broker's, in PEM form; without"
            " it, the CAs that this system knows.",
            extra=_SECRET_FILE,
        ),
    ] = None
    certificate: Annotated[
        Path | None,
        Meta(description="Our own certificate, where the broker wants one.", extra=_SECRET_FILE),
    ] = None
    key: Annotated[
        Path | None,
        Meta(
            description="The key of our certificate, not encrypted; without it, the same file.",
            extra=_SECRET_FILE,
        ),
    ] = None
    minimum_version: Annotated[
        Literal["1.2", "1.3"], Meta(description="The oldest TLS that will do.")
    ] = "1.2"
    server_name: Annotated[
        str | None,
        Meta(
            description="The name that the broker's certificate must have; without it, `host`.",
            extra={"reads": values.host, "can": "a host name or an IP address"},
        ),
    ] = None


class Mqtt(msgspec.Struct, frozen=True, kw_only=True):
    """Where the broker is and who we are to it."""

    host: Annotated[
        str,
        Meta(
            description="The broker's host.",
            extra={"reads": values.host, "can": "a host name or an IP address"},
        ),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65535, description="The broker's TCP port.")] = 1883
    username: Annotated[
        str | None, Meta(min_length=1, max_length=4096, description="Who logs in.")
    ] = None
    password: Annotated[
        Secret | None,
        Meta(
            description="What logs in; `password_file` keeps it out of this file.",
            extra={"reads": values.secret, "can": "a text", "secret": True},
        ),
    ] = None
    password_file: Annotated[
        Path | None,
        Meta(
            description="A file that holds the password alone, or the name of a credential.",
            extra=_SECRET_FILE,
        ),
    ] = None
    client_id: Annotated[
        str,
        Meta(
            max_length=256,
            description="How the broker tells clients apart; empty makes one from the instance.",
        ),
    ] = ""
    keepalive: Annotated[
        int,
        Meta(
            description="After this long without traffic the broker is asked whether it is there.",
            extra={
                "reads": values.keepalive,
                "can": "whole seconds, 5 to 3600, or a duration",
                "text": values.duration_text,
            },
        ),
    ] = 30
    reconnect: Annotated[
        Reconnect, Meta(description="How long to wait before the broker is tried again.")
    ] = Reconnect()
    silence: Annotated[
        float | None,
        Meta(
            description="When no sensor has been heard for this long, the connection is made anew.",
            extra=duration(
                "1s", default="3 of the longest intervals where a field is live; else never"
            ),
        ),
    ] = None
    tls: Annotated[
        Tls | None,
        Meta(description="How the connection is encrypted; without this table it is not."),
    ] = None


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """Where `/metrics` and `/healthz` are read."""

    host: Annotated[
        str,
        Meta(
            description="The address listened on; any but loopback is open to the network.",
            extra={"reads": values.host, "can": "an IP address, or localhost"},
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int | None,
        Meta(
            ge=1, le=65535, description="The TCP port; without it nothing listens. 9464 is usual."
        ),
    ] = None


class Beta(msgspec.Struct, frozen=True, kw_only=True):
    """An exploration weight that grows with time: c1 · ln(c2 · t)."""

    c1: Annotated[float, Meta(gt=0, description="The factor before the logarithm.")]
    c2: Annotated[float, Meta(gt=0, description="The factor inside it.")]


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters that policies take; each policy takes some of them and has its own defaults."""

    epsilon: Annotated[
        float | str | None,
        Meta(
            description="The share of the field that is new each interval; mtv-gp-ucb: left.",
            extra={"reads": values.share_or_fitted, "can": 'a number from 0 to 1, or "fitted"'},
        ),
    ] = None
    sigma_w2: Annotated[
        float | None, Meta(ge=0, description="Variance that the field gains in each interval.")
    ] = None
    alpha: Annotated[
        float | None, Meta(ge=0, lt=1, description="How much momentum is left each interval.")
    ] = None
    tau: Annotated[
        float | str | None,
        Meta(
            description="The interval in the middle of a transition.",
            extra={"reads": values.interval_or_fitted, "can": 'a number, or "fitted"'},
        ),
    ] = None
    rho: Annotated[
        float | None, Meta(gt=0, description="How long a transition takes, in intervals.")
    ] = None
    window: Annotated[
        int | None, Meta(ge=1, le=4096, description="How many readings the model remembers.")
    ] = None
    period: Annotated[
        int | None, Meta(ge=1, description="Intervals between two planned resets.")
    ] = None
    delta_b: Annotated[
        float | None,
        Meta(
            gt=0,
            lt=1,
            description="How probably a static field may be taken for a changed one.",
        ),
    ] = None
    n_lower: Annotated[
        int | None, Meta(ge=1, description="No reset after fewer answers than this.")
    ] = None
    n_upper: Annotated[
        int | None, Meta(ge=1, description="Always a reset after this many answers.")
    ] = None
    trigger: Annotated[
        Literal["error-bound", "likelihood-ratio"] | None,
        Meta(description="The test that says the model is stale."),
    ] = None
    gamma: Annotated[
        float | None,
        Meta(
            gt=0,
            le=1,
            description="What a reading's weight is multiplied by each interval; rexp3: draws at"
            " random, as a share.",
        ),
    ] = None
    length_scale: Annotated[
        float | str | None,
        Meta(
            description="The longest distance that may make a difference, in m.",
            extra={
                "reads": values.length_or_learned,
                "can": 'a number above 0; for auto "learned", from the sensors\' positions',
            },
        ),
    ] = None
    nu: Annotated[
        float | None, Meta(gt=0, description="Smoothness of the Matérn kernel that is scaled.")
    ] = None
    bound: Annotated[
        float | None, Meta(gt=0, description="The field's norm at most, in model units.")
    ] = None
    delta: Annotated[
        float | None, Meta(gt=0, lt=1, description="The probability of being wrong.")
    ] = None
    growth: Annotated[
        float | None, Meta(gt=0, le=1, description="How fast shorter length scales are tried.")
    ] = None
    samples: Annotated[
        int | None, Meta(ge=1, le=1000, description="Length scales drawn each interval.")
    ] = None
    keep_last: Annotated[
        bool | None,
        Meta(description="Whether the answer that fired outlives the reset."),
    ] = None
    noise_cap: Annotated[
        int | None, Meta(ge=1, description="Answers after which the noise margin grows no further.")
    ] = None
    beta: Annotated[
        float | str | Beta | None,
        Meta(
            description="How much uncertainty attracts: a constant, or one that grows with time.",
            extra={
                "reads": values.number_or_least_bound,
                "can": "a number above 0, a table { c1 = ..., c2 = ... }, or, for tv-gp-ucb, "
                '"least-bound"',
            },
        ),
    ] = None
    seed: Annotated[
        int | None, Meta(ge=0, description="Starts the generator that breaks ties.")
    ] = None


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Who chooses the next sensor."""

    name: Annotated[
        str, Meta(description="A registered policy.", extra={"can": "the name of a policy"})
    ] = "auto"
    parameters: Annotated[dict[str, Any], Meta(extra={"rest": Parameters})] = {}  # by keyword


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """How alike the readings of two sensors are, by their distance."""

    name: Annotated[
        Literal["se", "matern-1/2", "matern-3/2", "matern-5/2", "linear"],
        Meta(description="The shape of the covariance."),
    ]
    length_scale: Annotated[
        float, Meta(gt=0, description="The distance that makes a difference, in m.")
    ]
    variance: Annotated[float, Meta(gt=0, description="Prior variance of the field, in unit².")]
    noise_variance: Annotated[
        float, Meta(gt=0, description="Variance of a sensor's noise, in unit².")
    ]
    mean: Annotated[
        float, Meta(description="The value the field is expected to have on average, in unit.")
    ]


class ReadingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where readings arrive and how they are written."""

    topic: Annotated[
        str,
        Meta(
            description="The MQTT topic of the readings.",
            extra={
                "reads": values.reading_topic,
                "can": "a topic with {sensor} as one of its levels",
            },
        ),
    ]
    payload: Annotated[
        str, Meta(description="The format of the readings.", extra={"can": "the name of a format"})
    ] = "number"
    settings: Annotated[
        dict[str, str],
        Meta(
            description="Further keys are for the format: json takes `value` and `time`, for one.",
            extra={"rest": str, "can": "a text"},
        ),
    ] = {}


class ActivateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a sensor is activated."""

    mode: Annotated[
        Literal["advise", "live"],
        Meta(description="Whether to say only which sensor is next, or to activate it too."),
    ] = "advise"
    topic: Annotated[
        str | None,
        Meta(
            description="The MQTT topic that activates a sensor; mode live needs it.",
            extra={"reads": values.activate_topic, "can": "a topic with {sensor} in it"},
        ),
    ] = None
    payload: Annotated[
        str,
        Meta(
            description="What is published there.",
            extra={
                "reads": values.activate_payload,
                "can": "a text; {sensor} {interval} {at} {expires_at} are filled in",
            },
        ),
    ] = "1"


SensorId = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_.-]{1,64}\Z",
        extra={"can": "1 to 64 of the characters A-Z a-z 0-9 _ . -"},
    ),
]


class FieldSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity that a number of sensors measure."""

    unit: Annotated[str, Meta(max_length=32, description="The unit of the readings.")] = ""
    objective: Annotated[
        Literal["max", "min"], Meta(description="Which end of the scale is followed.")
    ] = "max"
    interval: Annotated[
        Interval,
        Meta(
            description="How often a sensor is chosen; on-reading: at once after each answer.",
            extra={
                "reads": values.interval,
                "can": 'a duration, 10ms to 366d, or "on-reading"',
            },
        ),
    ]
    reply_timeout: Annotated[
        float,
        Meta(
            description="How long a sensor may take to answer; no longer than the interval.",
            extra=duration("1ms", default="1/5 of the interval; 2min with on-reading"),
        ),
    ]
    learn_from: Annotated[
        Literal["all", "activated"],
        Meta(description="Whether readings that nobody asked for are learnt from too."),
    ] = "all"
    policy: Annotated[Policy, Meta(description="Who chooses the next sensor.")] = Policy()
    model: Annotated[
        Path | None,
        Meta(description="What `edge-tvbo fit` wrote; instead of kernel.", extra=_FILE),
    ] = None
    kernel: Annotated[
        Kernel | None,
        Meta(description="How alike the readings of two sensors are; instead of model."),
    ] = None
    positions: Annotated[
        dict[str, Position] | None,
        Meta(
            description="Where the sensors are, in m; a file has a line `id x y` for each.",
            extra={
                "reads": values.text_or_table,
                "can": "the name of a file, or a table { id = [x, y], ... }",
            },
        ),
    ] = None
    sensors: Annotated[
        tuple[SensorId, ...],
        Meta(
            min_length=1,
            max_length=2000,
            description="The ids of the sensors, as they stand in the topics.",
            extra={"can": "an array of 1 to 2000 ids"},
        ),
    ]
    reading: Annotated[
        ReadingSettings, Meta(description="Where readings arrive and how they are written.")
    ]
    activate: Annotated[ActivateSettings, Meta(description="How a sensor is activated.")] = (
        ActivateSettings()
    )
    max_age: Annotated[
        float,
        Meta(
            description="A reading measured longer ago than this is not used.",
            extra=duration("10ms", default="the interval; 10min with on-reading"),
        ),
    ]
    max_future: Annotated[
        float,
        Meta(
            description="A reading stamped further ahead of our clock than this is not used.",
            extra=duration("0s"),
        ),
    ] = 60.0
    max_backoff: Annotated[
        int,
        Meta(
            ge=1,
            le=65536,
            description="The longest that a silent sensor is left alone, in intervals.",
        ),
    ] = 64
    max_payload: Annotated[
        int,
        Meta(ge=1, le=1048576, description="A message longer than this, in bytes, is not used."),
    ] = 65536
    plausible: Annotated[
        float,
        Meta(
            gt=0,
            description="How far off the mean a reading may be, in standard deviations of what is"
            " expected of the field; what is farther is not used, and its sensor is left alone.",
        ),
    ] = 20.0
    max_rate: Annotated[
        float,
        Meta(
            gt=0,
            description="Messages a second of one sensor; it may save up ten seconds' worth, and"
            " what is beyond is not used.",
        ),
    ] = 100.0


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept over a restart."""

    dir: Annotated[
        str,
        Meta(
            description="Where the models are kept over a restart; empty never writes. Under"
            " systemd, the path in $STATE_DIRECTORY: /var/lib/edge-tvbo.",
            extra={
                "reads": values.directory,
                "can": "the name of a directory, from this file's directory, or empty",
            },
        ),
    ] = ""
    checkpoint: Annotated[
        float,
        Meta(
            description="How often they are written, beside on exit; above 256 KiB more rarely.",
            extra=duration("1s", "1d"),
        ),
    ] = 900.0


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration file."""

    instance: Annotated[
        str,
        Meta(
            pattern=_ID,
            description="The name of this daemon in the topics it publishes.",
            extra=_ID_CAN,
        ),
    ] = "edge"
    health: Annotated[
        float,
        Meta(description="How often the daemon says how it is.", extra=duration("1s", "1d")),
    ] = 60.0
    mqtt: Annotated[Mqtt, Meta(description="Where the broker is and who we are to it.")] = Mqtt()
    metrics: Annotated[Metrics, Meta(description="Where /metrics and /healthz are read.")] = (
        Metrics()
    )
    state: Annotated[State, Meta(description="What is kept over a restart.")] = State()
    fields: Annotated[
        dict[Annotated[str, Meta(pattern=_ID, extra=_ID_CAN)], FieldSettings],
        Meta(description="The quantities that are followed, each under its name."),
    ]
