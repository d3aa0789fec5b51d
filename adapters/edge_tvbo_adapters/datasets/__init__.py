"""Datasets: recorded sensor networks, one module for each.

A new one needs its module and a line of the table below. Datasets of other packages register under
the entry point `edge_tvbo.datasets`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from edge_tvbo import plugins
from edge_tvbo.errors import ConfigError, hint

if TYPE_CHECKING:
    from edge_tvbo.simulation.dataset_lookup import Dataset

MODULES = {  # by dataset name; each has an object `dataset`
    "csv": "csv",
    "intel-lab": "intel_lab",
    "lab-sample": "lab_sample",
    "metr-la": "metr_la",
}


def find(name: str) -> "Dataset":
    """Return the dataset `name`; raises `ConfigError` with all names if there is none."""
    if module := MODULES.get(name):
        dataset: Dataset = import_module(f"{__name__}.{module}").dataset
        return dataset
    if name not in plugins.names("datasets"):
        known = names()
        raise ConfigError(
            f"There is no dataset {name!r}; there are {', '.join(known)}.{hint(name, known)}"
        )
    found: Dataset = plugins.load("datasets", name)
    return found


def names() -> list[str]:
    """Return the names of all datasets, those of other packages included, sorted."""
    return sorted({*MODULES, *plugins.names("datasets")})
