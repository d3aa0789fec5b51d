"""The site is built without a warning, its examples are run, and its links lead somewhere.

`docs/site/conf.py` refuses an example that warns, or that takes more than 60 s of the processor.
"""

import os
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest
from support.paths import DOCS, ROOT

import edge_tvbo.theory

EXAMPLES = sorted((DOCS / "examples").glob("*.py"))
MAX_LINES = 60
TIMEOUT_S = 880  # thirty times as long as the site takes on an idle machine

pytestmark = pytest.mark.timeout(TIMEOUT_S + 20)


class Page(HTMLParser):
    """The anchors and the addresses of a page."""

    def __init__(self, file):
        super().__init__()
        self.anchors, self.addresses = {""}, []
        self.feed(file.read_text("utf-8"))

    def handle_starttag(self, tag, attributes):
        for key, value in attributes:
            if key == "id":
                self.anchors.add(value)
            elif key in ("href", "src"):
                self.addresses.append(urlsplit(value))


@pytest.fixture(scope="module")
def site(tmp_path_factory, fixtures_with_library):
    """Return the directory of the site, built as by `make site`, but from nothing."""
    directory = tmp_path_factory.mktemp("site")
    options = ["-q", "-W", "--keep-going", "-c", "docs/site", "-d", str(directory / "doctrees")]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, ".", str(directory / "html")],
        cwd=ROOT,
        env={**os.environ, "MPLBACKEND": "agg", "DISPLAY": ""},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return directory / "html"


@pytest.fixture(scope="module")
def pages(site):
    return {file.resolve(): Page(file) for file in site.rglob("*.html")}


def test_each_example_prints_something_and_draws_a_picture(site):
    assert len(EXAMPLES) == 9
    for file in EXAMPLES:
        text = (site / "build" / "gallery" / f"{file.stem}.html").read_text("utf-8")
        assert "sphx-glr-script-out" in text, file.stem
        assert f"sphx_glr_{file.stem}_001.png" in text, file.stem


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_short(file):
    assert len(file.read_text("utf-8").splitlines()) < MAX_LINES


def test_every_internal_link_leads_to_a_file_and_an_anchor(pages):
    assert len(pages) > 50
    broken = []
    for file, page in pages.items():
        for address in page.addresses:
            if address.scheme or address.netloc:
                continue
            target = (file.parent / unquote(address.path)).resolve() if address.path else file
            anchors = pages[target].anchors if target in pages else {unquote(address.fragment)}
            if not target.exists() or unquote(address.fragment) not in anchors:
                broken.append(f"{file.name}: {address.geturl()}")
    assert broken == []


def test_the_reference_has_every_public_name_and_equations(site, pages):
    reference = site / "docs" / "site" / "api.html"
    names = {f"edge_tvbo.{name}" for name in edge_tvbo.__all__}
    names |= {f"edge_tvbo.theory.{name}" for name in edge_tvbo.theory.__all__}
    names -= {"edge_tvbo.SpatialKernel", "edge_tvbo.theory.BlockBounds"}  # with their modules

    assert names <= pages[reference.resolve()].anchors
    text = reference.read_text("utf-8")
    assert text.count("<math") > 100
    assert ":math:" not in text
