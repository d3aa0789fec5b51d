"""Options of a backtest: they describe a recording, and its training and test days."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import click

from edge_tvbo.cli.own_readings import are_own, with_complete_rows
from edge_tvbo.cli.recordings import recording_of
from edge_tvbo.errors import ConfigError, DataError

if TYPE_CHECKING:
    from edge_tvbo.simulation.backtest import Backtest
    from edge_tvbo.simulation.recording import Recording
    from edge_tvbo.simulation.row_range import RowRange


def backtest_of(
    dataset: str,
    data_dir: Iterable[str],
    train: str | None,
    test: str | None,
    noise: float,
    gaps: str,
    budget: float | None = None,
    per_interval: int = 1,
    next_activation: Literal["after-reply", "at-once"] = "after-reply",
    **own: Any,
) -> "Backtest":
    """Return the backtest that the options of a command describe.

    `own` contains the values of the options that the decorator `own_readings_options` adds to a
    command. It is empty for a command without these options.
    """
    from edge_tvbo.simulation.backtest import Backtest
    from edge_tvbo.simulation.replay import Pace

    recording = recording_of(dataset, data_dir, gaps, **own)
    train_span, test_span = _spans(recording, train, test)
    if are_own(dataset, own.get("config")):
        recording = with_complete_rows(recording, train_span)
    recording = trainable_recording(recording, train_span)
    if per_interval > len(recording.sensors):
        raise ConfigError(
            f"--per-interval is {per_interval}; allowed: at most the number of sensors, "
            f"{len(recording.sensors)}."
        )
    pace = Pace(budget, per_interval, next_activation)
    return Backtest(recording, train_span, test_span, noise, pace)


def training_of(
    dataset: str, data_dir: Iterable[str], train: str | None, noise: float, **own: Any
) -> "Backtest":
    """Return the backtest with which ``fit`` trains a model.

    The test days are the same as the training days. Without the option --train, all days are
    training days. Gaps in the recording are not filled. `own` is described in `backtest_of`.
    """
    from edge_tvbo.simulation.backtest import Backtest
    from edge_tvbo.simulation.row_range import RowRange

    recording = recording_of(dataset, data_dir, "silent", **own)
    span = (
        RowRange(0, len(recording.values)) if train is None else _days("--train", recording, train)
    )
    if are_own(dataset, own.get("config")):
        recording = with_complete_rows(recording, span)
    return Backtest(trainable_recording(recording, span), span, span, noise)


def trainable_recording(recording: "Recording", span: "RowRange") -> "Recording":
    """Return the backtest's recording without the sensors that have no readings to train on.

    The names of these sensors are printed to stderr. `span` is the range of the training rows.
    """
    from edge_tvbo.messages.formatting import listed
    from edge_tvbo.simulation.training_rows import silent_sensors, trainable_sensors

    trainable = trainable_sensors(recording, span)
    if trainable is not recording:
        silent = listed(silent_sensors(recording, span))
        click.echo(
            f"Sensors without a reading on the training days are left out: {silent}", err=True
        )
    return trainable


def _spans(
    recording: "Recording", train: str | None, test: str | None
) -> "tuple[RowRange, RowRange]":
    """Return the training rows and the test rows of the options --train and --test.

    If neither option is given, the training rows are the first three quarters of the recording, and
    the test rows are the last quarter. With only --train, the test rows are all rows after the
    training days. With only --test, the training rows are all rows before the test days.

    Raises
    ------
    DataError
        If there is no day before the test days, or if training days and test days overlap.
    """
    from edge_tvbo.simulation.row_range import RowRange, split

    train_span, test_span = split(recording)
    if train is not None:
        train_span = _days("--train", recording, train)
        test_span = RowRange(train_span.last, len(recording.values))
    if test is not None:
        test_span = _days("--test", recording, test)
        if train is None:
            train_span = RowRange(0, test_span.first)
    if test is not None and train is None and not train_span.last:
        raise DataError(
            f"--test {test}: there is no day before the test days, so there is no training day; "
            "select later test days, or name the training days with --train."
        )
    if train_span.first < test_span.last and test_span.first < train_span.last:
        raise DataError(
            f"--train {train} and --test {test} overlap. A policy that was trained on the test "
            "days seems better than it is. Select training and test days without a common day."
        )
    return train_span, test_span


def _days(option: str, recording: "Recording", text: str) -> "RowRange":
    from edge_tvbo.simulation.row_range import days

    try:
        return days(recording, text)
    except DataError as error:
        raise DataError(f"{option} {error}") from None
