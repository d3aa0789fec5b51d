"""Fields of a first configuration: their sensors are named by the user, or found on the broker."""

from collections.abc import Callable, Iterable

from edge_tvbo_adapters.payloads.formats import convertible_units

from edge_tvbo.cli import init_warnings
from edge_tvbo.cli.init_groups import list_groups
from edge_tvbo.cli.init_listen import discover
from edge_tvbo.cli.init_prompts import Answers
from edge_tvbo.config.field_units import wrong_unit
from edge_tvbo.errors import ConfigError
from edge_tvbo.messages.sensor_ids import ids, is_usable_name
from edge_tvbo.setup.config_template import FieldValues, SourceValues
from edge_tvbo.setup.discovered_field import discovered_fields
from edge_tvbo.setup.known_quantities import Quantity, field_name, known_quantity
from edge_tvbo.setup.sensor_groups import SensorGroup
from edge_tvbo.setup.sensor_units import unit_of, usual_readings

QUANTITY = "{quantity}"  # stands for the quantity in --topic
Choose = Callable[[list[SensorGroup], Answers], list[SensorGroup]]


def make_fields(answers: Answers, password: str | None, choose: Choose) -> list[FieldValues]:
    """Return, for each field of a new configuration, the values that fill in the template.

    The sensors of the fields are named in `answers`, or found by listening to the broker.
    """
    if answers.password_file is not None and answers.user is None:
        raise ConfigError("--password-file needs a user name; add  --user NAME")
    if answers.sensors:
        return _named_sensors(answers)
    if answers.seconds is None:
        raise ConfigError(
            "There are no sensors.\nName them:  --sensor hall --sensor attic\n"
            "Or find them by listening to the broker:  --listen 60s"
        )
    return _found_sensors(answers, password, choose)


def _named_sensors(answers: Answers) -> list[FieldValues]:
    """Return the values that fill the template of a configuration, for each field.

    The user has named the sensors; each quantity that they measure becomes a field.
    """
    for sensor in answers.sensors:
        if not is_usable_name(sensor):
            raise ConfigError(
                f"--sensor is {sensor!r}; allowed: the name of a sensor in its topic, 1 to 64"
                " characters without / + # { }"
            )
    names = tuple(dict.fromkeys(answers.quantities)) or ("temperature",)
    if len(names) > 1 and QUANTITY not in answers.topic and answers.value is None:
        raise ConfigError(
            f"The quantities {', '.join(names)} cannot have the same topic. Write {QUANTITY} where"
            f" the topics differ:  --topic 'home/{{sensor}}/{QUANTITY}'"
        )
    _check_unit(answers, names)
    return [_named_field(name, answers) for name in names]


def _check_unit(answers: Answers, quantities: Iterable[str]) -> None:
    """Raise `ConfigError` if the unit in the option --unit fits none of the `quantities`.

    A unit does not fit a known quantity if only other known quantities have this unit. An unknown
    unit fits every quantity.
    """
    names = (known_quantity(each).name for each in quantities)
    problems = [wrong_unit(name, answers.unit or "") for name in names]
    if problems and all(problems):
        raise ConfigError(f"--unit {problems[0]}.")


def _named_field(name: str, answers: Answers) -> FieldValues:
    """Return the values that fill the template of a field, which has the quantity `name`.

    The sensors of the field are those that the user has named in `answers`.
    """
    quantity = known_quantity(name)
    value = None if answers.value is None else answers.value.replace(QUANTITY, name)
    unit = unit_of(quantity, answers.unit)
    source = SourceValues(
        sensors=ids(dict.fromkeys(answers.sensors)),
        topic=answers.topic.replace(QUANTITY, name),
        payload=answers.payload,
        value=value,
        unit=_unit_setting(answers.payload, value, unit),
    )
    mean, spread = usual_readings(quantity, unit)
    return FieldValues(
        name=field_name(name),
        sources=(source,),
        unit=unit,
        mean=mean if answers.mean is None else answers.mean,
        spread=spread if answers.spread is None else answers.spread,
    )


def _unit_setting(payload: str, value: str | None, unit: str) -> str | None:
    """Return `unit` if the payload format needs it as the setting `unit`; otherwise None."""
    try:
        return unit if unit in convertible_units(payload, value) else None
    except ConfigError:  # the check of the new file reports the invalid option
        return None


def _found_sensors(answers: Answers, password: str | None, choose: Choose) -> list[FieldValues]:
    """Listen to the broker; return, for each field, the values that fill the template.

    A field contains the chosen groups of sensors with the same quantity and the same activation
    mode.
    """
    _check_unit(answers, answers.quantities)
    discovery, listened = discover(answers, password)
    groups = list_groups(discovery, answers._replace(seconds=listened))
    chosen = choose(groups, answers)
    _check_unit(answers, [each.quantity.name for each in chosen])
    init_warnings.warn_of_unusable(discovery)
    init_warnings.warn_of_left_out(chosen, groups)
    init_warnings.warn_of_retained(chosen)
    if answers.mode == "live":
        init_warnings.check_commands(chosen)
        init_warnings.warn_of_batteries(chosen, discovery.groups())
        init_warnings.warn_of_downlinks(chosen)
    fields: dict[Quantity, dict[str, list[SensorGroup]]] = {}
    for group in sorted(chosen, key=lambda each: _mode(each, answers) == "advise"):
        modes = fields.setdefault(group.quantity, {})
        modes.setdefault(_mode(group, answers), []).append(group)
    return [each for modes in fields.values() for each in _found_fields(modes, answers)]


def _mode(group: SensorGroup, answers: Answers) -> str:
    """Return the activation mode that `init` writes for the sensors of a group.

    The mode is "advise" if the user has chosen this mode, or if no command is known that activates
    the sensors.
    """
    return "advise" if answers.mode == "advise" or not group.activate else group.activate.mode


def _found_fields(modes: dict[str, list[SensorGroup]], answers: Answers) -> list[FieldValues]:
    """Return, for each field of one quantity, the values that fill the template.

    The groups of sensors with the same activation mode become one field. Warnings about the units
    of the readings are printed.
    """
    fields = discovered_fields(list(modes.values()), answers.unit)
    init_warnings.warn_of_units(fields, answers)
    return [each.values(answers.mean, answers.spread) for each in fields]
