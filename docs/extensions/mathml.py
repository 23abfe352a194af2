"""Formulas as MathML, which browsers show by themselves: no script and no font comes
from the network.
"""

from docutils.utils.math.latex2mathml import tex2mathml


def inline(translator, node):
    """A formula within a line."""
    translator.body.append(tex2mathml(node.astext(), as_block=False))


def block(translator, node):
    """A formula on lines of its own, at whose place others may link."""
    identifier = f' id="{node["ids"][0]}"' if node["ids"] else ""
    translator.body.append(
        f'<div class="math"{identifier}>'
        f"{tex2mathml(node.astext(), as_block=True)}</div>"
    )


def visit_inline(translator, node):
    """Write a formula and leave out what lies below it."""
    from docutils.nodes import SkipNode

    inline(translator, node)
    raise SkipNode


def visit_block(translator, node):
    """Write a displayed formula and leave out what lies below it."""
    from docutils.nodes import SkipNode

    block(translator, node)
    raise SkipNode


def setup(app):
    """Offer the renderer under the name mathml."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
