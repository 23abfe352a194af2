"""The command `bochner`: fit, predict, evaluate and inspect from a shell."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command; the process ends with its exit code."""
    import io
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
    printed_errors: list[str] = []
    try:
        try:
            from bochner.cli.app import app
            from bochner.cli.failures import printed_errors
        except (ImportError, OSError, MemoryError, RuntimeError) as failure:
            cause: BaseException = failure
            while cause.__cause__ is not None:  # NumPy puts pages of advice before it
                cause = cause.__cause__
            sys.exit(f"error: the libraries cannot be loaded: {' '.join(str(cause).split()) or 'not enough memory'}")

        app(prog_name="bochner")
    except (KeyboardInterrupt, SystemExit) as leave:
        code = leave.code if isinstance(leave, SystemExit) else 130
        if code == 130 and not printed_errors:
            print("interrupted", file=sys.stderr)
        sys.exit(143 if code == 130 and terminated else code)
    finally:
        signal.signal(signal.SIGTERM, former)
