#!/bin/sh
# Builds a wheel with the kernels, compiled for any 64-bit ARM, and puts it into a folder of
# dist/ with the wheels that it depends on. test.sh runs it by run.sh --compiler.
#
#   deploy/arm64/wheel.sh FOLDER
set -eu

pip install -q --only-binary :all: hatchling setuptools
rm -rf /tmp/kernels "$1"
python -m edge_tvbo.numerics.compile /tmp/kernels
EDGE_TVBO_KERNELS=/tmp/kernels python -m hatchling build -t wheel -d "$1"
pip wheel -q --only-binary :all: -w "$1" "$(echo "$1"/edge_tvbo-*.whl)[metrics,dashboard]"
ls -sh "$1"/edge_tvbo-*.whl
