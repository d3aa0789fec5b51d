"""From settings to the controllers that run."""

from collections.abc import Callable
from typing import Any

from edge_tvbo.config import FieldSettings, Kernel, Settings
from edge_tvbo.controller import Controller, Rules
from edge_tvbo.errors import ConfigError
from edge_tvbo.learning import model_file
from edge_tvbo.model import kernels
from edge_tvbo.model.field import SensorField
from edge_tvbo.policies import make_policy

_SHAPES: dict[str, Callable[[Any, float], Any]] = {
    "se": kernels.squared_exponential,
    "matern-1/2": lambda X, length_scale: kernels.matern(X, length_scale, 0.5),
    "matern-3/2": lambda X, length_scale: kernels.matern(X, length_scale, 1.5),
    "matern-5/2": lambda X, length_scale: kernels.matern(X, length_scale, 2.5),
    "linear": lambda X, length_scale: kernels.linear(X),
}


def controllers(settings: Settings) -> dict[str, Controller]:
    """Give a controller for each field; raises `ConfigError` naming the field."""
    return {name: _controller(name, each) for name, each in settings.fields.items()}


def _controller(name: str, settings: FieldSettings) -> Controller:
    try:
        policy = make_policy(settings.policy.name, _field(settings), **settings.policy.parameters)
    except ConfigError as error:
        raise ConfigError(f"fields.{name}: {error}") from error
    rules = Rules(
        reply_timeout=settings.reply_timeout,
        max_age=settings.max_age,
        max_future=settings.max_future,
        max_backoff=settings.max_backoff,
        learn_from=settings.learn_from,
        on_reading=settings.interval == "on-reading",
        plausible=settings.plausible,
    )
    return Controller(policy, rules)


def _field(settings: FieldSettings) -> SensorField:
    if settings.model is not None:
        return _learned(settings)
    if settings.kernel is None or settings.positions is None:
        raise ConfigError("there is neither a model nor a kernel with positions.")
    return _from_positions(settings, settings.kernel, settings.positions)


def _learned(settings: FieldSettings) -> SensorField:
    assert settings.model is not None
    field = model_file.read(settings.model)
    unknown = sorted(set(settings.sensors) - set(field.sensors))
    if unknown:
        raise ConfigError(f"{settings.model} does not know {', '.join(unknown)}; learn it anew.")
    rows = [field.sensors.index(sensor) for sensor in settings.sensors]
    positions, rhythm = field.positions, field.rhythm
    return SensorField(
        settings.sensors,
        field.kernel[rows][:, rows],
        field.noise_variance,
        unit=settings.unit or field.unit,
        center=field.center,
        scale=field.scale,
        objective=settings.objective,
        positions=None if positions is None else positions[rows],
        rhythm=None if rhythm is None else rhythm.of(rows),
    )


def _from_positions(
    settings: FieldSettings, kernel: Kernel, positions: dict[str, tuple[float, float]]
) -> SensorField:
    places = [positions[sensor] for sensor in settings.sensors]
    return SensorField(
        settings.sensors,
        _SHAPES[kernel.name](places, kernel.length_scale),
        kernel.noise_variance / kernel.variance,
        unit=settings.unit,
        center=kernel.mean,
        scale=kernel.variance**0.5,
        objective=settings.objective,
        positions=places,
    )
