"""The version stands in several files, and is the same in all."""

import re
import tomllib
from pathlib import Path

import bochner

ROOT = Path(__file__).parent.parent


def test_version_is_the_same_everywhere():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert bochner.__version__ == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"version = {{{version}}}" in (ROOT / "docs/project/citing.md").read_text()


def test_changelog_begins_with_what_is_not_released_and_this_version():
    released = re.findall(
        r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$",
        (ROOT / "CHANGELOG.md").read_text(),
        re.MULTILINE,
    )
    assert released[0] == ("Unreleased", "")
    assert released[1][0] == bochner.__version__
    assert all(date for _, date in released[1:])
    assert [date for _, date in released[1:]] == sorted(
        (date for _, date in released[1:]), reverse=True
    )


def test_supported_versions_are_the_lower_bounds():
    """The table of the documentation is that of `pyproject.toml`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bounds = dict(requirement.split(">=") for requirement in project["dependencies"])
    table = (ROOT / "docs/project/support.md").read_text()
    for name in ("NumPy", "SciPy", "scikit-learn", "Numba", "PyArrow"):
        assert f"| {name} | {bounds[name.lower()]} |" in table


def test_every_dependency_has_its_bound_and_its_licence_in_the_documentation():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    rows = re.findall(
        r"^\| (\w[\w-]*) \| ([\d.]+) \| ([^|]+) \| ([^|]+) \|",
        (ROOT / "docs/project/dependencies.md").read_text(),
        re.M,
    )
    assert {name.lower(): bound for name, bound, *_ in rows} == dict(
        one.split(">=") for one in project["dependencies"]
    )
    assert all(purpose.strip() and licence.strip() for *_, purpose, licence in rows)
