"""Equations as MathML, which browsers render without scripts or external fonts."""

import re

from docutils import nodes
from latex2mathml.converter import convert


def mathml(latex, display="inline"):
    """Return a LaTeX equation as MathML, with spaces around ln and ≤, and with ′ for each prime."""
    latex = re.sub(r"(?<=[\w})]) *\\ln", r" \\, \\ln", latex)
    latex = re.sub(r"\\ln (?![(^])", r"\\ln \\, ", latex)
    return convert(latex.replace("≤", r" \leq ").replace("'", "′"), display=display)


def add_inline(translator, node):
    """Write an equation as MathML inside a line of text."""
    translator.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def add_block(translator, node):
    """Write equations, each on a line of its own; a blank line separates them."""
    equations = [mathml(each, "block") for each in node.astext().strip().split("\n\n")]
    translator.body.append(f'<div class="math">{"".join(equations)}</div>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (add_inline, None), (add_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
