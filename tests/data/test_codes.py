"""Numbers that are codes of categories, told by their mean targets."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss

import bochner
from bochner import KernelMachineClassifier, TableEncoder
from bochner.data.level_means import few_integers, order_test

N = 4_000


def drawn(means, seed=0, noise=1.0, n=N):
    """Codes 0, 1, ..., and targets of the given means."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(len(means), size=n)
    return codes.astype(float), (np.array(means)[codes] + noise * rng.standard_normal(n))[:, np.newaxis]


def are_codes(values, y, weight):
    return few_integers(values) is not None and order_test(values, y, weight).are_codes


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ([0, 1, 2, 3], False),
        ([3, 2, 2, 0], False),
        ([0, 3, 1, 2], True),
        ([1, 0, 1], True),
        ([0, 1, 1.1, 1, 2, 3], False),  # hardly out of order
        ([0, 1], False),
        (np.sin(np.arange(24) * np.pi / 12), False),  # hours of a day: a smooth curve
        (np.random.default_rng(0).permutation(np.sin(np.arange(24) * np.pi / 12)), True),
    ],
)
def test_means_in_no_order(means, expected):
    codes, y = drawn(means)
    assert are_codes(codes, y, np.ones(N)) == expected
    assert are_codes(7 - 2 * codes, y, np.ones(N)) == expected  # order and distances do not matter
    codes[::7] = np.nan
    assert are_codes(codes, y, np.ones(N)) == expected
    assert not are_codes(codes + 0.5, y, np.ones(N))


def test_chance_is_no_reason():
    """Of numbers that tell nothing, or the targets in their order, hardly any are taken for codes."""
    found = [
        are_codes(*drawn(slope * np.arange(levels), seed, n=500), np.ones(500))
        for seed in range(100)
        for slope, levels in ((0.0, 3), (0.0, 10), (0.3, 5))
    ]
    assert sum(found) <= 3


def test_copies_are_one_row():
    rng = np.random.default_rng(0)
    X = rng.integers(3, size=(60, 4)).astype(float)
    y = rng.standard_normal((60, 1)) + (X[:, :1] == 1)
    few, many = (
        TableEncoder().fit(X).with_codes(np.repeat(X, k, axis=0), np.repeat(y, k, axis=0), None, 0) for k in (1, 50)
    )
    assert few.get_feature_names_out().tolist() == many.get_feature_names_out().tolist()


def test_encoding():
    codes, y = drawn([0, 3, 1, 2])
    X = np.column_stack([np.arange(N), 10 * codes])
    X[:5, 1] = np.nan
    frame = pd.DataFrame(X, columns=["t", "kind"])
    for rows, name in ((frame, "kind"), (X, "x1")):
        encoder = TableEncoder().fit(rows).with_codes(rows, y, None, 0)
        names = encoder.get_feature_names_out().tolist()[1:]
        assert names == [f"{name}_{suffix}" for suffix in ("0", "10", "20", "30", "missing")]
        assert encoder.sources().tolist() == [0, 1, 1, 1, 1, 1]
        Z = encoder.transform(rows)[:, 1:]
        truth = [[float(value == code) for code in (0, 10, 20, 30)] + [float(np.isnan(value))] for value in X[:, 1]]
        np.testing.assert_array_equal(Z, truth)
        unknown = frame[:1].assign(kind=11.0)
        assert not encoder.transform(unknown if name == "kind" else unknown.to_numpy())[0, 1:].any()


def test_columns_of_text_beside_codes_stay():
    """Also when the counts of their categories are forgotten, as in a fit."""
    codes, y = drawn([0, 3, 1, 2])
    text = np.char.add("t", np.random.default_rng(0).integers(150, size=N).astype(str))
    frame = pd.DataFrame({"few": text, "kind": codes, "many": text}).assign(few=lambda X: X["few"].str[:2])
    plain = TableEncoder().fit(frame)
    names = [name for name in plain.get_feature_names_out() if not name.startswith("kind")]
    plain.forget_categories()
    coded = plain.with_codes(frame, y, None, 0)
    assert [name for name in coded.get_feature_names_out() if not name.startswith("kind")] == names
    assert "many_other" in names
    assert "kind_2" in coded.get_feature_names_out()
    others = [np.isin(encoder.get_feature_names_out(), names) for encoder in (plain, coded)]
    Z = [encoder.transform(frame)[:, own] for encoder, own in zip((plain, coded), others, strict=True)]
    np.testing.assert_array_equal(*Z)


def test_codes_are_as_good_as_categories(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(5, size=(2 * N, 3))
    effects = rng.standard_normal((3, 5)) * 1.2
    logit = sum(effects[j][X[:, j]] for j in range(3)) + 1.5 * (X[:, 0] == 2) * (X[:, 1] == 1)
    y = (rng.uniform(size=2 * N) < 1 / (1 + np.exp(-logit))).astype(int)
    X = np.column_stack([X, rng.standard_normal(2 * N)])
    frame = pd.DataFrame(X, columns=list("abcd"))
    categories = frame.assign(**{name: frame[name].astype(str).astype("category") for name in "abc"})
    models = [KernelMachineClassifier(random_state=0).fit(rows[:N], y[:N]) for rows in (X, frame, categories)]
    rows = (X[N:], frame[N:], categories[N:])
    losses = [log_loss(y[N:], model.predict_proba(own)) for model, own in zip(models, rows, strict=True)]
    assert models[0].encoder_.n_features_out_ == models[2].encoder_.n_features_out_
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert max(losses) < 1.05 * log_loss(y[N:], 1 / (1 + np.exp(-logit[N:])))
    bochner.save(models[1], tmp_path / "model")
    loaded = bochner.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(frame[N:]), models[1].predict_proba(frame[N:]))
