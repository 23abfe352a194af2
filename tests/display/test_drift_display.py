"""Scores over time, as they are drawn."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from bochner import OnlineKernelClassifier, OnlineKernelRegressor
from bochner.display import DriftDisplay


@pytest.fixture(scope="module")
def rows():
    X = np.random.default_rng(0).uniform(-3, 3, (1500, 1))
    return X, np.sin(2 * X[:, 0] + np.arange(1500) / 300)


def test_lines_are_the_histories(rows, crowded):
    models = {
        "all rows": OnlineKernelRegressor(n_components=50, random_state=0).fit(*rows),
        "the last": OnlineKernelRegressor(n_components=50, half_life=100, random_state=0).fit(*rows),
    }
    display = DriftDisplay.from_estimator(models).plot()
    for line, model in zip(display.lines_, models.values(), strict=True):
        np.testing.assert_array_equal(line.get_xydata(), model.score_history_)
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == list(models)
    assert not crowded(display.figure_)


def test_one_model_needs_no_legend(rows):
    model = OnlineKernelClassifier(n_components=50, random_state=0).fit(rows[0], rows[1] > 0)
    display = DriftDisplay.from_estimator(model).plot()
    assert display.ax_.get_legend() is None
    assert display.ax_.get_ylabel() == "Accuracy"


def test_what_has_no_scores_is_refused(rows):
    with pytest.raises(ValueError, match="keeps no scores"):
        DriftDisplay.from_estimator(Ridge().fit(*rows))
    few = OnlineKernelRegressor(n_components=20).fit(rows[0][:100], rows[1][:100])
    with pytest.raises(ValueError, match="second block"):
        DriftDisplay.from_estimator(few)
