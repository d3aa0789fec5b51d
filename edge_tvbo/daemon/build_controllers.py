"""Construction of the controllers, with their policies and fields, from the settings."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any

from msgspec.structs import replace

from edge_tvbo.config.field_settings import FieldSettings, Position
from edge_tvbo.config.kernel_settings import Kernel
from edge_tvbo.config.settings import Settings
from edge_tvbo.config.time_zones import load_timezone
from edge_tvbo.control.alert_notices import LocalTime
from edge_tvbo.control.alerts import check_levels
from edge_tvbo.control.controller import Controller
from edge_tvbo.control.reading_filter import plausible_range
from edge_tvbo.errors import Code, ConfigError, MissingExtra, Mistake, SettingErrors
from edge_tvbo.messages.formatting import listed, may_be_same_unit, season_text
from edge_tvbo.models import spatial_kernels
from edge_tvbo.models.field import SensorField
from edge_tvbo.models.structural_model import MAX_DRIFT, StructuralModel, mirrored, prior_structure
from edge_tvbo.numerics.types import Array
from edge_tvbo.policy import build_policy
from edge_tvbo.policy.auto_settings import TRAINED
from edge_tvbo.policy.base import Policy
from edge_tvbo.policy.model_free import ModelFreePolicy

_SHAPES: dict[str, Callable[[Any, Any], Array]] = {
    "se": spatial_kernels.squared_exponential,
    "matern-1/2": lambda X, length_scale: spatial_kernels.matern(X, length_scale, 0.5),
    "matern-3/2": lambda X, length_scale: spatial_kernels.matern(X, length_scale, 1.5),
    "matern-5/2": lambda X, length_scale: spatial_kernels.matern(X, length_scale, 2.5),
    "linear": lambda X, length_scale: spatial_kernels.linear(X),
}


def controllers(settings: Settings) -> dict[str, Controller]:
    """Return a controller for each field; raises `SettingErrors` with all mistakes."""
    built: dict[str, Controller] = {}
    mistakes: list[Mistake] = []
    for name, each in settings.fields.items():
        try:
            built[name] = controller(name, each)
        except SettingErrors as error:
            mistakes += error.mistakes
    if mistakes:
        raise SettingErrors(mistakes)
    return built


def controller(name: str, settings: FieldSettings, field: SensorField | None = None) -> Controller:
    """Return a controller of the field `name`; raises `SettingErrors` for a mistake.

    `field` is the `SensorField` of another controller with the same `settings`; the new controller
    shares its large matrices. If `field` is None, a new `SensorField` is built.
    """
    source = "kernel" if settings.model is None else "model"
    with _mistakes_at(("fields", name, source)):
        field = field or _field(settings)
    with _mistakes_at(("fields", name, "policy")):
        policy = build_policy(settings.policy, field)
    with _mistakes_at(("fields", name, "plausible")):
        _check_plausible(settings, field)
    with _mistakes_at(("fields", name, "alert")):
        _check_alert(settings, field, policy)
    return Controller(policy, settings, local_time=_local_time(settings))


def _local_time(settings: FieldSettings) -> LocalTime:
    """Return the function that computes the local time, for the alert of a controller."""
    name = settings.alert.timezone if settings.alert else None
    zone = load_timezone(name) if name else None  # `None`: the zone of this machine
    return partial(datetime.fromtimestamp, tz=zone)


@contextmanager
def _mistakes_at(path: tuple[str, ...]) -> Iterator[None]:
    """Convert an error of the `with` block to `SettingErrors` at the key `path`.

    The block builds or checks a part of a controller from the settings at this key.
    """
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
    kernel = field.kernel if rows == list(range(len(field))) else field.kernel[rows][:, rows]
    positions = None if field.positions is None else field.positions[rows]
    _check_unit(settings, field)
    _check_transform(settings, field)
    _check_period(settings, field)
    if field.structure is None:
        structure = prior_structure(kernel, settings.interval_s, _period(settings))
    else:
        structure = _with_interval(field.structure.of_sensors(rows), settings)
        if field.objective != settings.objective:
            structure = mirrored(structure)
    return SensorField(
        settings.sensors,
        kernel,
        field.noise_variance,
        unit=settings.unit or field.unit,
        center=field.center,
        scale=field.scale,
        log1p_scale=field.log1p_scale,
        objective=settings.objective,
        positions=_configured_positions(settings) or positions,
        structure=structure,
    )


def _field_from_kernel(settings: FieldSettings, kernel: Kernel) -> SensorField:
    if settings.transform == "log1p" and kernel.mean < 0.0:
        raise ConfigError(
            f'transform is "log1p", but the mean of the kernel is {kernel.mean:g}; the mean must '
            'be at least 0. Set transform = "none", or another mean.'
        )
    places = _configured_positions(settings)
    covariance = _covariance(kernel, places, settings.sensors)
    return SensorField(
        settings.sensors,
        covariance,
        kernel.noise_variance / kernel.variance,
        unit=settings.unit,
        center=kernel.mean,
        scale=kernel.variance**0.5,
        log1p_scale=settings.log1p_scale,
        objective=settings.objective,
        positions=places,
        structure=prior_structure(covariance, settings.interval_s, _period(settings)),
    )


def _configured_positions(settings: FieldSettings) -> list[tuple[float, float]] | None:
    """Return the positions of the controller's sensors; None if no positions are configured."""
    known = settings.positions
    return None if known is None else [known[sensor] for sensor in settings.sensors]


def _with_interval(model: StructuralModel, settings: FieldSettings) -> StructuralModel:
    """Return a controller's fitted `model`, with the field's configured interval.

    The fitted model has the interval of the recording to which it was fitted.

    If the configured interval is "on-reading", the result depends on the policy. A policy that uses
    the model measures the length of each interval, so the model gets the interval 0. For any other
    policy, the model is not changed, so that snapshots of version 0.1.0 stay valid.
    """
    interval = settings.interval_s
    if interval is None and not isinstance(settings.policy, TRAINED):
        return model
    return replace(model, interval=interval or 0.0)


def _period(settings: FieldSettings) -> float | None:
    """Return the setting `period` of a controller's field: the length of the season, in s.

    The result is 0 if the setting is "none", and None if the setting is "auto".
    """
    return None if settings.period == "auto" else settings.period


def _check_unit(settings: FieldSettings, field: SensorField) -> None:
    """Raise `ConfigError` if the unit of the controller's model is not the configured unit."""
    if not may_be_same_unit(settings.unit, field.unit):
        raise ConfigError(
            f'unit is "{settings.unit}", but the model {settings.model} was fitted to readings in '
            f'"{field.unit}"; set unit = "{field.unit}", or fit the model again to readings in '
            f"{settings.unit}."
        )


def _check_transform(settings: FieldSettings, field: SensorField) -> None:
    """Raise `ConfigError` if a controller's model was not fitted with the configured transform."""
    fitted = "none" if field.log1p_scale is None else "log1p"
    if settings.transform not in ("auto", fitted):
        raise ConfigError(
            f'transform is "{settings.transform}", but the model {settings.model} was fitted with '
            f'"{fitted}"; remove transform, or fit the model again with '
            f"--transform {settings.transform}."
        )


def _check_plausible(settings: FieldSettings, field: SensorField) -> None:
    """Raise `ConfigError` if the mean of the controller's field is outside the plausible range.

    A probable cause is that the range is in another unit than the field.
    """
    lowest, highest = plausible_range(field, settings)
    if not lowest <= field.center <= highest:
        raise ConfigError(
            f"the mean of the field, {field.center:g}, is outside the plausible range of "
            f"{lowest:g} to {highest:g}; write the range in the unit of the readings."
        )


def _check_alert(settings: FieldSettings, field: SensorField, policy: Policy) -> None:
    """Raise `ConfigError` if a controller's alert could never begin, or could never end."""
    if settings.alert is None:
        return
    if isinstance(policy, ModelFreePolicy):
        raise ConfigError(
            f"the policy {policy.name} has no model, so it cannot estimate the hot spot; "
            'set policy = { name = "auto" }.'
        )
    check_levels(field, settings.alert, plausible_range(field, settings))


def _check_period(settings: FieldSettings, field: SensorField) -> None:
    """Raise `ConfigError` if the season of the controller's model is not the configured season."""
    period, structure = _period(settings), field.structure
    if period is None or structure is None:
        return
    if abs(structure.period - period) > MAX_DRIFT * period:
        found, wanted = season_text(structure.period), season_text(period)
        raise ConfigError(
            f"period is {wanted}, but the season of the model {settings.model} is {found}; remove "
            "period, or fit the model again with --period."
        )


def _covariance(kernel: Kernel, places: list[Position] | None, sensors: Sequence[str]) -> Array:
    if kernel.name == "exchangeable":
        return spatial_kernels.exchangeable(len(sensors), kernel.correlation)
    if places is None:
        raise ConfigError(f"the kernel {kernel.name} needs positions; set `positions`.")
    covariance = _SHAPES[kernel.name](places, kernel.length_scale)
    variances = zip(sensors, covariance.diagonal(), strict=True)
    if constant := [sensor for sensor, variance in variances if variance == 0.0]:
        raise ConfigError(
            f"a {kernel.name} kernel has no variance at the origin of the positions, so the values "
            "of sensors at the origin would never differ from the mean; set another position for "
            f"{listed(constant)}, or another kernel."
        )
    return covariance
