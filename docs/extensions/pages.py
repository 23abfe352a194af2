"""Runs the Python blocks of pages, in order and in one namespace, and so draws the
pictures that the pages show.

What a block prints stands below it on the page. What it saves as ``NAME.svg`` goes to
``docs/generated/pictures``, where the page finds it. Both are kept until the page
changes; remove that folder to run everything anew. Warnings of the code are errors, and
so is a picture that a page shows and does not draw.
"""

import hashlib
import io
import json
import os
import re
import shutil
import warnings
from contextlib import chdir, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

DOCS = Path(__file__).parents[1]
PICTURES = DOCS / "generated" / "pictures"
SHOWN = re.compile(r"generated/pictures/([\w-]+\.(?:svg|png))")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page):
    """Python code of each block of a page, moved down to its own lines, as errors
    tell them.
    """
    text = Path(page).read_text("utf-8")
    return [
        "\n" * text.count("\n", 0, found.start(1)) + found[1]
        for found in BLOCK.finditer(text)
    ]


def pages():
    """Pages whose blocks run by themselves."""
    single = ("start", "large", "theory", "tuning", "uncertainty")
    parts = (DOCS / part for part in ("guide", "howto", "unsupervised"))
    return [DOCS / f"{name}.md" for name in single] + sorted(
        page for part in parts for page in part.glob("*.md")
    )


def run(page, folder):
    """Run all blocks of a page in a folder, close what they drew, and return what
    each of them printed.
    """
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    names, printed = {"__name__": "__page__"}, []
    style = {
        "savefig.bbox": "tight",
        "svg.hashsalt": "bochner",
        "svg.fonttype": "path",
        "figure.max_open_warning": 0,
    }
    with (
        chdir(folder),
        mpl.rc_context({**style, "backend": "agg"}),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        try:
            for code in blocks(page):
                with redirect_stdout(io.StringIO()) as out:
                    exec(compile(code, str(page), "exec"), names)  # noqa: S102 - a page of this repository
                printed.append(out.getvalue())
        finally:
            plt.close("all")
    return printed


def with_output(text, printed):
    """A page with what its blocks print below each of them."""
    outputs = iter(printed)

    def shown(found):
        lines = next(outputs, "").rstrip().splitlines()
        body = "\n".join(line.rstrip() for line in lines)
        return found[0] + (
            f"\n\n```{{code-block}} none\n:class: output\n\n{body}\n```"
            if lines
            else ""
        )

    return BLOCK.sub(shown, text)


def show(app, docname, source):
    """Put what blocks print on the pages that run."""
    page = DOCS / f"{docname}.md"
    if page in pages():
        source[0] = with_output(
            source[0], json.loads(_printed(page).read_text("utf-8"))
        )


def keep(page, folder, printed):
    """Move the pictures that a page drew to where the site finds them, with its
    output and a mark of what it held.
    """
    PICTURES.mkdir(parents=True, exist_ok=True)
    _printed(page).write_text(json.dumps(printed), "utf-8")
    for picture in Path(folder).iterdir():
        if picture.suffix in (".svg", ".png"):
            shutil.move(picture, PICTURES / picture.name)
    _mark(page).write_text(_content(page))


def draw(app):
    """Run all pages that have changed since they were run."""
    os.environ.setdefault("MPLBACKEND", "agg")
    for page in pages():
        known = _mark(page).exists() and _printed(page).exists()
        if not known or _mark(page).read_text() != _content(page):
            with TemporaryDirectory() as folder:
                printed = run(page, folder)
                missing = set(SHOWN.findall(page.read_text("utf-8"))) - {
                    path.name for path in Path(folder).iterdir()
                }
                if missing:
                    raise ValueError(
                        f"{page} shows {missing}, which its code does not draw."
                    )
                keep(page, folder, printed)


def _mark(page):
    return PICTURES / f"{page.parent.name}-{page.stem}.sha256"


def _printed(page):
    return _mark(page).with_suffix(".json")


def _content(page):
    return hashlib.sha256(page.read_bytes()).hexdigest()


def setup(app):
    """Draw before pages are read, and show what they printed."""
    app.connect("builder-inited", draw)
    app.connect("source-read", show)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
