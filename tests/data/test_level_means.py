"""Mean targets of categories: scikit-learn and sums over the rows as the outside
truth, no row tells its own.
"""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import TargetEncoder

from bochner import KernelMachineClassifier, KernelMachineRegressor, load, save
from bochner.data.hashes import row_hashes, uniform
from bochner.data.level_means import level_means, levels_differ, without_others
from bochner.data.table import MEAN_FOLDS, TableEncoder, TargetRows
from bochner.selection.split import rows_held_out

SEED = 3


def towns(n, levels, seed=0):
    """Rows whose target has a mean of its own for each town, and these means by the
    names of the towns.
    """
    rng = np.random.default_rng(seed)
    effect = np.random.default_rng(9).standard_normal(levels)
    town, x = rng.integers(levels, size=n), rng.standard_normal(n)
    y = effect[town] + np.sin(2 * x) + 0.3 * rng.standard_normal(n)
    return pd.DataFrame({"x": x, "town": [f"town {i}" for i in town]}), y


def coded(frame):
    codes, labels = pd.factorize(frame["town"])
    return codes, list(labels)


def analysis_of_variance(labels, y):
    """Rows that the mean of all is worth: the variance in a category over that
    between them.
    """
    groups = [y[labels == one] for one in np.unique(labels)]
    n, total = np.array([len(own) for own in groups]), len(y)
    within = sum(((own - own.mean()) ** 2).sum() for own in groups) / (
        total - len(groups)
    )
    squares = sum(len(own) * (own.mean() - y.mean()) ** 2 for own in groups)
    between = (squares - (len(groups) - 1) * within) / (total - (n**2).sum() / total)
    return within / between


def test_means_are_those_of_scikit_learn():
    X, y = towns(2000, 60)
    more = analysis_of_variance(X["town"].to_numpy(), y)
    other = TargetEncoder(smooth=more, target_type="continuous").fit(X[["town"]], y)
    others, _ = level_means(
        *coded(X), np.zeros(2000, int), y[:, np.newaxis], np.ones(2000)
    )
    truth = dict(zip(other.categories_[0], other.encodings_[0], strict=True))
    codes, labels = coded(X)
    own = others.of(codes, labels)[:, 0] / others.directions[0, 0] + y.mean()
    np.testing.assert_allclose(own, [truth[name] for name in X["town"]], rtol=1e-10)


def test_others_are_taken_off_by_their_slopes_beside_indicators_of_the_categories():
    """Also of columns whose mean differs from category to category."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 41, 6000)
    level = rng.standard_normal((41, 3))[codes]
    Z = level + rng.standard_normal((6000, 3))
    y = 5 * level[:, :2] + Z @ rng.standard_normal((3, 2))
    y += rng.standard_normal((6000, 2))
    weight = rng.integers(0, 4, 6000).astype(float)
    indicators = pd.get_dummies(codes).to_numpy(float)
    linear = LinearRegression().fit(np.hstack([Z, indicators]), y, weight)
    left = without_others(codes, Z.astype(np.float32), y, weight)
    np.testing.assert_allclose(left, y - Z @ linear.coef_[:, :3].T, atol=5e-3)


def test_others_explain_nothing_where_they_are_constant_in_categories_or_rows_few():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 40, 500)
    y = rng.standard_normal((500, 1))
    weight = np.ones(500)
    size_of_town = rng.standard_normal((40, 2))[codes]
    left = without_others(codes, size_of_town, y, weight)
    np.testing.assert_allclose(left, y, atol=1e-12)
    wide = rng.standard_normal((500, 60))
    np.testing.assert_array_equal(without_others(codes, wide, y, weight), y)
    none = np.empty((500, 0))
    np.testing.assert_array_equal(without_others(codes, none, y, weight), y)


@pytest.mark.slow
def test_effects_of_categories_are_told_from_those_of_other_columns():
    """Means of the targets know little of an effect that varies less than the rest;
    boosting with them is the comparison.
    """
    X, y = towns(6000, 500)
    rng = np.random.default_rng(5)
    X["more"] = rng.standard_normal(6000)
    y = y + 2 * X["more"].to_numpy()
    fitted, new = slice(0, 4500), slice(4500, None)
    model = KernelMachineRegressor(random_state=0).fit(X[fitted], y[fitted])
    encoder = make_column_transformer(
        (TargetEncoder(), ["town"]), remainder="passthrough"
    )
    boosting = make_pipeline(encoder, HistGradientBoostingRegressor(random_state=0))
    boosting.fit(X[fitted], y[fitted])
    errors = [
        np.sqrt(np.mean((one.predict(X[new]) - y[new]) ** 2))
        for one in (model, boosting)
    ]
    assert errors[0] < 0.7 * errors[1]


def test_a_row_has_the_mean_of_rows_in_other_folds():
    X, y = towns(1500, 200)
    rng = np.random.default_rng(0)
    y += 2 * rng.standard_normal(1500)  # so that no category is common
    fold = rng.integers(4, size=1500)
    codes, labels = coded(X)
    _, these = level_means(codes, labels, fold, y[:, np.newaxis], np.ones(1500))
    assert not these.flags_unknown  # of hardly any row
    got = these.of(codes, labels, fold)[:, 0]
    more = analysis_of_variance(X["town"].to_numpy(), y)
    centred = (y - y.mean()) * these.directions[0, 0]
    for i in range(0, 1500, 97):
        some = (codes == codes[i]) & (fold != fold[i])
        if some.any():
            assert got[i] == pytest.approx(
                centred[some].sum() / (some.sum() + more), rel=1e-9
            )


def test_a_category_of_a_single_fold_is_unknown_to_its_rows():
    """Even where one row tells all of its category, so that all are common."""
    X, y = towns(1500, 700)
    fold = np.random.default_rng(1).integers(4, size=1500)
    codes, labels = coded(X)
    others, these = level_means(codes, labels, fold, y[:, np.newaxis], np.ones(1500))
    folds_of = pd.DataFrame({"code": codes, "fold": fold}).groupby("code")["fold"]
    alone = folds_of.transform("nunique").to_numpy() == 1
    assert 0.1 < alone.mean() < 0.5
    known = others.of(codes, labels)[:, 0]
    unknown = others.of(np.array([0]), ["never seen"])[0, 0]
    assert unknown == pytest.approx(known.mean())
    got = these.of(codes, labels, fold)[:, 0]
    np.testing.assert_allclose(got[alone], unknown)
    flag = these.of(codes, labels, fold)[:, 1]
    np.testing.assert_array_equal(flag, alone)
    assert others.flags_unknown
    assert not others.of(codes, labels)[:, 1].any()
    assert others.of(np.array([0]), ["never seen"])[0, 1] == 1
    again, _ = level_means(
        codes[~alone],
        labels,
        fold[~alone],
        y[~alone, np.newaxis],
        np.ones(np.count_nonzero(~alone)),
        others,
    )
    assert again.flags_unknown  # as in the fit, though none is unknown
    assert np.corrcoef(got[~alone], known[~alone])[0, 1] > 0.9
    assert np.ptp(known[alone]) > 1


def test_common_categories_have_one_mean_without_the_validation_rows():
    codes, rng = np.repeat([0, 1, 2, 2, 2, 2], 500), np.random.default_rng(0)
    fold, y = (
        rng.integers(5, size=3000),
        (np.array([0.0, 1.0, 5.0])[codes] + rng.normal(size=3000))[:, np.newaxis],
    )
    _, these = level_means(codes, ["a", "b", "c"], fold, y, np.ones(3000))
    for code in range(3):
        got = these.of(np.full(5, code), ["a", "b", "c"], np.arange(5))[:, 0]
        seen = y[(codes == code) & (fold > 0)].mean() - y.mean()
        np.testing.assert_allclose(
            got, seen * these.directions[0, 0], rtol=2e-3, atol=2e-3
        )


def test_unknown_categories_have_the_mean_of_all_and_missing_ones_are_a_category():
    codes = np.tile(np.arange(-1, 19), 50)
    y = (
        np.where(codes == -1, 4.0, codes % 2)[:, np.newaxis]
        + np.random.default_rng(0).normal(size=(1000, 1)) / 9
    )
    labels = [f"c{i}" for i in range(19)]
    means, _ = level_means(codes, labels, np.zeros(1000, int), y, np.ones(1000))
    unknown = means.of(np.array([1]), ["other", "never seen"])[0, 0]
    assert unknown == pytest.approx(means.of(codes, labels).mean())
    missing = means.of(np.array([-1]), labels)[0, 0] / means.directions[0, 0] + y.mean()
    assert missing == pytest.approx(y[codes == -1].mean(), abs=0.05)


def test_categories_of_single_rows_or_without_effect_have_none():
    rng = np.random.default_rng(0)
    fold, y, noise = (
        np.arange(1000) % 5,
        np.arange(1000.0)[:, np.newaxis] % 950,
        rng.normal(size=(1000, 1)),
    )
    assert (
        level_means(
            np.arange(1000) % 950, [str(i) for i in range(950)], fold, y, np.ones(1000)
        )
        is None
    )
    equal = np.repeat(noise[:100] - noise[:100].mean(), 10, axis=0)
    assert (
        level_means(
            np.tile(np.arange(10), 100), list("abcdefghij"), fold, equal, np.ones(1000)
        )
        is None
    )


def test_columns_whose_categories_all_have_columns_have_none():
    X, y = towns(3000, 100)
    one, two = encoders(X, y)
    assert one is two
    assert not one.has_level_means


def test_many_outputs_have_few_directions():
    rng = np.random.default_rng(0)
    codes = rng.integers(30, size=3000)
    y = (
        np.where(codes[:, np.newaxis] % 10 == np.arange(10), 1.0, -1.0)
        + rng.normal(size=(3000, 10)) / 5
    )
    means, _ = level_means(
        codes, [str(i) for i in range(30)], np.zeros(3000, int), y, np.ones(3000)
    )
    assert means.values.shape[2] == 3
    spread = means.of(codes, [str(i) for i in range(30)]).std(axis=0)
    np.testing.assert_allclose(spread, 1, rtol=0.05)


def encoders(X, y, weight=None):
    return (
        TableEncoder()
        .fit(X, sample_weight=weight)
        .with_level_means(TargetRows(X, y[:, np.newaxis], weight, SEED))
    )


def test_validation_rows_have_the_means_of_all_others():
    X, _ = towns(3000, 150)
    hashes = row_hashes(X)
    fold = (MEAN_FOLDS * uniform(hashes, SEED)).astype(int)
    assert (fold[rows_held_out(hashes, np.ones(3000), SEED)] == 0).all()


def test_columns_have_names_and_sources():
    X, y = towns(3000, 150)
    encoder, _ = encoders(X, y)
    assert encoder.get_feature_names_out()[-1] == "town_mean0"
    assert encoder.sources()[-1] == 1
    assert len(encoder.sources()) == encoder.n_features_out_
    assert encoder.transform(X).shape == (3000, encoder.n_features_out_)


def test_frames_of_any_library_are_encoded_alike():
    X, y = towns(3000, 150)
    _, these = encoders(X, y)
    other = pl.DataFrame({name: X[name].tolist() for name in X})
    np.testing.assert_array_equal(
        these.encode(X, np.float64), these.encode(other, np.float64)
    )


def test_weights_are_repeated_rows():
    X, y = towns(2500, 150)
    weight = np.random.default_rng(0).integers(1, 4, 2500)
    place = np.repeat(np.arange(2500), weight)
    one, _ = encoders(X, y, weight.astype(float))
    two, _ = encoders(X.iloc[place], y[place])
    three, _ = encoders(X, y, 7.5 * weight)
    for other in (two, three):
        np.testing.assert_allclose(
            one.encode(X, np.float64)[:, -1],
            other.encode(X, np.float64)[:, -1],
            rtol=1e-9,
        )


@pytest.fixture(scope="module")
def fitted():
    X, y = towns(4000, 300)
    return KernelMachineRegressor(
        features="fourier", n_components=100, random_state=0
    ).fit(X, y)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:.*(levels that the fit did not see|missing values, and had none)"
)
def test_many_categories_are_learned(fitted):
    X, y = towns(2000, 300, seed=1)
    assert (
        np.mean((fitted.predict(X) - y) ** 2) < 0.2 * y.var()
    )  # .09 is noise, of 1.5; without means .5
    assert np.isfinite(
        fitted.predict(pd.DataFrame({"x": [0.0, 1.0], "town": ["elsewhere", None]}))
    ).all()
    assert fitted.feature_importances_.shape == (2,)


def test_saved_models_have_the_means(fitted, tmp_path):
    X, _ = towns(500, 300, seed=1)
    save(fitted, tmp_path / "model.bochner")
    np.testing.assert_array_equal(
        load(tmp_path / "model.bochner").predict(X), fitted.predict(X)
    )
    assert b"town 299" not in (tmp_path / "model.bochner").read_bytes()


def test_refit_learns_the_means_again(fitted):
    (X, y), (X_test, y_test) = towns(4000, 300), towns(2000, 300, seed=1)
    before = np.mean((fitted.predict(X_test) - y_test) ** 2)
    again = fitted.resized(1).refit(X, y)
    assert np.mean((again.predict(X_test) - y_test) ** 2) < 1.1 * before
    moved = fitted.resized(1).refit(X, -y)
    assert np.mean((moved.predict(X_test) + y_test) ** 2) < 1.5 * before


@pytest.mark.slow
def test_classes_have_them_too():
    X, y = towns(4000, 200)
    model = KernelMachineClassifier(
        features="fourier", n_components=100, random_state=0
    )
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])]
    model = clone(model).fit(X, labels)
    X_test, y_test = towns(2000, 200, seed=1)
    assert model.encoder_.has_level_means
    assert (
        model.score(
            X_test,
            np.array(["low", "middle", "high"])[np.digitize(y_test, [-0.5, 0.5])],
        )
        > 0.78
    )


@pytest.mark.parametrize("levels", [30, 400, 1_000])
@pytest.mark.parametrize("shape", ["normal", "rare", "classes"])
def test_levels_differ_by_two_standard_errors(levels, shape):
    """Chance takes levels for different in a fortieth of all tables, as two standard
    errors of a normal distribution do, and levels that matter are always found.
    """
    rng = np.random.default_rng(levels)

    def differ(effect):
        codes = rng.integers(levels, size=1_000)
        score = rng.standard_normal(1_000)
        score += effect * rng.standard_normal(levels)[codes]
        y = {
            "normal": score[:, np.newaxis],
            "rare": np.where(score > 2.0, 1.0, -1.0)[:, np.newaxis],
            "classes": np.digitize(score, [-1.0, 0.0, 1.0])[:, np.newaxis] == range(4),
        }[shape]
        fold = rng.integers(MEAN_FOLDS, size=1_000)
        return levels_differ(codes, fold, y.astype(float), np.ones(1_000))

    assert sum(differ(0.0) for _ in range(200)) <= 16
    assert sum(differ(2.0) for _ in range(20)) >= 19


def test_copies_are_no_rows_of_a_level():
    """Copies of a row share their fold, so that they do not tell of each other."""
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(300), 4)
    y = np.repeat(rng.standard_normal(300), 4)[:, np.newaxis]
    fold = np.repeat(rng.integers(MEAN_FOLDS, size=300), 4)
    assert not levels_differ(codes, fold, y, np.ones(1_200))
    assert levels_differ(codes, np.arange(1_200) % 4, y, np.ones(1_200))


def with_a_noise_column(X, levels):
    """The table with a column of random levels, missing in a tenth of the rows."""
    rng = np.random.default_rng(1)
    noisy = X.assign(noise=[f"v{i}" for i in rng.integers(levels, size=len(X))])
    noisy.loc[::10, "noise"] = None
    return noisy


@pytest.mark.parametrize("levels", [1_000, 1_500])
def test_a_column_of_noise_is_left_out(levels):
    X, y = towns(1_500, 20)
    noisy = with_a_noise_column(X, levels)
    model = KernelMachineRegressor(random_state=0).fit(noisy, y)
    assert model.report_.left_out == ["noise"]
    assert "noise" in model.report_.guesses[0]
    names = model.encoder_.get_feature_names_out()
    assert [name for name in names if name.startswith("noise")] == ["noise_missing"]


@pytest.mark.slow
@pytest.mark.parametrize("levels", [1_000, 1_500])
def test_a_column_of_noise_costs_nothing(levels):
    """On the mean of four seeds, each of which draws other validation rows."""
    X, y = towns(3_500, 20)
    errors = [
        np.mean(
            [
                np.square(
                    KernelMachineRegressor(random_state=seed)
                    .fit(table[:1_500], y[:1_500])
                    .predict(table[1_500:])
                    - y[1_500:]
                ).mean()
                for seed in range(4)
            ]
        )
        for table in (X, with_a_noise_column(X, levels))
    ]
    assert np.sqrt(errors[1] / errors[0]) < 1.03


@pytest.mark.slow
def test_levels_that_matter_with_another_column_stay():
    """Their mean targets are equal, and their slopes are not."""
    rng = np.random.default_rng(2)
    names = [f"level {i}" for i in range(55)]
    X = pd.DataFrame(
        {"name": rng.choice(names, 2_000), "x": rng.standard_normal(2_000)}
    )
    slope = X["name"].map({name: (-1) ** i for i, name in enumerate(names)})
    y = (slope * X["x"]).to_numpy()
    model = KernelMachineRegressor(random_state=0).fit(X[:1_000], y[:1_000])
    assert model.report_.left_out == []
    assert model.score(X[1_000:], y[1_000:]) > 0.9


def test_levels_that_were_left_out_are_not_missed(tmp_path):
    """New levels of such a column raise no warning, a saved model predicts the same,
    and a table of nothing else keeps its levels.
    """
    rng = np.random.default_rng(5)
    X, y = towns(600, 8)
    X["noise"] = [f"v{i}" for i in rng.integers(300, size=600)]
    encoder = TableEncoder().fit(X)
    left = encoder.without_noise(TargetRows(X, y[:, np.newaxis], None, 0))
    assert left.left_out == ["noise"]
    assert not encoder.left_out
    save(left, tmp_path / "encoder.safetensors")
    again = load(tmp_path / "encoder.safetensors")
    other = X.assign(noise="never seen")
    np.testing.assert_array_equal(again.transform(other), left.transform(X))
    alone = TableEncoder().fit(X[["noise"]])
    assert (
        alone.without_noise(TargetRows(X[["noise"]], y[:, np.newaxis], None, 0))
        is alone
    )
    kept = TableEncoder().fit(X[["x", "town"]])
    assert (
        kept.without_noise(TargetRows(X[["x", "town"]], y[:, np.newaxis], None, 0))
        is kept
    )
