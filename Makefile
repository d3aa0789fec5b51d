# Each target does its whole set-up: a virtual environment in .venv, the package, a broker.
# PYTHON=python3.12 make demo  chooses another interpreter.

# Debian's own Python comes first, on which gateways run the daemon: it takes 15 % less time than one that pyenv compiles.
PYTHON ?= $(shell for venv in ensurepip sys; do for p in /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c "import sys, $$venv; sys.exit(sys.version_info < (3, 11))" 2>/dev/null && echo $$p && exit; done; done)
VENV := .venv
BIN := $(VENV)/bin
# A target that needs root asks for a password; a target that can do without a package does not, and uses AS_ROOT.
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
AS_ROOT := $(SUDO:%=% -n)
APT_INSTALL = $(AS_ROOT) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends

# Where nothing may be kept beside the sources, each start of a daemon compiles all of them again: an eighth of a second.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test unit kernels bytecode lint broker browser compiler docs soak fuzz wheel wheel-arm64 test-arm64 bench clean
.PHONY: packages chromium library test-brokers other-brokers lock sbom site

demo: $(VENV)/demo.stamp
	$(BIN)/edge-tvbo demo

# BLAS computes with one thread in each process; more threads than cores would spin. The plugin of Hypothesis is trio's, which
# each process would import.
PYTEST = PATH="$$PATH:/usr/sbin" OPENBLAS_NUM_THREADS=1 HYPOTHESIS_NO_PLUGINS=1 $(BIN)/python -m pytest --dist loadfile

# Many tests wait for a broker or a process: six processes begin with these, and one with those that compute.
test: $(VENV)/pip.stamp
	@$(MAKE) --no-print-directory -j 2 $(VENV)/test.stamp packages
	@$(MAKE) --no-print-directory -j 3 lint bytecode library browser
	EDGE_TVBO_TEST_LIBRARY=$(CURDIR)/$(LIBRARY) $(PYTEST) -n 7 --hypothesis-profile=repeatable

# The tests that need a broker, on mosquitto by each version of MQTT, and the shorter ones on RabbitMQ and aedes.
# `make test` has done 3.1.1 already:  make test-brokers VERSIONS=5
VERSIONS ?= 3.1.1 5
test-brokers: $(VENV)/test.stamp broker other-brokers kernels
	for each in $(VERSIONS); do \
	$(PYTEST) -n 4 -m "broker and not browser" --mqtt-version $$each tests/broker tests/cli tests/faults \
	--ignore tests/broker/test_other_brokers.py || exit 1; done
	$(PYTEST) tests/broker/test_other_brokers.py

# The inner loop: the tests that start no process, need no broker and do not take long.
unit: $(VENV)/test.stamp
	$(PYTEST) -n 2 --dist load -m unit --hypothesis-profile=quick

# Compiled once here, the kernels are not compiled by each process of the tests.
kernels: $(VENV)/test.stamp
	@OPENBLAS_NUM_THREADS=1 $(BIN)/edge-tvbo precompile >/dev/null

# Compiled here, beside the lint, the library of kernels is not compiled while the processes of the tests wait for it.
LIBRARY := build/test-kernels
library: kernels
	@rm -rf $(LIBRARY)
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m edge_tvbo.numerics.compile $(LIBRARY) >/dev/null 2>&1 || \
	rm -rf $(LIBRARY)  # the tests will say what is wrong

# Written once here, the bytecode of all modules is not written by each process of the tests.
bytecode: kernels
	@$(PYTEST) --collect-only -q >/dev/null 2>&1 || true  # the tests will say what is wrong

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/support/check_words.py

# The pages that say what the code says; the test suite holds them against it.
docs: $(VENV)/test.stamp
	$(BIN)/python docs/generate.py

# The pages, the Python reference and the executed examples as a site:  build/site/index.html
# Its pictures of experiments are those in experiments-out.
site: $(VENV)/test.stamp
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m sphinx -q -W --keep-going -c docs/site -d build/doctrees . build/site

# Manual pages, one for each command, for packages:  man -l build/man/edge-tvbo.1
.PHONY: man
man: $(VENV)/test.stamp
	$(BIN)/python deploy/man_pages.py build/man

# Hours: what only time shows.
soak: $(VENV)/test.stamp broker
	PATH="$$PATH:/usr/sbin" $(BIN)/python -m pytest tests/faults -m soak
	$(MAKE) fuzz SECONDS=60

# Random bytes for all code that reads data from outside; the fuzzers are tests/fuzz/fuzz_*.py.
# Each prints one line; the inputs it found are kept in fuzz-out/.
SECONDS ?= 3600
FUZZERS ?= $(basename $(notdir $(wildcard tests/fuzz/fuzz_*.py)))
fuzz: $(VENV)/test.stamp
	@$(BIN)/python -m pip install -q --disable-pip-version-check --only-binary atheris -e '.[fuzz]' || \
	{ echo "atheris cannot be installed: it has wheels for x86-64 alone; nothing is fuzzed"; exit 0; }; \
	cd tests && failed=0 && for each in $(FUZZERS); do \
	../$(BIN)/python -m fuzz.$$each --seconds $(SECONDS) || failed=1; done && exit $$failed

# A wheel with the kernels compiled ahead of time, for machines and a Python like this one's: the
# daemon then needs a quarter of the memory.
wheel: $(VENV)/test.stamp compiler
	$(BIN)/python -m edge_tvbo.numerics.compile build/kernels
	EDGE_TVBO_KERNELS=build/kernels $(BIN)/python -m hatchling build -t wheel

# The same for Raspberry Pi OS and Debian on 64-bit ARM, into dist/bookworm-arm64 with all that it wants; made and tried
# under emulation: a quarter of an hour, and root. SUITE=trixie is for Python 3.13, forky for 3.14. deploy/arm64/README.md
SUITE ?= bookworm
wheel-arm64:
	$(SUDO) deploy/arm64/test.sh wheel-arm64 $(SUITE)

# Debian packages with compiled kernels, into dist/; deploy/debian. In clean roots of Debian: root, and some minutes.
# SUITE=trixie is for version 13, ARCH=arm64 for a Raspberry Pi: emulated, a quarter of an hour.
ARCH ?= $(shell dpkg --print-architecture 2>/dev/null)
.PHONY: deb
deb: man
	$(SUDO) deploy/debian/wheels.sh $(SUITE) $(ARCH)
	deploy/debian/build.sh $(SUITE) $(ARCH)

# Everything that a release consists of, into dist/release, each wheel checked in a clean root; root, and 75 minutes for all
# on a busy machine. SYSTEMS="bookworm-amd64 trixie-amd64" makes fewer.
.PHONY: release
release: man
	@$(SUDO) deploy/release.sh $(SYSTEMS)

# On real systems, as root; tests/real/README.md says what each shows, and how long it takes.
.PHONY: test-systemd test-container test-deb test-vm
SUITES ?= bookworm trixie
test-systemd:
	@failed=0; for suite in $(SUITES); do $(SUDO) tests/real/systemd/run.sh $$suite || failed=1; done; exit $$failed

test-container:
	@$(SUDO) tests/real/container/run.sh

test-deb:
	@for suite in $(SUITES); do $(MAKE) --no-print-directory deb SUITE=$$suite && \
	$(SUDO) tests/real/deb/package-0.1.sh $$suite || exit 1; done
	@failed=0; for suite in $(SUITES); do $(SUDO) tests/real/deb/run.sh $$suite || failed=1; done; exit $$failed

# The package on emulated computers with ARM: its own kernel, control groups, and the clock of a Pi; two at a time, each of
# which takes 5 to 15 minutes. If there is no package for arm64, it is built first. SUITE=trixie is for Debian 13.
test-vm:
	@$(SUDO:%=% -v)
	@[ -d dist/$(SUITE)-arm64 ] || $(MAKE) --no-print-directory deb ARCH=arm64 SUITE=$(SUITE)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target --keep-going vm-raspi3b vm-package vm-virt

.PHONY: vm-raspi3b vm-package vm-virt
vm-raspi3b vm-package vm-virt:
	@$(SUDO) tests/real/vm/run.sh $(@:vm-%=%) $(SUITE)

# Side by side with others, into tests/benchmarks/RESULTS.md; a quarter of an hour on a quiet machine.
# BoTorch wants torch, whose newest build brings gigabytes of CUDA; TORCH says which pip installs,
# PyTorch's own index of CPU builds among them: make bench TORCH='torch --index-url ...'
# A peer that cannot be installed is named in the table.
TORCH ?= torch==2.13.0
bench: $(VENV)/bench.stamp broker compiler
	PATH="$$PATH:/usr/sbin" $(BIN)/python -m pytest tests/benchmarks

# Real versions of Home Assistant, from PyPI in chroots, beside a real broker and a real daemon: a
# quarter of an hour the first time, and root. tests/real/homeassistant/run.sh
.PHONY: test-homeassistant
test-homeassistant: $(VENV)/test.stamp
	$(SUDO) tests/real/homeassistant/run.sh

# The flows of deploy/node-red in a real Node-RED from npm, beside a broker and a daemon:
# a minute, and root only to install npm and the broker. tests/real/nodered/run.sh
.PHONY: test-nodered
test-nodered: $(VENV)/test.stamp
	$(SUDO) tests/real/nodered/run.sh

# What a Raspberry Pi would do, emulated: some twenty minutes, and root. deploy/arm64/README.md
test-arm64:
	$(SUDO) deploy/arm64/test.sh

# Debian's packages for the tests, one after the other, because apt allows no second apt; pip installs Python's meanwhile.
packages: $(VENV)/pip.stamp
	@$(MAKE) --no-print-directory -j 1 broker chromium compiler

# Debian's mosquitto, where we may install it; without it the broker tests say why they are skipped.
broker:
	@PATH="$$PATH:/usr/sbin"; { command -v mosquitto && command -v mosquitto_sub; } >/dev/null || \
	{ $(AS_ROOT) apt-get update -qq && $(APT_INSTALL) mosquitto mosquitto-clients; } || \
	echo "mosquitto is not installed and cannot be; the tests that want one are skipped"

# RabbitMQ and node from Debian, and aedes from npm, likewise. RabbitMQ is not started as a service.
other-brokers:
	@test -x /usr/lib/rabbitmq/bin/rabbitmq-server && command -v npm >/dev/null || \
	{ $(AS_ROOT) apt-get update -qq && \
	$(APT_INSTALL) rabbitmq-server $$(command -v npm >/dev/null || echo npm) && \
	{ command -v systemctl >/dev/null && $(AS_ROOT) systemctl disable --now rabbitmq-server 2>/dev/null || true; }; } || \
	echo "RabbitMQ or npm is not installed and cannot be; the tests that want one are skipped"
	@test -d build/aedes/node_modules/aedes || \
	npm install --silent --no-audit --no-fund --fetch-retries 1 --prefix build/aedes aedes@1 || \
	echo "aedes is not installed and cannot be; the tests that want it are skipped"

# Debian's chromium, likewise, for the tests of the dashboard, and axe-core, which they run in it.
browser: chromium build/axe.min.js

chromium:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	{ $(AS_ROOT) apt-get update -qq && $(APT_INSTALL) chromium chromium-driver; } || \
	echo "chromium is not installed and cannot be; the tests that want one are skipped"
	@command -v chromium-headless-shell >/dev/null || ! command -v chromedriver >/dev/null || \
	{ $(AS_ROOT) apt-get update -qq && $(APT_INSTALL) chromium-headless-shell; } 2>/dev/null || \
	echo "chromium-headless-shell cannot be installed; the tests of pages use chromium, which takes longer"

# From npm, or from a Python package that contains it where there is no npm; with neither, the tests say so.
build/axe.min.js: | $(VENV)/test.stamp
	@mkdir -p build/axe && cd build/axe && { npm pack --silent axe-core@4.14.1 2>/dev/null | xargs tar -xzf 2>/dev/null || \
	../../$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --target . axe-playwright-python==0.1.8; } && \
	cp */axe.min.js .. || echo "axe-core cannot be fetched; the tests that want it are skipped"

# A C compiler, the C++ compiler that numba asks for beside it, and Python's headers, likewise, for
# the kernels compiled ahead of time.
compiler: $(VENV)/pip.stamp
	@command -v cc >/dev/null && command -v c++ >/dev/null && $(BIN)/python -c 'import pathlib, sysconfig as s; \
	pathlib.Path(s.get_path("include"), "Python.h").stat()' 2>/dev/null || \
	{ $(AS_ROOT) apt-get update -qq && $(APT_INSTALL) gcc g++ libc6-dev python3-dev; } || \
	echo "there is no C compiler and none can be installed; the tests that want one are skipped"

$(VENV)/pip.stamp:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed:  sudo apt install python3"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	{ $(AS_ROOT) apt-get update -qq && $(APT_INSTALL) python3-venv && $(PYTHON) -m venv --clear $(VENV); } || \
	{ echo "This Python cannot make virtual environments:  sudo apt install python3-venv"; exit 1; }
	@touch $@

# The versions and hashes of all packages of .venv are in deploy/requirements; `make lock` writes them, from pyproject.toml.
# Python compiles the modules that it imports; pip would compile all of all packages, a quarter of a minute.
LOCKED = $(BIN)/python -m pip install -q --no-compile --disable-pip-version-check --require-hashes -r deploy/requirements
EDITABLE = $(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .

$(VENV)/demo.stamp: $(VENV)/pip.stamp pyproject.toml deploy/requirements/demo.txt
	$(LOCKED)/demo.txt
	$(EDITABLE)
	@touch $@

$(VENV)/test.stamp: $(VENV)/pip.stamp pyproject.toml deploy/requirements/dev.txt
	$(LOCKED)/dev.txt
	$(EDITABLE)
	@touch $@

lock: $(VENV)/test.stamp
	$(BIN)/python -m pip install -q --disable-pip-version-check uv
	$(BIN)/python deploy/lock.py

# The locked dependencies of the wheel without kernels (CycloneDX), and the checksums of all that is in dist/. Debian packages
# and images take the newest versions instead.
sbom: build/sbom/stamp
	@mkdir -p dist
	build/sbom/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
	-o dist/edge-tvbo.cdx.json deploy/requirements/runtime.txt
	@cd dist && rm -f SHA256SUMS && find . -type f -printf "%P\0" | sort -z | xargs -0 sha256sum -- > ../build/SHA256SUMS && mv ../build/SHA256SUMS .

build/sbom/stamp: deploy/requirements/sbom.txt $(VENV)/pip.stamp
	@$(BIN)/python -m venv build/sbom
	build/sbom/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r $<
	@touch $@

$(VENV)/bench.stamp: $(VENV)/test.stamp
	@$(BIN)/python -m pip install -q --disable-pip-version-check $(TORCH) && \
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[bench]' && touch $@ || \
	echo "some peers cannot be installed; the table says which"

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
