"""Each example of the gallery runs, without warnings, draws something, and has a title and text."""

import ast
import os
import runpy
import warnings

import pytest

EXAMPLES = ["basics", "large", "models", "kernels", "paper", "uncertainty", "unsupervised"]
SLOW_TO_IMPORT = {"plot_dask.py": "dask"}


def scripts(root):
    return sorted((root / "examples").glob("*/plot_*.py"))


def test_there_are_twenty_in_known_folders(checkout):
    found = scripts(checkout)
    assert len(found) >= 20
    assert {path.parent.name for path in found} == set(EXAMPLES)
    for folder in [checkout / "examples", *(checkout / "examples" / name for name in EXAMPLES)]:
        lines = (folder / "GALLERY_HEADER.rst").read_text().splitlines()
        assert len(lines[0]) == len(lines[1])


def test_examples_have_titles_and_use_public_names(checkout):
    import bochner

    public = {"bochner", *(f"bochner.{name}" for name in ("kernels", "display", "theory", "scores", "tuning"))}
    for path in scripts(checkout):
        tree = ast.parse(path.read_text())
        title, line, _, *text = ast.get_docstring(tree, clean=False).strip("\n").splitlines()
        assert set(line) == {"="}, path
        assert len(line) == len(title), path
        assert len([part for part in text if not part]) >= 1, f"{path}: two paragraphs at least"
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("bochner"):
                assert node.module in public, f"{path} imports from {node.module}"
                if node.module == "bochner":
                    assert {alias.name for alias in node.names} <= set(bochner.__all__), path


def pytest_generate_tests(metafunc):
    if "folder" in metafunc.fixturenames:
        metafunc.parametrize("folder", EXAMPLES)


def test_examples_run(folder, checkout, monkeypatch, tmp_path, capsys):
    """Without data of one's own, as where the pages are built; warnings are errors."""
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    monkeypatch.delenv("BOCHNER_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    for path in sorted((checkout / "examples" / folder).glob("plot_*.py")):
        if path.name in SLOW_TO_IMPORT:
            pytest.importorskip(SLOW_TO_IMPORT[path.name])
        shown = []
        monkeypatch.setattr(plt, "show", lambda shown=shown: shown.extend(plt.get_fignums()) or plt.close("all"))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            runpy.run_path(str(path), run_name="__main__")
        assert shown, f"{path} shows no picture"
        assert not plt.get_fignums(), f"{path} leaves a picture open"
    assert os.listdir(tmp_path) == []
