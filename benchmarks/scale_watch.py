"""Watches the memory of another process (Linux)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import NamedTuple

BEGIN, WATCHED = "#begin", "BOCHNER_SCALE_WATCHED"
STEP = 0.02  # seconds


class Watched(NamedTuple):
    """How a process ended, its most resident bytes and those when it began its work,
    and the lines it wrote.
    """

    returncode: int
    peak: int
    base: int
    lines: list[str]


def begin() -> None:
    """Tell who watches this process that its work begins: what it holds now is the
    base, and peaks before are void.
    """
    if WATCHED in os.environ:
        Path("/proc/self/clear_refs").write_text("5")
        print(BEGIN, flush=True)
        sys.stdin.readline()  # the answer, once what is held now has been read


def watched(command: Sequence[str]) -> Watched:
    """Run a command to its end.

    Every 20 ms the highest mark of its resident memory is read, which the system keeps,
    so that no peak is missed.
    """
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    lines: list[str] = []
    begun: list[int] = []
    peaks = [0, 0]
    with subprocess.Popen(
        command, env={**os.environ, WATCHED: "1"}, **pipes
    ) as process:
        listener = Thread(target=_listen, args=(process, lines, begun))
        listener.start()
        while process.poll() is None:
            works = bool(begun)
            peaks[works] = max(peaks[works], _memory(process.pid, "VmHWM"))
            time.sleep(STEP)
        listener.join()
    base = begun[0] if begun else 0
    return Watched(process.returncode, max(peaks[bool(begun)], base), base, lines)


def _listen(process: subprocess.Popen, lines: list[str], begun: list[int]) -> None:
    """Keep the lines of a process; note what it holds when its work begins."""
    for line in process.stdout:
        word = line.strip()
        if word == BEGIN:
            begun.append(_memory(process.pid, "VmRSS"))
            with suppress(BrokenPipeError):
                process.stdin.write("\n")
                process.stdin.flush()
        else:
            lines.append(word)


def _memory(pid: int, field: str) -> int:
    """Bytes of a field of the process's status; 0 where it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next(
        (
            1024 * int(line.split()[1])
            for line in status.splitlines()
            if line.startswith(field)
        ),
        0,
    )
