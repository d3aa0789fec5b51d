"""Datasets: recorded sensor networks; each dataset has a module of its own.

A new dataset needs a module and a line in `DATASETS`. Other packages register their datasets as
entry points of the group `edge_tvbo.datasets`.
"""

import logging
from typing import TYPE_CHECKING

from edge_tvbo.errors import ConfigError
from edge_tvbo.plugins import Registry

if TYPE_CHECKING:
    from edge_tvbo.simulation.dataset_lookup import Dataset

log = logging.getLogger(__name__)
DATASETS = Registry(
    "datasets",
    {
        "csv": f"{__name__}.csv:dataset",
        "intel-lab": f"{__name__}.intel_lab:dataset",
        "lab-sample": f"{__name__}.lab_sample:dataset",
        "metr-la": f"{__name__}.metr_la:dataset",
    },
)
_ATTRIBUTES = ("name", "summary", "url", "load", "fetch")


def find(name: str) -> "Dataset":
    """Return the dataset `name` of this package, or of another package that registered it.

    If there is no such dataset, raise a `ConfigError` that lists all names. A `ConfigError` is also
    raised if another package registered an object that is not a dataset.
    """
    dataset: Dataset = DATASETS.load(name)
    missing = [f"`{each}`" for each in _ATTRIBUTES if not hasattr(dataset, each)]
    if missing:
        raise ConfigError(f"The dataset {name!r} cannot be used: it has no {', '.join(missing)}.")
    return dataset


def names() -> list[str]:
    """Return the sorted names of all datasets, including the datasets of other packages."""
    return list(DATASETS)


def find_all() -> "dict[str, Dataset]":
    """Return a dict that maps the names of all datasets to the datasets.

    A dataset of another package that cannot be loaded is left out, with a warning in the log.
    """
    return DATASETS.load_each(find, log.warning)
