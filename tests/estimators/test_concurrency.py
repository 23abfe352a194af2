"""One seed, one model: to the bit, whatever else the process does and however many
threads there are.
"""

import os
import subprocess
import sys
import textwrap

import pytest

CODE = """
    import sys
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np
    from sklearn.kernel_approximation import Nystroem
    from threadpoolctl import threadpool_info

    from bochner import (
        BinningFeatures, ConcatenatedFeatures, FourierFeatures, KernelMachineClassifier, KernelMachineRegressor,
        LinearFeatures,
    )
    import bochner.solvers.iterative as iterative
    import bochner.solvers.shifted as shifted
    import bochner.selection.choose as choose
    import bochner.selection.learning as learning
    from bochner.engines import local
    from bochner.kernels import Gaussian, Laplacian, SmoothBins
    from bochner.selection.metric_learning import Schedule

    # Every path, at small sizes.
    choose.schedule = learning.schedule = lambda *args: Schedule(60, 384)
    iterative.PACKED_ENTRIES, iterative.GRAM_LIMIT, shifted.TRIDIAGONAL_LIMIT = 1 << 20, 700, 500
    assert {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"} == {2}
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12_000, 6)).astype(np.float32)
    y = np.sin(X[:, 0]) + np.abs(X[:, 1])
    few, many = slice(0, 900), slice(0, 2600)
    fourier, bins = FourierFeatures(Gaussian(2.0), 300), BinningFeatures(Laplacian(4.0), 20)

    class Fits:
        '''Each of them fits on some rows, and gives what it learned and predictions.'''

        def regressor(self, rows=many, features="auto", **options):
            model = KernelMachineRegressor(features=features, random_state=0, **options).fit(X[rows], y[rows])
            return model.feature_weights_, model.intercept_, model.predict(X[-2500:])

        def classifier(self, rows=many, features="auto", **options):
            labels = np.digitize(y, [0.5, 1.0])
            model = KernelMachineClassifier(features=features, random_state=0, **options).fit(X[rows], labels[rows])
            return model.feature_weights_, model.link_, model.predict_proba(X[-2500:])

        def fourier(self):
            return self.regressor(features=fourier)

        def held(self):
            return self.regressor(features=fourier, solver="cg")

        def many_fourier(self):
            return self.classifier(few, FourierFeatures(Gaussian(2.0), 800), solver="cg", alpha=1.0)

        def packed(self):
            return self.classifier(features=FourierFeatures(Gaussian(2.0), 600), solver="cg", alpha=[0.1, 1.0])

        def large(self):
            return self.regressor(few, FourierFeatures(Gaussian(2.0), 600), alpha=[0.1, 1.0])

        def binned(self):
            return self.classifier(features=bins, alpha=[0.1, 1.0])

        def smooth(self):
            return self.regressor(features=BinningFeatures(SmoothBins(4.0), 20))

        def buckets(self):
            return self.regressor(features=BinningFeatures(Laplacian(4.0), 20, n_buckets=64))

        def side_by_side(self):
            together = ConcatenatedFeatures([FourierFeatures(Gaussian(2.0), 40), bins, LinearFeatures()])
            return self.regressor(slice(0, 1100), together, alpha=[0.1, 1.0])

        def nystroem(self):
            return self.regressor(features=Nystroem(n_components=200))

        def one_lengthscale(self):
            return self.regressor(slice(0, 300), metric="isotropic")

        def learned(self):
            return self.regressor(slice(0, 300), n_components=20)

        def issue(self):
            return self.regressor(slice(0, 12_000), "binning", n_components=10, metric="ard")

    names = [name for name in vars(Fits) if not name.startswith("_") and name not in ("regressor", "classifier")]

    def fit(name):
        return getattr(Fits(), name)()

    expected = {}
    for threads in (1, 5):
        local.n_threads = lambda threads=threads: threads
        for name in names:
            found = fit(name)
            assert all(map(np.array_equal, found, expected.setdefault(name, found))), f"{name}, {threads} threads"
    local.n_threads = lambda: 2
    jobs = names + names[:1]
    with ThreadPoolExecutor(8) as pool:
        for name, found in zip(jobs, pool.map(fit, jobs)):
            assert all(map(np.array_equal, found, expected[name])), f"{name}, 8 callers at once"
    assert {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"} == {2}
"""


@pytest.mark.skipif(
    (os.cpu_count() or 1) < 2,
    reason="needs two processors, lest BLAS has one thread anyway",
)
def test_a_seed_gives_one_model():
    """Alone with 1 and 5 threads; then eight at once with 2, of every map, within a
    limit of time.
    """
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(CODE)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=200, env=environment
    )
    assert done.returncode == 0, done.stderr
