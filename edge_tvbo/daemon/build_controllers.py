"""Construction of the controllers, with their policies and fields, from the settings."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from edge_tvbo.config.field_settings import FieldSettings, Position
from edge_tvbo.config.kernel_settings import Kernel
from edge_tvbo.config.settings import Settings
from edge_tvbo.control.controller import Controller
from edge_tvbo.errors import Code, ConfigError, MissingExtra, Mistake, SettingErrors
from edge_tvbo.models import spatial_kernels
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.structure import prior_structure
from edge_tvbo.numerics.types import Array
from edge_tvbo.policy import build_policy

_SHAPES: dict[str, Callable[[Any, Any], Array]] = {
    "se": spatial_kernels.squared_exponential,
    "matern-1/2": lambda X, length_scale: spatial_kernels.matern(X, length_scale, 0.5),
    "matern-3/2": lambda X, length_scale: spatial_kernels.matern(X, length_scale, 1.5),
    "matern-5/2": lambda X, length_scale: spatial_kernels.matern(X, length_scale, 2.5),
    "linear": lambda X, length_scale: spatial_kernels.linear(X),
}


def controllers(settings: Settings) -> dict[str, Controller]:
    """Return a controller for each field; raises `SettingErrors` with the mistakes of all."""
    built: dict[str, Controller] = {}
    mistakes: list[Mistake] = []
    for name, each in settings.fields.items():
        try:
            built[name] = _controller(name, each)
        except SettingErrors as error:
            mistakes += error.mistakes
    if mistakes:
        raise SettingErrors(mistakes)
    return built


def _controller(name: str, settings: FieldSettings) -> Controller:
    source = "kernel" if settings.model is None else "model"
    with _mistakes_at(("fields", name, source)):
        field = _field(settings)
    with _mistakes_at(("fields", name, "policy")):
        policy = build_policy(settings.policy, field)
    return Controller(policy, settings)


@contextmanager
def _mistakes_at(path: tuple[str, ...]) -> Iterator[None]:
    """Raise the errors of the context as `SettingErrors` of the setting at `path`."""
    try:
        yield
    except (ConfigError, MissingExtra) as error:
        code = Code.EXTRA if isinstance(error, MissingExtra) else Code.CONTRADICTION
        raise SettingErrors([Mistake(path, f"cannot be used: {error}", code)]) from error


def _field(settings: FieldSettings) -> SensorField:
    if settings.model is not None:
        return _field_from_model(settings)
    assert settings.kernel is not None  # `config.cross_checks` reports it
    return _field_from_kernel(settings, settings.kernel)


def _field_from_model(settings: FieldSettings) -> SensorField:
    assert settings.model is not None
    from edge_tvbo.training import model_file

    field = model_file.read(settings.model)
    unknown = sorted(set(settings.sensors) - set(field.sensors))
    if unknown:
        raise ConfigError(
            f"the model {settings.model} does not contain the sensors {', '.join(unknown)}; "
            "fit the model again."
        )
    rows = [field.sensors.index(sensor) for sensor in settings.sensors]
    positions, kernel = field.positions, field.kernel[rows][:, rows]
    structure = (
        prior_structure(kernel, _interval(settings))
        if field.structure is None
        else field.structure.of_sensors(rows)
    )
    return SensorField(
        settings.sensors,
        kernel,
        field.noise_variance,
        unit=settings.unit or field.unit,
        center=field.center,
        scale=field.scale,
        objective=settings.objective,
        positions=None if positions is None else positions[rows],
        structure=structure,
    )


def _field_from_kernel(settings: FieldSettings, kernel: Kernel) -> SensorField:
    known = settings.positions
    places = None if known is None else [known[sensor] for sensor in settings.sensors]
    covariance = _covariance(kernel, places, len(settings.sensors))
    return SensorField(
        settings.sensors,
        covariance,
        kernel.noise_variance / kernel.variance,
        unit=settings.unit,
        center=kernel.mean,
        scale=kernel.variance**0.5,
        objective=settings.objective,
        positions=places,
        structure=prior_structure(covariance, _interval(settings)),
    )


def _interval(settings: FieldSettings) -> float | None:
    """Return the length of a field's intervals in s; None if the intervals follow the readings."""
    return settings.interval if isinstance(settings.interval, float) else None


def _covariance(kernel: Kernel, places: list[Position] | None, M: int) -> Array:
    if kernel.name == "exchangeable":
        return spatial_kernels.exchangeable(M, kernel.correlation)
    if places is None:
        raise ConfigError(f"the kernel {kernel.name} needs positions; set `positions`.")
    return _SHAPES[kernel.name](places, kernel.length_scale)
