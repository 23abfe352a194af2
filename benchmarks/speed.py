"""Speed and memory, as ratios measured in one run: ``python benchmarks/speed.py [NAME ...]``.

Every measurement runs in a process of its own and prints rows (what, measured, bar); the parent writes the page.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from statistics import median

import numpy as np

from runner import Row, extra_memory, run, seconds

N, D = 54, 2000


def rows_like_forest(n: int, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal rows of 54 columns and a target of three of them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, N), dtype=dtype)
    return X, np.sin(X[:, 0]) * X[:, 1] + X[:, 2] + 0.1 * rng.standard_normal(n)


def fit() -> list[Row]:
    """Fit 522,000 x 54 at D = 2,000 against its bare BLAS work, and the memory that it takes at two sizes."""
    from bochner import KernelMachineRegressor
    from bochner.kernels import Gaussian

    X, y = rows_like_forest(522_000, np.float32)
    W = np.random.default_rng(0).standard_normal((N, D // 2), dtype=np.float32)
    block = 8192
    left, Z, G = (np.zeros(s, np.float32) for s in ((block, D // 2), (block, D), (D, D)))

    def blas() -> None:
        for start in range(0, len(X), block):
            rows = X[start : start + block]
            np.matmul(rows, W, out=left[: len(rows)])
            np.matmul(Z[: len(rows)].T, Z[: len(rows)], out=G)

    rows: list[Row] = []
    for solver, memory in (("direct", "<= 300 MB"), ("auto", "")):
        model = KernelMachineRegressor(Gaussian(7.0), n_components=D, solver=solver, random_state=0)
        model.fit(X[:10_000], y[:10_000])
        ratios = []
        for _ in range(3):
            start = time.perf_counter()
            model.fit(X, y)
            middle = time.perf_counter()
            blas()
            ratios.append((middle - start) / (time.perf_counter() - middle))
        small = extra_memory(lambda model=model: model.fit(X[:100_000], y[:100_000]))
        large = extra_memory(lambda model=model: model.fit(X, y))
        what = f"fit, 522,000 x 54, D = 2,000, alpha chosen too, solver={solver!r}: time over bare BLAS"
        rows.append((what, f"{median(ratios):.2f}", "<= 1.25"))
        rows.append(("its peak extra memory; at 100,000 rows", f"{large:.0f} MB; {small:.0f} MB", memory))
    return rows


def transform() -> list[Row]:
    """Rows a second against RBFSampler."""
    from sklearn.kernel_approximation import RBFSampler

    from bochner import FourierFeatures
    from bochner.kernels import Gaussian

    result = []
    for dtype, bar in ((np.float32, ">= 2.5"), (np.float64, ">= 15")):
        X, _ = rows_like_forest(20_000, dtype)
        ours = FourierFeatures(Gaussian(7.0), D, random_state=0).fit(X)
        theirs = RBFSampler(gamma=1 / 98, n_components=D, random_state=0).fit(X)
        ours.transform(X[:500])
        calls = partial(theirs.transform, X), partial(ours.transform, X)
        pairs = [(seconds(calls[0], 1), seconds(calls[1], 3)) for _ in range(5)]
        speed = len(X) / median(b for _, b in pairs)
        name = f"transform to 2,000 features, {np.dtype(dtype).name}: rows a second over RBFSampler's"
        result.append((name, f"{median(a / b for a, b in pairs):.1f} ({speed:,.0f} rows a second)", bar))
    return result


def predict() -> list[Row]:
    """Microseconds a row in batches, milliseconds for one."""
    from bochner import KernelMachineRegressor
    from bochner.kernels import Gaussian

    X, y = rows_like_forest(200_000, np.float32)
    model = KernelMachineRegressor(Gaussian(7.0), n_components=D, alpha=1.0, random_state=0).fit(X[:50_000], y[:50_000])
    batch = seconds(lambda: model.predict(X)) / len(X) * 1e6
    single = seconds(lambda: model.predict(X[:1]), 501) * 1e3
    return [
        ("predict at D = 2,000, a row of a batch of 200,000", f"{batch:.2f} us", "<= 1.5 us"),
        ("predict at D = 2,000, a single row", f"{single:.3f} ms", "<= 0.3 ms"),
    ]


def pipeline() -> list[Row]:
    """Fit and predict against RBFSampler and Ridge on one float64 array; kernel error at equal D."""
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    from bochner import FourierFeatures, KernelMachineRegressor
    from bochner.kernels import Gaussian

    X, y = rows_like_forest(200_000, np.float64)
    ours = KernelMachineRegressor(Gaussian(7.0), n_components=D, alpha=1.0, random_state=0)
    theirs = make_pipeline(RBFSampler(gamma=1 / 98, n_components=D, random_state=0), Ridge(alpha=1.0))
    ours.fit(X[:10_000], y[:10_000]).predict(X[:10_000])
    memory_ours = extra_memory(lambda: ours.fit(X, y).predict(X))
    memory_theirs = extra_memory(lambda: theirs.fit(X, y).predict(X))
    ratios = []
    for _ in range(3):
        start = time.perf_counter()
        theirs.fit(X, y).predict(X)
        middle = time.perf_counter()
        ours.fit(X, y).predict(X)
        ratios.append((middle - start) / (time.perf_counter() - middle))
    K = Gaussian(7.0)(X[:500])
    errors = []
    for seed in range(10):
        Z = FourierFeatures(Gaussian(7.0), D, random_state=seed).fit_transform(X[:500])
        R = RBFSampler(gamma=1 / 98, n_components=D, random_state=seed).fit(X).transform(X[:500])
        errors.append(np.sqrt(np.mean((Z @ Z.T - K) ** 2) / np.mean((R @ R.T - K) ** 2)))
    return [
        ("RBFSampler + Ridge over ours, 200,000 x 54 float64: time", f"{median(ratios):.1f}", ">= 5"),
        ("the same: peak extra memory", f"{memory_theirs / memory_ours:.1f} ({memory_ours:.0f} MB ours)", ">= 20"),
        ("kernel error (RMS) at equal D, ours over RBFSampler's", f"{median(errors):.2f}", "< 1"),
    ]


def start() -> list[Row]:
    """Import time, the first fit after installation, and the first fit of later processes."""

    def process(code: str, **environment: str) -> float:
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **environment})
        return time.perf_counter() - begin

    pairs = [
        (process("from bochner import KernelMachineRegressor"), process("import sklearn.linear_model"))
        for _ in range(7)
    ][1:]
    code = """if True:
        import time, numpy as np
        from bochner import KernelMachineRegressor
        X = np.random.default_rng(0).standard_normal((5000, 10)); y = X[:, 0] ** 2
        times = []
        for _ in range(4):
            begin = time.perf_counter()
            KernelMachineRegressor(random_state=0).fit(X, y).predict(X)
            times.append(time.perf_counter() - begin)
        print(times[0], min(times[1:]))
    """

    def first(cache: str) -> tuple[float, float]:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        out = subprocess.run([sys.executable, "-c", code], check=True, env=environment, capture_output=True, text=True)
        cold, warm = map(float, out.stdout.split())
        return cold, cold - warm

    with tempfile.TemporaryDirectory() as cache:
        cold, _ = first(cache)
        later = median(first(cache)[1] for _ in range(5))
    return [
        (
            "import of bochner with its estimators over import sklearn.linear_model",
            f"{median(a / b for a, b in pairs):.2f}",
            "<= 1.5",
        ),
        ("the very first fit, compilers cold", f"{cold:.1f} s", "<= 15 s"),
        ("first fit of a later process, above a repeated one", f"{later:.2f} s", "<= 1 s"),
    ]


BENCHMARKS = {"fit": fit, "transform": transform, "predict": predict, "pipeline": pipeline, "start": start}


if __name__ == "__main__":
    run("Speed and memory", __file__, __doc__, BENCHMARKS)
