"""Features, Gram matrices and fits on an NVIDIA GPU: ``python -m benchmarks gpu [--only
NAME ...]``.

Needs PyTorch with CUDA, and says so where there is none. Rows are seeded normal
numbers, made on the GPU or in memory; BOCHNER_SCALE_DATA names the folder of the
Parquet files. Peaks are those of products of this library of arrays on this GPU,
measured in the same run: n D^2 multiplications and additions of the whole product
count, also where symmetry saves some of them.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datasets import load as load_data
from report import Row, processor
from runner import repeats, run, size

DEVICE = "cuda"
ROWS, COLUMNS, FEATURES = 10_000_000, 100, 8192
LENGTHSCALE, ALPHA, NOISE = 14.0, 1.0, 0.1
EXACT_ROWS, UNSEEN, FILE_ROWS = 1_000_000, 100_000, 1_000_000
PEAK_SIZE, COPY_BYTES = 16_384, 4 << 30
FOREST_FEATURES = 20_000


def on_gpu(part: Callable[[], list[Row]]) -> Callable[[], list[Row]]:
    """The part of a benchmark, or no rows and a line on stderr that says why it was
    not run.
    """

    @wraps(part)
    def measured() -> list[Row]:
        try:
            import torch

            missing = "" if torch.cuda.is_available() else "PyTorch sees no CUDA device"
        except ImportError:
            missing = "PyTorch is not installed"
        if missing:
            print(f"{part.__name__}: not run, {missing}", file=sys.stderr)
        return [] if missing else part()

    return measured


def gpu_and_processor() -> str:
    """Name of the machine, with that of its GPU."""
    import torch

    return f"{torch.cuda.get_device_name()}, {processor()}"


def clocked(work: Callable[[], object], times: int = 3) -> float:
    """Median seconds of a call, after one that is not counted, until the GPU has
    done what was asked of it.
    """
    import torch

    work()
    took = []
    for _ in range(repeats(times)):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        took.append(time.perf_counter() - start)
    return median(took)


def product_peaks() -> dict[str, float]:
    """Operations a second of a square product: by half, single and double precision."""
    import torch

    found, n = {}, PEAK_SIZE
    for name, dtype in (
        ("FP16", torch.float16),
        ("FP32", torch.float32),
        ("FP64", torch.float64),
    ):
        A = torch.randn(n, n, device=DEVICE).to(dtype)
        found[name] = 2 * n**3 / clocked(lambda A=A: A @ A)
    return found


def bandwidth() -> float:
    """Bytes a second that a copy on the GPU reads and writes."""
    import torch

    A = torch.empty(COPY_BYTES // 4, device=DEVICE)
    B = torch.empty_like(A)
    return 2 * COPY_BYTES / clocked(lambda: B.copy_(A))


def function(X: Any) -> Any:
    """Smooth in a few columns; X of NumPy or of PyTorch."""
    xp = np if isinstance(X, np.ndarray) else __import__("torch")
    return xp.sin(X[:, 0]) + xp.cos(X[:, 1]) + X[:, 2] * X[:, 3] / 2


def rows_on_gpu(n: int, seed: int = 0) -> tuple[Any, Any]:
    """Seeded rows and targets on the GPU."""
    import torch

    generator = torch.Generator(DEVICE).manual_seed(seed)
    X = torch.randn(n, COLUMNS, device=DEVICE, generator=generator)
    return X, function(X) + NOISE * torch.randn(n, device=DEVICE, generator=generator)


def machine() -> Any:
    """A regressor of which nothing is to be chosen."""
    from bochner import FourierFeatures, KernelMachineRegressor
    from bochner.kernels import Gaussian

    features = FourierFeatures(Gaussian(LENGTHSCALE), FEATURES, sampling="orthogonal")
    return KernelMachineRegressor(
        features=features, alpha=ALPHA, solver="direct", random_state=0
    )


@on_gpu
def peak() -> list[Row]:
    """What the GPU does at most."""
    import torch

    name = torch.cuda.get_device_name()
    rows = [
        Row(
            f"{name}: product of {PEAK_SIZE:,} x {PEAK_SIZE:,}, {precision}",
            f"{rate / 1e12:.0f} TFLOP/s",
        )
        for precision, rate in product_peaks().items()
    ]
    return [
        *rows,
        Row(f"{name}: copy, read and written", f"{bandwidth() / 1e9:,.0f} GB/s"),
    ]


@on_gpu
def fit() -> list[Row]:
    """Fits of arrays on the GPU: time of n D^2 operations, against the peak of
    products in single precision.
    """
    n = size(ROWS)
    peak = product_peaks()["FP32"]
    X, y = rows_on_gpu(n)
    seconds = clocked(lambda: machine().fit(X, y))
    rate = 2 * n * FEATURES**2 / seconds
    what = f"{n:,} x {COLUMNS} float32 on the GPU, D = {FEATURES:,}, fit"
    return [
        Row(f"{what}: seconds", f"{seconds:.1f}"),
        Row(
            f"{what}: operations, those of the whole Gram matrix",
            f"{rate / 1e12:.0f} TFLOP/s",
            ">= 0.6 x",
            "FP32 product",
            rate / peak,
        ),
    ]


@on_gpu
def accuracy() -> list[Row]:
    """Predictions against those of the same ridge regression in double precision."""
    n = size(EXACT_ROWS)
    X, y = rows_on_gpu(n)
    unseen, _ = rows_on_gpu(UNSEEN, seed=1)
    model = machine().fit(X, y)
    predicted = model.predict(unseen).double()
    expected = in_double(model, X, y, unseen)
    error = float((predicted - expected).abs().max() / expected.std())
    rms = float((predicted - expected).square().mean().sqrt() / expected.std())
    what = f"{n:,} rows, D = {FEATURES:,}, prediction error over sd"
    return [
        Row(f"{what}: root mean square", f"{rms:.1e}", "<= 5e-5"),
        Row(f"{what}: largest", f"{error:.1e}"),
    ]


def in_double(model: Any, X: Any, y: Any, unseen: Any) -> Any:
    """Ridge regression by PyTorch alone, in double precision, on the frequencies of
    a fitted model.
    """
    import torch

    encoded = [
        torch.from_numpy(model.encoder_.transform(A.cpu().numpy())).double()
        for A in (X, unseen)
    ]
    W = torch.from_numpy(model.features_.frequencies_).to(DEVICE)
    amplitudes = torch.from_numpy(model.features_.amplitudes_).to(DEVICE)

    def features(A: Any) -> Any:
        angles = A.to(DEVICE) @ W
        return torch.cat([angles.cos() * amplitudes, angles.sin() * amplitudes], dim=1)

    D = 2 * W.shape[1]
    gram, cross, mean = (
        torch.zeros(shape, device=DEVICE, dtype=torch.float64)
        for shape in ((D, D), (D,), (D,))
    )
    target = y.double()
    centred = (target - target.mean()) / target.std(correction=0)
    for start in range(0, len(encoded[0]), 20_000):
        Z = features(encoded[0][start : start + 20_000])
        gram += Z.T @ Z
        cross += Z.T @ centred[start : start + 20_000]
        mean += Z.sum(dim=0)
    mean /= len(X)
    gram -= len(X) * torch.outer(mean, mean)
    gram.diagonal().add_(ALPHA)
    coef = torch.cholesky_solve(cross[:, None], torch.linalg.cholesky(gram))[:, 0]
    fitted = (
        torch.cat([features(part) @ coef for part in encoded[1].split(20_000)])
        - mean @ coef
    )
    return fitted * target.std(correction=0) + target.mean()


@on_gpu
def parquet() -> list[Row]:
    """The same fit from a folder of Parquet files, against reading them and against
    arrays.
    """
    import bochner

    n = size(ROWS)
    folder = (
        Path(os.environ.get("BOCHNER_SCALE_DATA") or tempfile.gettempdir())
        / f"bochner-gpu-{n}"
    )
    write(folder, n)
    source = bochner.open_source(folder, sample=100_000)

    def read() -> None:
        for file in sorted(folder.glob("*.parquet")):
            for _ in pq.ParquetFile(file).iter_batches(65_536):
                pass

    reading = clocked(read, 1)
    with bochner.settings(device=DEVICE):
        seconds = clocked(lambda: machine().fit(source, "target"), 1)
    what = f"{n:,} x {COLUMNS} float32 in Parquet files, D = {FEATURES:,}, fit"
    return [
        Row(
            f"{what}: seconds",
            f"{seconds:.1f}",
            "",
            "decoding alone, one thread",
            seconds / reading,
        )
    ]


def write(folder: Path, n: int) -> None:
    """Write seeded rows to files, once."""
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, n, FILE_ROWS):
        path = folder / f"rows-{start:09d}.parquet"
        if not path.exists():
            rng = np.random.Generator(np.random.SFC64([start]))
            X = rng.standard_normal(
                (min(FILE_ROWS, n - start), COLUMNS), dtype=np.float32
            )
            target = function(X) + np.float32(NOISE) * rng.standard_normal(
                len(X), dtype=np.float32
            )
            names = [*(f"x{j:03d}" for j in range(COLUMNS)), "target"]
            pq.write_table(
                pa.table([*X.T, target], names=names), path, row_group_size=125_000
            )


@on_gpu
def forest() -> list[Row]:
    """Forest Cover, class 2 against the rest, by 20,000 Fourier features and the
    Gram matrix.
    """
    import bochner
    from bochner import KernelMachineClassifier

    data = load_data("covtype")
    y, y_test = data.y == 2, data.y_test == 2
    model = KernelMachineClassifier(
        features="fourier",
        n_components=FOREST_FEATURES,
        solver="direct",
        loss="squared",
        random_state=0,
    )
    with bochner.settings(device=DEVICE):
        start = time.perf_counter()
        model.fit(data.X, y)
        seconds = time.perf_counter() - start
        wrong = 100 * (1 - model.score(data.X_test, y_test))
    return [
        Row(
            f"Forest Cover, D = {FOREST_FEATURES:,}, Gram matrix: test error",
            f"{wrong:.2f} % in {seconds:.0f} s",
        )
    ]


@on_gpu
def transform() -> list[Row]:
    """Features of rows on the GPU, against the time that writing them takes, or the
    product, whichever is longer.
    """
    from bochner import FourierFeatures
    from bochner.kernels import Gaussian

    n = size(1_000_000)
    X, _ = rows_on_gpu(n)
    features = FourierFeatures(
        Gaussian(LENGTHSCALE), FEATURES, sampling="orthogonal", random_state=0
    ).fit(X[:100])
    seconds = clocked(lambda: features.transform(X))
    # Of the D / 2 frequencies
    product = n * COLUMNS * FEATURES / product_peaks()["FP32"]
    writing = 4 * n * (FEATURES + COLUMNS) / bandwidth()
    limit = max(product, writing)
    name = "the product in FP32" if product > writing else "memory"
    return [
        Row(
            f"transform, {n:,} x {COLUMNS}, D = {FEATURES:,}",
            f"{seconds:.3f} s",
            "<= 1.67 x",
            name,
            seconds / limit,
        )
    ]


BENCHMARKS = {
    "peak": peak,
    "fit": fit,
    "accuracy": accuracy,
    "parquet": parquet,
    "forest": forest,
    "transform": transform,
}


if __name__ == "__main__":
    run(
        "On a GPU",
        __file__,
        __doc__,
        BENCHMARKS,
        packages=("torch",),
        machine=gpu_and_processor,
    )
