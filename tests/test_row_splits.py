"""Groups, splits of scikit-learn's convention, and rows that only validate."""

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    StratifiedGroupKFold,
    TimeSeriesSplit,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bochner import (
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
    load,
    open_source,
    save,
)
from bochner.data.array_source import ArraySource
from bochner.data.row_splits import RowSplits
from bochner.data.table import TableEncoder, TargetRows
from bochner.inputs.splits import row_splits
from bochner.kernels import Gaussian
from bochner.selection.metric_learning import MinibatchSampler, Schedule
from bochner.selection.split import split
from bochner.solvers.conformal import in_order, thresholds_of

N_GROUPS, A_GROUP = 40, 15


def grouped(n_groups=N_GROUPS, size=A_GROUP, effect=2.0, seed=0):
    """Rows of groups that are much alike, whose targets share an effect."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), size)
    X = rng.normal(size=(n_groups, 4))[group] + 0.05 * rng.normal(size=(len(group), 4))
    y = np.sin(X[:, 0]) + X[:, 1] + effect * rng.normal(size=n_groups)[group]
    return X, y + 0.1 * rng.normal(size=len(group)), group


X, Y, GROUP = grouped()
LABELS = np.where(np.median(Y) > Y, "low", "high")


class TestSplits:
    @pytest.mark.parametrize("labels", [False, True])
    def test_groups_make_the_folds_of_scikit_learn(self, labels):
        y = LABELS if labels else Y
        found = row_splits(None, y, GROUP, labels)
        splitter = StratifiedGroupKFold(5) if labels else GroupKFold(5)
        for k, (fitted, held_out) in enumerate(splitter.split(X, y, GROUP)):
            np.testing.assert_array_equal(
                np.flatnonzero(found.held_out_in == k), held_out
            )
            np.testing.assert_array_equal(np.flatnonzero(found.fitted_in[:, k]), fitted)

    def test_names_of_groups_do_not_matter(self):
        names = np.array([f"patient {k:02d}" for k in GROUP], dtype=object)
        found = row_splits(None, Y, names, labels=False)
        np.testing.assert_array_equal(
            found.held_out_in, row_splits(None, Y, GROUP, labels=False).held_out_in
        )

    def test_of_many_rows_a_fold_holds_some_ten_thousand(self):
        group = np.repeat(np.arange(1000), 120)
        found = row_splits(None, np.zeros(120_000), group, labels=False)
        assert found.fitted_in.shape[1] == 12

    def test_a_row_judges_once(self):
        """Where tests overlap, in the split that is fitted to most rows."""
        pairs = [(np.arange(5, 10), np.arange(5)), (np.arange(5), np.arange(3, 10)[2:])]
        pairs.append((np.arange(2, 10), np.array([0, 1])))
        found = row_splits(pairs, np.zeros(10), None, labels=False)
        assert found.held_out_in.tolist() == [0, 0, 1, 1, 1, 2, 2, 2, 2, 2]
        assert found.fitted_in.sum(axis=0).tolist() == [8, 5, 5]

    def test_single_groups_judge_together(self):
        found = row_splits(LeaveOneGroupOut(), Y, GROUP, labels=False)
        assert found.fitted_in.shape[1] == 5
        for k in range(5):
            held_out = set(GROUP[found.held_out_in == k])
            assert len(held_out) == N_GROUPS // 5
            assert not held_out & set(GROUP[found.fitted_in[:, k]])

    def test_splits_of_time_stay_as_they_are(self):
        found = row_splits(TimeSeriesSplit(12), Y, None, labels=False)
        assert found.fitted_in.shape[1] == 12
        first = found.folds(np.ones(len(Y)))[0]
        assert np.flatnonzero(first.held_out).min() > np.flatnonzero(first.fitted).max()
        assert first.fitted.sum() == max(found.fitted_in.sum(axis=0))
        last = found.folds_like_all(np.ones(len(Y)))
        assert [fold.fitted.sum() >= 0.75 * first.fitted.sum() for fold in last]
        assert len(last) == 4

    @pytest.mark.parametrize(
        ("cv", "groups", "message"),
        [
            (None, np.zeros(9), "same value for all rows"),
            ([], None, "yields no split"),
            ([([0, 1], [1, 2])], None, "validates rows that it is fitted to"),
            ([([0, 1], [9])], None, "names row 9; rows are numbered from 0 to 8"),
            ([([0, 1], [])], None, "neither of them empty"),
            ([([True, False], [2])], None, "a mask of 2 rows; there are 9"),
            (GroupKFold(3), None, r"should not be None.* Pass fit\(groups=\)"),
            ("time", None, "Got time"),
            ([([0, 1], [-1])], None, "names row -1"),
            ([([0.0, 1.0], [2])], None, "whole row numbers"),
            ([([0], [1], [2])], None, "too many values to unpack"),
            (KFold(3), np.arange(9) % 2, "rows of one group on both sides"),
        ],
    )
    def test_what_is_refused(self, cv, groups, message):
        with pytest.raises(ValueError, match=message):
            row_splits(cv, np.zeros(9), groups, labels=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"groups": GROUP[:5]}, r"one value for each of the 600 rows.*shape \(5,\)"),
        ({"groups": np.where(GROUP == 3, np.nan, GROUP)}, r"missing for 15 rows \(row"),
        ({"groups": "patient"}, "names a column, and X is an array"),
        ({"validation": X}, "must be a pair"),
        ({"validation": (X, Y), "groups": GROUP}, "leave out groups and cv"),
        ({"validation": (X[:, :2], Y)}, "2 features"),
        ({"validation": (X, np.stack([Y, Y], axis=1))}, "as many targets"),
    ],
)
def test_what_fit_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        KernelMachineRegressor().fit(X, Y, **arguments)


@pytest.mark.parametrize(
    "parameters", [{"solver": "direct"}, {"solver": "exact"}, {"alpha": "loo"}]
)
@pytest.mark.parametrize("way", ["groups", "cv", "validation"])
def test_rows_are_not_left_out_alone(parameters, way):
    model = KernelMachineRegressor(**parameters, cv=3 if way == "cv" else None)
    given = {"groups": GROUP} if way == "groups" else {}
    given = {"validation": (X, Y)} if way == "validation" else given
    with pytest.raises(ValueError, match="validates each row by all others"):
        model.fit(X, Y, **given)


class TestRowsApart:
    """What is held out, for what is learned at each place."""

    @pytest.fixture
    def source(self):
        splits = row_splits(None, Y, GROUP, labels=False)
        return ArraySource(X, Y[:, np.newaxis], splits=splits)

    def test_candidates_are_validated_on_other_groups(self, source):
        rows = split(source, 20, seed=0)
        held_out = set(GROUP[rows.held_out])
        assert len(held_out) == N_GROUPS // 5
        assert not set(rows.fit.group) & set(rows.out.group)

    @pytest.mark.parametrize("kind", ["uniform", "wide", "near"])
    @pytest.mark.parametrize("n_groups", [2, 3, 40])
    def test_blocks_of_a_metric_too(self, kind, n_groups):
        together = GROUP % n_groups
        number = np.arange(len(X), dtype=np.float64)[:, np.newaxis]
        blocks = MinibatchSampler(
            X.astype(np.float32), number, Schedule(9, 64), 0, together=together
        )
        for _ in range(20):
            rows = blocks.draw(kind, np.ones(4)).y[:, 0].astype(int)
            assert len(rows) == 64
            n_fit = blocks.space.n_fit
            assert not set(together[rows[:n_fit]]) & set(together[rows[n_fit:]])

    def test_equal_rows_of_two_groups_stay_two(self):
        splits = RowSplits(np.array([0, 0, 1]), np.eye(2, dtype=bool)[[1, 1, 0]])
        source = ArraySource(np.ones((3, 1)), np.zeros((3, 1)), splits=splits)
        assert source.distinct().n_rows == 2

    def test_means_of_levels_are_those_of_other_folds(self):
        """A level of one group alone tells the rows of the fit nothing."""
        rng = np.random.default_rng(0)
        level = np.repeat(np.arange(400), 5)
        table = pa.table(
            {"level": [f"l{k}" for k in level], "x": rng.normal(size=2000)}
        )
        y = rng.normal(size=400)[level][:, np.newaxis]
        encoder = TableEncoder().fit(table)
        fold = row_splits(None, y[:, 0], level, labels=False).held_out_in + 1
        _, for_these = encoder.with_level_means(TargetRows(table, y, None, 0, fold))
        others, _ = encoder.with_level_means(TargetRows(table, y, None, 0))
        at = others.get_feature_names_out().tolist().index("level_mean0")
        means = for_these.encode(table, np.float64)[:, at]
        # Which may all be equal, so that they have no correlation
        most = 0.1 * means.std() * y.std()
        assert abs(np.cov(means, y[:, 0])[0, 1]) <= most
        of_other_rows = others.encode(table, np.float64)[:, at]
        assert np.corrcoef(of_other_rows, y[:, 0])[0, 1] > 0.9


class TestHierarchicalQuantiles:
    """Lee, Barber and Willett (2023): the scores of group k weigh 1 / ((K + 1) n_k)
    each, infinity 1 / (K + 1).
    """

    @pytest.mark.parametrize("q", [0.9, 0.7, 0.05])
    def test_are_those_of_the_definition(self, q):
        rng = np.random.default_rng(0)
        group = np.repeat(np.arange(30), rng.integers(1, 9, 30))
        scores = rng.normal(size=len(group))
        mass = 1 / (31 * np.bincount(group)[group])
        order = np.argsort(scores)
        below = np.cumsum(mass[order])
        if q >= 0.5:
            wanted = scores[order][np.argmax(below >= q)]
        else:
            above = np.cumsum(mass[order[::-1]])
            wanted = scores[order[::-1]][np.argmax(above >= 1 - q)]
        found = in_order(scores[:, np.newaxis], np.ones(len(group)), group)
        assert found.quantiles(np.array([q])).item() == wanted

    def test_groups_of_one_row_are_rows(self):
        scores = np.random.default_rng(0).normal(size=(50, 2))
        q = np.array([0.1, 0.9])
        np.testing.assert_array_equal(
            in_order(scores, np.ones(50), np.arange(50)).quantiles(q),
            in_order(scores, np.ones(50)).quantiles(q),
        )

    def test_few_groups_are_refused_by_name(self):
        found = in_order(np.zeros((90, 1)), np.ones(90), np.arange(90) % 9)
        with pytest.raises(ValueError, match=r"needs 19 groups .* there are 9: .*0\.8"):
            found.quantiles(np.array([0.05]))

    def test_sets_of_classes_count_groups(self):
        p = np.tile([0.8, 0.2], (90, 1))
        members = np.tile([1.0, 0.0], (90, 1))
        found = thresholds_of(p, members, np.ones(90), np.arange(90) % 9)
        assert found[1, -1] == pytest.approx(0.9)


@pytest.fixture(scope="module")
def fitted():
    """A model of each kind that knows the groups of its rows."""
    return (
        KernelMachineRegressor(random_state=0).fit(X, Y, groups=GROUP),
        KernelMachineClassifier(random_state=0).fit(X, LABELS, groups=GROUP),
    )


@pytest.mark.slow
def test_intervals_hold_for_new_groups():
    """90 % of them where each is 10 % by rows held out by chance."""
    covered = []
    for seed in range(5):
        rows, y, group = grouped(80, seed=seed)
        known = group < 40
        model = KernelMachineRegressor(uncertainty="intervals", random_state=0).fit(
            rows[known], y[known], groups=group[known]
        )
        low, high = model.predict_interval(rows[~known], coverage=0.9).T
        covered.append(np.mean((y[~known] >= low) & (y[~known] <= high)))
    assert 0.82 < np.mean(covered) < 0.97
    with pytest.raises(ValueError, match="39 groups that the model has not seen"):
        KernelMachineRegressor(uncertainty="intervals", random_state=0).fit(
            rows[group < 30], y[group < 30], groups=group[group < 30]
        ).predict_interval(rows[:2], coverage=0.95)


def test_importance_is_measured_on_other_groups(fitted):
    assert fitted[0].importance_.rows == "validation rows"
    assert fitted[0].bounds_ is not None


def test_sets_of_a_classifier_count_groups(fitted):
    """The greatest coverage that 40 groups, or those of one split, can give."""
    assert fitted[1].set_thresholds_[1, -1] <= N_GROUPS / (N_GROUPS + 1)


def test_a_named_column_is_no_input(tmp_path, fitted):
    frame = pd.DataFrame(X, columns=list("abcd")).assign(patient=GROUP, y=Y)
    model = clone(fitted[0]).fit(frame, "y", groups="patient")
    assert model.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_allclose(
        model.predict(frame[list("abcd")]), fitted[0].predict(X), rtol=1e-6
    )
    # Later tables may have it too, in any place
    later = frame[["patient", *"abcd"]]
    np.testing.assert_array_equal(
        model.predict(later), model.predict(frame[list("abcd")])
    )
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path)
    np.testing.assert_array_equal(model.predict(path), model.predict(later))
    again = clone(model).fit(path, "y", groups="patient")
    np.testing.assert_array_equal(again.alpha_, model.alpha_)
    with pytest.raises(ValueError, match="no column 'doctor'"):
        clone(model).fit(frame, "y", groups="doctor")
    with pytest.raises(TypeError, match="groups must be the name of a column"):
        clone(model).fit(path, "y", groups=GROUP)


@pytest.mark.slow
def test_a_table_in_passes_has_groups(tmp_path):
    """The rows of the sample validate by them; those of a group lie in several parts."""
    rows, y, group = grouped(60, 40)
    order = np.random.default_rng(0).permutation(len(y))
    frame = pd.DataFrame(rows, columns=list("abcd")).assign(g=group, y=y).iloc[order]
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path, row_group_size=300)
    source = open_source(path, sample=1500)
    model = KernelMachineRegressor(random_state=0).fit(source, "y", groups="g")
    by_chance = KernelMachineRegressor(random_state=0).fit(
        open_source(path, sample=1500, exclude=["g"]), "y"
    )
    assert model.n_features_in_ == 4
    own, chance = (
        next(one for one in each.report_.candidates if one.name == each.report_.chosen)
        for each in (model, by_chance)
    )
    assert own.loss > 5 * chance.loss
    with pytest.raises(ValueError, match="cv needs all rows in memory"):
        KernelMachineRegressor(cv=3).fit(source, "y")


@pytest.mark.slow
def test_splits_that_say_the_same_give_the_same(fitted):
    folds = row_splits(None, Y, GROUP, labels=False).held_out_in
    for cv, given in (
        (GroupKFold(5), {"groups": GROUP}),
        (PredefinedSplit(folds), {}),
        ([(np.flatnonzero(folds != k), folds == k) for k in range(5)], {}),
    ):
        model = KernelMachineRegressor(random_state=0, cv=cv).fit(X, Y, **given)
        if given:
            np.testing.assert_array_equal(model.predict(X), fitted[0].predict(X))
        assert model.report_.rows_held_out % (len(Y) // 5) == 0


def test_parameters_are_cloned_and_plain():
    cv = KFold(4, shuffle=True, random_state=0)
    model = KernelMachineRegressor(cv=cv, random_state=0)
    assert clone(model).get_params()["cv"].n_splits == 4
    assert clone(model).fit(X, Y).report_.rows_held_out == len(X) // 4


def test_rows_that_only_judge_are_not_fitted():
    """With all given the model is that of the other rows."""
    known = GROUP < 30
    features = FourierFeatures(Gaussian(2.0), 60, random_state=0)
    model = KernelMachineRegressor(
        features=features, alpha=1.0, solver="cg", tol=1e-9, bounded=False
    )
    own = (X[~known], Y[~known])
    both = clone(model).fit(X[known], Y[known], validation=own)
    alone = clone(model).fit(X[known], Y[known])
    np.testing.assert_allclose(both.predict(X), alone.predict(X), rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_they_choose(loss):
    """Where their targets are turned round, so are predictions for them, in the mean of
    three draws.
    """
    known = GROUP < 30
    correlations = []
    for seed in (2, 3, 4):
        model = KernelMachineRegressor(random_state=seed, loss=loss)
        good = clone(model).fit(X[known], Y[known], validation=(X[~known], Y[~known]))
        bad = clone(model).fit(X[known], Y[known], validation=(X[~known], -Y[~known]))
        assert good.report_.rows_held_out == np.count_nonzero(~known)
        correlations.append(
            [
                np.corrcoef(one.predict(X[~known]), Y[~known])[0, 1]
                for one in (good, bad)
            ]
        )
    of_good, of_bad = np.mean(correlations, axis=0)
    assert of_good > 0.2
    assert of_bad < 0


def test_labels_of_rows_that_judge_are_known():
    other = LABELS.copy()
    other[-1] = "new"
    with pytest.raises(ValueError, match=r"labels that y does not: \['new'\]"):
        KernelMachineClassifier().fit(X, LABELS, validation=(X, other))


def test_copies_judge_by_their_own_targets():
    """A fifth of the rows or more are copies, which the fit takes for one."""
    rng = np.random.default_rng(1)
    rows = np.repeat(rng.normal(size=(600, 3)), 2, axis=0)
    y = rows[:, 0] + 0.3 * rng.normal(size=1200)
    model = KernelMachineRegressor(random_state=1)
    model.fit(rows[300:], y[300:], validation=(rows[:300], y[:300]))
    assert model.score(rows, y) > 0.9


@pytest.mark.parametrize("features", ["auto", "binning"])
@pytest.mark.parametrize("model", [KernelMachineRegressor, KernelMachineClassifier])
def test_copies_within_groups(model, features):
    rng = np.random.default_rng(1)
    rows = np.repeat(rng.normal(size=(600, 3)), 2, axis=0)
    y = rows[:, 0] + rng.normal(size=1200)
    y = y if model is KernelMachineRegressor else y > 0
    one = model(random_state=1, features=features)
    one.fit(rows, y, groups=np.arange(1200) // 4)
    assert one.report_.rows_held_out >= 240


def test_columns_of_rows_that_judge_are_of_the_same_kind():
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=Y)
    other = frame.assign(a=frame.a.astype(str))
    with pytest.raises(ValueError, match="Column 'a' of validation has the type"):
        KernelMachineRegressor().fit(frame, "y", validation=(other, "y"))


def test_weights_of_classes_are_those_of_rows_that_judge_too():
    """With validation rows as with the same rows as a split, of a given model."""
    known = GROUP < 30
    weights = {"high": 1.0, "low": 5.0}
    features = FourierFeatures(Gaussian(2.0), 100, random_state=0)
    one = KernelMachineClassifier(features=features, alpha=1.0, class_weight=weights)
    one.fit(X[known], LABELS[known], validation=(X[~known], LABELS[~known]))
    plain = clone(one).set_params(class_weight=None)
    plain.fit(X[known], LABELS[known], validation=(X[~known], LABELS[~known]))
    split = [(np.flatnonzero(known), np.flatnonzero(~known))]
    other = clone(one).set_params(cv=split).fit(X, LABELS)
    np.testing.assert_allclose(one.link_, other.link_, rtol=0.01)
    assert abs(plain.link_ - one.link_).max() > 0.5


def test_few_classes_of_few_rows_have_groups():
    labels = np.array(list("abcde") * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = KernelMachineClassifier().fit(X[:150:15], labels, groups=np.arange(10))
    assert model.classes_.tolist() == list("abcde")


def test_levels_that_only_groups_explain_say_nothing():
    """A value for two rows of a group each cannot come again in a new one."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(60), 10)
    frame = pd.DataFrame({"x": rng.normal(size=600)})
    frame["v"] = [f"v{k}" for k in np.arange(600) // 2]
    y = rng.normal(size=60)[group] + 0.1 * rng.normal(size=600)
    model = KernelMachineRegressor(random_state=0).fit(frame, y, groups=group)
    assert model.encoder_.left_out == ["v"]


@pytest.mark.parametrize("way", ["validation", "loaded"])
def test_refit_says_what_it_does_not_have(way, tmp_path):
    features = FourierFeatures(Gaussian(2.0), 30, random_state=0)
    model = KernelMachineRegressor(features=features, uncertainty="intervals")
    if way == "validation":
        model.fit(X[:400], Y[:400], validation=(X[400:], Y[400:]))
    else:
        model.set_params(cv=KFold(3)).fit(X, Y)
        save(model, tmp_path / "model.safetensors")
        model = load(tmp_path / "model.safetensors")
    with pytest.warns(UserWarning, match="calibrated by rows held out by chance"):
        model.refit(X, Y)


def test_a_generator_of_splits_is_read_once():
    model = KernelMachineRegressor(cv=KFold(3).split(X), uncertainty="intervals")
    model.set_params(features=FourierFeatures(Gaussian(2.0), 30, random_state=0))
    assert len(model.fit(X, Y).spread_.scores.values) == len(Y)
    with pytest.raises(ValueError, match="read once alone: give a list"):
        model.fit(X, Y)


def test_prepared_models_choose_by_groups(fitted):
    """Sums know no groups: they are those of all rows."""
    model = KernelMachineRegressor(random_state=0).prepare(X, Y, groups=GROUP)
    whole = clone(model).prepare(X, Y, groups=GROUP).partial_fit(X, Y)
    for part in range(3):
        model.partial_fit(X[part::3], Y[part::3])
    np.testing.assert_allclose(model.predict(X), whole.predict(X), atol=1e-8)


def test_refit_keeps_what_groups_chose(fitted):
    model = KernelMachineRegressor(random_state=0).fit(X, Y, groups=GROUP)
    again = model.refit(X, Y, groups=GROUP)
    assert again.alpha_ == fitted[0].alpha_


@pytest.mark.slow
def test_refit_asks_for_groups_where_intervals_count_them():
    features = FourierFeatures(Gaussian(2.0), 30, random_state=0)
    model = KernelMachineRegressor(features=features, uncertainty="intervals")
    model.fit(X, Y, groups=GROUP)
    with pytest.raises(ValueError, match="pass groups= to refit too"):
        model.refit(X, Y)
    before = model.predict_interval(X[:5])
    again = model.refit(X, Y, groups=GROUP).predict_interval(X[:5])
    np.testing.assert_allclose(again, before, rtol=0.05, atol=0.1)


@pytest.mark.parametrize("cv", [GroupKFold(3), KFold(3).split(X), 3])
def test_files_hold_no_splits(cv, tmp_path):
    """But a number of folds."""
    features = FourierFeatures(Gaussian(2.0), 30, random_state=0)
    given = {"groups": GROUP} if isinstance(cv, GroupKFold) else {}
    model = KernelMachineRegressor(features=features, cv=cv).fit(X, Y, **given)
    save(model, tmp_path / "model.safetensors")
    loaded = load(tmp_path / "model.safetensors")
    assert loaded.cv == (3 if cv == 3 else None)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_a_named_column_is_known_later():
    """Parts and refits may hold it, or not."""
    frame = pd.DataFrame(X, columns=list("abcd")).assign(g=GROUP, y=Y)
    plain = frame.drop(columns="g")
    model = KernelMachineRegressor("gaussian", n_components=50, random_state=0)
    one = clone(model).prepare(frame, "y", groups="g")
    other = clone(model).prepare(frame, "y", groups="g")
    for part in (slice(300), slice(300, 600)):
        one.partial_fit(frame[part], "y")
        other.partial_fit(plain[part], "y")
    rows = plain.drop(columns="y")
    np.testing.assert_array_equal(one.predict(rows), other.predict(rows))
    fitted = clone(model).fit(frame, "y", groups="g")
    np.testing.assert_allclose(
        fitted.refit(frame, "y").predict(rows), fitted.refit(plain, "y").predict(rows)
    )


def test_plans_know_of_splits():
    model = KernelMachineRegressor("gaussian", "fourier", n_components=50, alpha=1.0)
    assert model.plan(X, Y).solver == "direct"
    found = model.set_params(cv=3).plan(X, Y)
    assert found.solver == model.fit(X, Y).solver_ == "cg"
    assert found.reason == model.solver_reason_


def test_groups_are_routed():
    """Through pipelines and cross-validation, which splits by them too."""
    features = FourierFeatures(Gaussian(2.0), 30, random_state=0)
    model = KernelMachineRegressor(features=features)
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), model.set_fit_request(groups=True))
        found = cross_validate(
            pipeline,
            X,
            Y,
            cv=GroupKFold(3),
            params={"groups": GROUP},
            return_estimator=True,
        )
    assert len(found["test_score"]) == 3
    for one in found["estimator"]:
        assert one[-1].solver_reason_ == "rows validate by the splits that are given"


@pytest.mark.slow
def test_the_reported_loss_is_that_of_cross_validation():
    """Within its standard error over groups; by chance it is far less."""
    rows, y, group = grouped(100)
    model = KernelMachineRegressor(random_state=0).fit(rows, y, groups=group)
    chosen = min(model.report_.candidates, key=lambda one: one.loss)
    by_group = -cross_val_score(
        KernelMachineRegressor(random_state=0),
        rows,
        y,
        groups=group,
        cv=GroupKFold(5),
        scoring="neg_mean_squared_error",
    )
    scale = np.var(y)
    error = by_group.std() / scale
    assert abs(chosen.loss - by_group.mean() / scale) < 3 * error
    by_chance = KernelMachineRegressor(random_state=0).fit(rows, y).report_
    assert min(one.loss for one in by_chance.candidates) < 0.2 * by_group.mean() / scale


@pytest.mark.slow
def test_the_report_says_what_judged(fitted, tmp_path):
    """And the page does not validate sizes by rows that chance draws."""
    assert " rows, whole groups." in str(fitted[0].report_)
    assert "whole groups" in fitted[0].report_._repr_html_()
    page = fitted[0].report_html(X, Y, out=tmp_path / "page.html").read_text()
    assert "Candidates on 120 validation rows, whole groups" in page.replace(
        "240", "120"
    )
    assert "no curve against features: the fit was validated on whole groups" in page
    known = GROUP < 30
    one = KernelMachineRegressor(random_state=0, time_limit=1.0)
    one.fit(X[known], Y[known], validation=(X[~known], Y[~known]))
    assert one.report_.validated_on == "rows that only validate"
    assert one.set_params(cv=3).fit(X, Y).report_.validated_on == "splits of cv"
    assert one.set_params(cv=None).fit(X, Y).report_.validated_on == ""


def test_validation_rows_that_are_fitted_too_are_told():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 3))
    y = X[:, 0] + 0.1 * rng.standard_normal(500)
    new, y_new = X[400:], y[400:]
    features = FourierFeatures(n_components=50)
    model = KernelMachineRegressor(features=features, alpha=0.1, random_state=0)
    with pytest.warns(UserWarning, match=r"^100 of 100 rows of validation= are rows"):
        model.fit(X, y, validation=(new, y_new))
    frame = pd.DataFrame(X).add_prefix("x")
    with pytest.warns(UserWarning, match=r"^100 of 150 rows of validation= are rows"):
        model.fit(frame[:450], y[:450], validation=(frame[350:], y[350:]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X[:400], y[:400], validation=(new, y_new))
        # Of a few levels new rows equal those of the fit by chance
        levels = rng.integers(3, size=(500, 2)).astype(float)
        labels = levels.sum(axis=1) > 1
        KernelMachineClassifier(features=features, random_state=0).fit(
            levels[:400], labels[:400], validation=(levels[400:], labels[400:])
        )


@pytest.mark.slow
def test_splits_of_a_splitter_with_as_many_splits_as_groups_calibrate():
    """Parts without a fold have fewer groups than it makes splits."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(10), 20)
    X = rng.standard_normal((10, 3))[group] + 0.05 * rng.standard_normal((200, 3))
    y = X[:, 0] + 2 * rng.standard_normal(10)[group] + 0.1 * rng.standard_normal(200)
    widths = []
    for cv in (GroupKFold(10), LeaveOneGroupOut()):
        model = KernelMachineRegressor(cv=cv, uncertainty="intervals", random_state=0)
        ends = model.fit(X, y, groups=group).predict_interval(X, 0.8)
        widths.append(np.ptp(ends, axis=1).mean())
    assert widths[0] == pytest.approx(widths[1], rel=0.3)


@pytest.mark.parametrize("way", ["groups", "cv", "validation"])
def test_few_rows_that_are_split_have_learned_lengthscales(way):
    """Beside columns of noise, as rows that chance holds out have them."""
    X, y = make_friedman1(700, 12, noise=1.0, random_state=0)
    rows, others, new = np.split(np.arange(700), [160, 200])
    model = KernelMachineRegressor(random_state=0)
    by_chance = clone(model).fit(X[rows], y[rows])
    given = {
        "groups": {"groups": np.arange(160) % 16},
        "cv": {},
        "validation": {"validation": (X[others], y[others])},
    }[way]
    model.set_params(cv=5 if way == "cv" else None).fit(X[rows], y[rows], **given)
    error, usual = (
        np.sqrt(np.mean((one.predict(X[new]) - y[new]) ** 2))
        for one in (model, by_chance)
    )
    # With one lengthscale it is 2.5 times as large
    assert error < 1.5 * usual


def test_few_rows_that_validate_are_told_of():
    X, y = make_friedman1(300, noise=0.5, random_state=0)
    machine = KernelMachineRegressor(random_state=0)
    with pytest.warns(UserWarning, match="Only 10 of 300 rows validate this fit"):
        machine.fit(X[10:], y[10:], validation=(X[:10], y[:10]))
    fold = np.where(np.arange(300) < 10, 0, -1)
    with pytest.warns(UserWarning, match="Let 50 rows or more validate"):
        machine.set_params(cv=PredefinedSplit(fold)).fit(X, y)


@pytest.mark.parametrize(("n_rows", "n_validating"), [(40, 10), (300, 50)])
def test_a_fifth_of_the_rows_or_fifty_may_validate(n_rows, n_validating):
    X, y = make_friedman1(n_rows, noise=0.5, random_state=0)
    other = X[:n_validating], y[:n_validating]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelMachineRegressor(random_state=0).fit(
            X[n_validating:], y[n_validating:], validation=other
        )
