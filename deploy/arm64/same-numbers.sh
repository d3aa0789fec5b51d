#!/bin/sh
# Shows that the kernels in a folder's wheel give the numbers of those compiled just in time, to the
# last bit, over the lives of each policy in tests/numerics/test_compiled.py. test.sh has run.sh run
# it, where there is numba.
#
#   deploy/arm64/same-numbers.sh FOLDER
set -eu

export PYTHONPATH=/opt/science:tests/numerics:tests
compare='import json, sys
ahead, just_in_time = map(json.loads, sys.stdin)
assert (ahead.pop("kind"), just_in_time.pop("kind")) == ("ahead of time", "just in time")
assert (ahead.pop("numba"), just_in_time.pop("numba")) == (False, True)
assert ahead == just_in_time, (ahead, just_in_time)
print(len(ahead["lives"]) + 1, "lives are the same to the last bit")'

python -m zipfile -e "$1"/edge_tvbo-*.whl /tmp/wheel
lives=$(python -c 'import test_library; print(test_library.LIVES)')
for kernels in /tmp/wheel/edge_tvbo/numerics jit; do
    EDGE_TVBO_KERNELS=$kernels python -c "$lives"
done >/tmp/lives
python -c "$compare" </tmp/lives
