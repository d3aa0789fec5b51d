#!/bin/sh
# Starts the daemon and the dashboard with the configuration that configure.py writes.
set -eu
umask 077
bin=$(dirname -- "$0")

mkdir -p "$NUMBA_CACHE_DIR"
cp -R "$bin/../kernels/." "$NUMBA_CACHE_DIR"
config=$("$bin/python" "$bin/configure.py")
"$bin/edge-tvbo" dashboard "$config" --host 0.0.0.0 --port 8787 &
exec "$bin/edge-tvbo" run "$config"
