"""Settings of Sphinx, with which `make site` builds a site from the pages of the documentation.

The source directory is the top of the repository, so that a link between pages leads to the same
file on the site and on a forge. The navigation follows the tables of docs/README.md.
"""

import gc
import re
import shutil
import sys
import time
import warnings
from functools import cache
from pathlib import Path

from sphinx.errors import ExtensionError
from sphinx.search.en import SearchEnglish

# The pages have millions of nodes. With the usual threshold of 700, the garbage collector would
# visit all nodes often.
gc.set_threshold(200_000)
SearchEnglish.stem = cache(SearchEnglish.stem)  # most words occur on many pages

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
html_domain_indices = False
html_math_renderer = "mathml"
html_static_path = ["site.css"]
html_css_files = ["site.css"]

default_role = "py:obj"  # `name` becomes a link if the site describes it
nitpicky = True  # warn about a reference to a name that the site does not describe
nitpick_ignore_regex = [("py:obj", ".*")]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
add_module_names = False
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False  # `mean, std : float` stays one line
napoleon_custom_sections = [("Attributes", "params_style")]

ORDER = (
    "follow_a_hot_spot.py",
    "your_own_csv.py",
    "a_continuous_domain.py",
    "population_based_training.py",
    "a_new_policy.py",
    "what_the_trigger_sees.py",
    "reset_or_forget.py",
    "energy.py",
    "reading_a_decision.py",
)


# Patterns for docstrings. KEPT matches the parts that stay as they are: doctests, literals and
# equations. SYMBOL matches a letter with an index.
KEPT = r"(?P<kept>^ *>>>.*|`+[^`]*`+|^(?P<indent> *)\.\. math::.*(?:\n+(?P=indent) +.*)*)"
SYMBOL = (
    r"(?<![^\W\d])(?<!{)(?P<letter>[^\W\d_]\u0303?)_(?P<index>[^\W_²]{1,3}|\{[^}]*\})(?![^\W²])"
)


def position(filename):
    """Return the sort key of an example: its place in `ORDER`, or the end."""
    return (ORDER.index(filename) if filename in ORDER else len(ORDER), filename)


MAX_CPU_S = 60  # of an example; the longest takes 6 s on an idle machine, and 20 s on a busy one


def limit(gallery_conf, file, when):
    """Treat an example's warnings as errors, and reject an example that takes too long."""
    if file is None:  # the directory of the examples
        return
    if when == "before":
        gc.freeze()  # sphinx_gallery collects garbage after each example
        limit.start, limit.filters = time.process_time(), warnings.filters[:]
        warnings.simplefilter("error")
        return
    warnings.filters[:] = limit.filters
    if (seconds := time.process_time() - limit.start) > MAX_CPU_S:
        raise ExtensionError(f"{file} takes {seconds:.0f} s; allowed: {MAX_CPU_S} s")


sphinx_gallery_conf = {
    "examples_dirs": "docs/examples",
    "gallery_dirs": "build/gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "conf.position",
    "abort_on_example_error": True,
    "run_stale_examples": True,  # the library may have changed
    "reset_modules": ("matplotlib", "conf.limit"),
    "reset_modules_order": "both",
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
    """Append the tables of contents to the first page, and a table of all remaining pages."""
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


def mark_up(app, what, name, obj, options, lines):
    """Write symbols with an index, such as β_t, as equations, and escape the bars of |y - mean|.

    reStructuredText would take the text between bars for a substitution.
    """

    def replace(found):
        if found["kept"]:
            return found["kept"]
        if not found["letter"]:
            return r"\|"
        letter = found["letter"].replace("\u0303", "")
        base = letter if letter == found["letter"] else rf"\tilde{{{letter}}}"
        return rf"\ :math:`{base}_{{{found['index'].strip('{}')}}}`\ "

    lines[:] = re.sub(rf"{KEPT}|{SYMBOL}|\|", replace, "\n".join(lines), flags=re.M).split("\n")


def is_number_of_field(app, what, name, obj, skip, options):
    """Return whether a member is a field of a named tuple, and has no docstring of its own."""
    return str(getattr(obj, "__doc__", "")).startswith("Alias for field number") or None


def signature(app, what, name, obj, options, arguments, returned):
    """Return an empty signature for an interface (a Protocol), which is never instantiated."""
    return ("", None) if getattr(obj, "_is_protocol", False) else (arguments, returned)


def setup(app):
    app.connect("autodoc-process-docstring", mark_up)
    app.connect("autodoc-process-signature", signature)
    app.connect("autodoc-skip-member", is_number_of_field)
    app.connect("source-read", add_navigation)
    app.connect("build-finished", add_index)
