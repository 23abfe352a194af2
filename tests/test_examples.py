"""Examples of the gallery have a title, text and a picture; they run where the
documentation is built.
"""

import ast

EXAMPLES = [
    "basics",
    "large",
    "models",
    "kernels",
    "paper",
    "uncertainty",
    "unsupervised",
]


def scripts(root):
    return sorted((root / "examples").glob("*/plot_*.py"))


def test_there_are_twenty_in_known_folders(checkout):
    found = scripts(checkout)
    assert len(found) >= 20
    assert {path.parent.name for path in found} == set(EXAMPLES)
    for folder in [
        checkout / "examples",
        *(checkout / "examples" / name for name in EXAMPLES),
    ]:
        lines = (folder / "GALLERY_HEADER.rst").read_text().splitlines()
        assert len(lines[0]) == len(lines[1])


def test_examples_have_titles_and_use_public_names(checkout):
    import bochner

    public = {
        "bochner",
        *(f"bochner.{name}" for name in ("kernels", "display", "theory", "scores")),
    }
    for path in scripts(checkout):
        tree = ast.parse(path.read_text())
        title, line, _, *text = (
            ast.get_docstring(tree, clean=False).strip("\n").splitlines()
        )
        assert set(line) == {"="}, path
        assert len(line) == len(title), path
        assert len([part for part in text if not part]) >= 1, (
            f"{path}: two paragraphs at least"
        )
        assert "plt.show()" in path.read_text(), f"{path} shows no picture"
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("bochner"):
                assert node.module in public, f"{path} imports from {node.module}"
                if node.module == "bochner":
                    assert {alias.name for alias in node.names} <= set(
                        bochner.__all__
                    ), path
