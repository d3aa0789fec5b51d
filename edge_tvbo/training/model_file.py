"""Model file: a trained sensor field as human-readable JSON with a format number."""

import os
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from edge_tvbo.errors import ConfigError, naming_file
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.structural_model import Components, StructuralModel
from edge_tvbo.models.trained_state import LowRankState, TrainedState
from edge_tvbo.numerics.types import Array

FORMAT = 5
LISTED_FORMAT = 4  # format of files that list all matrices; earlier versions can read this format
READABLE_FORMATS = (1, 2, 3, 4, 5)
# Format 1 has no positions. Format 2 has a daily profile, which is not read. Format 3 has no cycle
# and no log1p_scale, and lists all matrices. Format 4 has no low-rank state, and stores both
# triangles of symmetric matrices.
MAX_LISTED = 500  # sensors; with more, a matrix is base64 of little-endian doubles, row by row

Matrix = list[list[float]] | bytes


class LowRankTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys in a model file for the state's covariances, if there are very many sensors."""

    factors: bytes
    factor_covariance: bytes
    cross: bytes
    covariance: bytes


class StateTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of a structural model's state in a model file."""

    end: float  # s since 1970
    mean: list[list[float]]
    covariances: list[list[list[float]]] | LowRankTable


class StructureTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of a structural model in a model file."""

    period: float  # period of the course, s
    interval: float  # s
    rows: int  # number of training rows
    course: Matrix  # mean for each part of the season and each sensor, in model units
    spread: list[float]  # one number for each sensor, in model units
    liveliness: list[float]  # one number for each part of the season
    correlation: Matrix  # bytes contain only the lower triangle
    components: Components
    state: StateTable | None = None  # state after the training rows
    cycle: float | None = None  # length of the season, s, if it is not `period`


class ModelFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of a model file."""

    format: int
    unit: str
    objective: Literal["max", "min"]
    center: float  # reading that is 0 in model units, in `unit`
    scale: float  # size of one model unit, in `unit`; on a log scale, its size at `center`
    noise_variance: float  # noise variance of a reading, in model units²
    sensors: list[str]
    kernel: Matrix  # prior covariance, in model units²; bytes contain only the lower triangle
    positions: list[list[float]] | None = None  # positions of the sensors, in m
    structure: StructureTable | None = None
    daily_profile: dict[str, object] | None = msgspec.field(
        default=None, name="rhythm"
    )  # key of format 2
    log1p_scale: float | None = None  # constant of the log scale, in `unit`


class _Version(msgspec.Struct, frozen=True):
    """The key that all model files have, whatever their format is."""

    format: int


def write(path: Path, field: SensorField) -> None:
    """Write a sensor field to the model file `path`, which is replaced atomically.

    Raises OSError if the file cannot be written.
    """
    document = ModelFile(
        format=LISTED_FORMAT if len(field) <= MAX_LISTED else FORMAT,
        unit=field.unit,
        objective=field.objective,
        center=field.center,
        scale=field.scale,
        log1p_scale=field.log1p_scale,
        noise_variance=field.noise_variance,
        sensors=list(field.sensors),
        kernel=_symmetric(field.kernel),
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
    document = _decode(path)
    try:
        arguments = _arguments(document)
        del document  # frees the bytes of its matrices, which are 40 MB for 2000 sensors
        return SensorField(**arguments)
    except (ConfigError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _decode(path: Path) -> ModelFile:
    """Return the content of a model file; raises `ConfigError` as `read` does."""
    try:
        data = path.read_bytes()
        number = msgspec.json.decode(data, type=_Version).format
        if number not in READABLE_FORMATS:
            formats = f"{READABLE_FORMATS[0]} to {READABLE_FORMATS[-1]}"
            raise ConfigError(
                f"{path}: the model file has format {number}; this version reads {formats}.\n"
                "Install the version of edge_tvbo that wrote the file, or train the model again:  "
                "edge-tvbo fit --help"
            )
        return msgspec.json.decode(data, type=ModelFile)
    except OSError as error:
        raise ConfigError(f"{path}: the model cannot be read: {error.strerror}.") from error
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path}: this is not a model file: {error}.\n"
            "Train a model from recorded days:  edge-tvbo fit --help"
        ) from error


def _arguments(document: ModelFile) -> dict[str, Any]:
    """Return the arguments of the `SensorField` that a model file describes."""
    return {
        "sensors": document.sensors,
        "kernel": _symmetric_array(document.kernel, len(document.sensors)),
        "noise_variance": document.noise_variance,
        "unit": document.unit,
        "center": document.center,
        "scale": document.scale,
        "log1p_scale": document.log1p_scale,
        "objective": document.objective,
        "positions": document.positions,
        "structure": None if document.structure is None else _structure(document.structure),
    }


def _matrix(array: Array) -> Matrix:
    """Return a matrix as a model file stores it: lists, or bytes for very many sensors."""
    return array.tolist() if array.shape[1] <= MAX_LISTED else _bytes(array)


def _bytes(array: Array) -> bytes:
    return array.astype("<f8", copy=False).tobytes()


def _symmetric(array: Array) -> Matrix:
    """Return a symmetric matrix as a model file stores it: lists, or its lower triangle."""
    if len(array) <= MAX_LISTED:
        return _matrix(array)
    return b"".join(_bytes(row[: i + 1]) for i, row in enumerate(array))


def _array(matrix: Matrix, sensors: int) -> Array:
    """Return a matrix of a model file as an array; each row of its bytes has `sensors` numbers."""
    if isinstance(matrix, bytes):
        return _numbers(matrix).reshape(-1, sensors)
    return np.array(matrix, np.float64)


def _numbers(data: bytes) -> Array:
    return np.frombuffer(data, "<f8").astype(np.float64, copy=False)


def _symmetric_array(matrix: Matrix, sensors: int) -> Array:
    """Return a symmetric matrix of a model file as an array; bytes may hold only a triangle."""
    if not isinstance(matrix, bytes) or len(matrix) != 4 * sensors * (sensors + 1):
        return _array(matrix, sensors)
    numbers, end = _numbers(matrix), 0
    array = np.empty((sensors, sensors))
    for i in range(sensors):
        begin, end = end, end + i + 1
        array[i, : i + 1] = array[: i + 1, i] = numbers[begin:end]
    return array


def _table(model: StructuralModel) -> StructureTable:
    return StructureTable(
        period=model.period,
        interval=model.interval,
        rows=model.rows,
        course=_matrix(model.course),
        spread=model.spread.tolist(),
        liveliness=model.liveliness.tolist(),
        correlation=_symmetric(model.correlation),
        components=model.components,
        state=None if model.state is None else _state_table(model.state),
        cycle=model.cycle,
    )


def _state_table(state: TrainedState) -> StateTable:
    both = state.covariances
    covariances = (
        LowRankTable(*map(_bytes, both.arrays()))
        if isinstance(both, LowRankState)
        else both.tolist()
    )
    return StateTable(state.end, state.mean.tolist(), covariances)


def _structure(table: StructureTable) -> StructuralModel:
    sensors = len(table.spread)
    return StructuralModel(
        period=table.period,
        interval=table.interval,
        course=_array(table.course, sensors),
        spread=np.array(table.spread, np.float64),
        liveliness=np.array(table.liveliness, np.float64),
        correlation=_symmetric_array(table.correlation, sensors),
        components=table.components,
        rows=table.rows,
        state=None if table.state is None else _state(table.state, sensors),
        cycle=table.cycle,
    )


def _state(table: StateTable, sensors: int) -> TrainedState:
    both = table.covariances
    if not isinstance(both, LowRankTable):
        return TrainedState(table.end, np.array(table.mean), np.array(both, np.float64))
    if sensors <= MAX_LISTED:
        raise ConfigError(f"'covariances' of up to {MAX_LISTED} sensors must be a list.")
    n = len(table.mean)
    factors = _array(both.factors, sensors)
    low_rank = LowRankState(
        factors,
        _numbers(both.factor_covariance).reshape(-1, n * len(factors)),
        cross=_numbers(both.cross).reshape(-1, n, n),
        covariance=_numbers(both.covariance).reshape(-1, n, n),
    )
    return TrainedState(table.end, np.array(table.mean), low_rank)
