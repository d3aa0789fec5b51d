"""Policies: rules that select the sensor to activate in each interval.

A policy has three main methods. `select` returns the arm to activate in the current interval,
`observe` updates the model with a reading, and `advance` ends the interval. The modules:

- `base`: the interface of a policy.
- `registry`: finds a policy by its name.
- `built_in`: lists the settings structs; each struct holds the parameters of one policy.
- `upper_confidence`: the base class of most policies.
- one module for each family of policies; these modules do not import each other.

Importing this package does not import numpy.
"""

from edge_tvbo.policy.registry import build_policy, make_policy, needing_positions, policies

__all__ = ["build_policy", "make_policy", "needing_positions", "policies"]
