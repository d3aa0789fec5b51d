"""The experiments of the five papers, E1 to E11: each a module that says what one run measures.

`runner` carries runs out, `report` compares them with print, `truth` draws fields, `play` lets a
policy follow one. The same seed gives the same bytes, whatever the number of workers.
"""

from importlib import import_module
from typing import Any

from edge_tvbo.errors import ConfigError

_MODULES = {
    "E1": "within_model:WithinModel",
    "E2": "sensitivity:Sensitivity",
    "E3": "reset_times:ResetTimes",
    "E4": "temperature:Temperature",
    "E5": "policy_search:PolicySearch",
    "E6": "variation_budget:VariationBudget",
    "E7": "synthetic:Synthetic",
    "E8": "traffic:Traffic",
    "E9": "constant_beta:ConstantBetas",
    "E10": "mismatch:Mismatch",
    "E11": "length_scale:LengthScale",
    "AUTO": "automatic:Automatic",
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
