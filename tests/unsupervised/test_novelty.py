"""The detector of new rows: its two measures by NumPy, its place among
scikit-learn's, rows of any kind.
"""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import (
    check_outliers_fit_predict,
    check_outliers_train,
    parametrize_with_checks,
)

from bochner import NoveltyDetector, load, save
from bochner.unsupervised.novelty_detector import alarm_level


def ring(n, seed=0):
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, n)
    return np.column_stack([np.cos(angle), np.sin(angle)]) + 0.05 * rng.standard_normal(
        (n, 2)
    )


OF_NEW_ROWS = (
    "with contamination='auto' the offset is that of new rows, and rows of "
    "the fit look more normal than these"
)
SMALL = {"n_components": 64, "n_grids": 20}


@pytest.mark.slow
@parametrize_with_checks(
    [NoveltyDetector(**SMALL)],
    expected_failed_checks=lambda _: dict.fromkeys(
        ["check_outliers_train", "check_outliers_fit_predict"], OF_NEW_ROWS
    ),
)
def test_promises_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("check", [check_outliers_train, check_outliers_fit_predict])
def test_contamination_is_the_share_of_the_rows_of_the_fit(check):
    check("NoveltyDetector", NoveltyDetector(0.1, **SMALL))


@pytest.fixture(scope="module")
def detector():
    return NoveltyDetector(
        n_components=200, n_grids=50, standardize=False, random_state=0
    ).fit(ring(3000))


def test_leverage_is_that_of_numpy(detector):
    X, new = ring(3000), ring(40, 1) * 1.3
    shift = detector.encoder_.columns_[0].shift
    Z, z = (detector.features_.transform(rows - shift) for rows in (X, new))
    C = np.cov(Z.T, bias=True) + 1e-8 * np.eye(200)
    centred = z - Z.mean(axis=0)
    expected = (
        1 + np.einsum("ij,ij->i", centred, np.linalg.solve(C, centred.T).T)
    ) / 3000
    found = detector.leverage_.forms(detector.features_.transform(new - shift))
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_counts_are_those_of_numpy(detector):
    X, new = ring(3000), ring(40, 1) * 1.3
    shift, bins = detector.encoder_.columns_[0].shift, detector.bins_
    expected = np.zeros(40)
    for pitch, start in zip(bins.pitches_[:, 0], bins.shifts_[:, 0], strict=True):
        here, there = (np.floor((rows - shift - start) / pitch) for rows in (X, new))
        counts = (here[None] == there[:, None]).all(axis=2).sum(axis=1)
        expected += counts / (counts + 0.1) / 50
    rows = new - shift
    found = bins.dot(rows, detector.familiarity_)[:, 0] / np.sqrt(50)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_finds_the_hole_and_the_outside_where_a_forest_does_not(detector):
    rng = np.random.default_rng(2)
    new = np.vstack(
        [
            ring(500, 3),
            0.3 * rng.standard_normal((100, 2)),
            2 + rng.standard_normal((100, 2)),
        ]
    )
    y = np.repeat([0, 1], [500, 200])
    own = roc_auc_score(y, -detector.score_samples(new))
    forest = roc_auc_score(
        y, -IsolationForest(random_state=0).fit(ring(3000)).score_samples(new)
    )
    assert own > 0.99
    assert own > forest


SHAPES = {
    "ring": ring,
    "normal": lambda n, seed: np.random.default_rng(seed).standard_normal((n, 5)),
    "heavy tails": lambda n, seed: np.random.default_rng(seed).standard_t(2, (n, 3)),
    "many columns": lambda n, seed: np.random.default_rng(seed).standard_normal(
        (n, 60)
    ),
}


@pytest.mark.parametrize("share", [0.02, 0.1])
@pytest.mark.parametrize("n", [400, 6000])
@pytest.mark.parametrize("shape", SHAPES)
def test_false_alarms_are_as_many_as_was_asked_for(shape, n, share):
    """The share's error is that of the rows that are counted, and of those of which
    the offset is a quantile.
    """
    detector = NoveltyDetector(
        false_alarms=share, n_components=200, n_grids=50, random_state=0
    )
    found = np.mean(
        detector.fit(SHAPES[shape](n, 0)).predict(SHAPES[shape](6000, 1)) < 0
    )
    assert abs(found - share) < 3.5 * np.sqrt(share * (1 - share) * (1 / n + 1 / 6000))


def test_rows_left_out_are_what_new_rows_are_compared_with():
    """With fewer rows than features the rows of the fit all have a leverage of one,
    and new ones have not.
    """
    rng = np.random.default_rng(0)
    detector = NoveltyDetector(random_state=0).fit(rng.standard_normal((200, 20)))
    scores = detector.score_samples(rng.standard_normal((1000, 20)))
    assert -1.4 < scores.mean() < -0.7  # of uniform shares it is -1


def test_a_weight_counts_as_equal_rows():
    X = ring(300)
    weight = np.random.default_rng(0).integers(0, 4, 300)
    weighted = NoveltyDetector(random_state=0).fit(X, sample_weight=weight)
    repeated = NoveltyDetector(random_state=0).fit(np.repeat(X, weight, axis=0))
    new = ring(50, 1) * 1.1
    np.testing.assert_allclose(
        weighted.score_samples(new), repeated.score_samples(new), rtol=1e-6, atol=1e-6
    )


def test_frames_sparse_rows_files_and_saved_models(tmp_path):
    X = ring(2000)
    frame = pd.DataFrame(X, columns=["x", "y"]).assign(
        town=np.where(X[:, 0] > 0, "Bern", "Jena")
    )
    detector = NoveltyDetector(n_components=100, random_state=0).fit(frame)
    scores = detector.score_samples(frame)
    strange = frame.assign(town=np.where(X[:, 0] > 0, "Jena", "Bern"))
    assert np.median(detector.score_samples(strange)) < np.quantile(scores, 0.02)
    frame.to_parquet(tmp_path / "rows.parquet")
    np.testing.assert_allclose(
        detector.score_samples(tmp_path / "rows.parquet"), scores, atol=1e-5
    )
    read = NoveltyDetector(n_components=100, random_state=0).fit(
        tmp_path / "rows.parquet"
    )
    np.testing.assert_allclose(read.score_samples(frame), scores, atol=1e-5)
    save(detector, tmp_path / "detector.safetensors")
    np.testing.assert_array_equal(
        load(tmp_path / "detector.safetensors").score_samples(frame), scores
    )
    sparse = NoveltyDetector(n_components=100, random_state=0).fit(sp.csr_array(X))
    assert sparse.predict(sp.csr_array([[1.0, 0.0], [5.0, 5.0]])).tolist() == [1, -1]


def test_streams_are_read_in_passes(tmp_path):
    """Rows that are more than the limit of the settings lets be held."""
    from bochner import settings

    X = ring(60000)
    pd.DataFrame(X, columns=["x", "y"]).to_parquet(
        tmp_path / "rows.parquet", row_group_size=5000
    )
    held = NoveltyDetector(n_components=64, n_grids=20, random_state=0).fit(
        pd.DataFrame(X, columns=["x", "y"])
    )
    with settings(memory_limit="16MB"):
        read = NoveltyDetector(n_components=64, n_grids=20, random_state=0).fit(
            tmp_path / "rows.parquet"
        )
    new = pd.DataFrame(
        np.vstack([ring(300, 1), np.random.default_rng(0).standard_normal((300, 2))]),
        columns=["x", "y"],
    )
    a, b = held.score_samples(new), read.score_samples(new)
    assert np.corrcoef(a, b)[0, 1] > 0.98


def test_one_row_and_equal_rows():
    one = NoveltyDetector(**SMALL).fit([[1.0, 2.0]])
    assert np.isfinite(one.score_samples([[1.0, 2.0], [9.0, 9.0]])).all()
    equal = NoveltyDetector(**SMALL, random_state=0).fit(
        np.repeat([[1.0, 2.0], [3.0, 4.0]], 50, axis=0)
    )
    assert equal.predict([[1.0, 2.0], [3.0, 4.0], [9.0, 9.0]]).tolist() == [1, 1, -1]


@pytest.mark.parametrize("n", [5, 10, 60, 150])
def test_the_share_of_new_rows_below_the_level_is_that_which_was_asked_for(n):
    """Also where it is less than one row of the fit, for logarithms of shares."""
    rng = np.random.default_rng(0)
    levels = [
        alarm_level(-rng.exponential(size=n), np.ones(n), 0.02) for _ in range(4000)
    ]
    assert np.exp(levels).mean() == pytest.approx(0.02, rel=0.12)


def test_weights_of_the_level_are_repeats():
    rng = np.random.default_rng(0)
    scores, weight = -rng.exponential(size=30), rng.integers(1, 5, 30)
    for share in (0.002, 0.02, 0.1, 0.5):
        assert alarm_level(scores, weight, share) == pytest.approx(
            alarm_level(np.repeat(scores, weight), np.ones(weight.sum()), share)
        )
        assert alarm_level(scores, np.full(30, 1e-9), share) == pytest.approx(
            alarm_level(scores, np.ones(30), share)
        )


@pytest.mark.parametrize("value", [1.0, 3.3])
@pytest.mark.parametrize("n", [1, 50])
def test_other_rows_than_equal_ones_are_novel(value, n):
    detector = NoveltyDetector(**SMALL, random_state=0).fit(np.full((n, 2), value))
    new = [[value, value], [value, value + 1], [-1e6, 1e6]]
    assert detector.predict(new).tolist() == [1, -1, -1]


def test_a_constant_column_changes_nothing_until_it_changes():
    X = ring(1000)
    detector = NoveltyDetector(**SMALL, random_state=0).fit(
        np.column_stack([X, np.full(1000, 7.0)])
    )
    assert (
        np.mean(
            detector.predict(np.column_stack([ring(1000, 1), np.full(1000, 7.0)])) < 0
        )
        < 0.06
    )


def test_missing_values_are_values():
    frame = pd.DataFrame(ring(1000), columns=["x", "y"])
    frame.loc[::2, "x"] = np.nan
    detector = NoveltyDetector(**SMALL, random_state=0).fit(frame)
    new = pd.DataFrame({"x": [np.nan, 5.0], "y": [0.5, 5.0]})
    assert detector.predict(new).tolist() == [1, -1]


def test_very_many_sparse_columns():
    rng = np.random.default_rng(0)
    values, columns = rng.uniform(size=9000), rng.integers(0, 100_000, 9000)
    X = sp.csr_array((values, columns, np.arange(0, 9001, 30)), shape=(300, 100_000))
    detector = NoveltyDetector(n_components=32, n_grids=8, random_state=0).fit(X)
    scores = detector.score_samples(sp.vstack([X[:5], 100 * X[:5]], format="csr"))
    assert scores[:5].min() > scores[5:].max()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"false_alarms": 0.0}, "false_alarms must be"),
        ({"contamination": 0.7}, "contamination must be"),
        ({"contamination": "some"}, "contamination must be"),
        ({"scale": 0}, "scale must be"),
        ({"ridge": -1}, "ridge must be"),
    ],
)
def test_refuses_what_makes_no_sense(parameters, message):
    with pytest.raises(ValueError, match=message):
        NoveltyDetector(**parameters).fit(ring(20))


def test_great_weights_make_no_difference_of_rounding_count():
    X = ring(200)
    scores = (
        NoveltyDetector(random_state=0, **SMALL)
        .fit(X, sample_weight=np.full(200, 1e12))
        .score_samples(X + 100)
    )
    assert scores.min() > -1e6


@pytest.mark.parametrize(("n", "d"), [(200, 2), (200, 10), (5000, 10)])
def test_contamination_holds_on_new_rows_too(n, d, tmp_path):
    """The share of the rows of the fit, and nearly that of new ones, also of few
    rows in many columns.
    """
    flagged, new = [], []
    for seed in range(4 if n < 1000 else 1):
        rng = np.random.default_rng(seed)
        X, others = rng.standard_normal((n, d)), rng.standard_normal((2000, d))
        detector = NoveltyDetector(contamination=0.05, random_state=seed).fit(X)
        flagged.append((detector.predict(X) < 0).mean())
        new.append((detector.predict(others) < 0).mean())
    np.testing.assert_allclose(flagged, 0.05, atol=1 / n)
    assert 0.02 < np.mean(new) < 0.09
    save(detector, tmp_path / "detector.safetensors")
    np.testing.assert_allclose(
        load(tmp_path / "detector.safetensors").score_samples(X),
        detector.score_samples(X),
    )


@pytest.mark.parametrize("d", [3, 40])
@pytest.mark.parametrize(
    "stored",
    [
        lambda X: X.astype(np.float32),
        lambda X: X * (1 + 1e-12),
        lambda X: np.round(X, 6),
    ],
    ids=["single", "rounded", "digits"],
)
def test_rows_of_the_fit_are_recognised_in_other_digits(d, stored):
    X = np.random.default_rng(0).standard_normal((600, d))
    X[:30] = 6 * X[:30] + 8
    detector = NoveltyDetector(contamination=0.05, random_state=0).fit(X)
    expected = detector.predict(X)
    assert (expected[:30] < 0).all()
    assert (detector.predict(stored(X)) == expected).mean() > 0.99
    # In any unit of the columns
    own = NoveltyDetector(contamination=0.05, standardize=False, random_state=0)
    tiny = own.fit(1e-9 * X).predict(stored(X) * 1e-9)
    assert np.mean(tiny < 0) == pytest.approx(0.05, abs=0.01)


def test_one_absurd_value_hides_no_others():
    """Nor itself: units are those of the others, and nothing is cut off."""
    X = np.random.default_rng(0).normal(size=(500, 3))
    X[0, 0] = 1e6
    detector = NoveltyDetector(contamination=0.02, random_state=0).fit(X)
    assert detector.score_samples(X).argmin() == 0
    detector = NoveltyDetector(random_state=0).fit(X)
    new = [[50, 0, 0], [1e4, 0, 0], [1e9, 0, 0], [0, 0, 0]]
    assert detector.predict(new).tolist() == [-1, -1, -1, 1]


@pytest.mark.parametrize("constant", [0.0, 7.0, -1e6])
def test_other_values_of_a_constant_column_are_novel(constant):
    X = np.random.default_rng(0).normal(size=(500, 3))
    X[:, 1] = constant
    detector = NoveltyDetector(random_state=0).fit(X)
    others = [constant + 0.1 * max(abs(constant), 1), 2e6, constant]
    assert detector.predict([[0, one, 0] for one in others]).tolist() == [-1, -1, 1]
    new = np.random.default_rng(1).normal(size=(2000, 3))
    new[:, 1] = constant
    assert np.mean(detector.predict(new) < 0) < 0.05


@pytest.mark.parametrize("n", [300, 6000])
def test_values_beyond_single_precision_are_far(n):
    X = np.random.default_rng(0).normal(size=(n, 3))
    X[0, 0] = 1e300
    detector = NoveltyDetector(random_state=0).fit(X)
    assert detector.score_samples(X).argmin() == 0
    assert detector.predict([[50, 0, 0], [1e300, 0, 0]]).tolist() == [-1, -1]


@pytest.mark.parametrize("kind", ["twice", "half", "nearly", "weight", "weights"])
def test_copies_and_weights_make_no_new_row_novel(kind):
    """Copies of a row, which tell of it, are left out with it: IsolationForest flags
    as often with them.
    """
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(600, 6)), None
    new = rng.normal(size=(3000, 6))
    rows = {
        "twice": np.r_[X, X],
        "half": np.r_[X, X[:300]],
        "nearly": np.r_[X, X + 1e-12 * rng.normal(size=X.shape)],
    }.get(kind, X)
    if kind == "weight":
        weight = np.full(600, 2.0)
    elif kind == "weights":
        weight = rng.uniform(0.2, 3, 600)
    model = NoveltyDetector(random_state=0).fit(rows, sample_weight=weight)
    assert np.mean(model.predict(new) < 0) < 0.05


def test_levels_that_come_again_are_no_copies():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(1500, 3)).astype(float)
    model = NoveltyDetector(random_state=0).fit(X)
    new = rng.integers(0, 3, size=(500, 3)).astype(float)
    assert np.mean(model.predict(new) < 0) < 0.05
    assert (model.predict([[7.0, 1.0, 1.0], [0.0, 0.0, 9.0]]) == -1).all()
