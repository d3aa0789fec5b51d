#!/bin/sh
# The private directory has all packages that are needed; -P keeps the current directory out of the way.
export PYTHONPATH=/usr/lib/edge-tvbo
exec /usr/bin/python3 -P -s -m edge_tvbo "$@"
