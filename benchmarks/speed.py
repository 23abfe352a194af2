"""Speed and memory, beside limits measured in the same run: ``python -m benchmarks
speed [--only NAME ...]``.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from functools import partial
from statistics import median

import numpy as np

from limits import copied, gathered, multiplied
from report import Row
from runner import elapsed, extra_memory, repeats, run, seconds, size

N, D = 54, 2000
SUBSET = 261_000


def rows_like_forest(n: int, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal rows of 54 columns and a target of three of them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((size(n), N), dtype=dtype)
    return X, np.sin(X[:, 0]) * X[:, 1] + X[:, 2] + 0.1 * rng.standard_normal(len(X))


def limits() -> list[Row]:
    """What the processor can do at best."""
    return [
        Row("copies of arrays beyond the caches", f"{copied() / 1e9:.0f} GB/s"),
        Row(
            "multiply-adds of BLAS, float32", f"{multiplied(np.float32) / 1e9:.0f} a ns"
        ),
        Row(
            "multiply-adds of BLAS, float64", f"{multiplied(np.float64) / 1e9:.0f} a ns"
        ),
        Row(
            "reads of four bytes at random from 256 MB", f"{gathered() / 1e9:.2f} a ns"
        ),
    ]


def fit() -> list[Row]:
    """Fit 522,000 x 54 at D = 2,000 against its bare BLAS work, and the memory that
    it takes at two sizes.
    """
    from bochner import KernelMachineRegressor
    from bochner.kernels import Gaussian

    X, y = rows_like_forest(522_000, np.float32)
    W = np.random.default_rng(0).standard_normal((N, D // 2), dtype=np.float32)
    block = 8192
    left, Z, G = (
        np.zeros(s, np.float32) for s in ((block, D // 2), (block, D), (D, D))
    )

    def blas() -> None:
        for start in range(0, len(X), block):
            rows = X[start : start + block]
            np.matmul(rows, W, out=left[: len(rows)])
            np.matmul(Z[: len(rows)].T, Z[: len(rows)], out=G)

    rows: list[Row] = []
    for solver, memory in (("direct", "<= 300 MB"), ("auto", "")):
        model = KernelMachineRegressor(
            Gaussian(7.0), n_components=D, solver=solver, random_state=0
        )
        model.fit(X[:10_000], y[:10_000])
        work = partial(model.fit, X, y)
        pairs = [(elapsed(work), elapsed(blas)) for _ in range(repeats(3))]
        took, times = median(a for a, _ in pairs), median(a / b for a, b in pairs)
        small = extra_memory(
            lambda model=model: model.fit(X[: size(100_000)], y[: size(100_000)])
        )
        large = extra_memory(work)
        what = f"fit, 522,000 x 54, D = 2,000, alpha chosen too, solver={solver!r}"
        rows += [
            Row(what, f"{took:.1f} s", "<= 1.25 x", "its products by BLAS", times),
            Row(
                f"{what}: extra memory",
                f"{large:.0f} MB",
                memory,
                "the table",
                1e6 * large / X.nbytes,
            ),
            Row(
                f"{what}: extra memory, 100,000 rows",
                f"{small:.0f} MB",
                "",
                "the larger table's",
                small / large,
            ),
        ]
    return rows


def transform() -> list[Row]:
    """Rows a second against RBFSampler, and against writing the features."""
    from sklearn.kernel_approximation import RBFSampler

    from bochner import FourierFeatures
    from bochner.kernels import Gaussian

    result, bandwidth = [], copied()
    for dtype, bar in ((np.float32, ">= 2.5"), (np.float64, ">= 15")):
        X, _ = rows_like_forest(20_000, dtype)
        ours = FourierFeatures(Gaussian(7.0), D, random_state=0).fit(X)
        theirs = RBFSampler(gamma=1 / 98, n_components=D, random_state=0).fit(X)
        ours.transform(X[:500])
        calls = partial(theirs.transform, X), partial(ours.transform, X)
        pairs = [
            (seconds(calls[0], 1), seconds(calls[1], 3)) for _ in range(repeats(5))
        ]
        took = median(b for _, b in pairs)
        what = f"transform to 2,000 features, {np.dtype(dtype).name}"
        written = len(X) * D * X.itemsize / bandwidth
        result += [
            Row(
                f"{what}: rows a second over RBFSampler's",
                f"{median(a / b for a, b in pairs):.1f}",
                bar,
            ),
            Row(
                f"{what}: a row",
                f"{took / len(X) * 1e6:.2f} us",
                "",
                "copying its features",
                took / written,
            ),
        ]
    return result


def predict() -> list[Row]:
    """Microseconds a row in batches, milliseconds for one."""
    from sklearn.linear_model import Ridge

    from bochner import KernelMachineRegressor
    from bochner.kernels import Gaussian, Laplacian

    X, y = rows_like_forest(200_000, np.float32)
    few = slice(50_000)
    model = KernelMachineRegressor(
        Gaussian(7.0), n_components=D, alpha=1.0, random_state=0
    ).fit(X[few], y[few])
    bins = KernelMachineRegressor(
        Laplacian(50.0), "binning", 50, alpha=1.0, random_state=0
    ).fit(X[few], y[few])
    linear = Ridge().fit(X[few], y[few])
    batch, binned = (seconds(partial(one.predict, X)) / len(X) for one in (model, bins))
    single, theirs = (
        seconds(partial(one.predict, X[:1]), 501) for one in (model, linear)
    )
    products = (N * D / 2 + D) / multiplied(np.float32)
    reads = 50 / gathered()
    what = "predict at D = 2,000"
    return [
        Row(
            f"{what}, a row of many",
            f"{1e6 * batch:.2f} us",
            "<= 1.5 us",
            "its multiply-adds",
            batch / products,
        ),
        Row(
            f"{what}, a single row",
            f"{1e3 * single:.3f} ms",
            "<= 0.3 ms",
            "scikit-learn's Ridge",
            single / theirs,
        ),
        Row(
            "predict with 50 grids, a row of many",
            f"{1e6 * binned:.2f} us",
            "",
            "50 random reads",
            binned / reads,
        ),
    ]


def pipeline() -> list[Row]:
    """Fit and predict against RBFSampler and Ridge on one float64 array; kernel
    error at equal D.
    """
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    from bochner import FourierFeatures, KernelMachineRegressor
    from bochner.kernels import Gaussian

    X, y = rows_like_forest(200_000, np.float64)
    ours = KernelMachineRegressor(
        Gaussian(7.0), n_components=D, alpha=1.0, random_state=0
    )
    theirs = make_pipeline(
        RBFSampler(gamma=1 / 98, n_components=D, random_state=0), Ridge(alpha=1.0)
    )
    ours.fit(X[:10_000], y[:10_000]).predict(X[:10_000])
    works = [lambda model=model: model.fit(X, y).predict(X) for model in (ours, theirs)]
    memory = [extra_memory(work) for work in works]
    pairs = [tuple(elapsed(work) for work in works) for _ in range(repeats(3))]
    K = Gaussian(7.0)(X[:500])
    errors = []
    for seed in range(10):
        Z = FourierFeatures(Gaussian(7.0), D, random_state=seed).fit_transform(X[:500])
        R = (
            RBFSampler(gamma=1 / 98, n_components=D, random_state=seed)
            .fit(X)
            .transform(X[:500])
        )
        errors.append(
            np.sqrt(np.mean((Z @ Z.T - K) ** 2) / np.mean((R @ R.T - K) ** 2))
        )
    return [
        Row(
            "RBFSampler + Ridge over ours, 200,000 x 54 float64: time",
            f"{median(b / a for a, b in pairs):.1f}",
            ">= 5",
        ),
        Row("the same: peak extra memory", f"{memory[1] / memory[0]:.1f}", ">= 20"),
        Row(
            "kernel error (RMS) at equal D, ours over RBFSampler's",
            f"{median(errors):.2f}",
            "< 1",
        ),
    ]


IMPORTS = "import numba, sklearn.linear_model"


def process(code: str, cache: str = "") -> tuple[float, float]:
    """Seconds and processor seconds of a Python process."""
    environment = {**os.environ, **({"NUMBA_CACHE_DIR": cache} if cache else {})}
    command = partial(
        subprocess.run,
        [sys.executable, "-c", code],
        check=True,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = elapsed(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def start() -> list[Row]:
    """Imports, and the first fit of a process whose compiled code is in the cache."""
    ours, theirs = (
        "from bochner import KernelMachineClassifier, KernelMachineRegressor",
        "import sklearn.linear_model",
    )
    pairs = [(process(ours)[0], process(theirs)[0]) for _ in range(repeats(11))]
    code = """if True:
        import numpy as np
        from bochner import KernelMachineRegressor
        X = np.random.default_rng(0).standard_normal((1000, 10)); y = X[:, 0] ** 2
        for _ in range({}):
            KernelMachineRegressor(random_state=0).fit(X, y).predict(X)
    """
    process(code.format(2))  # compiles
    more = repeats(5)
    times = [
        [process(code.format(fits))[0] for fits in (1, 2)] + [process(IMPORTS)[0]]
        for _ in range(more)
    ]
    once, twice, imports = (median(column) for column in zip(*times, strict=True))
    above = once - (twice - once)
    return [
        Row(
            "import of the estimators",
            f"{median(a for a, _ in pairs):.2f} s",
            "<= 1.0 x",
            "import sklearn.linear_model",
            median(a / b for a, b in pairs),
        ),
        Row(
            "a later process: import and first fit less a fit",
            f"{above:.2f} s",
            "<= 1 s",
            IMPORTS,
            above / imports,
        ),
    ]


def compiling() -> list[Row]:
    """Processor seconds that the first fit after installation spends on compilation."""
    code = """if True:
        import numpy as np
        from bochner import KernelMachineRegressor
        from bochner.kernels import Gaussian, Laplacian
        X = np.random.default_rng(0).standard_normal((2000, 10)); y = X[:, 0] ** 2
        KernelMachineRegressor({}, random_state=0).fit(X, y).predict(X)
    """
    paths = {
        "first fit, direct": code.format(
            "Gaussian(3.0), 'fourier', 200, solver='direct'"
        ),
        "first fit, bins": code.format("Laplacian(3.0), 'binning', 50"),
        "first fit, learned metric": code.format(
            "features='fourier', n_components=200, solver='direct'"
        ),
        "bochner demo": "import sys; sys.argv = ['bochner', 'demo']; from "
        "bochner.cli import main; main()",
    }
    loop = f"""{IMPORTS}
@numba.njit("float64(float64[::1])")
def total(x):
    s = 0.0
    for v in x:
        s += v
    return s
"""
    more = repeats(3)
    unit = median(process(loop)[1] for _ in range(more)) - median(
        process(IMPORTS)[1] for _ in range(more)
    )
    rows = []
    for what, code in paths.items():
        with tempfile.TemporaryDirectory() as cache:
            cold = process(code, cache)[1]
            took = cold - median(process(code, cache)[1] for _ in range(more))
        bar = "<= 8 CPU s" if what == "bochner demo" else "<= 3 CPU s"
        rows.append(
            Row(
                f"{what}: compilation",
                f"{took:.1f} CPU s",
                bar,
                "compiling a sum",
                took / unit,
            )
        )
    return rows


def subset() -> list[Row]:
    """Half of Forest Cover by D = 5,000 Fourier features, with probabilities,
    against the Gram matrix.
    """
    from accuracy import prepared
    from bochner import KernelMachineClassifier
    from bochner.kernels import Gaussian

    data = prepared("covtype")
    X, y = data.X[: size(SUBSET)], data.y[: size(SUBSET)]
    scale = X.std(axis=0)
    kernel = Gaussian(2.5 * np.where(scale > 0, scale, 1.0))
    options = {"n_components": 5000, "alpha": 0.1, "random_state": 0}
    ours, gram = (
        KernelMachineClassifier(kernel, "fourier", solver=name, **options)
        for name in ("auto", "direct")
    )
    ours.fit(X[:20_000], y[:20_000])
    took = median(elapsed(partial(ours.fit, X, y)) for _ in range(repeats(3)))
    theirs = elapsed(partial(gram.fit, X, y))
    scores, exact = (model.decision_function(data.X_test) for model in (ours, gram))
    probabilities = [model.predict_proba(data.X_test) for model in (ours, gram)]
    off = np.linalg.norm(scores - exact) / np.linalg.norm(exact)
    what = "Forest, 261,000 rows, D = 5,000, alpha = 0.1, probabilities"
    return [
        Row(
            what,
            f"{took:.1f} s by {ours.solver_}",
            "<= 0.33 x",
            "the Gram matrix's",
            took / theirs,
        ),
        Row(
            "the same: relative difference of decision values", f"{off:.1e}", "<= 1e-3"
        ),
        Row(
            "the same: largest difference of probabilities",
            f"{np.abs(np.subtract(*probabilities)).max():.1e}",
        ),
    ]


BENCHMARKS = {
    "limits": limits,
    "fit": fit,
    "transform": transform,
    "predict": predict,
    "pipeline": pipeline,
    "start": start,
    "compiling": compiling,
    "subset": subset,
}


if __name__ == "__main__":
    run("Speed and memory", __file__, __doc__, BENCHMARKS)
