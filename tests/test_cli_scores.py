"""Scores that look too good, or no better than chance, are remarked on."""

import numpy as np
import pandas as pd
import pytest

FAST = ("--kernel", "gaussian", "--n-components", "64")
G = np.random.default_rng(0)
X = pd.DataFrame(G.normal(size=(400, 4)), columns=list("abcd"))
X["a"] += np.sign(X.a)  # so that its sign is learned without doubt
TARGETS = {
    "a copy": (2.5 * X.a, ["'a' tells the target: is it known"]),
    "a sum": (X.a + X.b, ["'a', 'b' tell", "'b', 'a' tell"]),
    "a class": (np.where(X.a > 0, "u", "v"), ["'a' tells the target"]),
    "noise": (
        G.normal(size=400),
        ["no better than that of the mean of the training rows"],
    ),
    "noise of classes": (
        G.choice(["u", "v"], 400),
        ["no better than that of the most frequent class"],
    ),
    "a noisy line": (X.a + 0.3 * G.normal(size=400), []),
    "many columns": (np.sin(X.a) + X.b + np.abs(X.c) + X.d, []),
}


@pytest.mark.parametrize("name", TARGETS)
def test_one_note_where_a_score_is_suspect(name, tmp_path, done):
    target, expected = TARGETS[name]
    X.assign(y=target).to_csv(tmp_path / "rows.csv", index=False)
    report = done("fit", str(tmp_path / "rows.csv"), "--target", "y", *FAST)
    notes = [note for note in report["notes"] if note.startswith("The score is")]
    assert len(notes) == bool(expected)
    assert all(any(part in note for part in expected) for note in notes)
