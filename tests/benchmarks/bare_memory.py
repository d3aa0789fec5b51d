"""Bare process that runs `auto` with 2000 sensors; prints its memory in MiB as JSON.

Each sensor is correlated only with near sensors, so that `auto` uses as many factors as it can.
With the path of a model file as its argument, the process reads the field from this file.
"""

import json
import sys
from pathlib import Path

import numpy as np

from edge_tvbo import SensorField, make_policy
from edge_tvbo.models.spatial_kernels import matern
from edge_tvbo.models.structural_model import prior_structure
from edge_tvbo.training import model_file

LENGTH_SCALE = 0.1  # of sensors in [0, 1]²


def policy_of(M):
    """Return `auto` for M sensors at random places, without training days."""
    return make_policy("auto", field_of(M), seed=0)


def field_of(M):
    """Return the field of M sensors at random places, without training days."""
    places = np.random.default_rng(0).uniform(0.0, 1.0, (M, 2))
    K = matern(places, LENGTH_SCALE, 2.5)
    structure = prior_structure(K, 600.0)
    return SensorField([f"s{i}" for i in range(M)], K, 0.01, structure=structure)


def status_mib(name):
    """Return a number of this process's status, such as VmRSS, in MiB."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def main():
    if sys.argv[1:]:
        policy = make_policy("auto", model_file.read(Path(sys.argv[1])), seed=0)
    else:
        policy = policy_of(2000)
    for t in range(10):
        policy.set_time(600.0 * t)
        policy.observe(policy.select().arm, 0.1)
        policy.advance()
    snapshot = policy.snapshot()
    found = {"resident": status_mib("VmRSS"), "most": status_mib("VmHWM")}
    found |= {"snapshot": len(snapshot) / 2**20, "numba": "numba" in sys.modules}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
