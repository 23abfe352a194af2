"""The command on folders, patterns and tables that stay where they are."""

import gzip
import os
from contextlib import nullcontext
from dataclasses import replace
from socket import socket

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, ipc, parquet
from sklearn.datasets import dump_svmlight_file

from bochner import load
from bochner.engines.base import EngineError
from bochner.inputs import opened
from farm import Farm
from whole_tables import read_table

N, FILES = 1200, 3
FAST = ("--kernel", "gaussian", "--n-components", "64", "--alpha", "0.01")


def make_table(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, N // FILES))
    y = np.sin(a) + b**2 + 0.1 * rng.normal(size=len(a))
    return pa.table(
        {
            "a": a,
            "b": b,
            "kind": rng.choice(["1", "2"], len(a)),
            "y": y,
            "big": np.where(y > 1, "yes", "no"),
        }
    )


TABLES = [make_table(k) for k in range(FILES)]
WHOLE = pa.concat_tables(TABLES).combine_chunks()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with three Parquet files, three CSV files, and all rows in
    one of each.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BOCHNER_DEBUG", raising=False)
    for name in ("rows", "texts"):
        os.mkdir(name)
    for k, table in enumerate(TABLES):
        parquet.write_table(table, f"rows/r{k}.parquet")
        csv.write_csv(table, f"texts/r{k}.csv")
    parquet.write_table(WHOLE, "all.parquet")
    csv.write_csv(WHOLE, "all.csv")
    return tmp_path


@pytest.fixture
def large(folder, monkeypatch):
    """The same where so many rows are not read into memory."""
    monkeypatch.setattr(
        opened,
        "POLICY",
        replace(opened.POLICY, gathered_rows=500, sampled_rows=400),
    )
    return folder


def fit(done, data, *more, target="y"):
    leave_out = "big" if target == "y" else "y"
    return done("fit", data, "--target", target, "--exclude", leave_out, *FAST, *more)


@pytest.mark.slow
@pytest.mark.parametrize("data", ["rows", "rows/*.parquet", "texts", "texts/r?.csv"])
def test_small_folders_are_fitted_as_one_file(folder, done, data):
    one = fit(
        done, "all.parquet" if "rows" in data else "all.csv", "--out", "one.safetensors"
    )
    many = fit(done, data, "--out", "many.safetensors")
    for key in ("rows", "columns", "rows_train", "rows_test", "scores", "baseline"):
        assert one[key] == many[key]
    np.testing.assert_array_equal(
        load("one.safetensors").feature_weights_,
        load("many.safetensors").feature_weights_,
    )


@pytest.mark.parametrize("data", ["rows", "texts/*.csv", "all.parquet", "all.csv"])
def test_large_tables_are_fitted_where_they_are(large, done, data):
    report = fit(done, data, "--out", "model.safetensors")
    assert (report["rows"], report["columns"], report["task"]) == (N, 3, "regression")
    assert report["rows_train"] + report["rows_test"] == N == report["rows_saved_model"]
    assert 0.15 < report["rows_test"] / N < 0.25
    assert report["scores"]["r2"]["value"] > 0.9
    assert report["peak_memory_bytes"] > 1e6
    assert sorted(os.listdir()) == [
        "all.csv",
        "all.parquet",
        "model.safetensors",
        "rows",
        "texts",
    ]
    read = read_table(
        "all.csv" if data in ("texts/*.csv", "all.csv") else "all.parquet"
    )
    model, table = load("model.safetensors"), read.select(["a", "b", "kind"])
    assert np.mean((model.predict(table) - WHOLE["y"].to_numpy()) ** 2) < 0.1


@pytest.mark.slow
def test_rows_held_out_are_scored_by_a_model_that_has_not_seen_them(large, done):
    report = fit(done, "rows")
    y = WHOLE["y"].to_numpy()
    assert report["baseline"]["value"] == pytest.approx(
        y.mean(), abs=4 * y.std() / np.sqrt(N)
    )
    assert fit(done, "rows", "--seed", "7")["rows_test"] != report["rows_test"]
    assert fit(done, "all.parquet")["rows_test"] == report["rows_test"]


@pytest.mark.parametrize(
    "solved", [("--solver", "cg"), ("--features", "binning", "--kernel", "laplacian")]
)
def test_iterations_with_rows_held_out_and_a_sample_given(large, done, solved):
    report = fit(done, "rows", "--sample", "500", *solved)
    assert report["scores"]["r2"]["value"] > 0.5
    assert report["rows_train"] + report["rows_test"] == N


def test_no_rows_held_out(large, done):
    report = fit(done, "rows", "--test-size", "0")
    assert (report["rows_train"], report["rows_test"], report["scores"]) == (N, 0, None)
    assert report["baseline"]["value"] == pytest.approx(WHOLE["y"].to_numpy().mean())


@pytest.mark.slow
def test_classes(large, done):
    report = fit(done, "rows", "--out", "model.safetensors", target="big")
    assert report["task"] == "classification"
    assert report["scores"]["accuracy"]["value"] > 0.85
    shares = WHOLE["big"].to_numpy(zero_copy_only=False) == "yes"
    assert report["scores"]["accuracy"]["baseline"] == pytest.approx(
        1 - shares.mean(), abs=0.08
    )
    assert report["baseline"]["predicts"] == "the most frequent class"


def test_rows_without_a_target_are_left_out(large, done):
    y = WHOLE["y"].to_pylist()
    y[::10] = [None] * (N // 10)
    parquet.write_table(WHOLE.set_column(3, "y", pa.array(y)), "gaps.parquet")
    report = fit(done, "gaps.parquet", "--out", "model.safetensors")
    assert (report["rows"], report["rows_without_target"]) == (N, N // 10)
    assert (
        report["rows_train"] + report["rows_test"]
        == 9 * N // 10
        == report["rows_saved_model"]
    )


@pytest.mark.slow
def test_whole_numbers(large, done):
    counts = np.arange(N) % 3
    parquet.write_table(
        WHOLE.append_column("count", pa.array(counts.astype(float))), "counts.parquet"
    )
    report = done("fit", "counts.parquet", "--target", "count", *FAST)
    assert (report["task"], report["task_can_change"]) == ("classification", True)
    assert (
        report["task_inferred_because"]
        == "the target holds whole numbers with 3 distinct values"
    )


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".csv.gz"])
@pytest.mark.parametrize("target", ["y", "big"])
def test_predictions_in_blocks_are_those_at_once(
    folder, done, monkeypatch, suffix, target
):
    fit(done, "all.parquet", "--out", "model.safetensors", target=target)
    once = done("predict", "model.safetensors", "all.csv", "--out", "once" + suffix)
    monkeypatch.setattr(opened, "POLICY", replace(opened.POLICY, gathered_rows=500))
    for data in ("rows", "texts", "all.csv", "all.parquet"):
        report = done("predict", "model.safetensors", data, "--out", "blocks" + suffix)
        assert report["rows"] == N
        assert report["columns_written"] == once["columns_written"]
        assert set(report["columns_ignored"]) == set(once["columns_ignored"])
        first, second = read_table("once" + suffix), read_table("blocks" + suffix)
        assert first.column_names == second.column_names
        for a, b in zip(first.columns, second.columns, strict=True):
            if pa.types.is_floating(a.type):
                np.testing.assert_allclose(
                    a.to_numpy(), b.to_numpy(), rtol=1e-5, atol=1e-6
                )
            else:
                assert a.to_pylist() == b.to_pylist()


def test_evaluate_in_blocks(folder, done, monkeypatch):
    fit(done, "all.parquet", "--out", "model.safetensors")
    once = done("evaluate", "model.safetensors", "all.parquet")
    monkeypatch.setattr(opened, "POLICY", replace(opened.POLICY, gathered_rows=500))
    many = done("evaluate", "model.safetensors", "rows")
    assert many["rows"] == many["rows_test"] == N
    assert many["scores"]["r2"]["value"] == pytest.approx(once["scores"]["r2"]["value"])


def test_a_score_needs_no_more_rows_than_tell_it(folder, done, monkeypatch):
    fit(done, "all.parquet", "--out", "model.safetensors")
    monkeypatch.setattr(opened, "POLICY", replace(opened.POLICY, gathered_rows=500))
    monkeypatch.setattr("bochner.cli.tables.SCORED_ROWS", 300)
    report = done("evaluate", "model.safetensors", "rows")
    assert report["rows"] == N
    assert 200 < report["rows_test"] < 400
    assert report["notes"][:1] == [
        "Scored on about 300 rows, sampled by a hash of their content, which is "
        "enough for the score."
    ]


@pytest.mark.slow
def test_other_kinds_of_files(large, done):
    with ipc.new_file("all.arrow", WHOLE.schema) as writer:
        writer.write_table(WHOLE, max_chunksize=200)
    assert fit(done, "all.arrow")["scores"]["r2"]["value"] > 0.9
    X = np.stack([WHOLE["a"].to_numpy(), WHOLE["b"].to_numpy()], axis=1)
    dump_svmlight_file(X, WHOLE["y"].to_numpy(), "all.svm")
    report = done(
        "fit", "all.svm", "--target", "y", *FAST, "--out", "model.safetensors"
    )
    assert report["scores"]["r2"]["value"] > 0.9
    assert (
        done("predict", "model.safetensors", "all.svm", "--out", "p.csv")["rows"] == N
    )


def test_a_plan_reads_no_rows(folder, done, run, monkeypatch):
    report = done("plan", "rows", "--target", "y")
    assert report["plan"]["gathered"] is True
    assert report["task"] == "regression"
    monkeypatch.setattr(opened, "POLICY", replace(opened.POLICY, gathered_rows=500))
    found = done(
        "plan",
        "texts",
        "--target",
        "big",
        "--features",
        "fourier",
        "--n-components",
        "64",
    )
    assert (found["task"], found["plan"]["gathered"], found["plan"]["solver"]) == (
        "classification",
        False,
        "direct",
    )
    assert [one[1] for one in found["plan"]["passes"]] == [
        1,
        1,
        opened.POLICY.most_passes,
    ]
    code, out, _ = run("plan", "rows", "--target", "y")
    assert code == 0
    assert f"{N:,} rows x 4 columns" in out
    passes = [
        done("plan", "rows", "--target", "y", *FAST, *more)["plan"]["passes"]
        for more in ((), ("--sample", "9"))
    ]
    assert [len(some) for some in passes] == [2, 1]
    assert not [line for line in out.splitlines() if line.endswith(" ")]


def test_refusals(folder, refused):
    assert "no column 'z'; " in refused("plan", "rows", "--target", "z")
    assert "no column 'z'; " in refused("fit", "rows", "--target", "z")
    for data in ("rows", "texts"):
        assert refused("fit", data, "--target", "y", "--exclude", "z").startswith(
            f"error: {data}: no column 'z'"
        )
        assert refused("plan", data, "--target", "y", "--exclude", "z").startswith(
            f"error: {data}: no column 'z'"
        )
    everything = ("a", "b", "kind", "big")
    nothing = [part for name in everything for part in ("--exclude", name)]
    assert "no column to learn from" in refused(
        "fit", "rows", "--target", "y", "--sample", "500", *nothing
    )
    assert "nothing*" in refused("fit", "nothing*", "--target", "y")
    assert "memory" in refused("plan", "rows", "--target", "y", "--memory-limit", "1MB")
    assert "not a size such as" in refused(
        "fit", "rows", "--target", "y", "--memory-limit", "lots", code=2
    )


@pytest.mark.parametrize("data", ["rows", "texts"])
def test_a_column_of_some_files_can_be_excluded(large, done, refused, data):
    more = TABLES[0].append_column("more", TABLES[0]["a"])
    parquet.write_table(more, "rows/s.parquet")
    csv.write_csv(more, "texts/s.csv")
    assert refused("fit", data, "--target", "y").startswith(f"error: {data}/s.")
    assert fit(done, data, "--exclude", "more")["columns"] == 3
    assert (
        "4 columns"
        in done("plan", data, "--target", "y", "--exclude", "more")["plan"]["data"]
    )


def test_a_damaged_file_is_named_once(folder, refused):
    for data in ("texts", "texts/*.gz"):
        for name in os.listdir("texts"):
            os.rename(f"texts/{name}", f"texts/{name.removesuffix('.gz')}.gz")
        with open("texts/r1.csv.gz", "wb") as file:
            file.write(gzip.compress(WHOLE["a"].to_numpy().tobytes())[:5000])
        assert refused("plan", data, "--target", "y").startswith(
            "error: texts/r1.csv.gz: damaged"
        )


def test_a_predicted_file_is_complete_or_not_there(large, done, refused):
    fit(done, "rows", "--out", "model.safetensors")
    parquet.write_table(TABLES[0].drop_columns(["a"]), "rows/s.parquet")
    refused("predict", "model.safetensors", "rows", "--out", "p.csv")
    os.remove("rows/s.parquet")
    size = os.path.getsize("rows/r2.parquet")
    with open("rows/r2.parquet", "r+b") as file:
        file.seek(4)
        file.write(bytes(size // 2))
    assert "r2.parquet" in refused(
        "predict", "model.safetensors", "rows", "--out", "p.csv"
    )


def test_a_cluster_reads_what_it_can_and_its_failures_are_one_line(
    large, done, refused, run, monkeypatch
):
    class Lost(Farm):
        def results(self, handles):
            raise EngineError("The scheduler was lost.")

    whole = fit(done, "all.parquet", "--test-size", "0")
    farm, lost = Farm(), Lost()
    monkeypatch.setattr(
        "bochner.cli.app.dask_client",
        lambda address: nullcontext(farm if "good" in address else lost),
    )
    found = fit(done, "all.parquet", "--test-size", "0", "--dask", "tcp://good:8786")
    assert farm.n_done > 1
    assert found["model"]["n_features"] == whole["model"]["n_features"]
    arguments = (
        "fit",
        "all.parquet",
        "--target",
        "y",
        "--exclude",
        "big",
        *FAST,
        "--dask",
    )
    assert refused(*arguments, "tcp://bad:8786") == "error: The scheduler was lost.\n"
    for address in ("bad", "", "foo://bad:8786", "tcp://bad"):
        assert "not the address" in refused(*arguments, address, code=2)


def test_a_scheduler_that_does_not_answer(large, refused, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("bochner.cli.app.CONNECTING", 0.2)
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        line = refused(
            "fit", "rows", "--target", "y", "--exclude", "big", *FAST, "--dask", address
        )
    assert f"no Dask scheduler answers at {address}" in line
