#!/bin/sh
# Runs a target of the Makefile and writes its rows of RESULTS.md, beside this file; README.md says
# what they show.
#
#   sudo deploy/arm64/test.sh [test-arm64 | wheel-arm64 [SUITE]]
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
results=$here/RESULTS.md
target=${1:-test-arm64} only='.*'
log=$(mktemp)
failed=0
tests="tests/models/posteriors/test_two_component.py tests/models/posteriors/test_state_space.py tests/models/test_triggers.py
    tests/policy/test_registry.py tests/control/test_user_requests.py"

import='import platform, edge_tvbo.control.controller, edge_tvbo.policy
print("Python", platform.python_version(), platform.machine())'

alone='import importlib.util, shutil, edge_tvbo.policy
from edge_tvbo.numerics.jit import COMPILATION
assert not importlib.util.find_spec("numba") and not shutil.which("gcc")
print("kernels compiled", COMPILATION, "where there is neither numba nor a compiler")'

# Keep the results of other targets, and of the wheels of other suites.
begin() {
    when=$(date -u +%F)
    commit=$(git -C "$here" describe --always --dirty=+ 2>/dev/null || echo unknown)
    others=$(grep '^| [a-z]*-arm64 ' "$results" | grep -v "^| $target | [^|]* | $only |") || :
    cat >"$results" <<END
# Results of \`make test-arm64\` and \`make wheel-arm64\`

All steps ran on emulated processors. The column \`s\` contains the seconds of each step under emulation;
they do not show the speed of a Pi. A \`+\` after a commit means that there were uncommitted changes.

| make | when | suite | board | MiB | step | s | result |
| --- | --- | --- | --- | --- | --- | --- | --- |
END
    [ -z "$others" ] || echo "$others" >>"$results"
}

# Run a command on a system, and write one row with its result: its last line.
step() {
    suite=$1 board=$2 mem=$3 name=$4
    shift 4
    outcome='' began=$(date +%s)
    "$here/run.sh" --suite "$suite" --board "$board" ${mem:+--mem "$mem"} "$@" >"$log" 2>&1 || {
        cat "$log" >&2
        failed=1 outcome='**failed**: '
    }
    took=$(($(date +%s) - began)) outcome=$outcome$(grep -v '^\[arm64\]' "$log" | tail -n 1)
    outcome=$outcome$(sed -n 's/^\[arm64\] at most/; at most/p' "$log")
    printf '| %s | %s | %s | %s | %s | %s | %s | %s |\n' "$target" "$when, $commit" \
        "$suite" "$board" "${mem:-all}" "$name" "$took" "$outcome" | tee -a "$results"
}

# Compile the kernels for this processor, as without install.sh, which compiles for any.
system() {
    step "$@" import python -W error -c "$import"
    step "$@" compile env -u NUMBA_CPU_NAME NUMBA_CACHE_DIR=/tmp/cache edge-tvbo precompile
    step "$@" 'round trip' deploy/arm64/round-trip.sh
}

# shellcheck disable=SC2086 # the tests are several words
fast_tests() {
    step "$@" tests env PYTHONPATH= \
        python -m pytest $tests -q -p no:cacheprovider -o timeout=1500
}

# Build where there is a compiler, and test where there is neither that nor numba.
wheel() {
    folder=dist/$1-arm64
    step "$1" pi4 '' wheel --compiler deploy/arm64/wheel.sh "$folder"
    [ $failed = 0 ] || return 0
    step "$1" pi4 '' install --wheels "$folder" python -c "$alone"
    step "$1" pi3 '' check --wheels "$folder" edge-tvbo check deploy/config.example.toml
    step "$1" pi3 '' 'round trip' --wheels "$folder" deploy/arm64/round-trip.sh
    step "$1" pi4 '' 'round trip' --wheels "$folder" deploy/arm64/round-trip.sh
    step "$1" pi3 512 'round trip' --wheels "$folder" deploy/arm64/round-trip.sh
    step "$1" pi4 '' 'same numbers' --compiler deploy/arm64/same-numbers.sh "$folder"
}

case $target in
test-arm64)
    begin
    system bookworm pi4 ''
    fast_tests bookworm pi4 ''
    system bookworm pi3 512
    system trixie pi4 ''
    system trixie pi3 ''
    fast_tests trixie pi3 ''
    ;;
wheel-arm64)
    only=${2:-bookworm}
    begin
    wheel "$only"
    ;;
*)
    printf "test.sh: unknown target '%s'; it can be test-arm64 or wheel-arm64\n" "$target" >&2
    failed=1
    ;;
esac
rm "$log"
exit $failed
