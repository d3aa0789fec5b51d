#!/bin/sh
# make test-nodered: deploy/node-red/flows.json in a real Node-RED, beside a real broker and a real
# daemon. NODE_RED="4.1.8" names the version from npm; EDGE_TVBO_REAL is where it is kept.
#
# Prints one line PASS or FAIL for each check, and the counts; fails unless all passed.
set -eu
. "$(dirname "$0")/../lib.sh"
PATH=$PATH:/usr/sbin
version=${NODE_RED:-4.1.8}
installed=$state/node-red/$version

need npm nodejs npm
need mosquitto mosquitto
if [ ! -e "$installed/complete" ]; then
    say "installing Node-RED $version"
    rm -rf "$installed"
    mkdir -p "$installed"
    npm install --silent --no-audit --no-fund --prefix "$installed" "node-red@$version" >&2 ||
        skip_all "Node-RED $version cannot be installed from npm"
    touch "$installed/complete"
fi

log=$state/node-red/checks.log
"${PYTHON:-$project/.venv/bin/python}" "$project/tests/real/nodered/checks.py" \
    "$installed" "$state/node-red/run" | tee "$log"
verdict 16
