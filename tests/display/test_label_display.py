"""Labels and what has spread from them: what is drawn is what the model says."""

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits, make_moons

from bochner import SemiSupervisedClassifier
from bochner.display import LabelDisplay

X, MOON = make_moons(400, noise=0.06, random_state=0)
X = X * [3, 1] + 5
Y = np.where(np.arange(400) < 10, MOON, -1)
MODEL = SemiSupervisedClassifier(random_state=0).fit(X, Y)


def test_classes_shades_and_labels(crowded):
    display = LabelDisplay.from_estimator(MODEL, X, Y).plot()
    p, free = MODEL.predict_proba(X), Y == -1
    for k in (0, 1):
        rows = free & (p.argmax(axis=1) == k)
        drawn = display.points_[str(k)]
        assert_allclose(drawn.get_offsets(), X[rows])  # in the units of the columns
        expected = 0.15 + 0.85 * (2 * p[rows].max(axis=1) - 1)
        assert_allclose(drawn.get_facecolor()[:, 3], expected)
        marks = display.known_[str(k)]
        assert len(marks.get_offsets()) == (k == Y).sum()
        np.testing.assert_array_equal(
            drawn.get_facecolor()[:, :3],
            np.tile(marks.get_facecolor()[0, :3], (rows.sum(), 1)),
        )
        assert tuple(marks.get_edgecolor()[0]) == to_rgba("black")
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == [
        "0",
        "1",
    ]
    assert (
        display.ax_.get_title(loc="left")
        == "10 of 400 rows with a label; shades: certainty"
    )
    assert not crowded(display.figure_)


def test_rows_with_a_label_stay_when_few_are_drawn():
    display = LabelDisplay.from_estimator(MODEL, X, Y, max_rows=20).plot()
    assert sum(len(marks.get_offsets()) for marks in display.known_.values()) == 10
    assert sum(len(drawn.get_offsets()) for drawn in display.points_.values()) == 20


def test_a_label_against_all_around_it_is_drawn_as_it_is():
    turned = Y.copy()
    turned[3] = 1 - MOON[3]
    display = LabelDisplay.from_estimator(MODEL, X, turned)
    assert display.labels[3] == turned[3]


def test_many_columns_and_words():
    digits, labels = load_digits(return_X_y=True)
    digits, labels = (
        digits[:600],
        np.array(["zero", "one", *"23456789"], object)[labels[:600]],
    )
    y = np.where(np.arange(600) < 60, labels, None)
    model = SemiSupervisedClassifier(random_state=0).fit(digits, y)
    display = LabelDisplay.from_estimator(model, digits, y).plot()
    assert set(display.points_) == set(labels)
    rows = model.features_.coordinates(model.encoder_.encode(digits, np.float64))
    U, s, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    assert_allclose(np.abs(display.points), np.abs(U[:, :2] * s[:2]), atol=1e-8)


def test_without_labels_and_refusals():
    display = LabelDisplay.from_estimator(MODEL, X).plot()
    assert not display.known.any()
    with pytest.raises(ValueError, match="does not fit 400 rows"):
        LabelDisplay.from_estimator(MODEL, X, Y[:5])
    with pytest.raises(ValueError, match="not fitted"):
        LabelDisplay.from_estimator(SemiSupervisedClassifier(), X)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        LabelDisplay(X, Y, Y, Y[:3])


def test_all_rows_with_labels():
    truth = MODEL.predict(X)
    display = LabelDisplay.from_estimator(MODEL, X, truth).plot()
    assert display.ax_.get_title("left").startswith("400 of 400 rows")
