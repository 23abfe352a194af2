"""Sessions that anyone can run: ``nox -s lint``, ``tests-oldest``, ``tests-newest``, ``docs``."""

import re
import tomllib
from pathlib import Path

import nox

ROOT = Path(__file__).parent
OLDEST, NEWEST = "3.11", "3.14"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BOUND = re.compile(r"([\w.-]+)(\[[^]]*\])?\s*>=\s*([\w.]+)")

nox.options.sessions = ["lint", "tests-newest", "docs"]
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_missing_interpreters = False


def lowest(requirements):
    """Pins to the lower bound of each requirement that has one."""
    found = [BOUND.match(requirement) for requirement in requirements]
    return [f"{bound[1]}=={bound[3]}" for bound in found if bound]


@nox.session(name="tests-oldest", python=OLDEST)
def tests_oldest(session):
    """Run the tests on the oldest supported Python with the oldest supported library versions."""
    session.install(".[test]", *lowest(PROJECT["dependencies"]))
    session.run("pytest", *session.posargs)


@nox.session(name="tests-newest", python=[OLDEST, "3.12", "3.13", NEWEST])
def tests_newest(session):
    """Run the tests with the newest library versions that pip finds."""
    session.install("--upgrade", ".[test]")
    session.run("pytest", *session.posargs)


@nox.session(python=OLDEST)
def docs(session):
    """Build the documentation with warnings as errors."""
    session.install(".[docs]")
    session.run("python", "-m", "sphinx", "-W", "-b", "html", "docs", "docs/_build/html", *session.posargs)


@nox.session(python=OLDEST)
def lint(session):
    """Check style, types and spelling."""
    session.install(".[lint]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("codespell")
