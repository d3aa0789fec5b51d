"""Construction of the discovery message for Home Assistant, from the settings."""

from collections.abc import Mapping
from typing import Any

from edge_tvbo_adapters.homeassistant.described_field import DiscoveryField
from edge_tvbo_adapters.homeassistant.device_classes import UNITS, device_class

from edge_tvbo import __version__
from edge_tvbo.config.settings import HomeAssistant, Settings
from edge_tvbo.control.controller import Controller
from edge_tvbo.control.quantities import field_decimals
from edge_tvbo.errors import Mistake, SettingErrors
from edge_tvbo.policy.model_free import ModelFreePolicy


def discovery_message(
    settings: Settings, homeassistant: HomeAssistant, controllers: Mapping[str, Controller]
) -> dict[str, Any]:
    """Return the discovery message; raises `SettingErrors` for a wrong device class."""
    from edge_tvbo_adapters.homeassistant.discovery import payload

    mistakes = _mistakes(homeassistant, controllers)
    if mistakes:
        raise SettingErrors(mistakes)
    fields = {
        name: _field(name, settings, homeassistant, controller)
        for name, controller in controllers.items()
    }
    return payload(
        settings.instance, homeassistant, fields, __version__, commands=settings.commands
    )


def _field(
    name: str, settings: Settings, homeassistant: HomeAssistant, controller: Controller
) -> DiscoveryField:
    own, field = settings.fields[name], controller.policy.field
    kind = homeassistant.device_classes.get(name, device_class(name, field.unit))
    has_delta = kind == "temperature" and homeassistant.oldest_version != "2025.10"
    energy = own.energy
    return DiscoveryField(
        sensors=field.sensors,
        unit=field.unit,
        decimals=field_decimals(field),
        names={sensor: own.names[sensor] for sensor in field.sensors if sensor in own.names},
        objective=own.objective,
        device_class=kind or None,
        spread_class="temperature_delta" if has_delta else None,
        has_model=not isinstance(controller.policy, ModelFreePolicy),
        has_posterior=own.publishes_posterior,
        thresholds=controller.plausible if own.alert else None,
        energy_unit=energy.unit if energy and energy.field_budget is not None else None,
        has_batteries=energy is not None and energy.battery is not None,
    )


def _mistakes(homeassistant: HomeAssistant, controllers: Mapping[str, Controller]) -> list[Mistake]:
    """Return a mistake for each entry of `device_classes` that does not fit the field's unit."""
    mistakes = []
    for name, kind in homeassistant.device_classes.items():
        unit = controllers[name].policy.field.unit
        allowed = sorted(each for each, units in UNITS.items() if unit in units)
        if kind and kind not in allowed:
            listed = ", ".join(allowed) or "none, so set it to an empty text"
            path = ("homeassistant", "device_classes", name)
            mistakes.append(Mistake(path, f'is "{kind}"; allowed for the unit "{unit}": {listed}'))
    return mistakes
