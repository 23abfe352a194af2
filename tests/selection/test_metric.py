"""Learned metrics find what a planted target depends on."""

from contextlib import nullcontext
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import spearmanr
from sklearn.decomposition import PCA

from bochner.data.array_source import ArraySource
from bochner.features.metric import Metric, with_relevance
from bochner.selection import learn_metric
from bochner.selection import metric_learning as metrics
from bochner.selection.metric_learning import (
    Basis,
    LearningRows,
    Schedule,
    learn_principal,
    learning_sample,
)

KERNELS = pytest.mark.parametrize("kernel", ["laplacian", "gaussian"])
PLANTED = [2, 10, 19]


def planted(n, seed=0):
    """Three hidden coordinates, and rows of 23 columns, three of which are warps of
    them: exp, cube, artanh.
    """
    rng = np.random.default_rng(seed)
    U, X = rng.uniform(-1, 1, (n, 3)), rng.standard_normal((n, 23))
    X[:, PLANTED] = np.stack(
        [np.exp(3 * U[:, 0]), U[:, 1] ** 3, np.arctanh(0.99 * U[:, 2])], axis=1
    )
    return U, X, 0.05 * rng.standard_normal(n)


@cache
def found(kernel, metric):
    """Metric of a target that is a sum over the hidden coordinates."""
    U, X, noise = planted(2500)
    return learn_metric(
        X, np.sin(3 * U).sum(axis=1) + noise, kernel, metric, random_state=0
    )


@pytest.mark.slow
@KERNELS
@pytest.mark.parametrize("metric", ["ard", "full"])
def test_three_columns_of_23_are_found(kernel, metric):
    relevance = found(kernel, metric).relevance_
    assert relevance.sum() == pytest.approx(1)
    assert relevance[PLANTED].sum() > 0.9
    assert relevance[PLANTED].min() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("i", range(3))
def test_warps_are_found(i):
    """The coordinate of a column is, but for a factor and a shift, what the target
    depends on.
    """
    U, X, _ = planted(2000, seed=1)
    metric = found("laplacian", "ard")
    (j,) = np.flatnonzero(metric.source_ == PLANTED[i])
    low, high = np.quantile(U[:, i], [0.02, 0.98])
    inner = (low < U[:, i]) & (high > U[:, i])
    w, x = metric.transform(X)[inner, j], X[inner, PLANTED[i]]
    u = U[inner, i]
    assert np.corrcoef(w, u)[0, 1] > 0.99
    assert np.corrcoef(x, u)[0, 1] < 0.99
    assert np.all(np.diff(w[np.argsort(u)]) >= 0)


@pytest.mark.slow
@KERNELS
def test_rotations_are_found(kernel):
    """Of a target along a diagonal of the hidden coordinates, only a full map gives
    the distances.
    """
    U, X, noise = planted(1500)
    if kernel == "gaussian":
        X[:, PLANTED] = U  # its map is one of the columns as they are
    y = np.sin(1.5 * U.sum(axis=1)) + noise
    i, j = np.random.default_rng(1).integers(1500, size=(2, 2000))
    true = np.abs(U[i].sum(axis=1) - U[j].sum(axis=1))
    ranks = {}
    for metric in ("ard", "full"):
        Z = learn_metric(X, y, kernel, metric, random_state=0).transform(X)
        ranks[metric] = spearmanr(
            np.linalg.norm(Z[i] - Z[j], ord=1 if kernel == "laplacian" else 2, axis=1),
            true,
        )[0]
    assert ranks["full"] > 0.85
    assert ranks["ard"] < 0.6


def awkward(n=800):
    """Columns of all kinds; those that matter come first: twice the same,
    log-normal, whole numbers, two values.
    """
    rng = np.random.default_rng(3)
    smooth, logs = rng.uniform(-1, 1, n), rng.standard_normal(n)
    whole, two = rng.integers(0, 5, n), rng.integers(0, 2, n)
    X = np.column_stack(
        [
            smooth,
            smooth,
            np.exp(3 * logs),
            whole,
            two,
            np.full(n, 7.0),
            rng.standard_normal((n, 4)),
        ]
    )
    return X, np.sin(3 * smooth) + np.tanh(logs) + np.where(whole == 2, 1.0, 0.0) + two


def test_one_column_of_numbers_has_no_linear_map():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal(300), rng.integers(2, size=(300, 2))])
    with pytest.warns(UserWarning, match="fewer than two columns have more than two"):
        learned = learn_metric(X, X[:, 0] + X[:, 1], metric="full", random_state=0)
    assert not learned.linear_.size


@KERNELS
@pytest.mark.parametrize("metric", ["ard", "full"])
def test_columns_of_all_kinds(kernel, metric):
    X, y = awkward()
    learned = learn_metric(X, y, kernel, metric, random_state=0)
    relevance = learned.relevance_
    assert np.isfinite(learned.transform(X)).all()
    assert relevance[5] == 0  # constant
    assert relevance[:5].sum() > 0.8
    assert relevance[:2].sum() > relevance[6:].max()
    if metric == "ard":  # a linear map of it as it is has to make do with its long tail
        assert relevance[2] > relevance[6:].max()
    assert relevance[3:5].min() > relevance[6:].max()
    beyond = learned.transform(np.full((1, 10), -1e3))
    assert np.isfinite(beyond).all()


@pytest.mark.slow
@KERNELS
def test_units_do_not_matter(kernel):
    """Powers of two, which round nothing; shifts do, a little."""
    X, y = awkward(300)
    units = 2.0 ** np.array([20, -20, 3, 40, 20, 0, -60, 500, -500, 1])
    one, other = (
        learn_metric(X * unit, y, kernel, random_state=0) for unit in (1.0, units)
    )
    np.testing.assert_allclose(other.relevance_, one.relevance_, rtol=1e-9)
    np.testing.assert_allclose(
        other.transform(X * units)[:, 1:], one.transform(X)[:, 1:], rtol=1e-6, atol=1e-9
    )
    shifted = learn_metric(X + 1e4, y, kernel, random_state=0)
    np.testing.assert_allclose(shifted.relevance_, one.relevance_, atol=0.05)


def test_the_origin_does_not_matter_to_a_map():
    """The Gaussian kernel is computed from squares, which lose what is small beside
    a mean.
    """
    U, X, noise = planted(600)
    X, y = np.column_stack([U, X[:, :2]]), np.sin(2 * U[:, 0]) + U[:, 1] + noise
    one, other = (
        learn_metric(X + shift, y, "gaussian", "full", random_state=0)
        for shift in (0.0, 1e4)
    )
    np.testing.assert_allclose(other.linear_, one.linear_, atol=0.05)
    assert np.abs(one.linear_ - np.eye(5)).max() > 0.2


@pytest.fixture
def quick(monkeypatch):
    """Fewer steps, on smaller blocks."""
    monkeypatch.setattr(metrics, "schedule", lambda n_rows: Schedule(100, 128))


def learned_of(y, X=None, **options):
    X = planted(400)[1][:, :5] if X is None else X
    return learn_metric(X, y, random_state=0, **options)


def same(one, other):
    np.testing.assert_array_equal(one.relevance_, other.relevance_)
    np.testing.assert_array_equal(one.scale_, other.scale_)
    np.testing.assert_array_equal(one.levels_, other.levels_)


@pytest.mark.usefixtures("quick")
class TestTargets:
    X = planted(400)[1][:, :5]
    y = np.sin(2 * X[:, 0]) + X[:, 4]

    def test_names_of_classes(self):
        """Text, objects, truth values and numbers for the same two classes give the
        same metric.
        """
        above = self.y > 0
        one = learned_of(np.where(above, "yes", "no"))
        assert one.relevance_[[0, 4]].sum() > 0.8
        for labels in (
            above,
            above.astype(int),
            np.where(above, 5.0, -3.0),
            np.where(above, "b", "a").astype(object),
        ):
            same(learned_of(labels), one)

    def test_several_classes(self):
        labels = np.array(["a", "b", "c"])[np.digitize(self.X[:, 3], [-0.5, 0.5])]
        assert learned_of(labels).relevance_[3] > 0.8

    def test_whole_numbers_that_are_no_classes(self):
        """As classes, nearly every row would be one of its own."""
        assert learned_of(np.rint(1000 * self.y)).relevance_[[0, 4]].sum() > 0.8
        same(
            learned_of(np.rint(1000 * self.y).astype(int)),
            learned_of(np.rint(1000 * self.y)),
        )

    def test_several_outputs(self):
        relevance = learned_of(self.X[:, [1, 3]] ** 2).relevance_
        assert relevance[[1, 3]].min() > 0.3
        same(learned_of(self.y[:, np.newaxis]), learned_of(self.y))

    def test_the_unit_of_the_target_does_not_matter(self):
        same(learned_of(4.0 * self.y), learned_of(self.y))
        assert learned_of(-1e6 * self.y + 3).relevance_[[0, 4]].sum() > 0.8

    def test_a_constant_target(self):
        """It tells of no column, so that all of them, with the same law, keep about
        the same share.
        """
        np.testing.assert_allclose(
            learned_of(np.zeros(400)).relevance_, 1 / 5, atol=0.02
        )


@pytest.mark.usefixtures("quick")
class TestRows:
    X = planted(400)[1][:, :5]
    y = np.sin(2 * X[:, 0]) + X[:, 4]

    def test_weight_zero_is_as_if_left_out(self):
        """Rows of another target, which would mislead."""
        X, y = (
            np.vstack([self.X, self.X[:, ::-1]]),
            np.append(self.y, 50 * self.X[:, 2]),
        )
        weight = np.repeat([1.0, 0.0], 400)
        same(learned_of(y, X, sample_weight=weight), learned_of(self.y))

    def test_weights_count(self, monkeypatch):
        """Half of the rows tell of one column, half of another; in blocks at random
        heavy ones are the more.
        """
        monkeypatch.setattr(
            metrics, "schedule", lambda n_rows: Schedule(100, 128, ("uniform",))
        )
        first, X = np.arange(1500) % 2 == 0, planted(1500)[1][:, 2:7]
        y = np.where(first, X[:, 1], X[:, 3])
        for weight, more, less in (
            (np.where(first, 100.0, 1.0), 1, 3),
            (np.where(first, 1.0, 100.0), 3, 1),
        ):
            relevance = learned_of(y, X, sample_weight=weight).relevance_
            assert relevance[more] > 5 * relevance[less]

    def test_equal_rows(self):
        """They are one row each, lest a block judges by copies of what it was fitted
        to.
        """
        X, y = np.repeat(self.X[:40], 10, axis=0), np.repeat(self.X[:40, 0], 10)
        relevance = learned_of(y, X).relevance_
        assert relevance[0] > 0.5

    def test_forms(self, frozen):
        pd = pytest.importorskip("pandas")
        one = learned_of(self.y, self.X)
        same(learned_of(*frozen(self.y, self.X)), one)
        same(learned_of(self.y.tolist(), self.X.tolist()), one)
        same(learned_of(pd.Series(self.y), pd.DataFrame(self.X)), one)
        same(learned_of(self.y, np.asfortranarray(self.X)), one)
        single = learned_of(self.y, self.X.astype(np.float32))
        np.testing.assert_allclose(single.relevance_, one.relevance_, atol=0.05)

    def test_seeds(self):
        one = learned_of(self.y)
        same(learned_of(self.y), one)
        same(learn_metric(self.X, self.y, random_state=np.random.RandomState(0)), one)
        assert not np.array_equal(
            learn_metric(self.X, self.y, random_state=1).relevance_, one.relevance_
        )

    @KERNELS
    @pytest.mark.parametrize("metric", ["ard", "full"])
    def test_columns_of_two_values_only(self, kernel, metric):
        """There is no map to learn."""
        X = np.random.default_rng(0).integers(0, 2, (300, 5)) * [1.0, 1000, 1e-3, 1, 1]
        y = (X[:, 1] > 0) * (1.0 - 2 * (X[:, 2] > 0))
        message = "fewer than two columns have more than two values"
        with (
            pytest.warns(UserWarning, match=message)
            if metric == "full"
            else nullcontext()
        ):
            learned = learned_of(y, X, kernel=kernel, metric=metric)
        assert learned.relevance_[1:3].sum() > 0.9

    def test_a_rare_value_between_two(self):
        """Not in the sample of the ranks, perhaps, but in the rows."""
        X = np.zeros((300, 2))
        X[:150, 0], X[0, 0], X[:, 1] = 1.0, 0.5, np.arange(300)
        basis = Basis(X, np.arange(2), "both", np.random.default_rng(0))
        np.testing.assert_array_equal(basis.numeric, [0, 1])
        assert learned_of(X[:, 0], X).relevance_[0] > 0.9


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"kernel": "rbf"},
            ValueError,
            r"kernel must be one of \('laplacian', 'gaussian'\), got 'rbf'",
        ),
        ({"metric": "diag"}, ValueError, "metric must be 'ard' or 'full', got 'diag'"),
        (
            {"X": np.ones((30, 4))},
            ValueError,
            "All columns are constant.*give a column that varies",
        ),
        (
            {"X": np.eye(19, 4), "y": np.arange(19)},
            ValueError,
            "20 rows of positive weight.*there are 19: give more",
        ),
        (
            {"sample_weight": np.arange(30) < 19},
            ValueError,
            "20 rows of positive weight.*there are 19: give more rows",
        ),
        (
            {"sample_weight": -np.ones(30)},
            ValueError,
            "sample_weight must not be negative; row 0 has -1.0",
        ),
        ({"sample_weight": np.ones(29)}, ValueError, "sample_weight.shape"),
        ({"X": np.full((30, 4), np.nan)}, ValueError, "NaN"),
        ({"y": np.full(30, np.nan)}, ValueError, "NaN"),
        ({"y": np.ones(29)}, ValueError, "inconsistent numbers of samples"),
        ({"X": sp.csr_array(np.eye(30, 4))}, TypeError, "toarray"),
    ],
)
def test_errors(change, error, message):
    given = {
        "X": np.random.default_rng(0).standard_normal((30, 4)),
        "y": np.arange(30.0),
    } | change
    with pytest.raises(error, match=message):
        learn_metric(**given, random_state=0)


def test_no_more_rows_than_allowed(policy):
    policy(raced_rows=1000)
    rng = np.random.default_rng(0)
    sample = learning_sample(
        ArraySource(rng.standard_normal((3000, 2)), rng.standard_normal((3000, 1)) + 5),
        0,
    )
    assert sample.X.shape == (1000, 2)
    np.testing.assert_allclose([sample.y.mean(), sample.y.std()], [0, 1], atol=1e-12)


class TestBasis:
    """The metric of a basis gives the distances of the scaled basis columns."""

    @KERNELS
    @pytest.mark.parametrize("parts", ["both", "value"])
    def test_distances(self, kernel, parts):
        X, _ = awkward(200)
        column_groups = np.array([0, 1, 2, 3, 4, 5, 6, 6, 7, 8])
        basis = Basis(X, column_groups, parts, np.random.default_rng(0))
        log_scales = np.random.default_rng(1).uniform(-2, 1, len(basis.column_groups))[
            basis.column_groups
        ]
        U, V = (
            basis.points * np.exp(log_scales),
            basis.coordinates(kernel, log_scales).transform(X),
        )
        assert (
            kernel == "gaussian" or V.shape[1] == 9
        )  # a column each, the constant one left out
        i, j = np.random.default_rng(2).integers(200, size=(2, 300))
        order = 1 if kernel == "laplacian" else 2
        expected = np.linalg.norm(U[i] - U[j], ord=order, axis=1)
        np.testing.assert_allclose(
            np.linalg.norm(V[i] - V[j], ord=order, axis=1),
            expected,
            rtol=1e-5,
            atol=1e-5,
        )

    @KERNELS
    @pytest.mark.parametrize("parts", ["both", "value"])
    def test_beyond_the_rows(self, kernel, parts):
        """Ranks stay what they are, values go on."""
        X = np.random.default_rng(0).lognormal(size=(200, 1))
        basis = Basis(X, np.zeros(1, int), parts, np.random.default_rng(0))
        metric = basis.coordinates(
            kernel, np.array([0.5, 0.2])[: len(basis.column_groups)]
        )
        for a, b in ((X.max() + 1, X.max() + 4), (X.min() - 4, X.min() - 1)):
            gap = np.linalg.norm(np.diff(metric.transform([[a], [b]]), axis=0))
            assert gap == pytest.approx(3 * np.exp(0.5) / X.std(), rel=1e-6, abs=1e-9)

    def test_columns(self):
        X, _ = awkward(200)
        column_groups = np.array([0, 1, 2, 3, 4, 5, 6, 6, 7, 8])
        basis = Basis(1000 * X + 5, column_groups, "both", np.random.default_rng(0))
        np.testing.assert_array_equal(basis.numeric, [0, 1, 2, 3, 8, 9])
        np.testing.assert_array_equal(basis.plain, [4, 6, 7])
        np.testing.assert_array_equal(basis.column_groups[-3:], [12, 13, 13])
        P = basis.points
        assert set(P[:, 12]) == {0, 1}
        np.testing.assert_allclose(P[:, :6].std(axis=0, dtype=float), 1, rtol=1e-5)
        np.testing.assert_allclose(P[:, :6].mean(axis=0, dtype=float), 0, atol=1e-5)
        np.testing.assert_array_equal(
            np.argsort(P[:, 8], kind="stable"), np.argsort(P[:, 2], kind="stable")
        )
        np.testing.assert_allclose(P[:, 8].std(), 1, rtol=1e-3)

    def test_ranks_of_equal_values_are_their_middle(self):
        X = np.column_stack([np.repeat([1.0, 4.0, 9.0], [2, 6, 2])])
        ranks = Basis(X, np.zeros(1, int), "both", np.random.default_rng(0)).points[
            :, 1
        ] / np.sqrt(12)
        np.testing.assert_allclose(
            ranks, np.repeat([0.1, 0.5, 0.9], [2, 6, 2]), rtol=1e-6
        )


class TestPrincipal:
    @pytest.mark.parametrize("seed", [0, 1])
    def test_coordinates_are_scaled_principal_components(self, seed, monkeypatch):
        """Of variances that are roots of what they were, times the learned scales."""
        rng = np.random.default_rng(seed)
        X, units = (
            rng.standard_normal((200, 60)) @ rng.standard_normal((60, 60)),
            rng.uniform(0.5, 2, 60),
        )
        sample = learning_sample(ArraySource(X, X[:, :1]), 0)
        logs = np.linspace(-1, 1, 50)
        monkeypatch.setattr(metrics, "learn_scales", lambda *given: (logs, np.zeros(1)))
        metric = learn_principal(sample, units, Schedule(60, 128), 0).metric
        Z, components = metric.transform(X), PCA(50).fit(X * units)
        variances = components.explained_variance_ * 199 / 200
        scores = components.transform(X * units) * variances**-0.25 * np.exp(logs)
        np.testing.assert_allclose(
            np.abs(Z - Z.mean(axis=0)), np.abs(scores), rtol=1e-6, atol=1e-6
        )

    def test_what_matters_is_found(self):
        rng = np.random.default_rng(0)
        hidden = rng.standard_normal((500, 4)) * [8, 4, 2, 1]
        X = hidden @ np.linalg.qr(rng.standard_normal((60, 4)))[0].T
        sample = learning_sample(ArraySource(X, np.sin(hidden[:, 2:3])), 0)
        Z = learn_principal(
            sample, np.ones(60), Schedule(120, 128), 0
        ).metric.transform(X)
        assert np.argmax(Z.std(axis=0)) == 2

    @pytest.mark.slow
    def test_heavy_rows_decide(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((400, 6)) * [6, 5, 4, 3, 2, 1]
        half = np.arange(400) % 2
        y = np.where(half == 0, X[:, 0] / 6, X[:, 1] / 5)[:, np.newaxis]
        first, second = (
            learn_principal(
                LearningRows(X, y, np.where(half == heavy, 1000.0, 1.0)),
                np.ones(6),
                Schedule(400, 128),
                0,
            ).metric.relevance_
            for heavy in (0, 1)
        )
        # Both are equal where weights do not count
        assert first[0] > second[0]
        assert second[1] > first[1]

    def test_components_without_variance_are_left_out(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 10))
        sample = learning_sample(ArraySource(X, X[:, :1]), 0)
        metric = learn_principal(sample, np.ones(10), Schedule(9, 64), 0).metric
        assert metric.n_features_out_ == 3


@pytest.mark.parametrize("mix", [None, np.array([[1.0, 0.0], [2.0, 0.0], [0.0, -3.0]])])
def test_relevance_is_the_share_of_the_distance(mix):
    """Columns of equal spread move distances as their scales do; a map adds up the
    entries of a column.
    """
    X = np.random.default_rng(0).uniform(-1, 1, (5000, 4))
    metric = with_relevance(
        Metric(4, [2, 0, 1, 2], [1.0, 2.0, 3.0, 1.0], linear=mix), X, 0
    )
    expected = (
        np.array([2.0, 3, 2, 0])
        if mix is None
        else np.array([2.0 * 3, 3, 1 * 3 + 1, 0])
    )
    np.testing.assert_allclose(metric.relevance_, expected / expected.sum(), atol=0.02)
    assert metric.relevance_[3] == 0


@pytest.mark.parametrize("gap", ["text", np.nan])
def test_a_metric_of_other_tables_than_numbers(gap):
    rows = np.random.default_rng(0).normal(size=(40, 3)).astype(object)
    rows[5, 1] = gap
    with pytest.raises(ValueError, match=r"give TableEncoder\(\)\.fit_transform\(X\)"):
        learn_metric(rows, np.arange(40.0))
