"""A learned field as a file: JSON that a person can read, with a format number."""

import os
from pathlib import Path
from typing import Literal

import msgspec

from edge_tvbo.errors import ConfigError
from edge_tvbo.model.field import SensorField

FORMAT = 1


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
    if document.format != FORMAT:
        raise ConfigError(f"{path}: format {document.format}; this version reads {FORMAT}.")
    try:
        return SensorField(
            document.sensors,
            document.kernel,
            document.noise_variance,
            unit=document.unit,
            center=document.center,
            scale=document.scale,
            objective=document.objective,
        )
    except (ConfigError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error
