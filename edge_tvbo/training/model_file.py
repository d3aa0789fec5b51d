"""Model file: a trained sensor field as human-readable JSON with a format number."""

import os
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.daily_profile import DailyProfile
from edge_tvbo.models.field import SensorField

FORMAT = 2
READABLE_FORMATS = (1, 2)  # format 1 had no positions and no daily profile


class ProfileTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of a daily profile in a model file."""

    days: float  # number of training days
    exploration: float  # c1 of β_t = c1 ln(c2 t)
    noise_variance: float  # noise variance of a reading, in model units²
    mean: list[list[float]]  # mean by interval of the day and sensor, in model units
    scale: list[float]  # spread by the interval of the day, in model units
    kernel: list[list[float]]  # covariance of the deviations, without unit


class ModelFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of a model file."""

    format: int
    unit: str
    objective: Literal["max", "min"]
    center: float  # reading that is 0 in model units, in `unit`
    scale: float  # size of one model unit, in `unit`
    noise_variance: float  # noise variance of a reading, in model units²
    sensors: list[str]
    kernel: list[list[float]]  # prior covariance, in model units²
    positions: list[list[float]] | None = None  # of the sensors, in m
    daily_profile: ProfileTable | None = msgspec.field(default=None, name="rhythm")


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
        noise_variance=field.noise_variance,
        sensors=list(field.sensors),
        kernel=field.kernel.tolist(),
        positions=None if field.positions is None else field.positions.tolist(),
        daily_profile=None if field.daily_profile is None else _table(field.daily_profile),
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
        formats = " and ".join(map(str, READABLE_FORMATS))
        raise ConfigError(
            f"{path}: the model file has format {document.format}; this version reads {formats}."
        )
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
            daily_profile=None
            if document.daily_profile is None
            else _profile(document.daily_profile),
        )
    except (ConfigError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _table(profile: DailyProfile) -> ProfileTable:
    return ProfileTable(
        days=profile.days,
        exploration=profile.exploration,
        noise_variance=profile.noise_variance,
        mean=profile.mean.tolist(),
        scale=profile.scale.tolist(),
        kernel=profile.kernel.tolist(),
    )


def _profile(table: ProfileTable) -> DailyProfile:
    return DailyProfile(
        np.array(table.mean, np.float64),
        np.array(table.scale, np.float64),
        np.array(table.kernel, np.float64),
        table.days,
        table.exploration,
        table.noise_variance,
    )
