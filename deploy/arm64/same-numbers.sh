#!/bin/sh
# Shows that the kernels in a folder's wheel compute the same as kernels compiled just in time, to the
# last bit, over the runs of each policy in tests/numerics/test_compiled.py. test.sh runs it by run.sh,
# in the root that has numba.
#
#   deploy/arm64/same-numbers.sh FOLDER
set -eu

export PYTHONPATH=tests/numerics:tests
compare='import json, sys
ahead, just_in_time = map(json.loads, sys.stdin)
assert (ahead.pop("compilation"), just_in_time.pop("compilation")) == ("ahead of time", "just in time")
assert (ahead.pop("numba"), just_in_time.pop("numba")) == (False, True)
assert ahead == just_in_time, (ahead, just_in_time)
print(len(ahead["snapshots"]) + 1, "runs are the same to the last bit")'

python -m zipfile -e "$1"/edge_tvbo-*.whl /tmp/wheel
runs=$(python -c 'import test_compiled; print(test_compiled.RUNS)')
for kernels in /tmp/wheel/edge_tvbo/numerics jit; do
    EDGE_TVBO_KERNELS=$kernels python -c "$runs"
done >/tmp/runs
python -c "$compare" </tmp/runs
