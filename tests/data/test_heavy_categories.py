"""Columns with more categories than can be counted: the heaviest are found, within a
guaranteed error.
"""

from collections import Counter
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from bochner import load, save
from bochner.data import table_statistic
from bochner.data.table import TableEncoder
from bochner.data.table_statistic import TableStatistic, heaviest

LIMIT = 64
rng = np.random.default_rng(0)
NUMBERS = np.minimum(rng.zipf(1.3, 20_000), 5000)
TEXTS = np.array([f"t{k}" for k in NUMBERS], dtype=object)
WEIGHT = rng.integers(1, 5, len(TEXTS)).astype(float)


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(table_statistic, "MOST_CATEGORIES", LIMIT)


def statistic(rows, weight=None):
    return TableStatistic.of(
        pd.DataFrame({"a": TEXTS[rows]}), None if weight is None else weight[rows]
    )


def folded(parts):
    total = parts[0] + statistic(slice(0, 0))
    for part in parts[1:]:
        total += part
    return total


def tree(parts):
    while len(parts) > 1:
        parts = [a + b for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


@pytest.mark.parametrize("order", [folded, tree])
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_counts_are_too_small_by_the_guarantee_at_most(order, weight):
    """Agarwal et al. (2012), theorem 1: by the total weight over k + 1, in any order
    of sums.
    """
    edges = np.linspace(0, len(TEXTS), 65).astype(int)
    total = order([statistic(slice(a, b), weight) for a, b in pairwise(edges)])
    exact = Counter()
    for text, w in zip(
        TEXTS, np.ones(len(TEXTS)) if weight is None else weight, strict=True
    ):
        exact[text] += w
    found = total.categories["0"]
    assert len(found) <= LIMIT
    most = total.undercounts["0"]
    assert 0 < most <= sum(exact.values()) / (LIMIT // 2 + 1)
    for text, count in exact.items():
        assert count - most <= found.get(text, 0.0) <= count
    top = [text for text, _ in exact.most_common(5)]
    assert set(top) <= set(found)


def test_counts_are_exact_up_to_the_limit():
    texts = pd.DataFrame({"a": [f"t{k % LIMIT}" for k in range(1000)]})
    whole = TableStatistic.of(texts)
    total = TableStatistic.of(texts[:10])
    total += TableStatistic.of(texts[10:])
    assert total.categories == whole.categories
    assert total.undercounts == {}


def test_sums_leave_what_is_added_as_it_was():
    a, b = statistic(slice(0, 30)), statistic(slice(30, 60))
    before = dict(a.categories["0"]), dict(b.categories["0"])
    total = a + b
    assert (a.categories["0"], b.categories["0"]) == before
    a += b
    assert a.categories == total.categories
    assert b.categories["0"] == before[1]
    assert a.rows == total.rows == 60


def test_an_identifier_has_codes_alone():
    frame = pd.DataFrame({"a": [f"id{k}" for k in range(10 * LIMIT)]})
    total = TableStatistic.of(frame[:20])
    for start in range(20, len(frame), 20):
        total += TableStatistic.of(frame[start : start + 20])
    encoder = TableEncoder.of(total)
    assert list(encoder.get_feature_names_out()) == [
        "a_other",
        *(f"a_code{i}" for i in range(16)),
    ]
    np.testing.assert_array_equal(encoder.transform(frame)[:, 0], 1)


def test_an_encoder_of_such_a_column_is_saved(tmp_path):
    total = folded([statistic(slice(a, a + 200)) for a in range(0, len(TEXTS), 200)])
    encoder = TableEncoder.of(total, max_categories=3)
    save(encoder, tmp_path / "encoder")
    back = load(tmp_path / "encoder")
    frame = pd.DataFrame({"a": TEXTS[:100]})
    np.testing.assert_array_equal(back.transform(frame), encoder.transform(frame))
    assert back.statistic_.undercounts == total.undercounts
    assert (
        back.partial_fit(frame).n_features_out_
        == encoder.partial_fit(frame).n_features_out_
        == 20
    )


def test_the_heaviest_less_the_next():
    assert heaviest({"a": 5.0, "b": 3.0, "c": 1.0, "d": 3.0}, 1) == ({"a": 2.0}, 3.0)
    assert heaviest({"a": 1.0, "b": 1.0, "c": 1.0}, 2) == ({}, 1.0)
