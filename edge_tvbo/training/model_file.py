"""Model file: a trained sensor field as human-readable JSON with a format number."""

import os
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from edge_tvbo.errors import ConfigError, naming_file
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.structure import Components, StructuralModel, TrainedState
from edge_tvbo.numerics.types import Array

FORMAT = 4
READABLE_FORMATS = (1, 2, 3, 4)
# Format 1 has no positions. Format 2 has a daily profile, which is not read. Format 3 has no cycle
# and no log1p_scale, and lists all matrices.
MAX_LISTED = 500  # sensors; larger matrices are base64 of little-endian doubles, row by row

Matrix = list[list[float]] | bytes


class StateTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of a structural model's state in a model file."""

    end: float  # s since 1970
    mean: list[list[float]]
    covariances: list[list[list[float]]]


class StructureTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of a structural model in a model file."""

    period: float  # of the course, s
    interval: float  # s
    rows: int  # number of training rows
    course: Matrix  # mean by part of the season and sensor, in model units
    spread: list[float]  # by sensor, in model units
    liveliness: list[float]  # by part of the season
    correlation: Matrix
    components: Components
    state: StateTable | None = None  # after the training rows
    cycle: float | None = None  # length of the season, s, if it is not `period`


class ModelFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of a model file."""

    format: int
    unit: str
    objective: Literal["max", "min"]
    center: float  # reading that is 0 in model units, in `unit`
    scale: float  # size of one model unit, in `unit`; on a log scale, at `center`
    noise_variance: float  # noise variance of a reading, in model units²
    sensors: list[str]
    kernel: Matrix  # prior covariance, in model units²
    positions: list[list[float]] | None = None  # of the sensors, in m
    structure: StructureTable | None = None
    daily_profile: dict[str, object] | None = msgspec.field(
        default=None, name="rhythm"
    )  # key of format 2
    log1p_scale: float | None = None  # of a model on a log scale, in `unit`


def write(path: Path, field: SensorField) -> None:
    """Write a sensor field to the model file `path`, which is replaced atomically.

    Raises OSError if the file cannot be written.
    """
    document = ModelFile(
        format=FORMAT,
        unit=field.unit,
        objective=field.objective,
        center=field.center,
        scale=field.scale,
        log1p_scale=field.log1p_scale,
        noise_variance=field.noise_variance,
        sensors=list(field.sensors),
        kernel=_matrix(field.kernel),
        positions=None if field.positions is None else field.positions.tolist(),
        structure=None if field.structure is None else _table(field.structure),
    )
    beside = path.with_name(path.name + ".new")
    try:
        with naming_file(path):
            with beside.open("wb") as file:
                file.write(msgspec.json.encode(document))
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def read(path: Path) -> SensorField:
    """Return the sensor field of the model file `path`.

    Raises
    ------
    ConfigError
        If the file cannot be read, is not a model file, or has a format that this version cannot
        read.
    """
    try:
        document = msgspec.json.decode(path.read_bytes(), type=ModelFile)
    except OSError as error:
        raise ConfigError(f"{path}: the model cannot be read: {error.strerror}.") from error
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path}: this is not a model file: {error}.\n"
            "Train one from recorded days:  edge-tvbo fit --help"
        ) from error
    if document.format not in READABLE_FORMATS:
        formats = f"{READABLE_FORMATS[0]} to {READABLE_FORMATS[-1]}"
        raise ConfigError(
            f"{path}: the model file has format {document.format}; this version reads {formats}."
        )
    try:
        return SensorField(
            document.sensors,
            _array(document.kernel, len(document.sensors)),
            document.noise_variance,
            unit=document.unit,
            center=document.center,
            scale=document.scale,
            log1p_scale=document.log1p_scale,
            objective=document.objective,
            positions=document.positions,
            structure=None if document.structure is None else _structure(document.structure),
        )
    except (ConfigError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _matrix(array: Array) -> Matrix:
    """Return a matrix in the form of a model file: lists, or bytes for very many sensors."""
    return array.tolist() if array.shape[1] <= MAX_LISTED else array.astype("<f8").tobytes()


def _array(matrix: Matrix, sensors: int) -> Array:
    """Return a matrix of a model file as an array; bytes become rows of `sensors` numbers."""
    if isinstance(matrix, bytes):
        return np.frombuffer(matrix, "<f8").astype(np.float64, copy=False).reshape(-1, sensors)
    return np.array(matrix, np.float64)


def _table(model: StructuralModel) -> StructureTable:
    state = model.state
    return StructureTable(
        period=model.period,
        interval=model.interval,
        rows=model.rows,
        course=_matrix(model.course),
        spread=model.spread.tolist(),
        liveliness=model.liveliness.tolist(),
        correlation=_matrix(model.correlation),
        components=model.components,
        state=None
        if state is None
        else StateTable(state.end, state.mean.tolist(), state.covariances.tolist()),
        cycle=model.cycle,
    )


def _structure(table: StructureTable) -> StructuralModel:
    state = table.state
    return StructuralModel(
        period=table.period,
        interval=table.interval,
        course=_array(table.course, len(table.spread)),
        spread=np.array(table.spread, np.float64),
        liveliness=np.array(table.liveliness, np.float64),
        correlation=_array(table.correlation, len(table.spread)),
        components=table.components,
        rows=table.rows,
        state=None
        if state is None
        else TrainedState(
            state.end, np.array(state.mean, np.float64), np.array(state.covariances, np.float64)
        ),
        cycle=table.cycle,
    )
