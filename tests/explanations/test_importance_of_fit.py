"""The importance that a fit measures: on rows that the evaluated function has not
seen, and its cost.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.datasets import load_diabetes

from bochner import KernelMachineClassifier, KernelMachineRegressor, load, merge
from bochner.cli.model_files import model_facts
from bochner.cli.printing import model_line
from bochner.data.array_source import ArraySource
from bochner.design.design import Design
from bochner.estimators import interpretation, machine
from bochner.estimators.interpretation import relevance_in_distance
from bochner.estimators.measured_importance import importance_of_fit
from bochner.estimators.ridge.ridge_problem import Needs, RidgeProblem
from bochner.estimators.ridge.solve import SOLVERS
from bochner.features import FourierFeatures
from bochner.kernels import Gaussian
from bochner.selection.budget import Budget

PLAIN = {
    "features": "fourier",
    "metric": "isotropic",
    "n_components": 200,
    "random_state": 0,
}


def predicted(solution, Z):
    design = Design(
        ArraySource(Z, np.empty((len(Z), 0))), solution.features, np.float64
    )
    return design.predict(solution.coef, solution.intercept)


@pytest.mark.parametrize(
    ("solver", "size"), [("direct", 20), ("direct", 200), ("exact", 20)]
)
def test_rows_left_out_have_what_a_fit_without_them_predicts(solver, size):
    """By a fit without the row and its copies, at rows that are not it, with weights
    and two targets.
    """
    rng = np.random.default_rng(0)
    X, y, weight = (
        rng.normal(size=(60, 3)),
        rng.normal(size=(60, 2)),
        rng.uniform(0.5, 2, 60),
    )
    X[50:] = X[:10]
    features = FourierFeatures(Gaussian(1.5), size, random_state=0).fit(X)
    problem = RidgeProblem(0.3, 1e-9, 0, needs=Needs(evaluated=12))
    found = SOLVERS[solver](
        Design(ArraySource(X, y, weight), features, np.float64), problem
    ).unseen
    Z = rng.normal(size=(found.design.source.n_rows, 3))
    scores = found.scores(Z, np.arange(len(Z)))
    for i, row in enumerate(found.design.source.X):
        kept = (row != X).any(axis=1)
        others = Design(
            ArraySource(X[kept], y[kept], weight[kept]), features, np.float64
        )
        assert_allclose(
            scores[i],
            predicted(SOLVERS[solver](others, problem), Z[i : i + 1])[0],
            atol=1e-7,
        )


def test_rows_held_out_have_what_a_fit_without_their_fold_predicts():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 3)), rng.normal(size=(100, 1))
    features = FourierFeatures(Gaussian(1.5), 20, random_state=0).fit(X)
    problem = RidgeProblem(0.3, 1e-9, 0, needs=Needs(True, evaluated=100))
    design = Design(ArraySource(X, y), features, np.float64)
    found = SOLVERS["cg"](design, problem).unseen
    assert sorted(np.bincount(found.fold)) == [20] * 5
    Z = rng.normal(size=(100, 3))
    scores = found.scores(Z, np.arange(100))
    for k in range(5):
        own = found.design.source.X[found.fold == k]
        kept = ~np.isin(X[:, 0], own[:, 0])
        others = SOLVERS["direct"](
            Design(ArraySource(X[kept], y[kept]), features, np.float64),
            problem,
        )
        assert_allclose(
            scores[found.fold == k], predicted(others, Z[found.fold == k]), atol=1e-5
        )


def noisy(n, seed, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, 2 * X[:, 0] + X[:, 1] ** 2 + noise * rng.normal(size=n)


REGRESSORS = {
    "learned": {"features": "fourier"},
    "kernel": {"kernel": "gaussian", "alpha": 1e-3, "n_components": 500},
    "exact": {"kernel": "gaussian", "solver": "exact", "alpha": 1e-3},
    "bins": {"features": "binning", "metric": "isotropic", "n_components": 30},
    "huber": {"loss": "huber", **PLAIN},
    "quantile": {"loss": "quantile", **PLAIN},
    "intervals": {"uncertainty": "intervals", **PLAIN},
}
CLASSIFIERS = {
    "squared": {"loss": "squared", **PLAIN},
    "logistic": {"loss": "logistic", **PLAIN},
    "given": {"loss": "logistic", "alpha": 0.1, **PLAIN},
    "bins": {
        "features": "binning",
        "metric": "ard",
        "loss": "squared",
        "n_components": 20,
    },
}


def is_as_on_new_rows(model, X, y):
    found, new = model.importance_, model.importance(X, y, random_state=0)
    assert found.rows in ("validation rows", "rows left out one at a time")
    assert (
        np.abs(found.values - new.values)
        < 5 * np.hypot(found.errors, new.errors) + 0.02 * new.values.max()
    ).all()
    # Of some 100 rows, which tell a mean square to 14 %
    assert 0.65 < found.baseline / new.baseline < 1.4
    assert_allclose(model.feature_importances_.sum(), 1)
    assert (model.feature_importances_ >= 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("road", REGRESSORS)
def test_regressors_are_evaluated_by_rows_that_they_have_not_seen(road):
    """A machine that fits its noise has another loss on its own rows."""
    model = KernelMachineRegressor(**{"random_state": 0, **REGRESSORS[road]}).fit(
        *noisy(500, 2)
    )
    is_as_on_new_rows(model, *noisy(2000, 1))


@pytest.mark.slow
@pytest.mark.parametrize("road", CLASSIFIERS)
@pytest.mark.parametrize("edges", [[0.5], [0.0, 2.0]], ids=["two", "three"])
def test_classifiers_are_evaluated_by_rows_that_they_have_not_seen(road, edges):
    X, y = noisy(500, 0)
    model = KernelMachineClassifier(**{"random_state": 0, **CLASSIFIERS[road]}).fit(
        X, np.digitize(y, edges)
    )
    X, y = noisy(2000, 1)
    is_as_on_new_rows(model, X, np.digitize(y, edges))


def test_the_logistic_loss_is_evaluated_without_the_rows_held_out():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 4))
    y = rng.uniform(size=3000) < 1 / (
        1 + np.exp(-6 * np.sign(X[:, 0]) * X[:, 1] - 4 * X[:, 2])
    )
    model = KernelMachineClassifier(
        features="binning", n_components=30, random_state=0
    ).fit(X[:1500], y[:1500])
    assert model.loss_ == "logistic"
    is_as_on_new_rows(model, X[1500:], y[1500:])


def test_rows_of_the_fit_are_called_so_where_no_function_has_not_seen_them():
    X, y = noisy(400, 0)
    model = KernelMachineRegressor("gaussian", solver="cg", random_state=0).fit(X, y)
    assert model.importance_.rows == "validation rows"
    model.set_params(alpha=model.alpha_).fit(X, y)
    assert model.importance_.rows == "training rows"


@pytest.mark.slow
def test_it_changes_nothing_else(monkeypatch):
    X, y = noisy(400, 0)
    options = [
        (KernelMachineRegressor, {}),
        (KernelMachineRegressor, {"kernel": "gaussian"}),
    ]
    options += [(KernelMachineClassifier, PLAIN)]
    fits = [
        kind(**{"random_state": 0, **own}).fit(
            X, y if kind is KernelMachineRegressor else y > 0
        )
        for kind, own in options
    ]
    monkeypatch.setattr(machine, "n_evaluated", lambda d: 0)
    monkeypatch.setattr(interpretation, "importance_of_fit", lambda *arguments: None)
    for one, (kind, own) in zip(fits, options, strict=True):
        other = kind(**{"random_state": 0, **own}).fit(
            X, y if kind is KernelMachineRegressor else y > 0
        )
        assert not hasattr(other, "importance_")
        assert_array_equal(one.feature_weights_, other.feature_weights_)
        assert_array_equal(one.intercept_, other.intercept_)


def test_seeds_repeat_and_files_keep_it(line_regressor):
    one = line_regressor.model
    two = clone(one).fit(line_regressor.X, line_regressor.y)
    assert_array_equal(one.importance_.values, two.importance_.values)
    again = load(line_regressor.path).importance_
    assert str(again) == str(one.importance_)
    assert_array_equal(again.values, one.importance_.values)


@pytest.mark.slow
def test_parts_are_evaluated_when_asked_and_again_after_more_rows():
    X, y = noisy(1500, 0)
    first = KernelMachineRegressor(**PLAIN).prepare(X[:500], y[:500])
    assert not hasattr(first, "importance_")
    model = first.partial_fit(X[:800], y[:800])
    one = model.importance_
    assert one is model.importance_
    assert model.partial_fit(X[800:], y[800:]).importance_ is not one
    is_as_on_new_rows(model, *noisy(2000, 1))
    parts = [
        KernelMachineRegressor(**PLAIN)
        .prepare(X[:500], y[:500])
        .partial_fit(X[rows], y[rows])
        for rows in (slice(0, 800), slice(800, 1500))
    ]
    merged = merge(parts)
    assert_allclose(
        merged.importance_.values, model.importance_.values, rtol=1e-4, atol=1e-5
    )
    assert model.finalize().importance_.n_rows == merged.importance_.n_rows


def test_other_rows_keep_it_and_say_so():
    X, y = noisy(600, 0)
    model = KernelMachineRegressor(**PLAIN).fit(X[:300], y[:300])
    before = model.importance_
    after = model.refit(X, y).importance_
    assert_array_equal(after.values, before.values)
    assert (
        after.rows
        == before.rows + " of the fit before"
        == model.refit(X, y).importance_.rows
    )


@pytest.mark.parametrize(("n", "d"), [(300, 201), (1, 2)])
def test_where_it_is_not_measured_an_error_names_the_way(n, d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    model = KernelMachineRegressor(**PLAIN).fit(X, X[:, 0])
    for name in ("importance_", "feature_importances_"):
        with pytest.raises(AttributeError, match=r"importance\(X, y\)"):
            getattr(model, name)
    assert "important columns" not in model._repr_html_()
    assert len(model.effects(X, kind="partial")) == min(d, 6)


def test_no_time_is_taken_that_is_not_left(line_regressor):
    model, X, y = line_regressor.model, line_regressor.X, line_regressor.y
    source = ArraySource(X, y.reshape(-1, 1), encode=model.encoder_.transform)
    assert importance_of_fit(model, None, source, 0, Budget()).n_rows == 400
    assert importance_of_fit(model, None, source, 0, Budget(1e-9)) is None


SLOPES, CURVES = [2.0, 1.0, 0.5], [1.0, 0.25]
KNOWN = np.array(
    [2 * a**2 for a in SLOPES] + [4 * b**2 for b in CURVES] + [0.0] * 3
)  # 2 a^2 var


def known(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    return X, X[:, :3] @ SLOPES + X[:, 3:5] ** 2 @ CURVES + 0.3 * rng.normal(size=n)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["learned", "given"])
def test_all_statements_agree_with_known_importances(kind):
    """Also where a column without effect counts most in the distance, which is a
    property of the kernel alone.
    """
    X, y = known(1500, 0)
    lengths = np.array([6.0] * 7 + [3.0])
    options = (
        {} if kind == "learned" else {"kernel": Gaussian(lengths), "n_components": 1000}
    )
    model = KernelMachineRegressor(random_state=0, **options).fit(X, y)
    new, targets = known(1000, 1)
    spans = np.array([one.span[0] for one in model.effects(new, range(8), n_rows=100)])
    statements = {
        "headline": model.feature_importances_,
        "importance": model.importance(new, targets, random_state=0).values,
        "attribution": model.explain(new[:100], n_background=30).mean_absolute,
        "effects": spans,
    }
    for name, found in statements.items():
        assert spearmanr(KNOWN, found).statistic >= 0.95, name
        assert found[5:].max() < 0.1 * found.max(), name
    assert_allclose(statements["importance"][:5], KNOWN[:5], rtol=0.25)
    if kind == "given":
        assert relevance_in_distance(model).argmax() == 7
        assert model.feature_importances_[7] < 0.02


@pytest.mark.slow
def test_the_headline_names_the_columns_that_matter():
    """On diabetes, where sex counts most in the distance; some 70 validation rows
    tell them with large errors.
    """
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = KernelMachineRegressor(random_state=0).fit(X[:350], y[:350])
    found, new = model.importance_, model.importance(X[350:], y[350:], random_state=0)
    assert (
        {name for name, _ in found.top_columns(2)}
        == {name for name, _ in new.top_columns(2)}
        == {"bmi", "s5"}
    )
    is_as_on_new_rows(model, X[350:], y[350:])
    shown = model_line(model_facts(model)).partition("most important: ")[2]
    assert all(name in shown for name, _ in found.top_columns(3))
    assert found.headline(3) in model._repr_html_()


def test_importance_of_counts_refuses_negative_ones():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 2))
    y = rng.poisson(np.exp(X[:, 0])).astype(float)
    model = KernelMachineRegressor(loss="poisson", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="the target has negative values"):
        model.importance(X, y - 1)
