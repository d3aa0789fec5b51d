"""The experiments of the five papers, E1 to E11: each a module that says what one run measures.

`runner` carries runs out, `report` compares them with print, `truth` draws fields, `play` lets a
policy follow one. The same seed gives the same bytes, whatever the number of workers.
"""

from importlib import import_module
from typing import Any

from edge_tvbo.errors import ConfigError

_MODULES = {
    "E1": "e01_within_model:WithinModel",
    "E2": "e02_trigger_sensitivity:Sensitivity",
    "E3": "e03_reset_times:ResetTimes",
    "E4": "e04_temperature:Temperature",
    "E5": "e05_policy_search:PolicySearch",
    "E6": "e06_variation_budget:VariationBudget",
    "E7": "e07_synthetic:Synthetic",
    "E8": "e08_traffic:Traffic",
    "E9": "e09_constant_beta:ConstantBetas",
    "E10": "e10_model_mismatch:Mismatch",
    "E11": "e11_length_scale:LengthScale",
    "AUTO": "auto:Automatic",
}


def names() -> tuple[str, ...]:
    """Give the names of all experiments."""
    return tuple(_MODULES)


def load(name: str, data_dirs: tuple[str, ...] = ()) -> Any:
    """Give the experiment `name`, which looks for recorded data in `data_dirs` first.

    Raises
    ------
    ConfigError
        For a name that there is not.
    """
    entry = _MODULES.get(name.upper())
    if entry is None:
        raise ConfigError(f"There is no experiment {name!r}; there are {', '.join(_MODULES)}.")
    module, _, maker = entry.partition(":")
    return getattr(import_module(f"{__name__}.{module}"), maker)(data_dirs)
