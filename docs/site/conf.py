"""Settings of Sphinx, with which `make site` builds a site from the pages of the documentation.

The source directory is the top of the repository, so that a link between pages leads to the same
file on the site and on a forge. The navigation follows the tables of docs/README.md.
"""

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "adapters"), str(Path(__file__).parent)]

from edge_tvbo import __version__ as release  # noqa: E402

project = "edge_tvbo"
copyright = "the authors of edge_tvbo; licence Apache-2.0"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "experiments",
    "mathml",
]
root_doc = "README"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "docs/*.md",
    "docs/site/*.rst",
    "deploy/**.md",
    "tests/*/RESULTS.md",
    "tests/*/README.md",
    ".github/SECURITY.md",
    "build/gallery/*.rst",
    "build/experiments/*.md",
]
exclude_patterns = ["build/site", ".venv", ".git", "**/__pycache__"]
highlight_language = "text"
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"edge_tvbo {release}"
html_copy_source = False
html_math_renderer = "mathml"

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

ORDER = (
    "follow_a_hot_spot.py",
    "your_own_csv.py",
    "a_continuous_domain.py",
    "a_new_policy.py",
    "what_the_trigger_sees.py",
    "reset_or_forget.py",
    "energy.py",
    "reading_a_decision.py",
)


def position(filename):
    """Return the sort key of an example: its place in `ORDER`, or the end."""
    return (ORDER.index(filename) if filename in ORDER else len(ORDER), filename)


sphinx_gallery_conf = {
    "examples_dirs": "docs/examples",
    "gallery_dirs": "build/gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "conf.position",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 3600,
    "write_computation_times": False,
}


def sections(index):
    """Return the tables of docs/README.md: pairs of a caption and the pages in the first column."""
    found = []
    for caption, table in re.findall(r"^(\w[^\n]*):\n\n((?:\|.*\n)+)", index, re.MULTILINE):
        pages = re.findall(r"^\| \[[^]]*\]\(([^)]*)\.md\)", table, re.MULTILINE)
        found.append((caption, [(ROOT / "docs" / page).resolve() for page in pages]))
    return [(caption, [str(page.relative_to(ROOT)) for page in pages]) for caption, pages in found]


def add_navigation(app, docname, source):
    """Append the tables of contents to the first page, with a table of all remaining pages."""
    source[0] = re.sub(r"(!?\[[^]]*\])\(([^)#:]*)\)", directory_link(docname), source[0])
    if docname != root_doc:
        return
    tables = sections((ROOT / "docs" / "README.md").read_text("utf-8"))
    tables.insert(1, ("Examples and Python", ["build/gallery/index", "docs/site/api"]))
    listed = {page for _, pages in tables for page in pages} | {root_doc}
    others = sorted(app.env.found_docs - listed, key=lambda page: (page.count("/"), page))
    others = [page for page in others if not page.startswith("build/gallery/")]
    for caption, pages in [*tables, ("More", others)]:
        lines = "\n".join(f"/{page}" for page in pages)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n"


def directory_link(docname):
    """Return a function that replaces links to directories, which a site cannot show."""

    def replace(match):
        text, target = match.groups()
        path = (ROOT / docname).parent / target
        if not target or not path.is_dir():
            return match[0]
        page = Path(target) / "README.md"
        return f"{text}({page})" if (path / "README.md").is_file() else text[1:-1]

    return replace


def add_index(app, exception):
    """Copy the first page to index.html, which a web server looks for."""
    if exception is None:
        shutil.copyfile(Path(app.outdir) / f"{root_doc}.html", Path(app.outdir) / "index.html")


def escape_bars(app, what, name, obj, options, lines):
    """Escape the bars of |y - mean|, which reStructuredText would take for a substitution."""
    lines[:] = [line if ">>>" in line else line.replace("|", r"\|") for line in lines]


def setup(app):
    app.connect("autodoc-process-docstring", escape_bars)
    app.connect("source-read", add_navigation)
    app.connect("build-finished", add_index)
