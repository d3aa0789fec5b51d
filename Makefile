# Each target does its whole set-up: a virtual environment in .venv, the package, a broker.
# PYTHON=python3.12 make demo  chooses another interpreter.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
AS_ROOT := $(shell [ "$$(id -u)" = 0 ] || echo sudo -n)
APT_INSTALL = $(AS_ROOT) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends

.PHONY: demo test lint broker soak bench clean

demo: $(VENV)/demo.stamp
	$(BIN)/edge-tvbo demo

test: $(VENV)/test.stamp broker lint
	PATH="$$PATH:/usr/sbin" $(BIN)/python -m pytest

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Hours: what only time shows.
soak: $(VENV)/test.stamp broker
	PATH="$$PATH:/usr/sbin" $(BIN)/python -m pytest tests/faults -m soak

bench: $(VENV)/test.stamp
	$(BIN)/python -m pytest tests/benchmarks

# Debian's mosquitto, where we may install it; without it the broker tests say why they are skipped.
broker:
	@PATH="$$PATH:/usr/sbin"; command -v mosquitto >/dev/null || \
	{ $(AS_ROOT) apt-get update -qq && $(APT_INSTALL) mosquitto; } || \
	echo "mosquitto is not installed and cannot be; the tests that want one are skipped"

$(VENV)/pip.stamp:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed:  sudo apt install python3"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	{ $(AS_ROOT) apt-get update -qq && $(APT_INSTALL) python3-venv && $(PYTHON) -m venv --clear $(VENV); } || \
	{ echo "This Python cannot make virtual environments:  sudo apt install python3-venv"; exit 1; }
	@touch $@

$(VENV)/demo.stamp: $(VENV)/pip.stamp pyproject.toml
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[broker,plots]'
	@touch $@

$(VENV)/test.stamp: $(VENV)/pip.stamp pyproject.toml
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
