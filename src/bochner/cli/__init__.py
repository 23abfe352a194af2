"""The command `bochner`: fit, predict, evaluate, explain and report from a shell."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command; the process ends with its exit code."""
    import io
    import os
    import signal
    import sys

    terminated = False

    def terminate(*_: object) -> None:
        nonlocal terminated
        terminated = True
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGTERM, terminate)

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            from bochner.cli.app import app
        except (
            OSError,
            MemoryError,
            RuntimeError,
        ) as failure:  # in place of an ImportError
            raise ImportError(str(failure)) from failure

        app(prog_name="bochner")
    except ImportError as failure:  # here, or of what Typer loads to read the arguments
        if "--traceback" in sys.argv or os.environ.get("BOCHNER_DEBUG", "0") not in (
            "",
            "0",
        ):
            raise
        # What lies below it, in one line: NumPy puts pages of advice before it
        cause: BaseException = failure
        while cause.__cause__ is not None:
            cause = cause.__cause__
        line = " ".join(str(cause).split()) or "not enough memory"
        sys.exit(f"error: the libraries cannot be loaded: {line}")
    except (KeyboardInterrupt, SystemExit) as leave:
        code = leave.code if isinstance(leave, SystemExit) else 130
        if code == 130:
            print("interrupted", file=sys.stderr)
        sys.exit(143 if code == 130 and terminated else code)
    finally:
        signal.signal(signal.SIGTERM, former)
