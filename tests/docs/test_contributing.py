"""The worked examples of docs/contributing.md, carried out on a copy of the product.

A block whose language is followed by a path is a file. A `diff` block replaces the lines without
`+` by those without `-`; they have to be in the file exactly once. A `bash` block is run.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.kernels import VARIABLE
from support.pages import blocks, files, sections, unprinted
from support.paths import DOCS, ROOT

PAGE = (DOCS / "contributing.md").read_text("utf-8")
EXAMPLES = {heading: body for heading, body in sections(PAGE, 3).items() if files(body, "diff")}
PRODUCT = ("edge_tvbo", "adapters")
TIMEOUT_S = 120
# Without a library, the kernels run as Python: a copy elsewhere would have to compile them.
INTERPRETED = {"NUMBA_DISABLE_JIT": "1"}


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    """Return a directory with a copy of the product, in which every example is applied."""
    directory = tmp_path_factory.mktemp("product")
    for name in PRODUCT:
        skipped = shutil.ignore_patterns("*.nbi", "*.nbc", "*.so")
        shutil.copytree(ROOT / name, directory / name, ignore=skipped)
    for body in EXAMPLES.values():
        apply(body, directory)
    return directory


@pytest.fixture(scope="module")
def printed(product, fixtures_with_library):
    """Return what the commands of each example print, two examples at a time."""
    bin_ = product / "bin"
    bin_.mkdir()
    program = bin_ / "edge-tvbo"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m edge_tvbo "$@"\n')
    program.chmod(0o755)
    with ThreadPoolExecutor(2) as pool:
        scripts = ["\n".join(blocks(body, "bash")) for body in EXAMPLES.values()]
        outputs = pool.map(lambda script: run(["bash", "-ec", script], product), scripts)
        return dict(zip(EXAMPLES, outputs, strict=True))


def apply(body, directory):
    """Write the files of an example and carry out its diffs."""
    for path, patch in files(body, "diff"):
        lines = patch.splitlines()
        before = [line[1:] for line in lines if not line.startswith("+")]
        after = [line[1:] for line in lines if not line.startswith("-")]
        (directory / path).write_text(replaced(directory / path, before, after), "utf-8")
    for path, content in files(body):
        if not (directory / path).exists():
            (directory / path).write_text(content, "utf-8")


def replaced(path, before, after):
    """Return a file's text with the lines `before` replaced."""
    lines = path.read_text("utf-8").splitlines()
    count = len(before)
    places = [at for at in range(len(lines)) if lines[at : at + count] == before]
    assert len(places) == 1, f"{path.name} has {len(places)} places like this one: {before}"
    return "\n".join([*lines[: places[0]], *after, *lines[places[0] + count :], ""])


def run(command, directory):
    """Return what a command prints, with the copy of the product in place of the installed one."""
    path = os.pathsep.join(str(directory / each) for each in ("", "adapters"))
    environment = {
        **os.environ,
        **({} if VARIABLE in os.environ else INTERPRETED),
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": path,
        "PATH": f"{directory / 'bin'}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def touched(body):
    """Return the product files that an example adds and those that it changes."""
    paths = {kind: {path for path, _ in files(body, kind)} for kind in ("python", "diff")}
    assert all(path.startswith(PRODUCT) for each in paths.values() for path in each)
    return paths["python"], paths["diff"]


def added_lines(body):
    return [
        line for _, patch in files(body, "diff") for line in patch.splitlines() if line[0] in "+-"
    ]


@pytest.mark.parametrize("page", ["contributing.md", "design.md"])
def test_the_table_of_packages_has_the_layers_of_the_import_contract_in_order(page):
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (contract,) = (
        each
        for each in settings["tool"]["importlinter"]["contracts"]
        if each["name"] == "imports point down"
    )
    layers = [name for layer in contract["layers"] for name in re.findall(r"\w+", layer)]
    table = re.search(r"^\| `cli` .*?\n\n", (DOCS / page).read_text("utf-8"), re.M | re.S)[0]
    first_cells = [row.split("|")[1] for row in table.splitlines() if row]

    assert [name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)] == layers


def test_there_is_an_example_of_each_kind():
    kinds = [re.match(r"An? ([a-z ]+):", heading)[1] for heading in EXAMPLES]

    assert kinds == ["policy", "payload format", "dataset", "experiment", "setting"]


@pytest.mark.parametrize("heading", EXAMPLES)
def test_the_commands_of_an_example_print_what_the_page_says(heading, printed):
    assert unprinted(EXAMPLES[heading], printed[heading]) == [], printed[heading]


def test_a_policy_needs_two_product_files():
    (body,) = (body for heading, body in EXAMPLES.items() if "policy" in heading)

    added, changed = touched(body)

    assert len(added | changed) == 2


@pytest.mark.parametrize("kind", ["payload format", "dataset", "experiment"])
def test_it_needs_one_product_file_and_a_line_of_registration(kind):
    (body,) = (body for heading, body in EXAMPLES.items() if kind in heading)

    added, changed = touched(body)

    assert (len(added), len(changed), len(added_lines(body))) == (1, 1, 1)


def test_the_new_format_decodes_and_reports_a_wrong_setting(product):
    code = """
from edge_tvbo.config.loader import load
from edge_tvbo_adapters.payloads.formats import make_codec
print(make_codec("delimited", {"column": "2"})(b"17;21.3;56"))
try:
    make_codec("delimited", {"column": "0"})
except Exception as error:
    print(error)
"""
    assert run([sys.executable, "-c", code], product).splitlines() == [
        "(21.3, None)",
        "payload 'delimited': column is '0'; it can be 1 to 64.",
    ]


def test_the_new_setting_has_its_effect(product):
    code = """
from pathlib import Path
from edge_tvbo.config.loader import load
from edge_tvbo.daemon.app import build_daemon, make_surroundings
daemon = build_daemon(load(Path("history.toml")), make_surroundings())
daemon.recorder.service(0.0)
print(daemon.recorder.wake_at())
"""
    assert run([sys.executable, "-c", code], product) == "60.0\n"


def test_the_code_of_each_example_passes_the_linter(product):
    names = set().union(*(names for body in EXAMPLES.values() for names in touched(body)))
    paths = sorted(str(product / name) for name in names)
    config = f"--config={ROOT / 'pyproject.toml'}"
    for command in (["check"], ["format", "--diff"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, config, *paths], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout
