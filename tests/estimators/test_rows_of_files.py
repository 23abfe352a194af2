"""Fitted models on files and other sources: scores, importance, explanations and
reports are those of the same rows in memory.
"""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.compute as pc
import pytest
from sklearn.metrics import accuracy_score, r2_score

import bochner
from bochner import (
    KernelMachineClassifier,
    KernelMachineRegressor,
    SemiSupervisedRegressor,
)
from bochner.selection.policy import POLICY
from bochner.sources.base import SourceError

INPUTS = ["area", "age"]


@pytest.fixture(scope="module")
def houses():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(size=(120, 2)), columns=INPUTS)
    frame["price"] = frame["area"] + np.sin(3 * frame["age"])
    frame["dear"] = np.where(frame["price"] > 1.1, "yes", "no")
    frame["weight"] = 1.0 + (frame["area"] > 0.5)
    return frame


@pytest.fixture(scope="module")
def file(houses, tmp_path_factory):
    # Columns that no model needs, and inputs in another order
    path = tmp_path_factory.mktemp("rows") / "houses.csv"
    houses[["dear", "age", "price", "weight", "area"]].to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def regressor(houses):
    return KernelMachineRegressor("gaussian", n_components=50, random_state=0).fit(
        houses[[*INPUTS, "price"]], "price"
    )


KINDS = {
    "path": lambda file: file,
    "source": bochner.open_source,
    "lazy": pl.scan_csv,
    "batches": lambda file: pd.read_csv(file, chunksize=40),
}


@pytest.mark.parametrize("is_large", [False, True], ids=["gathered", "in passes"])
@pytest.mark.parametrize("kind", KINDS)
def test_scores_of_sources(regressor, houses, file, kind, is_large, monkeypatch):
    if is_large:
        monkeypatch.setitem(vars(POLICY), "gathered_rows", 50)
    expected = r2_score(
        houses["price"],
        regressor.predict(houses[INPUTS]),
        sample_weight=houses["weight"],
    )
    score = regressor.score(KINDS[kind](file), "price", sample_weight="weight")
    np.testing.assert_allclose(score, expected, rtol=1e-12)


def test_scores_of_frames_and_of_several_targets(regressor, houses, file):
    expected = r2_score(houses["price"], regressor.predict(houses[INPUTS]))
    frame = houses[[*INPUTS, "price"]]
    for rows in (frame, pl.from_pandas(frame)):
        np.testing.assert_allclose(regressor.score(rows, "price"), expected)
    # Targets may come apart from the rows
    np.testing.assert_allclose(regressor.score(file, houses["price"]), expected)
    targets = ["price", "weight"]
    model = KernelMachineRegressor("gaussian", n_components=50, random_state=0)
    model.fit(houses[[*targets, *INPUTS]], targets)
    expected = r2_score(houses[targets], model.predict(houses[INPUTS]))
    for rows in (file, houses[[*INPUTS, *targets]]):
        np.testing.assert_allclose(model.score(rows, targets), expected)
    with pytest.raises(ValueError, match="X has no column 'prize'"):
        model.fit(houses, ["price", "prize"])
    # Labels of all rows, though columns have such names
    labels = ["age", "area"] * 60
    classifier = KernelMachineClassifier("gaussian", n_components=50, random_state=0)
    assert set(classifier.fit(houses[INPUTS], labels).classes_) == {"age", "area"}
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        classifier.fit(houses[INPUTS], labels[1:])


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("area", "infinity: column 'area', {}"),
        ("price", "the target is infinite in {}"),
        ("weight", "the weight 'weight' is inf in {}"),
    ],
)
def test_rows_that_cannot_be_scored_are_named(
    regressor, houses, tmp_path, name, match, monkeypatch
):
    """By the file, and by the line in it where it has lines."""
    monkeypatch.setitem(vars(POLICY), "gathered_rows", 50)
    bad = houses.copy()
    bad.loc[70, name] = np.inf
    bad.to_csv(tmp_path / "bad.csv", index=False)
    bad.to_parquet(tmp_path / "bad.parquet")
    for file, place in (("bad.csv", "line 72"), ("bad.parquet", "row 70")):
        with pytest.raises(SourceError, match=match.format(place)) as refused:
            regressor.score(tmp_path / file, "price", sample_weight="weight")
        assert str(refused.value).startswith(str(tmp_path / file))


def test_no_rows_have_no_score(regressor, file):
    source = bochner.open_source(file, where=pc.field("price") < -1e9)
    with pytest.raises(SourceError, match="there are no rows to score"):
        regressor.score(source, "price")


def test_scores_of_other_estimators(houses, file):
    classifier = KernelMachineClassifier("gaussian", n_components=50, random_state=0)
    classifier.fit(houses[[*INPUTS, "dear"]], "dear")
    expected = accuracy_score(houses["dear"], classifier.predict(houses[INPUTS]))
    assert classifier.score(file, "dear") == expected
    learner = SemiSupervisedRegressor(random_state=0).fit(
        houses[INPUTS], houses["price"].where(houses.index < 60)
    )
    expected = r2_score(houses["price"], learner.predict(houses[INPUTS]))
    np.testing.assert_allclose(learner.score(file, "price"), expected)


def test_a_target_that_is_not_there_is_named(regressor, file):
    with pytest.raises(ValueError, match="no column 'prize'; did you mean 'price'"):
        regressor.score(file, "prize")


def test_importance_and_explanations_of_files(regressor, houses, file):
    importance = regressor.importance(file, "price", random_state=0)
    expected = regressor.importance(houses[INPUTS], houses["price"], random_state=0)
    np.testing.assert_allclose(importance.values, expected.values)
    np.testing.assert_allclose(
        regressor.explain(file).values, regressor.explain(houses[INPUTS]).values
    )


def test_rows_that_do_not_fit_the_memory_are_refused(regressor, file, monkeypatch):
    monkeypatch.setitem(vars(POLICY), "gathered_rows", 50)
    with pytest.raises(ValueError, match="this source is larger: give a part of it"):
        regressor.importance(file, "price")


@pytest.mark.slow
def test_reports_of_files(regressor, houses, file):
    page = regressor.report_html(file, "price", X_train=file, y_train="price")
    assert "120 rows, 2 columns" in page
