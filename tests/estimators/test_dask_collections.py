"""Collections of Dask in the place of rows: the same fits as of rows in memory, and
results that are lazy.
"""

from dataclasses import replace

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from bochner import (
    BinningFeatures,
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
    open_source,
)
from bochner.inputs.opened import Stream
from bochner.inputs.training import TrainingRows
from bochner.kernels import Gaussian, Laplacian
from bochner.selection import policy
from bochner.sources.base import SourceError
from bochner.sources.memory import of_arrays
from bochner.sources.rows import Roles

N = 4000
NAMES = ["a", "b", "c", "kind"]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        rng.uniform(size=(N, 3)).astype(np.float32),
        columns=NAMES[:3],
        index=10 + 3 * np.arange(N),
    )
    kinds = np.where(np.arange(N) < N // 2, "early", rng.choice(["late", "never"], N))
    y = (
        np.sin(5 * rows["a"])
        + rows["b"] * rows["c"]
        + (kinds == "late")
        + 0.1 * rng.standard_normal(N)
    )
    return rows.assign(
        kind=kinds,
        y=y.astype(float),
        label=np.where(y > 1, "high", "low"),
        w=rng.integers(1, 3, N),
    )


@pytest.fixture
def streams(monkeypatch):
    """Tables of more than some rows are not gathered."""
    small = replace(policy.POLICY, gathered_rows=1000, sampled_rows=1500)
    for module in ("bochner.inputs.opened", "bochner.estimators.machine"):
        monkeypatch.setattr(f"{module}.POLICY", small)


@pytest.fixture(scope="module")
def model(frame):
    machine = KernelMachineRegressor(
        Gaussian(1.0), n_components=60, alpha=1.0, uncertainty=True, random_state=0
    )
    return machine.fit(frame[NAMES], frame["y"])


@pytest.fixture(scope="module")
def machine(frame):
    labels = frame["kind"].where(frame["a"] < 0.7, "other")
    return KernelMachineClassifier(
        Gaussian(1.0), n_components=60, alpha=1.0, random_state=0
    ).fit(frame[NAMES], labels)


def lazy(frame, n):
    return dd.from_pandas(frame, npartitions=n)


def arrays(frame, n):
    X, y = frame[NAMES[:3]].to_numpy(), frame["y"].to_numpy()
    return da.from_array(X, chunks=(-(-N // n), 2)), da.from_array(y, chunks=-(-N // n))


def regressor(**changes):
    features = FourierFeatures(Gaussian(0.5), 100, random_state=0)
    return KernelMachineRegressor(
        **({"features": features, "alpha": 1.0, "random_state": 0} | changes)
    )


class TestFits:
    @pytest.mark.parametrize("features", ["fourier", "bins"])
    def test_partitions_do_not_matter(self, frame, streams, features):
        own = (
            {"features": BinningFeatures(Laplacian(2.0), 30, random_state=0)}
            if features == "bins"
            else {}
        )
        sources = [
            *(lazy(frame[[*NAMES, "y"]], n) for n in (2, 7)),
            open_source(frame[[*NAMES, "y"]]),
        ]
        models = [regressor(**own).fit(source, "y") for source in sources]
        truth = models[0].predict(frame[NAMES])
        for model in models[1:]:
            assert (
                model.solver_
                == models[0].solver_
                == ("cg" if features == "bins" else "direct")
            )
            np.testing.assert_allclose(
                model.predict(frame[NAMES]), truth, rtol=0, atol=1e-5 * frame["y"].std()
            )

    @pytest.mark.slow
    def test_partitions_do_not_change_what_is_chosen(self, frame, streams):
        """The last bit of the scale of a column or a target would move a learned
        metric.
        """
        machine = regressor(features="fourier", n_components=60, alpha="auto")
        sources = [
            *(lazy(frame[[*NAMES, "y", "w"]], n) for n in (1, 2, 7)),
            open_source(frame[[*NAMES, "y", "w"]]),
        ]
        found = [clone(machine).fit(source, "y", "w") for source in sources]
        truth = found[0].predict(frame[NAMES])
        for other in found[1:]:
            assert other.alpha_ == found[0].alpha_
            np.testing.assert_allclose(
                other.predict(frame[NAMES]), truth, rtol=0, atol=1e-5 * frame["y"].std()
            )

    def test_same_bits_as_parts_in_memory(self, frame, streams, monkeypatch):
        monkeypatch.setattr("bochner.sources.memory.PART_ROWS", 700)
        X, y = frame[NAMES[:3]].to_numpy(), frame["y"].to_numpy()
        dX, dy = da.from_array(X, chunks=(700, 3)), da.from_array(y, chunks=700)
        held = regressor()
        rows = TrainingRows.of(Stream(of_arrays(X, y), Roles(None)), held._seed())
        monkeypatch.setattr(held, "_open", lambda *given, **options: rows)
        held.fit(X, y)
        found = regressor().fit(dX, dy)
        assert found.solver_reason_ == "one pass over the rows"
        assert np.array_equal(found.feature_weights_, held.feature_weights_)
        assert np.array_equal(
            regressor().fit(dX, y).feature_weights_, held.feature_weights_
        )

    def test_small_ones_are_gathered(self, frame):
        X, y = arrays(frame, 3)
        model = regressor(loss="huber").fit(X, y)
        held = regressor(loss="huber").fit(X.compute(), y.compute())
        assert np.array_equal(model.feature_weights_, held.feature_weights_)

    def test_targets_and_weights_by_name_or_apart(self, frame, streams):
        rows = lazy(frame, 3)
        named = regressor().fit(rows[[*NAMES, "y", "w"]], "y", "w")
        apart = regressor().fit(rows[NAMES], rows["y"], rows["w"])
        mixed = regressor().fit(rows[[*NAMES, "w"]], frame["y"], "w")
        assert np.array_equal(named.feature_weights_, apart.feature_weights_)
        assert np.array_equal(named.feature_weights_, mixed.feature_weights_)
        several = regressor().fit(rows[NAMES], rows[["y", "w"]])
        assert several.feature_weights_.shape[1] == 2
        assert (
            regressor()
            .fit(rows[[*NAMES, "y", "w"]], ["y", "w"])
            .feature_weights_.shape[1]
            == 2
        )

    def test_labels(self, frame, streams):
        rows = lazy(frame, 3)
        machine = KernelMachineClassifier(
            features=FourierFeatures(Gaussian(0.5), 100, random_state=0), alpha=1.0
        )
        sizes = tuple(rows.map_partitions(len).compute())
        labels = da.from_array(frame["label"].to_numpy(object), chunks=(sizes,))
        for y in (rows["label"], rows["label"].astype("category"), labels):
            model = machine.fit(rows[NAMES], y)
            assert model.classes_.tolist() == ["high", "low"]
            assert model.score(rows[NAMES], rows["label"]) > 0.8

    def test_delayed_partitions(self, frame, streams):
        rows = lazy(frame[[*NAMES, "y"]], 3)
        parts = [dask.delayed(rows.partitions[k].compute()) for k in range(3)]
        assert np.array_equal(
            regressor().fit(parts, "y").feature_weights_,
            regressor().fit(rows, "y").feature_weights_,
        )

    def test_refit_plan_and_partial_fit(self, frame, streams):
        rows = lazy(frame[[*NAMES, "y"]], 3)
        model = regressor().fit(rows, "y")
        coef = model.feature_weights_
        assert np.array_equal(model.refit(rows, "y").feature_weights_, coef)
        assert "a Dask data frame of 3 partitions" in str(regressor().plan(rows, "y"))
        assert "a Dask array of 4 partitions" in str(
            regressor().plan(*arrays(frame, 4))
        )
        part = rows.partitions[0].iloc[:, :4].loc[:500], frame["y"].loc[:500]
        assert regressor().prepare(frame[NAMES], frame["y"]).partial_fit(*part).predict(
            rows
        ).compute().shape == (N,)

    def test_nothing_to_learn_from(self, frame):
        X, y = arrays(frame, 3)
        for wrong, error in [
            ((X[X[:, 0] > 2], y[X[:, 0] > 2]), "there are no rows"),
            ((X, None), "requires y"),
            ((X, y[: N // 2]), "y has 2 partitions, but X has 3"),
            ((X[:, :0], y), "the Dask array has no columns"),
            (
                (X, y, da.stack([y, y], axis=1)),
                "weights must be one number for each row, not an array of 2 dimensions",
            ),
            (
                (X, y, (y > 1).astype("U5")),
                "the weights must be numbers: could not convert",
            ),
            ((X, y, -y), "partition 0 of the Dask array: the weight is"),
            (
                (X, da.where(y > 1, np.nan, y)),
                "partition 0 of the Dask array: the target is missing in row",
            ),
            ((lazy(frame, 2), "z"), "no column 'z'; "),
        ]:
            with pytest.raises(ValueError, match=error):
                regressor().fit(*wrong)

    @pytest.mark.parametrize("way", ["in memory", "gathered", "passes", "batches"])
    @pytest.mark.parametrize(
        ("value", "error"),
        [
            (np.nan, None),
            (None, None),
            (np.inf, "X contains infinity: column 'x1', row 5; drop or clip"),
            ("a", "X is an array of text or other objects; pass a data frame"),
            (1j, "Complex data not supported"),
            (np.datetime64(1, "D"), "X is an array of dates"),
        ],
    )
    def test_arrays_hold_numbers_that_may_be_missing_whatever_the_way(
        self, frame, value, error, way, request
    ):
        X, y = frame[NAMES[:3]].to_numpy(float), frame["y"].to_numpy()
        if isinstance(value, np.datetime64):
            X = np.full(X.shape, value)
        else:
            X = X.astype(object if isinstance(value, str | None) else type(value))
            X[5, 1] = value
        if way in ("passes", "batches"):
            request.getfixturevalue("streams")
        given = {
            "in memory": (X, y),
            "batches": (
                lambda: iter([(X[:3000], y[:3000]), (X[3000:], y[3000:])]),
                None,
            ),
        }.get(way, (da.from_array(X, chunks=(1500, 2)), da.from_array(y, chunks=1500)))
        if value == "a" and way == "in memory":
            with pytest.warns(UserWarning, match="'x1': read as numbers; 1 of its"):
                regressor().fit(*given)
            return
        if error is None:
            assert regressor().fit(*given).n_features_in_ == X.shape[1]
            return
        with pytest.raises(ValueError, match=error):
            regressor().fit(*given)

    def test_sparse_blocks_hold_finite_numbers(self, frame, streams):
        X = sp.csr_matrix(frame[NAMES[:3]].to_numpy())
        X.data[3001] = np.nan
        parts = [dask.delayed(X[:2000]), dask.delayed(X[2000:])]
        with pytest.raises(
            SourceError, match=r"partition 0 of .* NaN in row 1000, column 1"
        ):
            regressor().fit(parts, frame["y"].to_numpy())
        model = regressor().fit(
            [dask.delayed(abs(X[:1000])), dask.delayed(abs(X[1100:]))],
            frame["y"][100:].to_numpy(),
        )
        with pytest.raises(
            SourceError, match=r"partition 1 of .* NaN in row 0, column 1"
        ):
            model.refit(
                [dask.delayed(X[:1000]), dask.delayed(X[1000:])], frame["y"].to_numpy()
            )

    def test_labels_that_no_file_could_hold(self, frame):
        """Half of a pair of UTF-16, which UTF-8 has not."""
        X = frame[NAMES[:3]].to_numpy()
        y = np.where(frame["y"] < 1, "a\ud800", "b").astype(object)
        rows = da.from_array(X, chunks=(1000, 3)), da.from_array(y, chunks=1000)
        fit = {"n_components": 32, "random_state": 0}
        model = KernelMachineClassifier("gaussian", **fit).fit(*rows)
        held = KernelMachineClassifier("gaussian", **fit).fit(X, y)
        assert model.classes_.tolist() == held.classes_.tolist() == ["a\ud800", "b"]
        np.testing.assert_array_equal(model.predict(X), held.predict(X))

    @pytest.mark.parametrize("labels", ["fractions", "bytes", "mixed"])
    def test_labels_that_are_none(self, frame, streams, labels):
        X, low = frame[NAMES[:3]].to_numpy(), frame["y"] < 1
        y = {
            "fractions": 0.5 * low,
            "bytes": low.map({True: b"a", False: b"b"}),
            "mixed": low.map({True: "a", False: 1}),
        }
        y = y[labels].to_numpy()
        with pytest.raises((ValueError, TypeError)) as held:
            KernelMachineClassifier().fit(X, y)
        with pytest.raises(held.type) as found:
            KernelMachineClassifier().fit(
                da.from_array(X, chunks=(1000, 3)), da.from_array(y, chunks=1000)
            )
        assert labels == "mixed" or str(found.value) == str(
            held.value
        )  # which says what it compares first


class TestResults:
    @pytest.mark.slow
    def test_arrays(self, frame):
        X, y = arrays(frame, 3)
        model = regressor(uncertainty=True).fit(X, y)
        held, found = X.compute(), model.predict(X)
        assert isinstance(found, da.Array)
        assert found.chunks == (X.chunks[0],)
        assert found.dtype == model.predict(held).dtype
        np.testing.assert_allclose(found.compute(), model.predict(held), rtol=1e-12)
        mean, std = model.predict(X, return_std=True)
        np.testing.assert_allclose(mean.compute(), model.predict(held), rtol=1e-12)
        np.testing.assert_allclose(
            std.compute(), model.predict(held, return_std=True)[1], rtol=1e-6
        )
        ends = model.predict_interval(X, coverage=0.8)
        assert ends.shape == (N, 2)
        np.testing.assert_allclose(
            ends.compute(), model.predict_interval(held, 0.8), rtol=1e-12
        )
        assert model.predict_quantile(X, 0.5).chunks == (X.chunks[0],)
        assert model.score(X, y) == pytest.approx(model.score(held, y.compute()))

    def test_empty_and_uncounted_partitions(self, frame):
        X, y = arrays(frame, 4)
        model = regressor().fit(X, y)
        few = X[X[:, 0] > 0.9995]
        assert np.isnan(few.shape[0])
        np.testing.assert_allclose(
            model.predict(few).compute(), model.predict(few.compute())
        )

    @pytest.mark.slow
    def test_frames_keep_their_index(self, frame, model):
        rows = lazy(frame, 3)
        found = model.predict(rows)  # whose other columns are left alone
        assert found.name == "predicted"
        assert found.divisions == rows.divisions
        held = found.compute()
        assert held.index.equals(frame.index)
        np.testing.assert_allclose(held, model.predict(frame[NAMES]), rtol=1e-6)
        mean, std = model.predict(rows, return_std=True)
        assert std.name == "std"
        np.testing.assert_allclose(
            std.compute(), model.predict(frame[NAMES], return_std=True)[1], rtol=1e-4
        )
        assert mean.compute().equals(held)
        assert model.predict(rows[rows["a"] > 2]).compute().empty

    def test_classes(self, frame, machine):
        rows = lazy(frame, 3)
        found = machine.predict_proba(rows).compute()
        assert found.columns.tolist() == [
            f"probability_{label}" for label in machine.classes_
        ]
        assert found.index.equals(frame.index)
        np.testing.assert_allclose(
            found, machine.predict_proba(frame[NAMES]), atol=1e-6
        )
        assert (
            machine.predict(rows).compute().tolist()
            == machine.predict(frame[NAMES]).tolist()
        )
        np.testing.assert_allclose(
            machine.decision_function(rows[NAMES]).compute(),
            machine.decision_function(frame[NAMES]),
            atol=1e-5,
        )
        sets = machine.predict_set(rows, coverage=0.7)
        assert sets.dtype == bool
        assert sets.compute().shape == (N, 4)
        labelled = rows.assign(truth=rows["kind"])
        held = machine.score(frame[NAMES], frame["kind"])
        assert (
            machine.score(labelled, "truth")
            == machine.score(rows, rows["kind"])
            == held
        )

    def test_several_targets(self, frame):
        model = regressor().fit(frame[NAMES], frame[["y", "w"]])
        found = model.predict(lazy(frame, 2))
        assert found.columns.tolist() == ["predicted_0", "predicted_1"]
        np.testing.assert_allclose(
            found.compute(), model.predict(frame[NAMES]), rtol=1e-6
        )

    @pytest.mark.slow
    def test_objects_that_are_numbers(self, frame, model):
        with dask.config.set({"dataframe.convert-string": False}):
            rows = lazy(frame[NAMES].astype({"a": object}), 2)
            np.testing.assert_allclose(
                model.predict(rows).compute(), model.predict(frame[NAMES]), rtol=1e-6
            )

    def test_files(self, frame, model, tmp_path):
        path = model.predict(lazy(frame, 3), out=tmp_path / "found.parquet")
        np.testing.assert_allclose(
            pd.read_parquet(path)["predicted"], model.predict(frame[NAMES]), rtol=1e-6
        )

    def test_the_model_is_there_once_and_as_it_was(self, frame):
        X, y = arrays(frame, 5)
        model = regressor().fit(X, y)
        truth, found = model.predict(X.compute()), model.predict(X)
        sent = [key for key in found.dask if "KernelMachineRegressor" in str(key)]
        assert len(sent) == 1
        model.fit(X, -y)
        np.testing.assert_allclose(found.compute(), truth, rtol=1e-12)

    def test_one_thread_a_block(self, frame, monkeypatch):
        from bochner.engines import local

        X, y = arrays(frame, 2)
        model, seen = regressor().fit(X, y), set()
        inner = KernelMachineRegressor._scores
        monkeypatch.setattr(
            KernelMachineRegressor,
            "_scores",
            lambda *given: (seen.add(local._allowed()), inner(*given))[1],
        )
        found = model.predict(X)
        seen.clear()
        found.compute(scheduler="synchronous")
        assert seen == {1}

    def test_what_is_refused(self, frame, model):
        rows, (X, y) = lazy(frame, 2), arrays(frame, 2)
        with pytest.raises(SourceError, match="columns that are missing: 'kind'"):
            model.predict(rows[["a", "b", "c"]])
        with pytest.raises(ValueError, match="column 'a' holds 'a' and the like"):
            model.predict(rows.assign(a=rows["kind"]))
        with pytest.raises(ValueError, match="2 features, but"):
            regressor().fit(X, y).predict(X[:, :2])
        with pytest.raises(ValueError, match="not fitted"):
            regressor().predict(X)
        with pytest.raises(SourceError, match="2 dimensions, got 1"):
            regressor().fit(X, y).predict(y)


@pytest.mark.parametrize("names", [["y", "z"], ("y", "z")])
def test_several_targets_are_scored_by_their_names(frame, names):
    table = frame[NAMES].assign(y=frame["y"], z=-2 * frame["y"])
    model = KernelMachineRegressor(
        Gaussian(1.0), n_components=60, alpha=1.0, random_state=0
    ).fit(table[NAMES], table[["y", "z"]])
    score = model.score(dd.from_pandas(table, npartitions=3), names)
    assert score == pytest.approx(model.score(table[NAMES], table[["y", "z"]]))
