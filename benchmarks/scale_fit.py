"""One fit in a process of its own, which another one watches: ``python scale_fit.py
JOB``, a job as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import scale_data
from scale_watch import Watched, begin, watched

LENGTHSCALE, D, ALPHA = 5.0, 500, 1.0


@dataclass(frozen=True)
class Job:
    """What to fit, and under which settings.

    Attributes
    ----------
    data : str
        Folder or file; its target is the column "target".
    model : {"given", "cg", "default"}
        500 Fourier features with all else given, by the Gram matrix or by conjugate
        gradients, or no arguments.
    in_memory : bool
        Whether the rows are read into arrays, before the work begins.
    sample : int or None
        Rows that stand for all when choices are made.
    settings : dict
        Of `bochner.settings`.
    warm : bool
        Whether small fits load all compiled code after the work began and before the
        clock starts.
    n_unseen : int
        Rows of no file, by which the model is judged.
    """

    data: str
    model: str = "given"
    in_memory: bool = False
    sample: int | None = None
    settings: dict[str, Any] | None = None
    warm: bool = True
    n_unseen: int = 0


class Done(NamedTuple):
    """What a fit took and came to; `refused` is its error where it fitted nothing,
    the rest is of no meaning then.
    """

    seconds: float = 0.0
    cpu: float = 0.0
    digest: str = ""
    error: float = 0.0
    distance: float = 0.0
    about: str = ""
    refused: str = ""


def fitted(job: Job) -> tuple[Watched, Done]:
    """Run a job, watched."""
    found = watched([sys.executable, __file__, json.dumps(asdict(job))])
    if found.returncode:
        raise subprocess.CalledProcessError(found.returncode, str(job))
    return found, Done(*json.loads(found.lines[-1]))


def machine(name: str) -> Any:
    """The model of a job, not fitted."""
    from bochner import FourierFeatures, KernelMachineRegressor
    from bochner.kernels import Gaussian

    if name == "default":
        return KernelMachineRegressor(random_state=0)
    features, solver = (
        FourierFeatures(Gaussian(LENGTHSCALE), D),
        "cg" if name == "cg" else "direct",
    )
    return KernelMachineRegressor(
        features=features, alpha=ALPHA, solver=solver, random_state=0
    )


def warm_up(model: str) -> None:
    """Load compiled code."""
    X, y, _ = scale_data.unseen(5_000)
    machine(model).fit(X, y).predict(X[:100])


def digest(model: Any) -> str:
    """Hash of all numbers that predictions are made of, to the bit."""
    arrays = (
        model.feature_weights_,
        model.intercept_,
        model.target_mean_,
        model.target_scale_,
    )
    return blake2b(
        b"".join(np.ascontiguousarray(values).tobytes() for values in arrays)
    ).hexdigest()


def done(job: Job) -> Done:
    """Do the job."""
    settings = job.settings or {}
    import bochner

    model = machine(job.model)
    data = scale_data.arrays(Path(job.data)) if job.in_memory else ()
    begin()
    if job.warm:
        warm_up(job.model)
    with bochner.settings(**settings) if settings else nullcontext():
        start, busy = time.perf_counter(), time.process_time()
        try:
            if job.in_memory:
                model.fit(*data)
            else:
                model.fit(opened(job), "target")
        except (MemoryError, ValueError) as error:
            return Done(refused=f"{type(error).__name__}: {error}")
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
    error, distance = judged(model, job.n_unseen)
    about = (
        f"{type(model.features_).__name__}, {len(model.feature_weights_):,} "
        f"columns, by {model.solver_}"
    )
    return Done(seconds, busy, digest(model), error, distance, about)


def opened(job: Job) -> Any:
    """What `fit` is given: the path itself, as people do, or a source with a sample."""
    import bochner

    return (
        job.data
        if job.sample is None
        else bochner.open_source(job.data, sample=job.sample)
    )


def judged(model: Any, n_rows: int) -> tuple[float, float]:
    """Root mean squared error of unseen rows over the deviation of their targets,
    and the same without noise.
    """
    if not n_rows:
        return 0.0, 0.0
    X, y, truth = scale_data.unseen(n_rows)
    predicted = model.predict(scale_data.as_asked(model, X))
    error, distance = (
        float(np.sqrt(np.mean((predicted - values) ** 2)) / y.std())
        for values in (y, truth)
    )
    return error, distance


if __name__ == "__main__":
    print(json.dumps(done(Job(**json.loads(sys.argv[1])))))
