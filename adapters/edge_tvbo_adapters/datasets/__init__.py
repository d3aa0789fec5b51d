"""Datasets: recorded sensor networks, one module for each.

A new one needs its module and a line of the table below. Datasets of other packages register under
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
    """Return the dataset `name`; raises `ConfigError` with all names if there is none."""
    dataset: Dataset = DATASETS.load(name)
    return dataset


def names() -> list[str]:
    """Return the names of all datasets, those of other packages included, sorted."""
    return list(DATASETS)
