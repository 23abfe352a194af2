"""The command holds out rows with equal features together, so that a copy of a test
row is not learned.
"""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from bochner.cli.target import read_target, split_rows

FAST = ("--kernel", "gaussian", "--n-components", "512", "--alpha", "0.001")
N = 200


def noise(seed=0):
    """Rows of a target that no column tells anything of."""
    X = np.random.default_rng(seed).normal(size=(N, 3))
    return pa.table({"a": X[:, 0], "b": X[:, 1], "y": X[:, 2]})


def split(table, task="regression", size=0.2, seed=0):
    notes = []
    target = read_target(table, table.column_names[-1], "")
    return *split_rows(
        table.drop_columns([target.name]), target, task, size, seed, notes
    ), notes


@pytest.mark.parametrize("target_differs", [False, True])
def test_copies_are_on_one_side(target_differs):
    once, order = noise(), np.random.default_rng(1).permutation(2 * N)
    again = (
        once.set_column(2, "y", pa.array(once["y"].to_numpy()[::-1]))
        if target_differs
        else once
    )
    train, test, notes = split(pa.concat_tables([once, again]).take(pa.array(order)))
    row = order % N
    assert sorted([*train, *test]) == list(range(2 * N))
    assert not set(row[train]) & set(row[test])
    assert len(test) == 2 * N // 5
    assert notes == [
        "200 of 400 rows are copies of another row in all columns but the target: "
        "equal rows are on one side of the "
        "test split."
    ]


def test_classes_keep_their_shares_among_copies():
    label = np.where(np.arange(N) % 10 == 0, "rare", "common")
    table = pa.table({"a": np.arange(N) * 1.0, "label": label})
    train, test, _ = split(pa.concat_tables([table, table]), "classification")
    labels = np.tile(label, 2)
    assert (labels[test] == "rare").mean() == pytest.approx(0.1)
    assert (labels[train] == "rare").mean() == pytest.approx(0.1)


def test_rows_that_differ_are_split_as_by_scikit_learn():
    from sklearn.model_selection import train_test_split

    train, test, notes = split(noise())
    expected = train_test_split(np.arange(N), test_size=N // 5, random_state=0)
    assert [train.tolist(), test.tolist()] == [sorted(part) for part in expected]
    assert notes == []


def test_levels_that_come_again_are_no_copies():
    """Of a table of six kinds of rows, all kinds are in the test split, as they will
    be in new rows.
    """
    kind = np.arange(N) % 6
    table = pa.table(
        {
            "colour": (kind % 2).astype(str),
            "size": (kind // 2).astype(str),
            "y": np.arange(N) * 0.5,
        }
    )
    train, test, notes = split(table)
    assert set(kind[test]) == set(kind[train]) == set(range(6))
    assert notes == [
        "The columns beside the target have 6 different rows of values in 200 rows: "
        "most rows of the test split equal "
        "training rows, but for the target."
    ]


def test_a_model_of_copied_noise_has_no_score(tmp_path, monkeypatch, done):
    monkeypatch.chdir(tmp_path)
    csv.write_csv(pa.concat_tables([noise(), noise()]), "twice.csv")
    report = done("fit", "twice.csv", "--target", "y", *FAST)
    assert report["scores"]["r2"]["value"] < 0.2
    assert any("200 of 400 rows are copies" in note for note in report["notes"])
