"""The health document of very many sensors fits in one message, and counts what it leaves out."""

import msgspec
import pytest

from edge_tvbo.daemon.message_size import MAX_HEALTH_BYTES, bounded
from edge_tvbo.daemon.status import _refused
from edge_tvbo.messages.documents import EnergyState, FieldHealth, Health
from edge_tvbo.messages.formatting import MAX_NAMED_SENSORS

SENSORS = [f"building-7-floor-3-room-{number:03d}" for number in range(300)]
READING = "9876.54 °C; plausible: -20 to 60 °C"
KEYS = ("faulty", "implausible")
FAULT = "its readings stay at 21.3 °C, while the estimate varies between 18.2 and 24.6 °C"


def health_of(number, problem="no sensor of f0 responds", **state):
    """Return the health of so many fields with this state."""
    field = FieldHealth(7, None, 0, 0, state.pop("suspects", []), {}, **state)
    fields = {f"f{each}": field for each in range(number)}
    return Health("2026-11-28T08:00:00Z", 60, "0.2.0", fields, problem=problem)


def size(health):
    return len(msgspec.json.encode(health))


def test_a_document_of_usual_size_names_all_sensors():
    health = health_of(1, implausible=dict.fromkeys(SENSORS, READING), suspects=SENSORS)
    assert bounded(health) is health


def test_of_many_texts_the_first_of_each_field_stay_and_the_others_are_counted():
    health = health_of(5, implausible=dict.fromkeys(SENSORS, READING), ignored=SENSORS[:9])

    published = bounded(health)

    assert size(published) <= MAX_HEALTH_BYTES < size(health)
    for field in published.fields.values():
        assert list(field.implausible) == SENSORS[:64]
        assert field.ignored == SENSORS[:9]
    assert published.problem == (
        "no sensor of f0 responds; the health document cannot list all sensors; it leaves out "
        "1180 of `implausible`"
    )


@pytest.mark.parametrize("number", [5, 9])
def test_ids_are_left_out_only_if_the_texts_are_not_enough(number):
    low = EnergyState("J", 0.0, None, 0, 0, SENSORS)
    texts = {"implausible": dict.fromkeys(SENSORS, READING), "faulty": {SENSORS[0]: FAULT}}
    health = health_of(number, None, suspects=SENSORS, energy=low, **texts)

    published = bounded(health)

    assert size(published) <= MAX_HEALTH_BYTES
    field = published.fields["f0"]
    assert len(field.implausible) == MAX_NAMED_SENSORS
    assert len(field.suspects) == len(field.energy.low_battery) == (64 if number == 5 else 32)
    assert field.faulty == {SENSORS[0]: FAULT}
    left = number * (300 - len(field.suspects))
    assert published.problem == (
        "the health document cannot list all sensors; it leaves out "
        f"{number * 288} of `implausible`, {left} of `suspects`, {left} of `low_battery`"
    )


@pytest.mark.parametrize("fields", [18, 60])
def test_a_document_of_many_fields_fits_in_one_message(fields):
    texts = {"implausible": dict.fromkeys(SENSORS[:12], READING)}
    texts["faulty"] = dict.fromkeys(SENSORS[:12], FAULT)
    health = health_of(fields, None, suspects=SENSORS[:12], ignored=SENSORS[:3], **texts)

    published = bounded(health)

    assert size(published) <= MAX_HEALTH_BYTES < size(health)
    assert all(each.ignored == SENSORS[:3] for each in published.fields.values())
    kept = 3 if fields == 18 else 0
    assert published.problem == (
        "the health document cannot list all sensors; it leaves out "
        + ", ".join(f"{fields * (12 - kept)} of `{key}`" for key in [*KEYS, "suspects"])
    )


def test_a_document_fits_although_the_broker_refuses_the_activations_of_many_fields():
    fields = health_of(80, refused_activations=SENSORS).fields
    problem = "; ".join(_refused(name, each) for name, each in fields.items())
    health = health_of(80, problem, refused_activations=SENSORS)

    published = bounded(health)

    assert size(published) <= MAX_HEALTH_BYTES < size(health)
    assert published.problem == (
        f"{problem}; the health document cannot list all sensors; it leaves out "
        f"{80 * (300 - 3)} of `refused_activations`"
    )


def test_ignored_sensors_are_the_last_to_be_left_out():
    ignored = [f"{sensor}-{n}" for sensor in SENSORS for n in range(9)]
    health = health_of(2, None, suspects=SENSORS, ignored=ignored)

    published = bounded(health)

    assert size(published) <= MAX_HEALTH_BYTES < size(health)
    field = published.fields["f0"]
    assert (field.suspects, field.ignored) == ([], ignored[:128])
    assert published.problem == (
        "the health document cannot list all sensors; it leaves out "
        f"600 of `suspects`, {2 * (2700 - 128)} of `ignored`"
    )
