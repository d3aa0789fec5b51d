"""edge_tvbo: selects which sensor of a network to activate next, and learns from the readings."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edge_tvbo.models.beta import AgnosticBeta, CompactBeta, ConstantBeta, FiniteBeta, LogBeta
    from edge_tvbo.models.box import BoxField
    from edge_tvbo.models.field import SensorField
    from edge_tvbo.models.spatial_kernels import SpatialKernel
    from edge_tvbo.policy import make_policy, policies

__version__ = "0.2.0"

_HOME = {
    "BoxField": "edge_tvbo.models.box",
    "SensorField": "edge_tvbo.models.field",
    "SpatialKernel": "edge_tvbo.models.spatial_kernels",
    "AgnosticBeta": "edge_tvbo.models.beta",
    "CompactBeta": "edge_tvbo.models.beta",
    "FiniteBeta": "edge_tvbo.models.beta",
    "ConstantBeta": "edge_tvbo.models.beta",
    "LogBeta": "edge_tvbo.models.beta",
    "make_policy": "edge_tvbo.policy",
    "policies": "edge_tvbo.policy",
}
__all__ = [
    "AgnosticBeta",
    "BoxField",
    "CompactBeta",
    "ConstantBeta",
    "FiniteBeta",
    "LogBeta",
    "SensorField",
    "SpatialKernel",
    "make_policy",
    "policies",
]


def __getattr__(name: str) -> Any:  # PEP 562: the command line starts without numpy and numba
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:  # so that a notebook completes the names that are imported later
    return sorted([*globals(), *_HOME])
