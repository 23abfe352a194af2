"""Blocks of encoded rows, cut alike however the rows come."""

import threading
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from bochner.data.array_source import ArraySource, as_it_is
from bochner.data.table import TableEncoder
from bochner.data.weights import are_unit
from bochner.design.design import Design
from bochner.engines.local import at_most
from bochner.features import FourierFeatures
from bochner.kernels import Gaussian
from bochner.sources import rows as rows_module
from bochner.sources.base import Batch, SourceError, TableSource
from bochner.sources.rows import Roles
from bochner.sources.scan import scan
from bochner.sources.stream import StreamSource

ROLES = Roles(("y",), "w")
rng = np.random.default_rng(2)
DENSE = rng.standard_normal((600, 3)).astype(np.float32)


def columns(y):
    return y.reshape(len(y), -1).astype(np.float64)


def encoded(source, roles=ROLES, encode=None, ahead=False):
    seen = scan(source, roles, labels=False, seed=0, size=200)
    encode = encode or partial(TableEncoder.of(seen.table).encode, dtype=np.float32)
    X, y, weight, *_ = seen.sample
    sample = ArraySource(encode(X), y, weight, targets=columns)
    return StreamSource(
        source,
        roles,
        encode,
        columns,
        tuple(seen.counts),
        tuple(seen.checksums),
        sample,
        seen.weight,
        ahead,
    )


def dense(X):
    return X.toarray() if sp.issparse(X) else X


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize(
    "rows", [pytest.param(1, marks=pytest.mark.slow), 13, 100, None]
)
@pytest.mark.parametrize("size", [64, 200, 10**6])
def test_blocks_of_a_table(listed, mixed, rows, size, ahead):
    mixed = mixed[:300]
    source = encoded(listed(mixed, rows=rows), ahead=ahead)
    X = mixed.drop_columns(["y", "w"])
    expected = TableEncoder().fit(X, sample_weight=mixed["w"].to_numpy()).transform(X)
    blocks = list(source.blocks(size))
    lengths = [len(block.y) for block in blocks]
    assert set(lengths[:-1]) <= {size}
    assert sum(lengths) == source.n_rows == 300
    np.testing.assert_allclose(
        np.concatenate([block.X for block in blocks]), expected, rtol=1e-6, atol=1e-6
    )
    assert_array_equal(
        np.concatenate([block.y for block in blocks])[:, 0], mixed["y"].to_numpy()
    )
    assert_array_equal(
        np.concatenate([block.weight for block in blocks]), mixed["w"].to_numpy()
    )
    assert blocks[0].X.dtype == np.float32


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("rows", [1, 7, None])
def test_blocks_of_arrays(listed, form, rows):
    y = np.arange(1200.0).reshape(600, 2)
    source = encoded(listed(form(DENSE), y, rows=rows), Roles(), as_it_is)
    blocks = list(source.blocks(100))
    assert [len(block.y) for block in blocks] == [100] * 6
    assert_array_equal(np.concatenate([dense(block.X) for block in blocks]), DENSE)
    assert all(are_unit(block.weight) for block in blocks)
    whole = source.whole()
    assert_array_equal(dense(whole.X), DENSE)
    assert_array_equal(whole.y, y)
    assert whole.weight.flags.c_contiguous
    assert source.n_outputs == 2
    assert source.sample(50, rng).n_rows == 50


def test_the_encoder_of_a_statistic_is_that_of_the_rows(listed, mixed):
    X = mixed.drop_columns(["y", "w"])
    statistic = scan(listed(mixed), Roles(("y",), "w"), False, 0, 10).table
    for parameters in ({}, {"with_std": False, "max_categories": 2}):
        ours = TableEncoder.of(statistic, **parameters)
        fitted = TableEncoder(**parameters).fit(X, sample_weight=mixed["w"].to_numpy())
        assert ours.get_params() == fitted.get_params()
        assert list(ours.get_feature_names_out()) == list(
            fitted.get_feature_names_out()
        )
        assert_array_equal(ours.feature_names_in_, fitted.feature_names_in_)
        assert ours.feature_names_in_.dtype == fitted.feature_names_in_.dtype
        assert ours.n_features_in_ == fitted.n_features_in_ == 8
        np.testing.assert_allclose(
            ours.transform(X), fitted.transform(X), rtol=1e-6, atol=1e-6
        )
        assert vars(ours).keys() == vars(fitted).keys()
    arrays = TableEncoder.of(
        scan(listed(sp.csr_array(DENSE)), Roles(), False, 0, 10).table
    )
    assert vars(arrays).keys() == vars(TableEncoder().fit(sp.csr_array(DENSE))).keys()


def test_a_span_has_the_rows_of_its_parts(listed, mixed):
    source = encoded(listed(mixed, parts=5))
    middle = source.span(1, 3)
    assert (middle.n_parts, middle.n_rows) == (2, 1200)
    assert_array_equal(middle.whole().y[:, 0], mixed["y"].to_numpy()[600:1800])
    assert [source.span(k, k + 1).n_rows for k in range(5)] == [600] * 5
    assert source.span(4, 5).whole().y[-1, 0] == mixed["y"][-1].as_py()


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_moments_have_the_same_bits_however_rows_come(listed, threads):
    X = pa.table(
        {f"x{j}": DENSE[:, j] for j in range(3)}
        | {"y": DENSE @ [1.0, 2, 3], "w": np.ones(600)}
    )
    features = FourierFeatures(Gaussian(2.0), n_components=20, random_state=0).fit(
        DENSE
    )

    def moments(**cut):
        return Design(encoded(listed(X, parts=4, **cut)), features).moments().matrix

    whole = moments()
    with at_most(threads):
        for rows in (1, 7, 100):
            assert moments(rows=rows).tobytes() == whole.tobytes()


def test_rows_to_predict_have_no_targets(listed, mixed):
    X = mixed.drop_columns(["y", "w"])
    source = replace(
        encoded(listed(mixed)),
        table=listed(X),
        roles=Roles(),
        counts=(None,) * 3,
        checksums=(None,) * 3,
    )
    assert source.n_rows is None
    blocks = list(source.blocks(2000))
    assert [block.X.shape[0] for block in blocks] == [2000, 1000]
    assert blocks[0].y.shape == (2000, 0)


@pytest.mark.parametrize("ahead", [False, True])
def test_other_rows_in_a_later_pass(listed, mixed, ahead):
    """A factory that shuffles, changes or loses rows."""
    source = encoded(listed(mixed, known=False), ahead=ahead)

    def later(table):
        parts = listed(table, parts=[0, 1000, 2000, table.num_rows], known=False).parts
        return replace(source, table=replace(source.table, parts=parts))

    list(later(mixed).blocks(100))
    others = [
        mixed.take(np.r_[:2000, 2001, 2000, 2002:3000]),
        mixed[:2999],
        mixed.take(np.r_[:2999, 0]),
    ]
    for other in others:
        with pytest.raises(
            SourceError,
            match="part 2: the rows or their order differ from the first pass",
        ):
            list(later(other).blocks(100))
    list(replace(later(others[0]), checksums=(None,) * 3).blocks(100))
    assert not [
        thread for thread in threading.enumerate() if thread.name == "bochner-ahead"
    ]


@pytest.mark.slow
def test_a_consumer_may_stop_early(listed, mixed):
    for ahead in (False, True):
        blocks = encoded(listed(mixed, rows=10), ahead=ahead).blocks(50)
        next(blocks)
        blocks.close()
    assert not [
        thread for thread in threading.enumerate() if thread.name == "bochner-ahead"
    ]


def test_a_value_that_cannot_be_encoded_is_found(listed, mixed):
    source = encoded(listed(mixed))
    infinite = mixed.set_column(
        1, "small", pa.array(np.r_[np.zeros(2500), np.inf, np.zeros(499)])
    )
    source = replace(
        source, table=listed(infinite), checksums=(None,) * len(source.checksums)
    )
    with pytest.raises(
        SourceError, match=r"part 2, counted from row 400: .*'small', row 100"
    ):
        list(source.blocks(600))


def test_columns_without_a_type_encode_as_those_of_the_overview(listed, mixed):
    source = encoded(listed(mixed, parts=2))
    gaps = mixed.set_column(2, "text", pa.array([None] * 3000, pa.string()))
    nulls = mixed.set_column(2, "text", pa.nulls(3000))
    blocks = []
    for table in (gaps, nulls):
        part = replace(
            source.table.parts[1], batches=(Batch(mixed[:1000]), Batch(table[1000:]))
        )
        later = replace(
            source,
            table=replace(source.table, parts=(part,)),
            counts=(3000,),
            checksums=(None,),
        )
        blocks.append(later.whole())
    assert_array_equal(blocks[0].X, blocks[1].X)
    assert_array_equal(
        source.encode(nulls.drop_columns(["y", "w"])),
        source.encode(gaps.drop_columns(["y", "w"])),
    )


@pytest.mark.slow
def test_many_small_pieces_are_put_together(listed, mixed, monkeypatch):
    monkeypatch.setattr(rows_module, "MOST_PIECES", 10)
    source = encoded(listed(mixed, rows=3))
    assert_array_equal(source.whole().y[:, 0], mixed["y"].to_numpy())
    assert isinstance(source.table, TableSource)
