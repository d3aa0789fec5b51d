"""A learned field as a file: JSON that a person can read, with a format number."""

import os
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.daily_profile import DailyProfile
from edge_tvbo.models.field import SensorField

FORMAT = 2
READABLE = (1, 2)  # 1 had no positions and no rhythm


class RhythmFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept of a `DailyProfile`, likewise."""

    days: float  # that taught it
    exploration: float  # c1
    noise_variance: float  # of one reading, in model units²
    mean: list[list[float]]  # of each sensor by the interval of the day, in model units
    scale: list[float]  # by the interval of the day, in model units
    kernel: list[list[float]]  # without unit


class ModelFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a model file holds, key by key."""

    format: int
    unit: str
    objective: Literal["max", "min"]
    center: float  # in `unit`: 0 in model units
    scale: float  # in `unit`: one model unit
    noise_variance: float  # of one reading, in model units²
    sensors: list[str]
    kernel: list[list[float]]  # prior covariance, in model units²
    positions: list[list[float]] | None = None  # in m
    rhythm: RhythmFile | None = None


def write(path: Path, field: SensorField) -> None:
    """Write `field` to `path`, beside it first and then renamed."""
    document = ModelFile(
        format=FORMAT,
        unit=field.unit,
        objective=field.objective,
        center=field.center,
        scale=field.scale,
        noise_variance=field.noise_variance,
        sensors=list(field.sensors),
        kernel=field.kernel.tolist(),
        positions=None if field.positions is None else field.positions.tolist(),
        rhythm=None if field.rhythm is None else _kept(field.rhythm),
    )
    beside = path.with_name(path.name + ".new")
    try:
        with beside.open("wb") as file:
            file.write(msgspec.json.encode(document))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def read(path: Path) -> SensorField:
    """Give the field that `path` holds; raises `ConfigError`."""
    try:
        document = msgspec.json.decode(path.read_bytes(), type=ModelFile)
    except OSError as error:
        raise ConfigError(f"{path}: the model cannot be read: {error.strerror}.") from error
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path}: this is not a model file: {error}.\nLearn one anew from recorded days."
        ) from error
    if document.format not in READABLE:
        raise ConfigError(f"{path}: format {document.format}; this version reads {READABLE}.")
    try:
        return SensorField(
            document.sensors,
            document.kernel,
            document.noise_variance,
            unit=document.unit,
            center=document.center,
            scale=document.scale,
            objective=document.objective,
            positions=document.positions,
            rhythm=None if document.rhythm is None else _rhythm(document.rhythm),
        )
    except (ConfigError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _kept(rhythm: DailyProfile) -> RhythmFile:
    return RhythmFile(
        days=rhythm.days,
        exploration=rhythm.exploration,
        noise_variance=rhythm.noise_variance,
        mean=rhythm.mean.tolist(),
        scale=rhythm.scale.tolist(),
        kernel=rhythm.kernel.tolist(),
    )


def _rhythm(kept: RhythmFile) -> DailyProfile:
    return DailyProfile(
        np.array(kept.mean, np.float64),
        np.array(kept.scale, np.float64),
        np.array(kept.kernel, np.float64),
        kept.days,
        kept.exploration,
        kept.noise_variance,
    )
