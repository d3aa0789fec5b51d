"""Experiments: E0 to E13 repeat experiments of papers, and five others evaluate `auto`.

Each experiment has its own module. `base` defines the interface of an experiment, `runner` runs
experiments, and `report` compares their results with the papers. The same seed gives the same
results to the last bit, whatever the number of workers. A new experiment needs a module and a line
in the table `CLASSES`.
"""

from importlib import import_module

from edge_tvbo.errors import ConfigError
from edge_tvbo.research.experiments.base import Experiment
from edge_tvbo.simulation.dataset_lookup import DataSource

CLASSES = {
    "E0": "e00_illustrations:Illustrations",
    "E1": "e01_within_model:WithinModel",
    "E2": "e02_trigger_sensitivity:TriggerSensitivity",
    "E3": "e03_reset_times:ResetTimes",
    "E4": "e04_temperature:Temperature",
    "E5": "e05_policy_search:PolicySearch",
    "E6": "e06_variation_budget:VariationBudget",
    "E7": "e07_synthetic:Synthetic",
    "E8": "e08_traffic:Traffic",
    "E9": "e09_constant_beta:ConstantBetas",
    "E10": "e10_model_mismatch:ModelMismatch",
    "E11": "e11_length_scale:UnknownLengthScale",
    "E12": "e12_change_detection:ChangeDetection",
    "E13": "e13_optimal_designs:OptimalDesigns",
    "AUTO": "auto:AutoExperiment",
    "COLD": "cold_start:ColdStart",
    "LEFTOUT": "left_out:LeftOut",
    "LOSS": "lost_replies:LostReplies",
    "FAULTS": "faults:FaultySensors",
}


def names() -> tuple[str, ...]:
    """Return the names of all experiments."""
    return tuple(CLASSES)


def load(name: str, data: DataSource) -> Experiment:
    """Return the experiment called `name`, which reads its recordings from the source `data`.

    Raises
    ------
    ConfigError
        If there is no experiment with this name.
    """
    place = CLASSES.get(name.upper())
    if place is None:
        raise ConfigError(f"There is no experiment {name!r}; allowed: {', '.join(CLASSES)}.")
    module, _, class_name = place.partition(":")
    experiment: Experiment = getattr(import_module(f"{__name__}.{module}"), class_name)(data)
    return experiment
