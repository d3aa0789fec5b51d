"""Fixtures of the fault tests: a small disk, and the page of the soak runs."""

import os
import subprocess
from datetime import date
from pathlib import Path

import pytest
from support.provenance import commit, machine

RESULTS = Path(__file__).with_name("RESULTS.md")
HEAD = """\
# Results of the soak tests

`make soak` writes this page. It shows the last run of each soak test. A test records its figures
with `record_property("measured", ...)`, and its own table, which is below the common table, with
`record_property("table", ...)`. The column `s` has the duration of the test in seconds. A `+` after
a commit means that there were uncommitted changes.

| test | result | s | when | commit | machine |
|---|---|---|---|---|---|
"""
soaked = pytest.StashKey[dict[str, str]]()
tabled = pytest.StashKey[dict[str, str]]()


def pytest_collection_modifyitems(config, items):
    """Skip the soak tests unless they are selected."""
    if os.environ.get("EDGE_TVBO_SOAK") or "soak" in config.option.markexpr:
        return
    skip = pytest.mark.skip(reason="a soak test; `make soak` runs it")
    for item in items:
        if item.get_closest_marker("soak"):
            item.add_marker(skip)


# --- a disk ---------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """Return a function that mounts file systems of 64 KiB with given options."""
    mounted = []

    def mount(options):
        where = tmp_path / f"disk{len(mounted)}"
        where.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size=64k,{options}", "tmpfs", str(where)]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("mounting needs more rights")
        mounted.append(where)
        return where

    yield mount
    for where in mounted:
        # Lazily, because after a failed test a daemon may have files there.
        subprocess.run(["umount", "--lazy", str(where)], check=True)


# --- the record ---------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Keep a row for each soak test that ran."""
    report = yield
    if item.get_closest_marker("soak") and report.when == "call" and not report.skipped:
        line = item.config.stash.setdefault(soaked, {})
        measured = dict(item.user_properties).get("measured", report.outcome)
        outcome = measured if report.passed else f"**failed**: {measured}"
        name = item.name.replace("_", " ").removeprefix("test ")
        line[name] = f"{outcome} | {report.duration:.0f} | {date.today()}"
        if table := dict(item.user_properties).get("table"):
            item.config.stash.setdefault(tabled, {})[name] = table
    return report


def pytest_sessionfinish(session):
    """Replace the rows of earlier runs of the same tests."""
    ours = session.config.stash.get(soaked, {})
    if not ours:
        return
    where = f"{commit(RESULTS)} | {machine()}"
    lines = {name: f"{line} | {where}" for name, line in ours.items()}
    rows, tables = earlier()
    rows = "".join(f"| {name} | {line} |\n" for name, line in sorted((rows | lines).items()))
    tables |= session.config.stash.get(tabled, {})
    sections = "".join(f"\n## {name}\n\n{table}\n" for name, table in sorted(tables.items()))
    RESULTS.write_text(HEAD + rows + sections, "utf-8")


def earlier():
    """Return the rows and the tables of the page, each by the names of their tests."""
    text = RESULTS.read_text("utf-8") if RESULTS.exists() else HEAD
    rows, *sections = text.partition("|---|---|---|---|---|---|\n")[2].split("\n## ")
    cells = (each.removeprefix("| ").removesuffix(" |") for each in rows.splitlines())
    tables = (each.partition("\n\n") for each in sections)
    return (
        {name: line for name, _, line in (each.partition(" | ") for each in cells)},
        {name: table.rstrip("\n") for name, _, table in tables},
    )
