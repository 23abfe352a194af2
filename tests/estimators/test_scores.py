"""`score` of every estimator that has one, on every kind of rows, against
scikit-learn on the predictions.
"""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.metrics import accuracy_score, r2_score

import bochner
from bochner import (
    KernelCCA,
    KernelMachineClassifier,
    KernelMachineRegressor,
    SemiSupervisedClassifier,
    SemiSupervisedRegressor,
)

N = 120
X = np.random.default_rng(0).normal(size=(N, 3))
Y = X[:, 0] + np.sin(2 * X[:, 1])
FEW = np.arange(N) < 40
FRAME = pd.DataFrame(X, columns=list("abc"))
REGRESSORS = {
    "regressor": lambda X: KernelMachineRegressor(n_components=50, random_state=0).fit(
        X, Y
    ),
    "semi-supervised": lambda X: SemiSupervisedRegressor(random_state=0).fit(
        X, np.where(FEW, Y, np.nan)
    ),
}
CLASSIFIERS = {
    "classifier": lambda X: KernelMachineClassifier(
        n_components=50, random_state=0
    ).fit(X, Y > 0),
    "semi-supervised classifier": lambda X: SemiSupervisedClassifier(
        random_state=0
    ).fit(X, np.where(FEW, Y > 0, -1)),
}


def case(name):
    if name in REGRESSORS:
        return REGRESSORS[name], r2_score, Y
    return CLASSIFIERS[name], accuracy_score, Y > 0


def strict(values):
    return pytest.importorskip("array_api_strict").asarray(values)


def chunks(values):
    return pytest.importorskip("dask.array").from_array(
        np.asarray(values), chunks=(50, *np.shape(values)[1:])
    )


def torch(values):
    return pytest.importorskip("torch").from_numpy(np.asarray(values))


ARRAYS = {
    "numpy": np.asarray,
    "array_api_strict": strict,
    "dask": chunks,
    "torch": torch,
}


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("name", REGRESSORS | CLASSIFIERS)
def test_arrays(name, kind):
    make, exact, y = (
        (REGRESSORS[name], r2_score, Y)
        if name in REGRESSORS
        else (CLASSIFIERS[name], accuracy_score, Y > 0)
    )
    model, weight = make(X), 1.0 + np.arange(N) % 3
    found = model.predict(X)
    for own in (None, weight):
        given = None if own is None else ARRAYS[kind](own)
        score = model.score(ARRAYS[kind](X), ARRAYS[kind](y), given)
        assert score == pytest.approx(exact(y, found, sample_weight=own), abs=1e-9)


@pytest.mark.parametrize("name", REGRESSORS | CLASSIFIERS)
def test_frames(name):
    make, exact, y = (
        (REGRESSORS[name], r2_score, Y)
        if name in REGRESSORS
        else (CLASSIFIERS[name], accuracy_score, Y > 0)
    )
    model = make(FRAME)
    wanted = pytest.approx(exact(y, model.predict(FRAME)), abs=1e-9)
    assert model.score(FRAME, pd.Series(y)) == wanted
    frames = pytest.importorskip("dask.dataframe")
    lazy = frames.from_pandas(FRAME.assign(y=y), npartitions=3)
    assert model.score(lazy[["a", "b", "c"]], lazy["y"]) == wanted
    assert model.score(lazy, "y") == wanted


@pytest.mark.parametrize("name", REGRESSORS | CLASSIFIERS)
def test_sparse_rows(name):
    make, exact, y = (
        (REGRESSORS[name], r2_score, Y)
        if name in REGRESSORS
        else (CLASSIFIERS[name], accuracy_score, Y > 0)
    )
    rows = sp.csr_array(np.where(np.abs(X) > 1, X, 0.0))
    model = make(rows)
    assert model.score(rows, y) == pytest.approx(
        exact(y, model.predict(rows)), abs=1e-9
    )
    assert model.score(rows.tocoo(), y) == pytest.approx(
        exact(y, model.predict(rows)), abs=1e-9
    )


@pytest.mark.slow
def test_all_estimators_are_here():
    scored = {
        name for name in bochner.__all__ if hasattr(getattr(bochner, name), "score")
    }
    here = {type(make(X)).__name__ for make in (REGRESSORS | CLASSIFIERS).values()}
    assert scored == here | {"KernelCCA"}


@pytest.mark.parametrize("kind", ARRAYS)
def test_models_without_targets(kind):
    to = ARRAYS[kind]
    pairs = KernelCCA(random_state=0).fit(X, X[:, :2] ** 2)
    assert pairs.score(to(X), to(X[:, :2] ** 2)) == pytest.approx(
        pairs.score(X, X[:, :2] ** 2), rel=1e-9
    )
