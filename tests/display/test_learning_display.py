"""Learning curves are those of scikit-learn's scores."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits
from sklearn.metrics import accuracy_score, r2_score

from bochner import KernelMachineClassifier, KernelMachineRegressor
from bochner.display import LearningDisplay
from bochner.kernels import Gaussian, Laplacian


@pytest.mark.slow
def test_errors_of_a_classifier(crowded):
    X, y = load_digits(return_X_y=True)
    model = KernelMachineClassifier(Gaussian(25.0), n_components=100, alpha=0.1)
    parts, asked = (
        {"X": X[:1000], "y": y[:1000], "test": (X[1000:], y[1000:])},
        {"rows": (200, 1000), "seeds": (7, 8)},
    )
    display = LearningDisplay.from_estimator(
        model, **parts, sizes=(10, 50, 100), **asked
    ).plot()
    assert display.row_errors.shape == (2, 2)
    assert display.size_errors.shape == display.seconds.shape == (3, 2)
    np.testing.assert_array_equal(
        display.size_errors[2], display.row_errors[1]
    )  # the same model
    rows = np.random.default_rng(7).permutation(1000)[:200]
    same = clone(model).set_params(random_state=7).fit(X[rows], y[rows])
    assert display.row_errors[0, 0] == pytest.approx(
        1 - accuracy_score(y[1000:], same.predict(X[1000:]))
    )
    np.testing.assert_array_equal(
        display.lines_[1].get_ydata(), display.size_errors.mean(axis=1)
    )
    assert [ax.get_ylabel() for ax in display.axes_][1:] == [
        "Error rate",
        "Training time [s]",
    ]
    assert not crowded(display.figure_)


def test_errors_of_a_regressor_on_a_frame():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = KernelMachineRegressor(
        Laplacian(0.2), features="binning", n_components=20, alpha=1.0
    )
    display = LearningDisplay.from_estimator(
        model, X[:300], y[:300], test=(X[300:], y[300:]), sizes=[20], seeds=[7]
    )
    order = np.random.default_rng(7).permutation(300)
    same = clone(model).set_params(random_state=7).fit(X.iloc[order], y.iloc[order])
    assert display.size_errors[0, 0] ** 2 == pytest.approx(
        1 - r2_score(y[300:], same.predict(X[300:]))
    )
    assert len(display.plot().axes_) == 2
    assert display.axes_[0].get_xlabel() == "Number of grids"


def test_what_cannot_be_drawn_is_refused():
    frame = pd.DataFrame({"a": np.arange(10.0)})
    with pytest.raises(ValueError, match="rows up to 10 or sizes"):
        LearningDisplay.from_estimator(
            KernelMachineRegressor(),
            frame,
            frame["a"],
            test=(frame, frame["a"]),
            rows=[11],
        )
    with pytest.raises(ValueError, match="nothing to draw"):
        LearningDisplay().plot()
