"""Numbers that are codes of categories, told by their mean targets."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import log_loss

import bochner
from bochner import KernelMachineClassifier, KernelMachineRegressor, TableEncoder
from bochner.data.level_means import are_codes, may_be_codes, order_test
from bochner.data.table import TargetRows

N = 4_000


def drawn(means, seed=0, noise=1.0, n=N):
    """Codes 0, 1, ..., and targets of the given means."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(len(means), size=n)
    return codes.astype(float), (
        np.array(means)[codes] + noise * rng.standard_normal(n)
    )[:, np.newaxis]


def hold_codes(values, y, weight):
    test = order_test(values, y, weight)
    return may_be_codes(values, weight) and are_codes([test])


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ([0, 1, 2, 3], False),
        ([3, 2, 2, 0], False),
        ([0, 3, 1, 2, 5, -1], True),
        ([0, 3, 1, 2], False),  # on a cubic, as any four numbers are
        ([1, 0, 1], False),
        ([1, 0.3, 0, 0.3, 1], False),  # a parabola
        ([1, 0, 0, 0, 0, 0, 1], False),  # weekends, from Sunday to Saturday
        (np.cos(np.arange(12) * np.pi / 3), False),  # months of two seasons
        ([0, 1, 1.1, 1, 2, 3], False),  # hardly out of order
        ([0, 1], False),
        (np.sin(np.arange(24) * np.pi / 12), False),  # hours of a day: a smooth curve
        (
            np.random.default_rng(0).permutation(np.sin(np.arange(24) * np.pi / 12)),
            True,
        ),
    ],
)
def test_means_in_no_order(means, expected):
    codes, y = drawn(means)
    assert hold_codes(codes, y, np.ones(N)) == expected
    assert (
        hold_codes(7 - 2 * codes, y, np.ones(N)) == expected
    )  # order and distances do not matter
    codes[::7] = np.nan
    assert hold_codes(codes, y, np.ones(N)) == expected
    assert not hold_codes(codes + 0.5, y, np.ones(N))


def test_chance_is_no_reason():
    """Of numbers that tell nothing, or the targets in their order, hardly any are
    taken for codes.
    """
    found = [
        hold_codes(*drawn(slope * np.arange(levels), seed, n=500), np.ones(500))
        for seed in range(100)
        for slope, levels in ((0.0, 3), (0.0, 10), (0.3, 5))
    ]
    assert sum(found) <= 3


def test_copies_are_one_row():
    rng = np.random.default_rng(0)
    X = rng.integers(3, size=(60, 4)).astype(float)
    y = rng.standard_normal((60, 1)) + (X[:, :1] == 1)
    few, many = (
        TableEncoder()
        .fit(X)
        .with_codes(
            TargetRows(np.repeat(X, k, axis=0), np.repeat(y, k, axis=0), None, 0)
        )
        for k in (1, 50)
    )
    assert few.get_feature_names_out().tolist() == many.get_feature_names_out().tolist()


def test_encoding():
    codes, y = drawn([0, 3, -1, 2, 4])
    X = np.column_stack([np.arange(N) / 2, 10 * codes])
    X[:5, 1] = np.nan
    frame = pd.DataFrame(X, columns=["t", "kind"])
    for rows, name in ((frame, "kind"), (X, "x1")):
        encoder = TableEncoder().fit(rows).with_codes(TargetRows(rows, y, None, 0))
        names = encoder.get_feature_names_out().tolist()[1:]
        assert names == [
            f"{name}_{suffix}" for suffix in ("0", "10", "20", "30", "40", "missing")
        ]
        assert encoder.sources().tolist() == [0, 1, 1, 1, 1, 1, 1]
        assert encoder.codes == {name: [0, 10, 20, 30, 40]}
        assert f"codes of categories: {name!r}" in str(encoder)
        Z = encoder.transform(rows)[:, 1:]
        truth = [
            [float(value == code) for code in (0, 10, 20, 30, 40)]
            + [float(np.isnan(value))]
            for value in X[:, 1]
        ]
        np.testing.assert_array_equal(Z, truth)
        unknown = frame[:4].assign(kind=[12.0, 39.0, -7.0, 1e9])
        between = encoder.transform(unknown if name == "kind" else unknown.to_numpy())[
            :, 1:6
        ]
        truth = [
            [0, 0.8, 0.2, 0, 0],
            [0, 0, 0, 0.1, 0.9],
            [1, 0, 0, 0, 0],
            [0, 0, 0, 0, 1],
        ]
        np.testing.assert_allclose(between, truth, rtol=1e-6)


def test_columns_of_text_beside_codes_stay():
    """Also when the counts of their categories are forgotten, as in a fit."""
    codes, y = drawn([0, 3, -1, 2, 4])
    text = np.char.add("t", np.random.default_rng(0).integers(150, size=N).astype(str))
    frame = pd.DataFrame({"few": text, "kind": codes, "many": text}).assign(
        few=lambda X: X["few"].str[:2]
    )
    plain = TableEncoder().fit(frame)
    names = [
        name for name in plain.get_feature_names_out() if not name.startswith("kind")
    ]
    plain.forget_categories()
    coded = plain.with_codes(TargetRows(frame, y, None, 0))
    assert [
        name for name in coded.get_feature_names_out() if not name.startswith("kind")
    ] == names
    assert "many_other" in names
    assert "kind_2" in coded.get_feature_names_out()
    others = [
        np.isin(encoder.get_feature_names_out(), names) for encoder in (plain, coded)
    ]
    Z = [
        encoder.transform(frame)[:, own]
        for encoder, own in zip((plain, coded), others, strict=True)
    ]
    np.testing.assert_array_equal(*Z)


@pytest.mark.slow
def test_codes_are_as_good_as_categories(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(8, size=(2 * N, 3))
    effects = rng.standard_normal((3, 8)) * 1.2
    logit = sum(effects[j][X[:, j]] for j in range(3)) + 1.5 * (X[:, 0] == 2) * (
        X[:, 1] == 1
    )
    y = (rng.uniform(size=2 * N) < 1 / (1 + np.exp(-logit))).astype(int)
    X = np.column_stack([X, rng.standard_normal(2 * N)])
    frame = pd.DataFrame(X, columns=list("abcd"))
    categories = frame.assign(
        **{name: frame[name].astype(str).astype("category") for name in "abc"}
    )
    models = [
        KernelMachineClassifier(random_state=0).fit(rows[:N], y[:N])
        for rows in (X, frame, categories)
    ]
    rows = (X[N:], frame[N:], categories[N:])
    losses = [
        log_loss(y[N:], model.predict_proba(own))
        for model, own in zip(models, rows, strict=True)
    ]
    assert models[0].encoder_.n_features_out_ == models[2].encoder_.n_features_out_
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert max(losses) < 1.05 * log_loss(y[N:], 1 / (1 + np.exp(-logit[N:])))
    bochner.save(models[1], tmp_path / "model")
    loaded = bochner.load(tmp_path / "model")
    np.testing.assert_array_equal(
        loaded.predict_proba(frame[N:]), models[1].predict_proba(frame[N:])
    )


@pytest.mark.parametrize("n_levels", [60, 400])
def test_many_codes_are_told_from_numbers_too(n_levels):
    rng = np.random.default_rng(0)
    codes = rng.integers(n_levels, size=5000)
    y = rng.normal(size=n_levels)[codes] + rng.normal(size=5000)
    values = codes.astype(float)
    weight = np.ones(5000)
    assert hold_codes(values, y[:, np.newaxis], weight)
    # Ages are no codes, however many there are
    y = np.sin(codes / n_levels * 4) + rng.normal(size=5000)
    assert not hold_codes(values, y[:, np.newaxis], weight)


@pytest.mark.parametrize(("n_levels", "noise"), [(1000, 1.0), (200, 3.0), (20, 0.5)])
def test_effects_beyond_chance_are_told(n_levels, noise):
    """Of many numbers chance leaves about their number, and varies little."""
    told = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        codes = rng.integers(n_levels, size=2000)
        y = rng.normal(size=n_levels)[codes] + noise * rng.normal(size=2000)
        told += hold_codes(codes.astype(float), y[:, np.newaxis], np.ones(2000))
    assert told >= 8


def test_regions_of_sorted_numbers_are_no_codes():
    """Hundreds of zip codes, whose neighbours are in one region."""
    rng = np.random.default_rng(0)
    zips = np.sort(rng.choice(99_999, 800, replace=False))
    effect = rng.normal(size=20)[zips // 5_000]
    place = rng.integers(800, size=6_000)
    for noise in (0.3, 1.0):
        y = effect[place] + noise * rng.normal(size=6_000)
        assert not hold_codes(zips[place].astype(float), y[:, None], np.ones(6_000))


def test_numbers_of_which_few_come_again_are_no_codes():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(5000, 1))
    assert not hold_codes(rng.permutation(5000).astype(float), y, np.ones(5000))


def test_a_class_of_few_rows_makes_no_codes():
    """Three rows of one class with one number, which are no level of their own."""
    rng = np.random.default_rng(0)
    values = rng.integers(1000, size=3000).astype(float)
    y = np.column_stack([values < 500, values >= 500, np.zeros(3000)]).astype(float)
    values[:3] = 77
    y[:3] = 0, 0, 1
    assert not hold_codes(values, y, np.ones(3000))


@pytest.mark.slow
def test_hundreds_of_codes_are_as_good_as_text(tmp_path):
    """And LightGBM, which splits them as numbers, is worse."""
    rng = np.random.default_rng(0)
    numbers = rng.choice(np.arange(1_000, 10_000), 400, replace=False)
    effect = rng.normal(size=400)
    place = rng.integers(400, size=6_000)
    frame = pd.DataFrame({"shop": numbers[place], "size": rng.normal(size=6_000)})
    truth = effect[place] + np.sin(frame["size"])
    y = truth + 0.3 * rng.normal(size=6_000)
    as_text = frame.assign(shop=frame["shop"].astype(str).astype("category"))
    coded, text = (
        KernelMachineRegressor(random_state=0).fit(X[:3000], y[:3000])
        for X in (frame, as_text)
    )
    assert len(coded.report_.codes["shop"]) == 100
    first = ", ".join(f"{code:g}" for code in coded.report_.codes["shop"][:8])
    told = f"Taken for codes of categories: shop ({first}, ...); numeric_features="
    assert told in " ".join(str(coded.report_).split())
    predictions = coded.predict(frame[3000:])
    error = np.mean(np.square(predictions - truth[3000:]))
    error_of_text = np.mean(np.square(text.predict(as_text[3000:]) - truth[3000:]))
    trees = HistGradientBoostingRegressor(random_state=0).fit(frame[:3000], y[:3000])
    error_of_trees = np.mean(np.square(trees.predict(frame[3000:]) - truth[3000:]))
    assert error < 1.05 * error_of_text
    assert error < 0.3 * error_of_trees
    bochner.save(coded, tmp_path / "model")
    loaded = bochner.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(frame[3000:]), predictions)
    # New shops are of mean effect, and a warning names one
    new = frame[3000:3100].assign(shop=17)
    with pytest.warns(UserWarning, match="column 'shop': 100 of 100 values"):
        predictions = coded.predict(new)
    rest = np.sin(new["size"]) + effect.mean()
    assert np.sqrt(np.mean(np.square(predictions - rest))) < 0.5


def test_weights_of_hundreds_of_codes_are_equal_rows():
    rng = np.random.default_rng(0)
    codes = rng.integers(150, size=3000)
    y = rng.normal(size=150)[codes, np.newaxis] + 0.1 * rng.normal(size=(3000, 1))
    X = np.column_stack([codes, rng.normal(size=3000)]).astype(float)
    weight = rng.integers(0, 4, 3000).astype(float)
    again = np.repeat(np.arange(3000), weight.astype(int))
    weighed = TableEncoder().fit(X, sample_weight=weight)
    weighed = weighed.with_codes(TargetRows(X, y, weight))
    repeated = TableEncoder().fit(X[again])
    repeated = repeated.with_codes(TargetRows(X[again], y[again]))
    names = weighed.get_feature_names_out().tolist()
    assert len(names) == 118
    assert repeated.get_feature_names_out().tolist() == names


def test_few_numbers_of_many_columns_are_codes_together():
    """Of three or four numbers one column tells nothing, and the fields of a board
    do.
    """
    rng = np.random.default_rng(0)
    X = rng.integers(3, size=(N, 6)).astype(float)
    y = (X == 1).sum(axis=1, keepdims=True) + 0.5 * rng.standard_normal((N, 1))
    assert len(TableEncoder().fit(X).with_codes(TargetRows(X, y, None, 0)).codes) == 6
    assert (
        not TableEncoder()
        .fit(X[:, :1])
        .with_codes(TargetRows(X[:, :1], y, None, 0))
        .codes
    )


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"kind": rng.integers(6, size=2600), "size": rng.normal(size=2600)}
    )
    return frame, np.array([0, 3, -1, 2, 4, 0])[frame["kind"]] + frame["size"]


@pytest.mark.slow
def test_codes_are_in_the_report_and_can_be_refused(table):
    X, y = table
    options = {"kernel": "gaussian", "n_components": 64, "random_state": 0}
    model = KernelMachineRegressor(**options).fit(X, y)
    assert model.report_.codes == {"kind": [0, 1, 2, 3, 4, 5]}
    for text in (" ".join(str(model.report_).split()), model.report_._repr_html_()):
        assert (
            "Taken for codes of categories: kind (0, 1, 2, 3, 4, 5); numeric_features="
            in text
        )
    for numeric_features in ("all", "kind", 0, ["kind"], [0], np.array(["kind"])):
        refused = KernelMachineRegressor(
            numeric_features=numeric_features, **options
        ).fit(X, y)
        assert not refused.encoder_.codes
        assert "codes" not in str(refused.report_)
    assert (
        KernelMachineRegressor(numeric_features=["size"], **options)
        .fit(X, y)
        .encoder_.codes
    )
    with pytest.raises(
        ValueError,
        match="There is no column 'colour': give its number, from 0 to 1, or one of "
        "kind",
    ):
        KernelMachineRegressor(numeric_features=["colour"], **options).fit(
            X[:100], y[:100]
        )  # also of few rows


@pytest.mark.slow
def test_a_parabola_of_integers_is_predicted_between_them():
    """Temperatures of five experiments are numbers, and one between two of them is
    told from both; in most draws, as no row tells what is between.
    """
    levels = np.array([10.0, 20, 30, 40, 50])
    scores = []
    for seed in range(5):
        rng = np.random.default_rng(seed)

        def draw(temperature, rng=rng):
            X = np.column_stack([temperature, rng.normal(size=len(temperature))])
            return X, -(((temperature - 30) / 10) ** 2) + 0.5 * X[:, 1]

        X, y = draw(levels[rng.integers(5, size=2400)])
        model = KernelMachineRegressor(random_state=0).fit(
            X, y + 0.3 * rng.normal(size=2400)
        )
        assert not model.encoder_.codes
        between = draw(rng.uniform(10, 50, 500))
        trees = HistGradientBoostingRegressor(random_state=0).fit(X, y)
        scores.append([model.score(*between), trees.score(*between)])
    ours, theirs = np.median(scores, axis=0)
    assert ours > max(theirs, 0.95)


@pytest.mark.slow
def test_the_command_says_so_and_has_an_option(table, tmp_path, done):
    X, y = table
    X.assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    given = (
        "fit",
        str(tmp_path / "rows.csv"),
        "--target",
        "y",
        "--kernel",
        "gaussian",
        "--n-components",
        "64",
    )
    taken = [
        note
        for note in done(*given)["notes"]
        if note.startswith("Taken for codes of categories: kind (")
    ]
    assert len(taken) == 1
    assert not [
        note for note in done(*given, "--numeric", "kind")["notes"] if "codes" in note
    ]
