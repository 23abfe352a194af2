"""Scree plots and embeddings show what they were given."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from bochner import KernelCCA, KernelPCA
from bochner.display import CorrelationDisplay, EmbeddingDisplay, ScreeDisplay

X, y = load_digits(return_X_y=True)
MODEL = KernelPCA(5, random_state=0).fit(X)


def test_scree():
    display = ScreeDisplay.from_estimator(MODEL).plot()
    assert [
        bar.get_height() for bar in display.bars_
    ] == MODEL.explained_variance_ratio_.tolist()
    np.testing.assert_allclose(
        display.line_.get_ydata(), np.cumsum(MODEL.explained_variance_ratio_)
    )


def test_correlations():
    left, right = X[:, :32], X[:, 32:]
    model = KernelCCA(4, random_state=0).fit(left[:300], right[:300])
    display = CorrelationDisplay.from_estimator(
        model, left[300:600], right[300:600]
    ).plot()
    assert [bar.get_height() for bar in display.bars_] == model.correlations_.tolist()
    A, B = model.transform(left[300:600], right[300:600])
    expected = [np.corrcoef(a, b)[0, 1] for a, b in zip(A.T, B.T, strict=True)]
    np.testing.assert_allclose(display.line_.get_ydata(), expected, atol=1e-12)
    assert CorrelationDisplay.from_estimator(model).plot().line_ is None
    with pytest.raises(ValueError, match="X comes without y"):
        CorrelationDisplay.from_estimator(model, left)


def test_embedding_of_categories_and_numbers():
    scores = MODEL.transform(X)
    display = EmbeddingDisplay.from_estimator(MODEL, X, y, components=(1, 3)).plot()
    assert len(display.points_) == 10
    assert display.colorbar_ is None
    np.testing.assert_array_equal(
        display.points_[4].get_offsets(), scores[y == 4][:, [1, 3]]
    )
    shades = EmbeddingDisplay.from_estimator(MODEL, X, X.sum(axis=1)).plot()
    np.testing.assert_array_equal(shades.points_[0].get_array(), X.sum(axis=1))
    assert shades.colorbar_ is not None
    many = EmbeddingDisplay(
        scores[:, :2], [f"name {i % 30}" for i in range(len(X))]
    ).plot()
    assert many.ax_.get_legend().get_texts()[-1].get_text() == "10 others"
    assert len(EmbeddingDisplay(scores[:, :2]).plot().points_) == 1


def test_refusals():
    with pytest.raises(ValueError, match="two of the 5 scores"):
        EmbeddingDisplay.from_estimator(MODEL, X, components=(0, 5))
    with pytest.raises(ValueError, match="inconsistent numbers"):
        EmbeddingDisplay(np.zeros((3, 2)), [1, 2])
