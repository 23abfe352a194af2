"""Collections on the workers of a cluster: the same bits as on the threads of this
process.
"""

from dataclasses import replace

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

pytest.importorskip("bochner.engines.dask")

import bochner
from bochner import (
    BinningFeatures,
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
)
from bochner.engines.local import LOCAL
from bochner.engines.remote import Call, is_away
from bochner.kernels import Gaussian, Laplacian
from bochner.selection import policy
from bochner.sources.base import SourceError
from bochner.sources.dask_parts import active_engine, pieces

N = 4000
pytestmark = [
    pytest.mark.filterwarnings("ignore:resource_tracker:UserWarning"),
    pytest.mark.filterwarnings("ignore:Port .* is already in use:UserWarning"),
]


@pytest.fixture(autouse=True)
def streams(monkeypatch):
    """Tables of more than some rows are not gathered."""
    small = replace(policy.POLICY, gathered_rows=1000, sampled_rows=1500)
    for module in ("bochner.inputs.opened", "bochner.estimators.machine"):
        monkeypatch.setattr(f"{module}.POLICY", small)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        rng.uniform(size=(N, 3)).astype(np.float32), columns=["a", "b", "c"]
    )
    kind = np.where(np.arange(N) < N // 2, "early", rng.choice(["late", "never"], N))
    return rows.assign(
        kind=pd.Categorical(kind),
        y=np.sin(5 * rows["a"]) + rows["b"] + (kind == "late"),
    )


def regressor(**changes):
    features = FourierFeatures(Gaussian(0.5), 100, random_state=0)
    return KernelMachineRegressor(
        **({"features": features, "alpha": 1.0, "random_state": 0} | changes)
    )


def rows_of(frame, kind):
    if kind == "frame":
        return dd.from_pandas(frame, npartitions=6), "y"
    if kind == "array":
        X = da.from_array(frame[["a", "b", "c"]].to_numpy(), chunks=(700, 2))
        return X, da.from_array(frame["y"].to_numpy(), chunks=700)
    X = da.random.default_rng(0).random((N, 3), chunks=(700, 3))
    return X / X.std(axis=0), X[:, 0]


class TestFits:
    @pytest.mark.slow
    @pytest.mark.parametrize("kind", ["frame", "array", "array that shares work"])
    @pytest.mark.filterwarnings(
        "ignore:Partitions share intermediate results:UserWarning"
    )
    def test_same_bits_as_on_threads(self, client, frame, kind):
        rows = rows_of(frame, kind)
        held = regressor().fit(*rows)
        with client.as_current():
            found = regressor().fit(*rows)
        assert np.array_equal(found.feature_weights_, held.feature_weights_)
        with bochner.settings(engine=client):
            assert np.array_equal(
                regressor().fit(*rows).feature_weights_, held.feature_weights_
            )

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", ["frame", "array"])
    def test_persisted_rows(self, client, frame, kind):
        X, y = rows_of(frame, kind)
        held = regressor().fit(X, y)
        with client.as_current():
            persisted = X.persist(), y if isinstance(y, str) else y.persist()
            assert np.array_equal(
                regressor().fit(*persisted).feature_weights_, held.feature_weights_
            )
            np.testing.assert_allclose(
                held.predict(persisted[0]).compute(),
                held.predict(X).compute(),
                rtol=1e-6,
            )

    def test_conjugate_gradients_on_bins(self, client, frame):
        X, y = rows_of(frame, "array")
        bins = BinningFeatures(Laplacian(2.0), 30, random_state=0)
        held = regressor(features=bins, tol=1e-4).fit(X, y)
        with client.as_current():
            found = regressor(features=bins, tol=1e-4).fit(X, y)
        assert found.solver_ == "cg"
        np.testing.assert_allclose(
            found.predict(X[:500].compute()), held.predict(X[:500].compute()), rtol=1e-6
        )

    @pytest.mark.slow
    def test_logistic_loss(self, client, frame):
        """The gradients are summed by the workers."""
        X, y = rows_of(frame, "array")
        labels, new = (y > y.mean().compute()).astype(int), X[:500].compute()
        features = FourierFeatures(Gaussian(0.5), 50, random_state=0)
        model = KernelMachineClassifier(
            features=features, alpha=1.0, loss="logistic", tol=1e-3, random_state=0
        )
        held = model.fit(X, labels).predict_proba(new)
        with client.as_current():
            found = model.fit(X, labels).predict_proba(new)
        np.testing.assert_allclose(found, held, rtol=1e-5)

    def test_small_rows_are_gathered_by_the_cluster(self, client, frame):
        X, y = (rows[:900] for rows in rows_of(frame, "array"))
        held = regressor(loss="huber").fit(X, y)
        with client.as_current():
            assert np.array_equal(
                regressor(loss="huber").fit(X, y).feature_weights_,
                held.feature_weights_,
            )

    def test_errors_name_the_partition(self, client):
        X = da.ones((N, 3), chunks=(700, 3))
        X = X.map_blocks(
            lambda block: block if len(block) == 700 else block[:, [9]],
            dtype=float,
            meta=X._meta,
        )
        with (
            client.as_current(),
            pytest.raises(
                SourceError, match=r"partition 5 of the Dask array: IndexError \("
            ),
        ):
            regressor().fit(X, np.ones(N))

    def test_maps_are_fitted(self, client, frame):
        X, _ = rows_of(frame, "array")
        with client.as_current():
            features = BinningFeatures(Laplacian(2.0), 10, random_state=0).fit(X)
            found = features.transform(X).compute()
        assert (
            abs(
                found
                - BinningFeatures(Laplacian(2.0), 10, random_state=0).fit_transform(
                    X.compute()
                )
            ).max()
            == 0
        )


def test_partitions_are_computed_by_the_tasks_that_read_them(client, frame):
    X, _ = rows_of(frame, "frame")
    with client.as_current():
        blocks = pieces(X).blocks
        regressor().fit(X, "y")
        keys = {str(block.key) for block in blocks}
        assert not keys & {
            str(key)
            for key in client.run_on_scheduler(
                lambda dask_scheduler: list(dask_scheduler.tasks)
            )
        }


def test_unequal_partitions(client, frame):
    X, y = rows_of(frame, "array")
    with (
        client.as_current(),
        pytest.raises(SourceError, match="partition 3 of y has 600 rows"),
    ):
        regressor().fit(X[:2800], y[:2700])


def test_work_of_another_process_has_no_client_of_it(client):
    """A process that was forked has a copy of the client, and none of its threads."""
    call = Call(active_engine)
    with client.as_current():
        assert call.do().client is client
        assert replace(call, process=-1).do() is LOCAL
        assert not is_away()
