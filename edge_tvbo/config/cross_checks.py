"""Cross checks of the configuration: compare settings with each other and with files on disk."""

from collections.abc import Collection
from pathlib import Path

from edge_tvbo.config.daemon_checks import check_metrics, check_mqtt, check_state
from edge_tvbo.config.energy_checks import check_energy
from edge_tvbo.config.errors import Report, dotted, listed
from edge_tvbo.config.field_checks import check_policy, check_positions, check_prior, check_times
from edge_tvbo.config.field_units import wrong_unit
from edge_tvbo.config.reader import Values
from edge_tvbo.config.source_checks import PayloadFormats, check_readings, check_sources
from edge_tvbo.config.topic_checks import check_between_fields, check_topics
from edge_tvbo.config.topic_types import OWN_TOPICS
from edge_tvbo.errors import Code

RESERVED = ("cmd", "health", "response", "status")  # topic levels of the daemon itself


def cross_check(good: Values, base: Path, payloads: PayloadFormats | None, report: Report) -> None:
    """Check the valid settings, `good`, against each other; add their missing defaults.

    Model files and kernels are checked by `check_priors` instead.

    Parameters
    ----------
    good : dict
        The settings; each value is valid by itself.
    base : Path
        The directory to which the paths in the settings are relative.
    payloads : PayloadFormats, optional
        All payload formats. If None, the formats in `good` and their settings are not checked.
    report : Report
        Collects the mistakes.
    """
    check_mqtt(good.get("mqtt", {}), base, report)
    check_metrics(good.get("metrics", {}), base, report)
    check_state(good.get("state", {}), base, report)
    fields = good.get("fields")
    if fields == {}:
        report.add(("fields",), "is empty; add a table [fields.<name>]", code=Code.MISSING)
    for name, field in (fields or {}).items():
        _check_field(name, field, base, payloads, report)
    check_between_fields(fields or {}, report)
    if fields:
        _check_device_classes(good.get("homeassistant") or {}, fields, report)


def _check_device_classes(homeassistant: Values, fields: Collection[str], report: Report) -> None:
    """Check that each device class belongs to one of the `fields`."""
    for name in homeassistant.get("device_classes", ()):
        if name not in fields:
            where = ("homeassistant", "device_classes", name)
            text = f"is not one of the fields: {listed(fields, max_words=99)}"
            report.add_unknown_name(where, text, name, fields)


def check_priors(good: Values, report: Report) -> None:
    """Check the model file or the kernel of each field in the settings `good`."""
    for name, field in (good.get("fields") or {}).items():
        check_prior(field, ("fields", name), report)


def _check_field(
    name: str, field: Values, base: Path, payloads: PayloadFormats | None, report: Report
) -> None:
    path = ("fields", name)
    if name in RESERVED:
        report.add(
            path,
            f"is a reserved name, because {OWN_TOPICS}/<instance>/{name} is a topic of the "
            "daemon; choose another name",
        )
    if problem := wrong_unit(name, field.get("unit", "")):
        advice = "Set the unit of the readings, or rename the field."
        report.warn((*path, "unit"), f"{dotted((*path, 'unit'))} {problem}. {advice}")
    check_times(field, path, report)
    if field.get("model"):
        field["model"] = base / field["model"]
    check_positions(field, path, base, report)
    check_sources(field, path, report)
    check_policy(field, (*path, "policy"), report)
    check_readings(field, path, payloads, report)
    check_topics(field, path, report)
    if field.get("energy"):
        check_energy(field["energy"], field, (*path, "energy"), payloads, report)
