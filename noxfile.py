"""Sessions that anyone can run: ``nox -s lint``, ``types``, ``tests-full`` and
others, which ``nox --list`` names.
"""

import re
import tomllib
from pathlib import Path

import nox

ROOT = Path(__file__).parent
OLDEST, NEWEST = "3.11", "3.14"
PEERS_OF_OLDEST = ("pytest<9", "polars<1.40")  # the newest that scikit-learn 1.7 knows
AS_USERS = (
    "--strict",
    "--allow-untyped-defs",
    "--allow-untyped-calls",
    "--ignore-missing-imports",
)
TABLES = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, BUILD = TABLES["project"], TABLES["build-system"]["requires"]
BOUND = re.compile(r"([\w.-]+)(\[[^]]*\])?\s*>=\s*([\w.]+)")

nox.options.sessions = ["lint", "types", "tests-newest", "docs"]
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_missing_interpreters = False


def lowest(requirements):
    """Pins to the lower bound of each requirement that has one."""
    found = [BOUND.match(requirement) for requirement in requirements]
    return [f"{bound[1]}=={bound[3]}" for bound in found if bound]


def run_both_tiers(session):
    """Run the fast tests, none of which may take long, and then the slow ones."""
    session.run("pytest", "--check-seconds", *session.posargs)
    session.run("pytest", "-m", "slow", *session.posargs)


@nox.session(name="tests-full", python=OLDEST)
def tests_full(session):
    """Run all tests."""
    session.install(".[test]")
    run_both_tiers(session)


@nox.session(name="tests-oldest", python=OLDEST)
def tests_oldest(session):
    """Run the tests on the oldest supported Python with the oldest supported library
    versions.
    """
    session.install(".[test]", *PEERS_OF_OLDEST, *lowest(PROJECT["dependencies"]))
    run_both_tiers(session)


@nox.session(name="tests-newest", python=[OLDEST, "3.12", "3.13", NEWEST])
def tests_newest(session):
    """Run the tests with the newest library versions that pip finds."""
    session.install("--upgrade", ".[test]")
    run_both_tiers(session)


@nox.session(python=OLDEST)
def docs(session):
    """Build the documentation with warnings as errors."""
    session.install(".[docs]")
    session.run(
        "python",
        "-m",
        "sphinx",
        "-W",
        "-b",
        "html",
        "docs",
        "docs/_build/html",
        *session.posargs,
    )


@nox.session(python=OLDEST)
def lint(session):
    """Check style, types and spelling."""
    session.install(".[lint]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("codespell")


@nox.session(python=OLDEST)
def types(session):
    """Check the examples as code of users, by mypy and pyright, against the
    installed package.
    """
    session.install(".[lint]", "pandas")
    examples = [
        str(file.relative_to(ROOT))
        for file in sorted((ROOT / "examples").rglob("*.py"))
    ]
    session.run(
        "mypy", *AS_USERS, "--follow-imports=silent", "--scripts-are-modules", *examples
    )
    session.run("pyright", "--pythonpath", f"{session.virtualenv.bin}/python")


@nox.session(python=OLDEST)
def dist(session):
    """Build wheel and source distribution, check what they hold, and try the wheel."""
    session.install("build", *BUILD)
    session.run("python", ".ci/distributions.py")
