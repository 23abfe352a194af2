"""Model files that a fuzzer makes, guided by the branches of `bochner.persistence` that
they reach.

A file begins as one of `damaged_models` and is changed again and again: its tree,
sealed with a right checksum, its header or its bytes. What reaches a new branch is kept
and changed further, so that files get further from those that are written than mutants
of one step do. Needs atheris (``pip install atheris``), which has wheels for Linux.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

NAMES = ("bins", "classes")  # of the files to begin with
FAILED = "was found: "


def fuzz(folder: Path, runs: int, seed: int) -> None:
    """Fuzz in this process, which ends with it; files that reached something new
    stay in the folder.
    """
    import atheris

    with atheris.instrument_imports(include=["bochner.persistence"]):
        import bochner.persistence.tree  # noqa: F401
    import damaged_models
    import numpy as np

    found, watch = damaged_models.subjects(folder, NAMES), damaged_models.Watch()
    corpus = folder / "corpus"
    if not corpus.exists():
        corpus.mkdir()
        for one in found:
            (corpus / one.name).write_bytes(one.content)
    kinds = [
        damaged_models.tree,
        damaged_models.tree,
        damaged_models.header,
        damaged_models.blind,
    ]

    def mutate(data: bytes, most: int, number: int) -> bytes:
        rng = np.random.default_rng(number)
        try:
            changed = kinds[number % len(kinds)](data, rng)
        except Exception:  # of a file that is no longer one
            changed = damaged_models.blind(data or b"0", rng)
        return changed if len(changed) <= most else data

    def load(data: bytes) -> None:
        subject = found[len(data) % len(found)]
        if wrong := damaged_models.judge(
            subject, data, True, folder / "mutant", watch
        ).wrong:
            raise RuntimeError(FAILED + wrong)

    options = [
        f"-runs={runs}",
        f"-seed={seed + 1}",
        "-max_len=200000",
        "-len_control=0",
        f"-artifact_prefix={folder}/",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], load, custom_mutator=mutate)
    atheris.Fuzz()


def judge(folder: Path, runs: int, seed: int) -> tuple[str, str, float]:
    """Fuzz in a process of its own: how far it came, what is wrong with a file that
    it found, and its seconds.
    """
    start, command = (
        time.perf_counter(),
        [sys.executable, __file__, str(folder), str(runs), str(seed)],
    )
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    lines = done.stdout.splitlines()
    reached = next((line for line in reversed(lines) if "cov:" in line), "nothing")
    wrong = next((line.partition(FAILED)[2] for line in lines if FAILED in line), "")
    if done.returncode and not wrong:
        wrong = f"ended with {done.returncode}: {done.stdout[-500:]}"
    return f"{seed}: {reached}", wrong, time.perf_counter() - start


if __name__ == "__main__":
    fuzz(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
