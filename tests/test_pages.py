"""Pages of the documentation: the README runs, links lead somewhere, and the
reference misses no public name.
"""

import importlib
import re
import runpy
from pathlib import Path

import pytest

import bochner

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
pytestmark = pytest.mark.skipif(
    not (DOCS / "conf.py").exists(), reason="no documentation beside the tests"
)
NEW = [
    *(
        DOCS / f"{name}.md"
        for name in ("start", "large", "theory", "tuning", "uncertainty")
    ),
    *sorted(page for part in ("guide", "howto") for page in (DOCS / part).glob("*.md")),
]
MODULES = (
    "kernels",
    "display",
    "theory",
    "scores",
    "features",
    "selection",
    "persistence",
)
IMAGE = re.compile(r"!\[([^]]*)\]\(([^)]+)\)|```\{image\} (\S+)")
TABLE = re.compile(
    r"currentmodule:: ([\w.]+)\n.*?:toctree:[^\n]*\n\n(.*?)```", re.DOTALL
)
LINK = re.compile(r"(?<!!)\[[^]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def extension(name):
    """Names of a module of the documentation's own, without a look at where Sphinx
    would find it.
    """
    return runpy.run_path(str(DOCS / "extensions" / f"{name}.py"))


def page_name(page):
    return str(page.relative_to(DOCS))


@pytest.fixture
def agg():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")


@pytest.mark.parametrize("page", NEW, ids=page_name)
def test_pages_draw_what_they_show(page):
    """Code of pages runs where the site is built; each picture that a page shows is
    one that it saves.
    """
    text = page.read_text("utf-8")
    shown = {Path(found[2]).name for found in IMAGE.finditer(text) if found[2]}
    code = "".join(extension("pages")["blocks"](page))
    assert all(re.search(rf"""["']{name}["']""", code) for name in shown)


@pytest.mark.slow
def test_code_of_the_readme_runs(agg, tmp_path):
    extension("pages")["run"](ROOT / "README.md", tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "model.safetensors",
        "patients.csv",
        "new.csv",
    }


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=page_name)
def test_links_lead_to_files(page):
    """But for what the build writes, and every picture says what it shows."""
    text = re.sub(
        r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    for target in LINK.findall(text):
        place = (page.parent / target).resolve()
        written = (
            place.is_relative_to(DOCS / "generated")
            or "://" in target
            or target.startswith("mailto:")
        )
        assert written or place.exists() or place.with_suffix(".md").exists(), (
            f"{page} links to {target}"
        )


def test_lines_of_code_fit_a_page():
    """Code of pages and examples has at most 88 columns; comments of examples are
    text of the gallery.
    """
    long = []
    for path in [
        ROOT / "README.md",
        *DOCS.rglob("*.md"),
        *(ROOT / "examples").rglob("*.py"),
    ]:
        text = path.read_text("utf-8")
        if path.suffix == ".md":
            code = "".join(
                found[1]
                for found in re.finditer(
                    r"^```(?:python|bash)\n(.*?)^```", text, re.DOTALL | re.M
                )
            )
        else:
            code = re.sub(
                r'^""".*?"""|^#.*?$', "", text, flags=re.DOTALL | re.MULTILINE
            )
        long += [f"{path}: {line}" for line in code.splitlines() if len(line) > 88]
    assert not long, "\n".join(long)


def test_what_blocks_print_stands_below_them(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\n```python\nx = 2\n```\n\nThen:\n\n```python\nprint(x)\nprint(x + "
        "1)\n```\n\nEnd.\n"
    )
    tools = extension("pages")
    printed = tools["run"](page, tmp_path)
    assert printed == ["", "2\n3\n"]
    shown = tools["with_output"](page.read_text(), printed)
    assert (
        "print(x + 1)\n```\n\n```{code-block} none\n:class: output\n\n2\n3\n```\n\nEnd."
        in shown
    )
    assert shown.count("code-block") == 1


@pytest.mark.parametrize("page", NEW, ids=page_name)
def test_pictures_have_a_description(page):
    assert all(
        len(found[1]) > 20
        for found in IMAGE.finditer(page.read_text("utf-8"))
        if found[2]
    )


def test_examples_and_chapters_lead_to_each_other():
    for example in (ROOT / "examples").rglob("plot_*.py"):
        own = f"/gallery/{example.parent.name}/{example.stem}"
        chapters = re.findall(r":doc:`/([\w/]+)`", example.read_text("utf-8"))
        assert chapters, f"{example} leads to no chapter"
        for chapter in chapters:
            assert f"{{doc}}`{own}`" in (DOCS / f"{chapter}.md").read_text("utf-8"), (
                f"{chapter} does not lead to {own}"
            )


def reference():
    """Names in the tables of the reference, with the modules in which it looks for
    them.
    """
    found = set()
    for page in (DOCS / "api").glob("*.md"):
        for module, names in TABLE.findall(page.read_text("utf-8")):
            found |= {(module, name) for name in names.split()}
    return found


def test_reference_has_every_public_name():
    listed = reference()
    assert {("bochner", name) for name in bochner.__all__} <= listed
    for module in MODULES:
        public = importlib.import_module(f"bochner.{module}").__all__
        missing = {
            name
            for name in public
            if name not in bochner.__all__ and (f"bochner.{module}", name) not in listed
        }
        assert not missing, f"docs/api misses {sorted(missing)} of bochner.{module}"


def test_reference_has_no_other_names():
    for module, name in reference():
        assert hasattr(importlib.import_module(module), name), f"{module} has no {name}"


@pytest.mark.parametrize(
    ("page", "found"),
    [
        (
            '<script src="https://cdn.example/x.js"></script>',
            ["https://cdn.example/x.js"],
        ),
        (
            '<link rel="stylesheet" href="//fonts.example/x.css">',
            ["//fonts.example/x.css"],
        ),
        ('<img src="http://example/x.png">', ["http://example/x.png"]),
        (
            "<style>@font-face {src: url('https://example/x.woff')}</style>",
            ["https://example/x.woff"],
        ),
        (
            '<a href="https://example">a link</a> <script src="_static/x.js"></script>',
            [],
        ),
        ('<link rel="canonical" href="https://example/page.html">', []),
    ],
)
def test_loads_from_the_network_are_found(page, found, tmp_path):
    (tmp_path / "page.html").write_text(page)
    assert [
        address for _, address in extension("offline")["remote_loads"](tmp_path)
    ] == found


def test_docstrings_become_plain_text():
    """Bars and trailing underscores are no markup, formulas are set apart, and
    examples stay as they are.
    """
    lines = [
        "Law of |x|.",
        "",
        "    k = |x| n_",
        "",
        "Rows of `n_`.",
        "",
        "Returns",
        "-------",
        "array of shape (n_,)",
    ]
    expected = [
        r"Law of \|x\|.",
        "",
        "::",
        "",
        "    k = |x| n_",
        "",
        *lines[4:8],
        r"array of shape (n\_,)",
    ]
    assert list(extension("reference")["marked"](lines)) == expected
    kept = ["coef_ : array", "alpha_", ">>> a_ | b_", "3"]
    assert list(extension("reference")["marked"](kept)) == kept


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        (
            "T = n m / (n + m) sum_i (v_i'd)^2 / (lam_i + g)",
            r"T = n m / (n + m) \sum_{i} (v_{i}'d)^2 / (\lambda _{i} + g)",
        ),
        ("exp(-D eps^2 / 4) <= a^(-1)", r"\exp (-D \varepsilon ^2 / 4) \le  a^{-1}"),
        ("integral from 0 to 1 - t of f(s) ds", r"\int_{0}^{1 - t} f(s) ds"),
        ("the sum of its parts", None),
    ],
)
def test_formulas_of_docstrings_become_latex(plain, expected):
    assert extension("reference")["latex"](plain) == expected
    if expected:
        from docutils.utils.math.latex2mathml import tex2mathml

        assert "<math" in tex2mathml(expected)


def test_settings_load_no_extension_that_needs_the_network():
    """Formulas are MathML, and inventories of other projects are asked for."""
    settings = (DOCS / "conf.py").read_text()
    assert 'html_math_renderer = "mathml"' in settings
    listed = settings.partition("extensions = [")[2].partition("]")[0]
    assert "intersphinx" not in listed
    assert "mathjax" not in settings
