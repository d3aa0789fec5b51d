"""Equations as MathML, which browsers render without a script and without a font from elsewhere."""

from docutils import nodes
from latex2mathml.converter import convert


def add_inline(translator, node):
    """Write an equation in a line of text."""
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def add_block(translator, node):
    """Write an equation on a line of its own."""
    equation = convert(node.astext(), display="block")
    translator.body.append(f'<div class="math">{equation}</div>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (add_inline, None), (add_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
