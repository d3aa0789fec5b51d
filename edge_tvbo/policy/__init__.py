"""Policies: which sensor to activate in each interval.

A policy has three main methods. `select` returns the arm to activate in the current interval,
`observe` updates the model with a reading, and `advance` ends the interval. The parameters of a
policy are one struct; `built_in` lists these structs. `registry` finds a policy by its name. `base`
has the interface, and `upper_confidence` has the bound that most policies share. Each family of
policies has its own module, and these modules do not import each other. Importing this package does
not import numpy.
"""

from edge_tvbo.policy.registry import build_policy, make_policy, needing_positions, policies

__all__ = ["build_policy", "make_policy", "needing_positions", "policies"]
