#!/bin/sh
# Carries out `make test-arm64` and writes RESULTS.md, beside it; README.md says what that shows.
#
#   sudo deploy/arm64/test.sh
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
results=$here/RESULTS.md
log=$(mktemp)
failed=0
tests="tests/model/test_pair.py tests/model/test_posterior.py tests/model/test_triggers.py
    tests/policies/test_registry.py tests/controller/test_requests.py"

import='import platform, edge_tvbo.controller, edge_tvbo.policies
print("Python", platform.python_version(), platform.machine())'

begin() {
    commit=$(git -C "$here" describe --always --dirty=+ 2>/dev/null || echo unknown)
    cat <<END
# What \`make test-arm64\` came to

Its last run: $(date -u +%F), commit $commit (a \`+\` means changes that are not committed), emulated:
the seconds say how long to wait for the tests, and nothing about a Pi.

| suite | board | MiB | step | s | what came of it |
| --- | --- | --- | --- | --- | --- |
END
}

# Carry out a command on a system, and say in one row what came of it: its last line.
step() {
    suite=$1 board=$2 mem=$3 name=$4
    shift 4
    outcome='' began=$(date +%s)
    "$here/run.sh" --suite "$suite" --board "$board" ${mem:+--mem "$mem"} "$@" >"$log" 2>&1 || {
        cat "$log" >&2
        failed=1 outcome='**failed**: '
    }
    took=$(($(date +%s) - began)) outcome=$outcome$(tail -n 1 "$log")
    printf '| %s | %s | %s | %s | %s | %s |\n' \
        "$suite" "$board" "${mem:-all}" "$name" "$took" "$outcome" | tee -a "$results"
}

# The kernels are compiled for the very processor, as without install.sh, which has done it for any.
system() {
    step "$@" import python -W error -c "$import"
    step "$@" compile env -u NUMBA_CPU_NAME NUMBA_CACHE_DIR=/tmp/cache edge-tvbo warm
    step "$@" 'round trip' deploy/arm64/round-trip.sh
}

# shellcheck disable=SC2086 # the tests are several words
fast_tests() {
    step "$@" tests env PYTHONPATH=/opt/science \
        python -m pytest $tests -q -p no:cacheprovider -o timeout=1500
}

begin >"$results"
system bookworm pi4 ''
fast_tests bookworm pi4 ''
system bookworm pi3 512
system trixie pi4 ''
system trixie pi3 ''
fast_tests trixie pi3 ''
rm "$log"
exit $failed
