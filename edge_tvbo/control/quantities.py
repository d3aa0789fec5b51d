"""Quantities: converts the values of one field from model units to rounded numbers and texts."""

from math import floor, log10

import msgspec

from edge_tvbo.messages import formatting
from edge_tvbo.models.field import SensorField


class Figures(msgspec.Struct, frozen=True, gc=False):
    """The rounded mean and standard deviation of an estimate, in the field's unit."""

    mean: float
    std: float
    digits: int  # number of decimals in texts; see `Quantities.estimate`


def field_decimals(field: SensorField) -> int:
    """Return how many decimals are needed to show 1/100 of the field's standard deviation."""
    return formatting.decimals(field.scale)


class Quantities:
    """Numbers and texts of one field's values, rounded to the decimals that are significant.

    Examples
    --------
    >>> quantities = Quantities(SensorField(("a",), [[4.0]], 0.01, unit="°C", center=20.0))
    >>> quantities.value(1.23456), quantities.text(21.0)
    (21.23, '21 °C')
    >>> quantities.estimate(quantities.figures(1.25, 0.5))
    '21.25 ± 0.50 °C'
    >>> celsius = Quantities(SensorField(("a",), [[4.0]], 0.01, unit="°C", scale=4.0))
    >>> celsius.estimate(celsius.figures(-0.005, 0.4))
    '0.0 ± 1.6 °C'
    >>> celsius.estimate(celsius.figures(1.0, 0.0001))
    '4.00 ± <0.01 °C'
    """

    def __init__(self, field: SensorField) -> None:
        self._field = field
        self._unit = f" {field.unit}" if field.unit else ""
        self.digits = field_decimals(field)

    def value(self, value: float) -> float:
        """Convert the quantity `value` from model units to the field's unit, and round it."""
        return round(self._field.to_unit(value), self.digits) + 0.0  # no minus zero

    def spread(self, value: float, std: float) -> float:
        """Convert the standard deviation `std` of a quantity to the field's unit, and round it.

        Both arguments, the quantity `value` and `std`, are in model units. On a log scale, the
        result depends on `value`.
        """
        return round(self._field.std_to_unit(value, std), self.digits)

    def figures(self, mean: float, std: float) -> Figures:
        """Convert an estimate from model units to rounded quantities in the field's unit."""
        spread = self.spread(mean, std)
        digits = min(self.digits, 1 - floor(log10(spread))) if spread > 0.0 else self.digits
        return Figures(self.value(mean), spread, max(0, digits))

    def number(self, value: float) -> str:
        """Return the quantity `value`, in the field's unit, as text without the unit."""
        text = _fixed(value, self.digits)
        return text.rstrip("0").rstrip(".") if self.digits else text

    def text(self, value: float) -> str:
        """Return the quantity `value`, in the field's unit, as text with the unit."""
        return self.number(value) + self._unit

    def estimate(self, figures: Figures) -> str:
        """Return an estimated quantity as text: mean ± standard deviation.

        Both numbers have the same number of decimals: enough to show two significant digits of the
        standard deviation, but at most as many as `field_decimals` returns. If the standard
        deviation is too small for these decimals, the text states an upper limit, as in `<0.01`.
        """
        digits = figures.digits
        std = _fixed(figures.std, digits) if figures.std > 0.0 else f"<{10.0**-digits:.{digits}f}"
        return f"{_fixed(figures.mean, digits)} ± {std}{self._unit}"

    def bound(self, value: float, figures: Figures) -> str:
        """Return a confidence bound, `value`, as text with as many decimals as `figures`."""
        return f"{_fixed(value, figures.digits)}{self._unit}"

    def implausible(self, value: float, plausible: tuple[float, float]) -> str:
        """Return a text with two quantities: an implausible reading and the plausible range."""
        lowest, highest = (self.number(round(each, self.digits)) for each in plausible)
        return f"{value:g}{self._unit}; plausible: {lowest} to {highest}{self._unit}"


def _fixed(value: float, digits: int) -> str:
    """Return the number of a quantity as text with `digits` decimals; zero has no minus sign."""
    return f"{round(value, digits) + 0.0:.{digits}f}"
