"""Unused settings: warnings about settings that have no effect, because of other settings."""

from collections.abc import Iterator
from typing import Any

from edge_tvbo.config.energy_settings import EnergySettings, SensorEnergy
from edge_tvbo.config.errors import ConfigWarning, KeyPath, Report, dotted
from edge_tvbo.config.field_settings import FieldSettings, ReadingSettings
from edge_tvbo.config.field_types import PERIODS
from edge_tvbo.config.kernel_settings import WITHOUT_LENGTH_SCALE
from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.config.settings import Settings, StateSettings
from edge_tvbo.models.seasons import has_days
from edge_tvbo.policy.auto_settings import AutoSettings
from edge_tvbo.policy.baseline_settings import BASELINES
from edge_tvbo.policy.built_in import BUILT_IN
from edge_tvbo.policy.settings import PolicySettings

UnusedSetting = tuple[KeyPath, str]  # a setting without effect, and the reason
FORMATS_WITH_TIME = ("json", "jmespath")  # formats with the options `time` and `timezone`
FORMATS_WITHOUT_TIME = ("number", "esphome", "homie")  # formats whose messages contain no time


def unused_warnings(
    settings: Settings, raw: dict[str, Any], report: Report
) -> Iterator[ConfigWarning]:
    """Yield a warning for each setting that the user has set, but that has no effect.

    `raw` contains the settings of the user. A setting without effect causes a warning and no error,
    because it does no harm. For example, a user may try another mode or policy of a field, and
    leave the remaining settings unchanged.
    """
    unused = (
        *_in_state(settings.state, raw.get("state", {})),
        *_in_mqtt(settings.mqtt),
        *_in_fields(settings),
    )
    for path, reason in unused:
        if _is_set(raw, path):
            yield report.warning(path, f"{dotted(path)} has no effect, because {reason}")


def _is_set(raw: Any, path: KeyPath) -> bool:
    for key in path:
        if isinstance(raw, dict) and key not in raw:
            return False
        raw = raw[key]
    return True


def _in_state(state: StateSettings, raw: dict[str, Any]) -> Iterator[UnusedSetting]:
    """Yield the unused settings of the table [state].

    If the file contains ``dir = ""``, the user has decided that nothing is stored, so `checkpoint`
    is not reported. However, a size in `readings` is reported, because it contradicts the decision.
    """
    if state.dir:
        return
    reason = "state.dir is empty or not set; set state.dir to the directory of the stored state"
    if "dir" not in raw:
        yield ("state", "checkpoint"), reason
    if state.readings is not None:
        yield ("state", "readings"), reason


def _in_mqtt(mqtt: Mqtt) -> Iterator[UnusedSetting]:
    if mqtt.readonly and mqtt.readonly.username == mqtt.username:
        reason = "its username is equal to mqtt.username; set the username of another login"
        yield ("mqtt", "readonly"), reason


def _in_fields(settings: Settings) -> Iterator[UnusedSetting]:
    for name, field in settings.fields.items():
        for part in (_in_field, _in_energy, _in_kernel, _in_policy, _in_formats):
            yield from ((("fields", name, *key), reason) for key, reason in part(field))


def _in_field(field: FieldSettings) -> Iterator[UnusedSetting]:
    if field.max_per_interval == 1:
        yield ("next_activation",), "only one sensor is activated in each interval"
    if field.per_interval == len(field.sensors):
        yield ("survey",), "all sensors are activated in each interval anyway"
    if field.alert and field.alert.quiet is None:
        yield ("alert", "timezone"), "alert.quiet is not set"


def _in_energy(field: FieldSettings) -> Iterator[UnusedSetting]:
    energy = field.energy
    if energy is None:
        return
    own = [energy.sensors.get(sensor, SensorEnergy()) for sensor in field.sensors]
    if field.sends_commands:
        for key in ("cost", "budget"):
            if all(getattr(each, key) is not None for each in own):
                yield ("energy", key), f"each sensor has its own {key}"
        return
    if not any(_is_never_affordable(energy, each) for each in own):
        for key in ("cost", "budget", "field_budget", "period", "sensors"):
            yield ("energy", key), 'no command is sent in the mode "advise", so nothing is charged'


def _is_never_affordable(energy: EnergySettings, own: SensorEnergy) -> bool:
    """Return whether the budgets never allow a sensor to be activated or recommended."""
    cost = energy.cost if own.cost is None else own.cost
    budget = energy.budget if own.budget is None else own.budget
    return any(limit is not None and limit < cost for limit in (budget, energy.field_budget))


def _in_kernel(field: FieldSettings) -> Iterator[UnusedSetting]:
    if field.kernel is None:
        return
    name, unused = field.kernel.name, _unused_correlations(field.policy)
    if name != "exchangeable":
        yield ("kernel", "correlation"), 'only the kernel "exchangeable" uses a correlation'
    elif unused:
        yield ("kernel", "correlation"), unused
    if name in WITHOUT_LENGTH_SCALE:
        yield ("kernel", "length_scale"), f'the kernel "{name}" has no length scale'
    elif unused:
        hint = 'with kernel.name = "exchangeable", no length scale is needed'
        yield ("kernel", "length_scale"), f"{unused}; {hint}"


def _unused_correlations(policy: PolicySettings) -> str | None:
    """Return why the policy does not use the correlations of the kernel; None if it uses them."""
    if isinstance(policy, BASELINES):
        return f'the policy "{policy.name}" has no model'
    if isinstance(policy, BUILT_IN) and policy.learns_length_scale:
        return f'the policy "{policy.name}" learns the length scale'
    return None


def _in_policy(field: FieldSettings) -> Iterator[UnusedSetting]:
    policy = field.policy
    for parameter, reason in policy.unused():
        yield ("policy", parameter), reason
    has_season = isinstance(policy, AutoSettings) and not policy.learns_length_scale
    if field.model is not None or not isinstance(policy, BUILT_IN):
        return
    if not has_season:
        if field.period not in ("auto", PERIODS["none"]):
            yield ("period",), f'without a model, the policy "{policy.name}" has no season'
    elif field.period == PERIODS["week"] and has_days(field.interval_s):
        yield ("period",), "without a model, the season is a day instead of a week"


def _in_formats(field: FieldSettings) -> Iterator[UnusedSetting]:
    has_time = [_may_have_time(source) for source in field.sources]
    for index, source in enumerate(field.sources):
        key: KeyPath = ("reading",) if field.reading else ("readings", index)
        if source.payload in FORMATS_WITH_TIME and not has_time[index]:
            yield (*key, "timezone"), "`time` is not set; set `time` to the path of the time"
    if not any(has_time):
        for limit in ("max_age", "max_future"):
            yield (
                (limit,),
                "the messages are read without a time, so a reading is dated by its arrival",
            )
    battery = field.energy and field.energy.battery
    if battery and battery.payload in FORMATS_WITH_TIME:
        for option in ("time", "timezone"):
            reason = "the age of a battery charge counts from its arrival"
            yield ("energy", "battery", option), reason


def _may_have_time(source: ReadingSettings) -> bool:
    """Return whether the messages of a source may contain the time of the reading."""
    if source.payload in FORMATS_WITH_TIME:
        return "time" in source.settings
    return source.payload not in FORMATS_WITHOUT_TIME
