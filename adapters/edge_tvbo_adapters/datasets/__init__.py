"""Datasets: recorded sensor networks; each dataset has a module of its own.

A new dataset needs a module and a line in `DATASETS`. Other packages register their datasets under
the entry point `edge_tvbo.datasets`.
"""

from typing import TYPE_CHECKING

from edge_tvbo.plugins import Registry

if TYPE_CHECKING:
    from edge_tvbo.simulation.dataset_lookup import Dataset

DATASETS = Registry(
    "datasets",
    {
        "csv": f"{__name__}.csv:dataset",
        "intel-lab": f"{__name__}.intel_lab:dataset",
        "lab-sample": f"{__name__}.lab_sample:dataset",
        "metr-la": f"{__name__}.metr_la:dataset",
    },
)


def find(name: str) -> "Dataset":
    """Return the dataset `name` of this package, or of another package that registered it.

    If there is no such dataset, raise a `ConfigError` that lists all names.
    """
    dataset: Dataset = DATASETS.load(name)
    return dataset


def names() -> list[str]:
    """Return the sorted names of all datasets, including the datasets of other packages."""
    return list(DATASETS)
