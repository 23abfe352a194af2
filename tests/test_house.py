"""The rules of the house: layers, sizes, names, light imports, style, documentation."""

import ast
import doctest
import graphlib
import importlib
import inspect
import io
import os
import pkgutil
import re
import runpy
import shutil
import subprocess
import sys
import textwrap
import tokenize
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import bochner
from bochner.estimators.interpretation import Interpretable
from bochner.estimators.machine import KernelMachine

PACKAGE = Path(bochner.__file__).parent
ROOT = Path(__file__).parents[1]

# Level of each part; a part imports from lower levels only, so that parts of one level
# never import one another.
LAYERS = [
    {"arrays", "blocks", "markup", "notices", "whole_files"},
    {"settings"},
    {"devices"},
    {"engines", "loops", "scores"},
    {"kernels", "data"},
    {"sources"},
    {"features"},
    {"design", "theory"},
    {"solvers"},
    {"selection"},
    {"inputs"},
    {"planning"},
    {"explanations"},
    {"estimators"},
    {"unsupervised"},
    {"semisupervised"},
    {"persistence", "display"},
    {"report"},
    {"cli"},
]
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}
# Methods that show what they are of, and by which part
UPWARD = {"plot": "display", "report_html": "report"}
# The lists of public names, and what starts the command
FREE = {"__init__", "__main__"}


def modules():
    return sorted(PACKAGE.rglob("*.py"))


@cache
def tree_of(path):
    """Syntax of a file, which nobody changes."""
    return ast.parse(path.read_text())


def part_of(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


class Imports(ast.NodeVisitor):
    """Names of bochner that a file imports, with the line and the function around;
    not those for the type checker.
    """

    def __init__(self, path):
        self.path, self.functions, self.found = path, [], []
        self.visit(tree_of(path))

    def visit_If(self, node):
        for child in (
            node.orelse
            if "TYPE_CHECKING" in ast.unparse(node.test)
            else ast.iter_child_nodes(node)
        ):
            self.visit(child)

    def visit_FunctionDef(self, node):
        self.functions.append(node.name)
        self.generic_visit(node)
        self.functions.pop()

    def visit_Import(self, node):
        self.add(node, [alias.name for alias in node.names])

    def visit_ImportFrom(self, node):
        assert node.level == 0, f"{self.path}:{node.lineno} imports relatively"
        self.add(node, [f"{node.module}.{alias.name}" for alias in node.names])

    def add(self, node, names):
        own = (name for name in names if name.partition(".")[0] == "bochner")
        self.found += [
            (name, node.lineno, self.functions[-1] if self.functions else None)
            for name in own
        ]


def test_every_part_has_a_level():
    parts = {part_of(path) for path in modules()} - FREE
    assert parts <= set(LEVEL), (
        f"say in LAYERS where these belong: {parts - set(LEVEL)}"
    )


@pytest.mark.slow
def test_imports_go_downward():
    """But a method `plot` of any part may import the displays: what can be drawn
    draws itself; and see `UPWARD`.
    """
    upward = []
    for path in modules():
        own = part_of(path)
        for name, line, function in Imports(path).found if own not in FREE else ():
            part = name.split(".")[1]
            if part in LEVEL:
                below = (
                    part == own
                    or LEVEL[part] < LEVEL[own]
                    or UPWARD.get(function) == part
                )
            else:
                # A name of the top of the package (the version, a public class): for
                # the top layer alone.
                below = own == "cli" or part == "__version__"
            upward += [] if below else [f"{path}:{line}: {own} imports {name}"]
    assert not upward, "\n".join(upward)


@cache
def import_graph():
    """Modules that each module imports, at the top or in a function, but for the
    methods of `UPWARD`.
    """
    paths = {
        ".".join(("bochner", *path.relative_to(PACKAGE).with_suffix("").parts)): path
        for path in modules()
    }
    paths = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    graph = {}
    for module, path in paths.items():
        names = [
            name for name, _, function in Imports(path).found if function not in UPWARD
        ]
        graph[module] = {
            name if name in paths else name.rpartition(".")[0] for name in names
        }
    return graph


@pytest.mark.slow
def test_imports_have_no_circle():
    """Not even by way of a package's list of public names, or of an import within a
    function.
    """
    graph = import_graph()
    assert all(imported <= set(graph) for imported in graph.values())
    try:
        tuple(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_layers_are_those_of_the_page_of_design(checkout):
    """From the top down, as in its table."""
    page = (checkout / "docs" / "project" / "design.md").read_text()
    rows = re.findall(r"^\| (`[\w`, ]+`) \|(.*)", page, re.MULTILINE)
    packages = [set(re.findall(r"`(\w+)`", names)) for names, _ in rows]
    assert packages == LAYERS[::-1]
    for (_, text), own in zip(rows, packages, strict=True):
        for file in re.findall(r"`(\w+\.py)`", text):
            assert any((PACKAGE / name / file).exists() for name in own), (
                f"{file} is in none of {own}"
            )
    for file in re.findall(
        r"`(\w+/\w+\.py)`", page.partition("## Where would I add")[2]
    ):
        assert (PACKAGE / file).exists() or (checkout / file).exists(), file


NO_CODE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


def code_size(path):
    """Numbers of tokens of a file, and of lines that hold them, without comments and
    docstrings.
    """
    text, documented = path.read_text(), set()
    for node in ast.walk(tree_of(path)):
        if (
            isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
            and ast.get_docstring(node) is not None
        ):
            documented |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    tokens = [
        token
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in NO_CODE and token.start[0] not in documented
    ]
    return len(tokens), len(
        {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    )


MOST_OWN_NAMES, MOST_TOKENS_A_LINE = 25, 9.0
# Files that import more names of the library, and how many: none may grow, and each
# leaves the list as it shrinks.
CROWDED = {
    "data/table.py": 44,
    "design/design.py": 32,
    "estimators/class_losses.py": 32,
    "estimators/classifier.py": 42,
    "estimators/interpretation.py": 32,
    "estimators/posterior_fit.py": 27,
    "estimators/regressor.py": 44,
    "planning/plan.py": 28,
    "unsupervised/pca.py": 29,
}


def own_names(path):
    """Names of the library that a file imports."""
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and (
            node.level or (node.module or "").partition(".")[0] == "bochner"
        ):
            found.update(alias.asname or alias.name for alias in node.names)
    return found


@pytest.mark.slow
def test_files_import_few_names_of_the_library():
    """At most 25; `machine.py`, where all of a fit comes together, may import more."""
    counts = {
        path.relative_to(PACKAGE).as_posix(): len(own_names(path)) for path in modules()
    }
    crowded = {
        name: n
        for name, n in counts.items()
        if n > MOST_OWN_NAMES and name != "estimators/machine.py"
    }
    assert crowded.keys() <= CROWDED.keys()
    assert all(n <= CROWDED[name] for name, n in crowded.items())
    assert CROWDED.keys() <= crowded.keys(), "what is mended leaves the list"


@pytest.mark.slow
def test_lines_are_not_packed():
    """At most nine tokens a line on average, which a page of 88 columns holds
    without cramming.
    """
    sizes = np.array([code_size(path) for path in modules()])
    assert sizes[:, 0].sum() <= MOST_TOKENS_A_LINE * sizes[:, 1].sum()


# Attributes that are set from outside, by file; each is to go, but for the two of the
# standard library.
SETTERS = {
    "devices/device.py": {
        "switch.name"
    },  # the switch of TF32, for the time of one product
    "cli/failures.py": {
        "warnings.showwarning"
    },  # the hook that the standard library has for this
    "engines/blas.py": {"self.own.limits"},  # local to a thread
    "features/leaves.py": {
        "inner.encoded_"
    },  # the mark of maps, metrics and kernels that belong to an encoder
    "kernels/base.py": {"copy.encoded_"},  # the same mark, which copies keep
    "loops/compile.py": {
        "loop._cache"
    },  # of Numba, which takes no other kind of cache in any other way
}
NEW_INSTANCES = (
    "cls(",
    "cls.",
    "clone(self)",
    "copy(self)",
    "copy.copy(self)",
    "deepcopy(self)",
    "super().",
)


class Setters(ast.NodeVisitor):
    """Attributes that the code of a file sets or deletes of what is neither `self` nor
    made in the same function.

    A function may finish a new instance of its own class, made by `cls` or as a copy of
    `self`, what `super()` returned, and a function that it defines; threads have
    private variables of a module.
    """

    def __init__(self, path):
        self.own, self.found = [set()], set()
        self.visit(tree_of(path))

    def visit_FunctionDef(self, node):
        made = [part for part in ast.walk(node) if isinstance(part, ast.Assign)]
        made = [
            part for part in made if ast.unparse(part.value).startswith(NEW_INSTANCES)
        ]
        inner = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
        self.own.append(
            inner | {ast.unparse(target) for part in made for target in part.targets}
        )
        self.generic_visit(node)
        self.own.pop()

    def visit_Attribute(self, node):
        if isinstance(node.ctx, ast.Store | ast.Del):
            self.add(node.value, node.attr)
        self.generic_visit(node)

    def visit_Call(self, node):
        function, inner = (
            ast.unparse(node.func),
            node.func.value if isinstance(node.func, ast.Attribute) else None,
        )
        if function in (
            "setattr",
            "delattr",
            "object.__setattr__",
            "object.__delattr__",
        ):
            self.add(node.args[0], ast.unparse(node.args[1]))
        elif isinstance(inner, ast.Attribute) and inner.attr == "__dict__":
            self.add(inner.value, "__dict__")
        elif (
            inner is not None
            and ast.unparse(inner).startswith("vars(")
            and function.endswith((".pop", ".update"))
        ):
            self.add(inner.args[0], "__dict__")
        self.generic_visit(node)

    def add(self, value, name):
        base = ast.unparse(value)
        root = base.partition(".")[0]
        if (
            base not in ("self", "cls")
            and root not in self.own[-1]
            and not root.startswith("_")
        ):
            self.found.add(f"{base}.{name}")


@pytest.mark.slow
def test_attributes_are_set_by_their_own_class():
    found = {str(path.relative_to(PACKAGE)): Setters(path).found for path in modules()}
    found = {path: names for path, names in found.items() if names}
    assert found == SETTERS, (
        "set them in a method of their class, or make a new instance; what is mended "
        "leaves the list"
    )


def run(code, **options):
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, **options
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_is_light():
    heavy = ["numba", "torch", "dask", "matplotlib", "typer", "rich"]
    heavy += [
        "sklearn.cluster",
        "sklearn.decomposition",
        "sklearn.metrics",
        "sklearn.neighbors",
    ]
    use = "import sys, bochner; [getattr(bochner, name) for name in bochner.__all__]"
    loaded = run(f"{use}; print([name for name in {heavy} if name in sys.modules])")
    assert loaded.strip() == "[]"


CACHE = """
    import os
    import numpy as np
    from bochner import FourierFeatures
    from bochner.loops import trig

    X = np.ones((3, 2))
    features = FourierFeatures(n_components=6, random_state=0).fit(X)
    Z = features.transform(X)
    angles = X @ features.frequencies_
    assert np.allclose(Z, np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(3))
    print(type(trig.cos_sin._cache).__name__)
"""


@pytest.mark.parametrize("setting", ["NUMBA_CACHE_DIR", "installation and home"])
def test_computes_where_no_cache_can_be_written(tmp_path, setting):
    """A file in the place of a folder stops even the superuser."""
    file = tmp_path / "file"
    file.touch()
    environment = os.environ | {
        "HOME": str(file),
        "XDG_CACHE_HOME": str(file),
        "LOCALAPPDATA": str(file),
    }
    if setting == "NUMBA_CACHE_DIR":
        run(CACHE, env=environment | {"NUMBA_CACHE_DIR": str(file / "cache")})
        return
    shutil.copytree(
        PACKAGE,
        tmp_path / "site" / "bochner",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    (tmp_path / "site" / "bochner" / "loops" / "__pycache__").touch()
    environment |= {
        "PYTHONPATH": str(tmp_path / "site"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    environment.pop("NUMBA_CACHE_DIR", None)
    assert run(CACHE, env=environment).strip() == "NullCache"


@pytest.mark.parametrize(
    "arguments",
    [["check", "--output-format=concise", "."], ["format", "--check", "."]],
    ids=" ".join,
)
def test_ruff(checkout, arguments):
    pytest.importorskip("ruff")
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *arguments],
        cwd=checkout,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def public():
    """Public classes and functions: those in a list of public names, by where they
    can be imported from.
    """
    found = {}
    for module in [
        bochner,
        *(
            importlib.import_module(f"bochner.{name}")
            for name in (
                "kernels",
                "features",
                "theory",
                "selection",
                "explanations",
                "display",
                "persistence",
                "scores",
            )
        ),
    ]:
        for name in module.__all__:
            found[id(getattr(module, name))] = getattr(module, name)
    return sorted(found.values(), key=lambda item: item.__name__)


def abstract(item):
    """Nodes of the algebra and what they derive from: written by operators, or never
    made at all.
    """
    return item.__name__ in (
        "Kernel",
        "Stationary",
        "Sum",
        "Product",
        "Scaled",
    ) or issubclass(item, Exception)


def is_made(item):
    """Whether users make it, so that an example is due."""
    return not (inspect.isclass(item) and abstract(item))


def test_public_names_and_methods_are_documented():
    for item in public():
        text = inspect.getdoc(item)
        assert text, f"{item.__name__} has no docstring"
        assert not is_made(item) or "Examples\n--------" in text, (
            f"{item.__name__} has no Examples"
        )
        for name, method in vars(item).items() if inspect.isclass(item) else ():
            if not name.startswith("_") and (
                inspect.isfunction(method) or isinstance(method, property)
            ):
                assert inspect.getdoc(getattr(item, name)), (
                    f"{item.__name__}.{name} has no docstring"
                )


@pytest.mark.slow
def test_examples_of_public_names_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    finder, failed = doctest.DocTestFinder(recurse=True), []
    for item in public():
        runner = doctest.DocTestRunner(verbose=False)
        tests = [test for test in finder.find(item, item.__name__) if test.examples]
        assert tests or not is_made(item), f"{item.__name__} has no example"
        for test in tests:
            runner.run(test)
        failed += [item.__name__] * bool(runner.summarize(verbose=False).failed)
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")
    assert not failed


@pytest.mark.slow
def test_examples_of_methods_that_estimators_share():
    found = [
        test
        for kind in (KernelMachine, Interpretable)
        for test in doctest.DocTestFinder().find(kind, kind.__name__)
    ]
    tests = [test for test in found if test.examples]
    runner = doctest.DocTestRunner(verbose=False)
    for test in tests:
        runner.run(test)
    assert len(tests) >= 5
    assert runner.summarize(verbose=False).failed == 0


def test_public_names_exist_and_are_sorted():
    for module in (
        bochner,
        importlib.import_module("bochner.kernels"),
        importlib.import_module("bochner.features"),
    ):
        assert list(module.__all__) == sorted(module.__all__)
        assert all(hasattr(module, name) for name in module.__all__)


def test_every_module_says_what_it_is():
    """In a first paragraph of some words, on two lines at most."""
    for path in modules():
        first = (ast.get_docstring(tree_of(path)) or "").partition("\n\n")[0]
        said = len(first.split()) >= 4 and first.endswith((".", ":"))
        said &= first.count("\n") < 2
        assert said or not path.read_text().strip(), f"{path}: {first!r}"


# Functions with more parameters than 7, and why.
def test_every_module_can_be_imported():
    names = [
        name
        for _, name, _ in pkgutil.walk_packages([str(PACKAGE)], "bochner.")
        if not name.endswith("__main__")
    ]
    run("\n".join(f"import {name}" for name in names))


# Phrases that are clipped or no terms of the field, in prose for users and in
# docstrings.
BANNED = [
    r"the last where",
    r"where there are such",
    r"(tells?|told) (\w+ ){0,4}apart",
    r"judg(e|es|ed|ing)\b",  # of validation
    r"(?<!power )\blaws?\b(?! of Succession)",  # of a distribution
    r"for parameters that are none",
]
RECORDS = {"decisions.md", "benchmarks"}  # of what was measured, as it was written then


def prose_of(path):
    """Docstrings of a module, or the text of a page without its code."""
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        return re.sub(
            r"^```.*?^```|`[^`\n]+`", "", text, flags=re.DOTALL | re.MULTILINE
        )
    documented = ast.Module | ast.ClassDef | ast.FunctionDef
    texts = [
        ast.get_docstring(node) or ""
        for node in ast.walk(ast.parse(text))
        if isinstance(node, documented)
    ]
    return re.sub(r">>> .*|`[^`\n]+`", "", "\n".join(texts))


@pytest.mark.slow
def test_prose_has_no_banned_phrases(checkout):
    docs = [
        page
        for page in (checkout / "docs").rglob("*.md")
        if not RECORDS & {page.name, page.parent.name} and page.name != "scores.md"
    ]
    found = []
    for path in [
        *modules(),
        checkout / "README.md",
        *docs,
        *(checkout / "examples").rglob("*.py"),
    ]:
        prose = " ".join(prose_of(path).split())
        found += [
            f"{path}: ...{prose[max(hit.start() - 30, 0) : hit.end() + 30]}..."
            for phrase in BANNED
            for hit in re.finditer(phrase, prose, re.IGNORECASE)
        ]
    assert not found, "\n".join(found)


def test_table_of_kernels_is_generated(checkout):
    script = "docs/extensions/kernel_table.py"
    table = runpy.run_path(str(checkout / script))["table"]
    assert (
        f"<!-- python {script} -->\n{table()}\n<!-- end -->"
        in (checkout / "docs/kernels.md").read_text()
    )
