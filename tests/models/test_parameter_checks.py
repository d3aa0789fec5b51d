"""Parameter checks: what they accept, and the message for what they reject."""

import math

import numpy as np
import pytest

from edge_tvbo.errors import ConfigError
from edge_tvbo.models.parameter_checks import (
    check_block,
    check_block_bounds,
    check_count,
    check_not_negative,
    check_ordered_rates,
    check_positive,
    check_probability,
    check_range,
    check_share,
)

INVALID = ("1", True, None, math.nan, math.inf, -1.0, 10**400)
ACCEPTED = {
    check_positive: (1e-300, 2, np.float64(0.5), np.int64(3)),
    check_not_negative: (0, 0.0, 5),
    check_probability: (1e-9, 0.5, np.float64(0.999)),
    check_share: (1e-9, 1, 1.0),
    check_count: (1, 2.0, np.int64(3)),
}
REJECTED = {
    check_positive: (0, 0.0),
    check_not_negative: (-1e-300,),
    check_probability: (0, 1, 1.1),
    check_share: (0, 1.0001),
    check_count: (0, 0.5, 1.5),
}


def test_values_in_range_are_accepted():
    for check, values in ACCEPTED.items():
        for value in values:
            check(x=value)
    check_range(0, 2, x=2, y=0.0)
    check_block(3, 3)
    check_ordered_rates(0.1, 0.1)
    check_block_bounds(1, None)


def test_values_out_of_range_are_rejected_with_name_and_value():
    for check, values in REJECTED.items():
        for value in (*values, *INVALID):
            with pytest.raises(ConfigError, match=rf"^second is '?{value}'?; it (must|can) "):
                check(first=1 if check is not check_probability else 0.5, second=value)


def test_ranges_and_orders_are_named_in_the_error():
    with pytest.raises(ConfigError, match=r"^growth is 2.5; it can be 0 to 2\."):
        check_range(0, 2, growth=2.5)
    with pytest.raises(ConfigError, match=r"^block is 4; it can be 1 to 3, which is the horizon\."):
        check_block(4, 3)
    with pytest.raises(ConfigError, match="epsilon has bounds 0.2 and 0.1; they must satisfy "):
        check_ordered_rates(0.2, 0.1)
    with pytest.raises(ConfigError, match="n_lower is 3, n_upper is 2; required: "):
        check_block_bounds(3, 2)
