#!/bin/sh
# Starts the daemon and the dashboard with the configuration that configure.py writes.
set -eu
umask 077
bin=$(dirname -- "$0")

mkdir -p "$NUMBA_CACHE_DIR"
cp -R "$bin/../kernels/." "$NUMBA_CACHE_DIR"
config=$("$bin/python" "$bin/configure.py")
# Home Assistant's proxy checks the login, and passes on whatever name the browser uses.
"$bin/edge-tvbo" dashboard "$config" --host 0.0.0.0 --allow-host "*" --port 8787 &
exec "$bin/edge-tvbo" run "$config"
