"""Builds the wheel and the source distribution, checks what they hold, and tries the
wheel in a fresh environment.
"""

import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parent.parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
SOURCES = {
    str(file.relative_to(ROOT / "src"))
    for file in (ROOT / "src" / "bochner").rglob("*")
    if file.is_file() and "__pycache__" not in file.parts
}
TRIAL = (
    "import bochner, sys; assert bochner.__file__.startswith(sys.prefix); "
    "bochner.KernelMachineRegressor()"
)


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    return subprocess.run(
        command, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def check_wheel(names: set[str]) -> None:
    """The wheel holds the package with its marker of types, the licence, and nothing
    else.
    """
    information = f"bochner-{VERSION}.dist-info"
    package = {name for name in names if not name.startswith(information)}
    if package != SOURCES or "bochner/py.typed" not in package:
        raise SystemExit(f"The wheel and src/ differ in {sorted(package ^ SOURCES)}.")
    if f"{information}/licenses/LICENSE" not in names:
        raise SystemExit("The wheel has no licence.")


def check_source(names: set[str]) -> None:
    """The source distribution also holds what tests, documentation and benchmarks
    need.
    """
    inside = {str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in names}
    needed = {
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "CITATION.cff",
        "pyproject.toml",
        "tests/conftest.py",
    }
    needed |= {
        "docs/conf.py",
        "benchmarks/__main__.py",
        *(f"src/{name}" for name in SOURCES),
    }
    if needed - inside:
        raise SystemExit(f"The source distribution lacks {sorted(needed - inside)}.")


def main() -> None:
    """Build both twice, to the same bytes, the wheel from the source distribution;
    install it where nothing else is.
    """
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", work)
        wheel, source = (
            work / f"bochner-{VERSION}-py3-none-any.whl",
            work / f"bochner-{VERSION}.tar.gz",
        )
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", work / "again")
        for file in (wheel, source):
            if file.read_bytes() != (work / "again" / file.name).read_bytes():
                raise SystemExit(f"{file.name} is not the same when it is built again.")
        check_wheel(set(ZipFile(wheel).namelist()))
        with tarfile.open(source) as archive:
            check_source(set(archive.getnames()))
        venv.create(work / "venv")
        python = work / "venv" / "bin" / "python"
        run(
            sys.executable,
            "-m",
            "pip",
            "--python",
            python,
            "install",
            "--no-compile",
            wheel,
            cwd=work,
        )
        run(python, "-c", TRIAL, cwd=work)
        told = run(python.parent / "bochner", "--version", cwd=work).strip()
        if told != f"bochner {VERSION}":
            raise SystemExit(
                f"The command of the wheel says {told!r}, and pyproject.toml "
                f"{VERSION!r}."
            )


if __name__ == "__main__":
    main()
