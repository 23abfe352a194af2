"""The map of scores: what it draws is what the detector says."""

import numpy as np
import pytest

from bochner import KernelPCA, NoveltyDetector
from bochner.display import NoveltyDisplay


@pytest.mark.parametrize("d", [1, 2, 5])
def test_draws_rows_scores_and_offset(d, crowded):
    X = np.random.default_rng(0).standard_normal((500, d)) * np.arange(1, d + 1)
    detector = NoveltyDetector(0.1, n_components=64, n_grids=20, random_state=0).fit(X)
    display = NoveltyDisplay.from_estimator(detector, X).plot()
    assert len(display.novel_.get_offsets()) == (detector.predict(X) < 0).sum() == 50
    assert len(display.normal_.get_offsets()) == 450
    assert f"{detector.offset_:.2f}" in display.ax_.get_title(loc="left")
    assert not crowded(display.figure_)


def test_the_surface_is_the_score_of_the_plane():
    X = np.random.default_rng(0).standard_normal((300, 2)) * [1, 5] + 3
    detector = NoveltyDetector(n_components=64, n_grids=20, random_state=0).fit(X)
    display = NoveltyDisplay.from_estimator(detector, X, max_rows=100)
    x, y = display.axes  # in the units of the columns
    assert np.abs(X[:, 1] - display.points[:, 1, np.newaxis]).min(axis=1).max() < 1e-9
    assert display.surface[7, 31] == pytest.approx(
        detector.score_samples([[x[31], y[7]]])[0]
    )
    assert len(display.points) == 100


def test_says_what_it_needs():
    with pytest.raises(ValueError, match="not fitted"):
        NoveltyDisplay.from_estimator(NoveltyDetector(), np.ones((3, 2)))


def test_one_row_a_path_and_another_model():
    X = np.random.default_rng(0).standard_normal((60, 3))
    detector = NoveltyDetector(n_components=32, n_grids=8, random_state=0).fit(X)
    assert len(NoveltyDisplay.from_estimator(detector, X[:1]).plot().points) == 1
    with pytest.raises(TypeError, match="not a path"):
        NoveltyDisplay.from_estimator(detector, "rows.parquet")
    with pytest.raises(ValueError, match="offset_, and KernelPCA has none"):
        NoveltyDisplay.from_estimator(KernelPCA(random_state=0).fit(X), X)
