"""What the papers prove, as functions: regret bounds, and the lengths and β they imply.

One module per paper: `bogunovic2016` [B16], `zhou2021` [ZS21], `brunzema` [ET], `mandl2024` [M24],
`ziomek2024` [LB]. `gain` is what all of them rest on, information gain, greedily on the actual
arms or as a rate; `domain` the constants of a continuous field; `summary` one table of it all,
which is what ``edge-tvbo bound`` prints.

Every function is pure, takes the paper's quantities by name and says its source. Where a paper
errs, the docstring says what it prints, what holds and who found it. The two functions named
``mismatch`` are told apart by their module.
"""

from edge_tvbo.models.triggers import Bounds
from edge_tvbo.theory.bogunovic2016 import (
    block_length_matern,
    block_length_se,
    least_regret_rate,
    resetting_beta,
    resetting_beta_on_arms,
    resetting_regret,
    varying_beta,
    varying_beta_on_arms,
    varying_gain_as_printed,
    varying_regret,
)
from edge_tvbo.theory.bound_summary import Line, summary
from edge_tvbo.theory.brunzema import (
    block_bounds_matern,
    block_bounds_se,
    regret_rate_matern,
    regret_rate_se,
    triggered_regret,
)
from edge_tvbo.theory.domain import Domain
from edge_tvbo.theory.information_gain import (
    gain_ceiling,
    gain_constant,
    greedy_gain,
    matern_exponent,
    matern_rate,
    se_rate,
)
from edge_tvbo.theory.mandl2024 import (
    BestBeta,
    BlockedGain,
    best_constant_beta,
    best_momentum_gain,
    best_varying_gain,
    constant_beta,
    deviation,
    expected_regret,
    likely_regret,
    momentum_gain,
    momentum_likely_regret,
    varying_gain,
)
from edge_tvbo.theory.zhou2021 import (
    dynamic_regret,
    regret_rate,
    restart_beta,
    restart_interval,
    window_beta,
    window_length,
)
from edge_tvbo.theory.ziomek2024 import (
    balancing_regret,
    candidates,
    first_good_interval,
    matern_gain_rate,
    noise_margin,
    rbf_gain_rate,
    suspected_regret,
)

__all__ = [
    "BestBeta",
    "BlockedGain",
    "Bounds",
    "Domain",
    "Line",
    "balancing_regret",
    "best_constant_beta",
    "best_momentum_gain",
    "best_varying_gain",
    "block_bounds_matern",
    "block_bounds_se",
    "block_length_matern",
    "block_length_se",
    "candidates",
    "constant_beta",
    "deviation",
    "dynamic_regret",
    "expected_regret",
    "first_good_interval",
    "gain_ceiling",
    "gain_constant",
    "greedy_gain",
    "least_regret_rate",
    "likely_regret",
    "matern_exponent",
    "matern_gain_rate",
    "matern_rate",
    "momentum_gain",
    "momentum_likely_regret",
    "noise_margin",
    "rbf_gain_rate",
    "regret_rate",
    "regret_rate_matern",
    "regret_rate_se",
    "resetting_beta",
    "resetting_beta_on_arms",
    "resetting_regret",
    "restart_beta",
    "restart_interval",
    "se_rate",
    "summary",
    "suspected_regret",
    "triggered_regret",
    "varying_beta",
    "varying_beta_on_arms",
    "varying_gain",
    "varying_gain_as_printed",
    "varying_regret",
    "window_beta",
    "window_length",
]
