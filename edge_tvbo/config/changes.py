"""Configuration changes: the differences between two configurations, as texts for the log."""

from collections.abc import Iterator
from typing import Any

import msgspec

from edge_tvbo.config.field_settings import FieldSettings
from edge_tvbo.config.settings import Settings
from edge_tvbo.messages.formatting import MAX_NAMED_SENSORS, listed


def changes(before: Settings, after: Settings) -> Iterator[str]:
    """Yield a text about the changes of the daemon's settings, and one for each changed field.

    Changed settings are named, but their values are left out, because they may be secret. Fields
    that are only in one of the two configurations have no text.
    """
    own = [each for each in _changed(before, after) if each != "fields"]
    if own:
        yield f"changed settings of the daemon: {', '.join(own)}"
    for name, field in before.fields.items():
        if name in after.fields:
            text = "; ".join(_field_changes(field, after.fields[name]))
            if text:
                yield f"the field {name}: {text}"


def _field_changes(before: FieldSettings, after: FieldSettings) -> Iterator[str]:
    added = [each for each in after.sensors if each not in before.sensors]
    removed = [each for each in before.sensors if each not in after.sensors]
    renamed = [
        f"{before.names.get(each, each)} to {after.names.get(each, each)}"
        for each in after.sensors
        if each in before.sensors and before.names.get(each) != after.names.get(each)
    ]
    texts = {"sensors": added or removed, "names": renamed}  # these settings have their own text
    if settings := [each for each in _changed(before, after) if not texts.get(each)]:
        yield f"changed settings: {', '.join(settings)}"
    for what, sensors in (("added", added), ("removed", removed), ("renamed", renamed)):
        if sensors:
            yield f"{what} sensors: {listed(sensors, MAX_NAMED_SENSORS)}"


def _changed(before: Any, after: Any, name: str = "") -> Iterator[str]:
    """Yield the names of the settings in which two tables of settings differ, such as `mqtt.host`.

    The name of a table is yielded if only one configuration has the table, or if the table has no
    fixed keys.
    """
    if before == after:
        return
    if not isinstance(after, msgspec.Struct) or type(before) is not type(after):
        yield name
        return
    former, present = _settings(before), _settings(after)
    for key in former | present:
        yield from _changed(former.get(key), present.get(key), f"{name}.{key}" if name else key)


def _settings(table: msgspec.Struct) -> dict[str, Any]:
    """Return the settings in a `table` of a configuration, by name.

    The options of a payload format are included like settings of the table.
    """
    settings = msgspec.structs.asdict(table)
    options: dict[str, Any] = settings.pop("settings", {})
    return settings | options
