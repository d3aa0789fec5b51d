"""Units of fields: a unit of another quantity causes a warning, and an unknown unit does not."""

import pytest
from edge_tvbo_adapters.homeassistant.device_classes import UNITS as UNITS_OF_CLASSES
from hypothesis import given
from hypothesis import strategies as st

from edge_tvbo.config import loader
from edge_tvbo.config.field_units import UNITS, wrong_unit
from edge_tvbo.setup.known_quantities import QUANTITIES
from edge_tvbo.setup.sensor_units import RARE_UNITS, other_units

KNOWN = sorted({unit for units in UNITS.values() for unit in units})
CONFIG = """
[fields.{name}]
unit = "{unit}"
interval = "10min"
kernel = {{ name = "exchangeable", variance = 4.0, noise_variance = 0.04, mean = 20.0 }}
sensors = ["hall", "attic"]
reading = {{ topic = "home/{{sensor}}" }}
"""


def warnings(tmp_path, caplog, name, unit):
    path = tmp_path / "my.toml"
    path.write_text(CONFIG.format(name=name, unit=unit))
    caplog.clear()
    assert loader.load(path).fields[name].unit == unit
    return [each.getMessage() for each in caplog.records]


def test_a_unit_of_another_quantity_causes_a_warning_with_the_units_of_the_quantity(
    tmp_path, caplog
):
    (text,) = warnings(tmp_path, caplog, "temperature", "hPa")
    assert text == (
        f'{tmp_path}/my.toml:3:1: fields.temperature.unit is "hPa", a unit of pressure; the units'
        " of temperature are °C, °F and K. Set the unit of the readings, or rename the field."
    )


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("temperature", ""),
        ("temperature", "degrees"),
        ("temperature", "C"),
        ("temperature-2", "°F"),
        ("temperature", "mV"),  # of a thermistor
        ("soil-moisture", "kPa"),  # the tension of the water in the soil
        ("co2", "mmHg"),  # the partial pressure
        ("humidity", "%RH"),
        ("sound-pressure", "dB"),
        ("radon", "hPa"),
        ("heat", "%"),
    ],
)
def test_other_units_cause_no_warning(tmp_path, caplog, name, unit):
    assert warnings(tmp_path, caplog, name, unit) == []


@given(st.sampled_from(sorted(UNITS)), st.sampled_from(KNOWN) | st.text(max_size=8))
def test_only_a_unit_of_other_quantities_alone_is_wrong(name, unit):
    owners = [quantity for quantity in UNITS if unit in UNITS[quantity]]
    if unit in KNOWN:
        assert bool(wrong_unit(name, unit)) == (name not in owners)
    assert wrong_unit(f"{name}-2", unit) == wrong_unit(name, unit)
    assert not wrong_unit("other", unit)


def test_all_units_that_the_program_knows_for_a_quantity_are_right():
    """Those of `init`, and those of Home Assistant."""
    for quantity in QUANTITIES.values():
        rare = [name for name, _ in RARE_UNITS.get(quantity.unit, ())]
        for unit in (quantity.unit, *(each.name for each in other_units(quantity.unit)), *rare):
            assert not wrong_unit(quantity.name, unit)
    for name, units in UNITS_OF_CLASSES.items():
        assert not any(wrong_unit(name, unit) for unit in units)
