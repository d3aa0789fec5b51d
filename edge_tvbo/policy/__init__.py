"""Policies: which sensor to activate in each interval.

A policy has three verbs: `select` returns the arm to activate in the current interval, `observe`
updates the model with a reading, `advance` ends the interval. `settings` holds one struct per
policy with its parameters, `registry` finds a policy by its name, `base` has the interface and the
upper confidence bound that most policies share, and each family of policies has a module of its
own; these do not import each other. Importing this package does not import numpy.
"""

from edge_tvbo.policy.registry import build_policy, make_policy, needing_positions, policies

__all__ = ["build_policy", "make_policy", "needing_positions", "policies"]
