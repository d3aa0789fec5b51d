"""Theory: the papers' regret bounds, and the block lengths and β that follow from the bounds.

There is one module per paper: `bogunovic2016` [B16], `zhou2021` [ZS21], `brunzema` [ET],
`mandl2024` [M24] and `ziomek2024` [LB]. `information_gain` computes the quantity that all bounds
depend on. `domain` holds the constants of a continuous domain. `bound_summary` computes the table
that ``edge-tvbo bound`` prints.

Every function is pure, takes the quantities of the paper by name, and states its source. If a paper
has an error, the docstring states what is printed, what is correct, and who found the error.
Invalid arguments raise `ConfigError`.
"""

from edge_tvbo.models.triggers import BlockBounds
from edge_tvbo.theory.bogunovic2016 import (
    block_length_matern,
    block_length_se,
    regret_lower_bound,
    resetting_beta_on_arms,
    resetting_regret,
    varying_beta_on_arms,
    varying_regret,
)
from edge_tvbo.theory.bound_summary import SummaryLine, summary
from edge_tvbo.theory.brunzema import (
    regret_rate_matern,
    regret_rate_se,
    triggered_regret,
)
from edge_tvbo.theory.domain import Domain
from edge_tvbo.theory.information_gain import (
    gain_ceiling,
    greedy_gain,
    matern_exponent,
    regret_constant,
)
from edge_tvbo.theory.mandl2024 import (
    BestBeta,
    BlockedGain,
    best_constant_beta,
    best_momentum_gain,
    best_varying_gain,
    constant_beta,
    expected_regret,
    likely_regret,
    momentum_gain,
    momentum_likely_regret,
    regret_deviation,
    varying_gain,
)
from edge_tvbo.theory.zhou2021 import (
    dynamic_regret,
    restart_beta,
    restart_interval,
    window_beta,
)
from edge_tvbo.theory.ziomek2024 import (
    balancing_regret,
    candidate_count,
    first_good_interval,
    matern_gain_rate,
    noise_margin,
    rbf_gain_rate,
    suspected_regret,
)

__all__ = [
    "BestBeta",
    "BlockBounds",
    "BlockedGain",
    "Domain",
    "SummaryLine",
    "balancing_regret",
    "best_constant_beta",
    "best_momentum_gain",
    "best_varying_gain",
    "block_length_matern",
    "block_length_se",
    "candidate_count",
    "constant_beta",
    "dynamic_regret",
    "expected_regret",
    "first_good_interval",
    "gain_ceiling",
    "greedy_gain",
    "likely_regret",
    "matern_exponent",
    "matern_gain_rate",
    "momentum_gain",
    "momentum_likely_regret",
    "noise_margin",
    "rbf_gain_rate",
    "regret_constant",
    "regret_deviation",
    "regret_lower_bound",
    "regret_rate_matern",
    "regret_rate_se",
    "resetting_beta_on_arms",
    "resetting_regret",
    "restart_beta",
    "restart_interval",
    "summary",
    "suspected_regret",
    "triggered_regret",
    "varying_beta_on_arms",
    "varying_gain",
    "varying_regret",
    "window_beta",
]
