"""Sections of docs/benchmarks.md, each rewritten by the script that measures it."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
FIGURES = PAGE.parent / "figures"
HEAD = """\
# Benchmarks

Written by the scripts in `benchmarks/`; each section names the command that renews it. `BOCHNER_DATA` names the folder
of the data, `pip install ".[peers]"` gets the libraries compared with.
"""
OURS = ("bochner", "numpy", "scipy", "scikit-learn", "numba")


def machine(packages: Sequence[str] = ()) -> str:
    """Processor, cores, and versions, of further packages where they are installed, in one line."""
    names = re.findall(r"model name\s*:\s*(.+)", _read("/proc/cpuinfo")) or [platform.processor() or "unknown"]
    vectors = "AVX-512" if "avx512f" in _read("/proc/cpuinfo") else "AVX2" if "avx2" in _read("/proc/cpuinfo") else ""
    versions = ", ".join(f"{name} {_version(name)}" for name in (*OURS, *packages) if _version(name))
    return f"{names[0]} {vectors}, {os.cpu_count()} cores; Python {platform.python_version()}, {versions}."


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def pyplot() -> Any:
    """Matplotlib without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def save_figure(figure: Any, name: str, dpi: int) -> None:
    """Save a figure in docs/figures."""
    FIGURES.mkdir(exist_ok=True)
    figure.savefig(FIGURES / name, dpi=dpi)


def write_section(title: str, command: str, body: str, packages: Sequence[str] = ()) -> None:
    """Replace the section of that title, or add it, and print it; versions of `packages` are told beside ours."""
    text = f"## {title}\n\n`{command}`, {date.today()}. {machine(packages)}\n\n{body.strip()}\n"
    print(text)
    page = PAGE.read_text() if PAGE.exists() else HEAD
    parts = re.split(r"(?m)^(?=## )", page)
    kept = [part.rstrip() + "\n" for part in parts]
    at = [i for i, part in enumerate(kept) if part.startswith(f"## {title}\n")]
    if at:
        kept[at[0]] = text
    else:
        kept.append(text)
    PAGE.write_text("\n".join(kept))
