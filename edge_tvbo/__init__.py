"""Decides which sensor of a network to activate next, and learns from the answer."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edge_tvbo.model.exploration import (
        AgnosticBeta,
        CompactBeta,
        ConstantBeta,
        FiniteBeta,
        LogBeta,
    )
    from edge_tvbo.model.field import SensorField
    from edge_tvbo.policies import make_policy, policies

__version__ = "0.1.0"

_HOME = {
    "SensorField": "edge_tvbo.model.field",
    "AgnosticBeta": "edge_tvbo.model.exploration",
    "CompactBeta": "edge_tvbo.model.exploration",
    "FiniteBeta": "edge_tvbo.model.exploration",
    "ConstantBeta": "edge_tvbo.model.exploration",
    "LogBeta": "edge_tvbo.model.exploration",
    "make_policy": "edge_tvbo.policies",
    "policies": "edge_tvbo.policies",
}
__all__ = [
    "AgnosticBeta",
    "CompactBeta",
    "ConstantBeta",
    "FiniteBeta",
    "LogBeta",
    "SensorField",
    "make_policy",
    "policies",
]


def __getattr__(name: str) -> Any:  # PEP 562: the command line starts without numpy and numba
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
