"""The command `bochner`: fit, predict, evaluate and inspect from a shell."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command; the process ends with its exit code."""
    import io
    import sys

    from bochner.cli.app import app

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="bochner")
