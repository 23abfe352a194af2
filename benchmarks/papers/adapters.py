"""The peers behind one call each: predictions and times on the same rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline

from cells import Result
from datasets import Split, categorised, encoder, taken
from runner import timed

TUNING_SECONDS = 15.0
Fitted = tuple[np.ndarray, Result]


def standardised(rows: Split) -> Split:
    """Rows as `encoder` has them, float32."""
    encode = encoder(rows.X)
    X = encode.fit_transform(rows.X).astype(np.float32)
    return Split(
        X, rows.y, encode.transform(rows.X_test).astype(np.float32), rows.y_test
    )


def plain(model: Any, rows: Split, regression: bool) -> Fitted:
    """Fit and predict; targets of regressions standardised, classes numbered."""
    classes, y = (
        (None, rows.y) if regression else np.unique(rows.y, return_inverse=True)
    )
    mean, scale = (y.mean(), y.std()) if regression else (0.0, 1.0)
    predicted, result = timed(
        model, rows.X, (y - mean) / scale if regression else y, rows.X_test
    )
    predicted = np.ravel(predicted)
    if regression:
        return predicted * scale + mean, result
    return classes[np.clip(np.rint(predicted), 0, len(classes) - 1).astype(int)], result


def ours(rows: Split, regression: bool, seed: int, **options: Any) -> Fitted:
    """Without arguments."""
    from bochner import KernelMachineClassifier, KernelMachineRegressor

    machine = KernelMachineRegressor if regression else KernelMachineClassifier
    machine(random_state=0).fit(rows.X[:300], rows.y[:300])  # loads compiled code
    return timed(machine(random_state=seed, **options), rows.X, rows.y, rows.X_test)


def lightgbm(rows: Split, regression: bool, seed: int, **options: Any) -> Fitted:
    """Categories as such."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    machine = LGBMRegressor if regression else LGBMClassifier
    return plain(
        machine(verbose=-1, random_state=seed, **options), categorised(rows), regression
    )


def xgboost(rows: Split, regression: bool, seed: int) -> Fitted:
    """Categories as such."""
    from xgboost import XGBClassifier, XGBRegressor

    machine = XGBRegressor if regression else XGBClassifier
    model = machine(random_state=seed, enable_categorical=True)
    return plain(model, categorised(rows), regression)


def boosting(rows: Split, regression: bool, seed: int) -> Fitted:
    """scikit-learn's."""
    from sklearn.ensemble import (
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
    )

    machine = (
        HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
    )
    model = machine(random_state=seed, categorical_features="from_dtype")
    return plain(model, categorised(rows), regression)


def linear(features: Any, rows: Split, regression: bool) -> Fitted:
    """Ridge regression or a ridge classifier on features of standardised columns."""
    from sklearn.linear_model import RidgeClassifierCV, RidgeCV

    alphas = np.logspace(-3, 3, 7)
    solver = RidgeCV(alphas) if regression else RidgeClassifierCV(alphas)
    return plain(make_pipeline(features, solver), standardised(rows), regression)


def rbf_sampler(
    rows: Split, regression: bool, seed: int, gamma: Any = "scale", n: int = 1000
) -> Fitted:
    """gamma="scale", for the default of 1 makes the kernel matrix the identity."""
    from sklearn.kernel_approximation import RBFSampler

    return linear(
        RBFSampler(gamma=gamma, n_components=n, random_state=seed), rows, regression
    )


def nystroem(
    rows: Split, regression: bool, seed: int, gamma: Any = None, n: int = 1000
) -> Fitted:
    """Gamma = 1 / d."""
    from sklearn.kernel_approximation import Nystroem

    return linear(
        Nystroem(gamma=gamma, n_components=n, random_state=seed), rows, regression
    )


def svm(rows: Split, regression: bool, seed: int) -> Fitted:
    """Libsvm through scikit-learn."""
    from sklearn.svm import SVC, SVR

    return plain(
        (SVR if regression else SVC)(cache_size=2000), standardised(rows), regression
    )


def kernel_ridge(rows: Split, regression: bool, seed: int) -> Fitted:
    """The exact machine."""
    from sklearn.kernel_ridge import KernelRidge

    if not regression:
        raise TypeError("regression only")
    return plain(KernelRidge(kernel="rbf", alpha=0.1), standardised(rows), regression)


def xrfm(rows: Split, regression: bool, seed: int) -> Fitted:
    """A fifth of the training rows to validate, as its interface asks for."""
    from xrfm import xRFM

    class Validated:
        def fit(self, X: np.ndarray, y: np.ndarray) -> None:
            order = np.random.default_rng(seed).permutation(len(y))
            out, fit = order[: len(y) // 5], order[len(y) // 5 :]
            metric = "mse" if regression else "accuracy"
            self.model = xRFM(
                device="cpu", tuning_metric=metric, random_state=seed, verbose=False
            )
            self.model.fit(X[fit], y[fit].astype(kind), X[out], y[out].astype(kind))

        def predict(self, X: np.ndarray) -> np.ndarray:
            return self.model.predict(X)

    kind = np.float32 if regression else np.int64
    return plain(Validated(), standardised(rows), regression)


def rfflearn(rows: Split, regression: bool, seed: int) -> Fitted:
    """Its defaults: linear SVM on 128 random Fourier features."""
    import rfflearn.cpu as rff

    rff.seed(seed)
    return plain(
        (rff.RFFSVR if regression else rff.RFFSVC)(), standardised(rows), regression
    )


def neo_ls_svm(rows: Split, regression: bool, seed: int) -> Fitted:
    """Least-squares SVM on orthogonal random features."""
    from neo_ls_svm import NeoLSSVM

    return plain(NeoLSSVM(random_state=seed), standardised(rows), regression)


def thundersvm(rows: Split, regression: bool, seed: int) -> Fitted:
    """Libsvm's machines on all cores."""
    from thundersvm import SVC, SVR

    return plain((SVR if regression else SVC)(), standardised(rows), regression)


def falkon(rows: Split, regression: bool, seed: int) -> Fitted:
    """Nystroem centres by preconditioned conjugate gradients."""
    import falkon

    kernel = falkon.kernels.GaussianKernel(np.sqrt(rows.X.shape[1]))
    return plain(
        falkon.Falkon(kernel, penalty=1e-6, M=2000, seed=seed),
        standardised(rows),
        regression,
    )


def eigenpro(rows: Split, regression: bool, seed: int) -> Fitted:
    """Preconditioned gradient descent on the kernel."""
    from eigenpro import EigenProRegressor

    return plain(EigenProRegressor(), standardised(rows), regression)


def tuned(
    adapter: Callable[..., Fitted], space: dict[str, list]
) -> Callable[..., Fitted]:
    """The defaults and random others for `TUNING_SECONDS`, on a fifth of the
    training rows; then one fit on all.
    """

    def search(rows: Split, regression: bool, seed: int) -> Fitted:
        rng, start = np.random.default_rng(seed), time.perf_counter()
        order = rng.permutation(len(rows.y))
        out, fit = order[: len(order) // 5], order[len(order) // 5 :]
        inner = Split(taken(rows.X, fit), rows.y[fit], taken(rows.X, out), rows.y[out])
        options: dict[str, Any] = {}
        best, least = options, np.inf
        while time.perf_counter() - start < TUNING_SECONDS:
            predicted, _ = adapter(inner, regression, seed, **options)
            wrong = (
                np.mean((predicted - inner.y_test) ** 2)
                if regression
                else np.mean(predicted != inner.y_test)
            )
            best, least = (options, wrong) if wrong < least else (best, least)
            options = {
                name: values[rng.integers(len(values))]
                for name, values in space.items()
            }
        spent = time.perf_counter() - start
        predicted, result = adapter(rows, regression, seed, **best)
        return predicted, result | {"fit": result["fit"] + spent}

    return search


TREES = {
    "learning_rate": [0.03, 0.06, 0.1, 0.2],
    "n_estimators": [100, 300, 1000],
    "num_leaves": [15, 31, 63, 127, 255],
}
WAVES = {"gamma": [0.001, 0.003, 0.01, 0.03, 0.1, 0.3], "n": [1000, 2000]}
PEERS: dict[str, Callable[..., Fitted]] = {
    "bochner": ours,
    "bochner, 1 s": partial(ours, time_limit=1.0),
    "LightGBM": lightgbm,
    "LightGBM, tuned": tuned(lightgbm, TREES),
    "XGBoost": xgboost,
    "HistGradientBoosting": boosting,
    "RBFSampler + ridge": rbf_sampler,
    "RBFSampler + ridge, tuned": tuned(rbf_sampler, WAVES),
    "Nystroem + ridge": nystroem,
    "SVC / SVR": svm,
    "KernelRidge": kernel_ridge,
    "xRFM": xrfm,
    "rfflearn": rfflearn,
    "neo-ls-svm": neo_ls_svm,
    "ThunderSVM": thundersvm,
    "Falkon": falkon,
    "EigenPro": eigenpro,
}
