"""The scripts that measure: what is kept of other machines, and the page that is
made from it.
"""

import importlib
import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
KEPT = sorted((BENCHMARKS.parent / "docs" / "benchmarks").glob("*.json"))
PROCESSORS = {
    "AMD EPYC (family 26, model 2), AVX-512 with VNNI, 2 cores": """\
processor\t: 0
cpu family\t: 26
model\t\t: 2
model name\t: AMD EPYC
flags\t\t: fpu avx2 avx512f avx512_vnni

processor\t: 1
cpu family\t: 26
model\t\t: 2
model name\t: AMD EPYC
flags\t\t: fpu avx2 avx512f avx512_vnni
""",
    "Intel(R) Xeon(R) CPU @ 2.50GHz (family 6, model 85), AVX-512, 1 cores": """\
processor\t: 0
cpu family\t: 6
model\t\t: 85
model name\t: Intel(R) Xeon(R) CPU @ 2.50GHz
flags\t\t: fpu avx2 avx512f
bugs\t\t: spectre_v1: and others
""",
}
SCRIPT = """\
import os

from report import Row
from runner import repeats, run

parts = {
    "one": lambda: [Row("fit", "3 s", "<= 4 s", "a copy", 1.5)],
    "two": lambda: [("predict", f"{repeats(3)} us")],
    "none": lambda: [],
    "broken": lambda: 1 / 0,
}
run("Toys", __file__, "Toys.", parts, machine=lambda: os.environ["MACHINE"])
"""


@pytest.fixture
def report(monkeypatch, tmp_path):
    """The module, with a page of its own."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.setenv("PYTHONPATH", str(BENCHMARKS), prepend=":")
    module = importlib.import_module("report")
    monkeypatch.setattr(module, "PAGE", tmp_path / "benchmarks.md")
    return module


@pytest.fixture
def toys(report, monkeypatch, tmp_path, capfd):
    """Runs a small script with arguments on a machine of some name, and returns what
    it printed and the page.
    """
    (tmp_path / "toys.py").write_text(SCRIPT)

    def run(machine, *arguments):
        monkeypatch.setenv("MACHINE", machine)
        monkeypatch.setattr(sys, "argv", ["toys.py", *arguments])
        runpy.run_path(str(tmp_path / "toys.py"), run_name="__main__")
        page = report.page_of("Toys")
        return capfd.readouterr().out, page.read_text() if page.exists() else ""

    return run


@pytest.mark.parametrize("name", PROCESSORS)
def test_processors_are_told_apart(report, name):
    assert report.processor(PROCESSORS[name]) == name


def test_processors_of_other_makes_have_a_name(report):
    arm = "processor\t: 0\nFeatures\t: fp asimd\n"
    assert report.processor(arm).endswith(", NEON, 1 cores")


def measured(date, *rows):
    return {"date": date, "versions": "Python 3", "rows": rows}


def test_a_column_for_each_machine(report):
    """Order, bar and limit are those of the later run, whatever the order of the
    machines.
    """
    old = measured("", ["gone", "1"], ["fit", "31 s", "<= 9 s", "Gram", 0.941])
    new = measured(
        "2026-01-01", ["fit", "", "<= 8 s", "a copy", 12.34], ["predict", "2 us"]
    )
    expected = """\
| what | A | B | target | x: times |
| --- | --- | --- | --- | --- |
| fit | 31 s, 0.94 x | 12.3 x | <= 8 s | a copy |
| predict |  | 2 us |  |  |
| gone | 1 |  |  |  |"""
    assert report.columns({"fits": {"A": old, "B": new}}) == expected
    assert report.columns({"fits": {"B": new, "A": old}}) == expected


def test_equal_names_in_different_parts(report):
    parts = {
        "one": {"A": measured("", ["the same", "1"])},
        "two": {"A": measured("", ["the same", "2"])},
    }
    assert report.columns(parts).splitlines()[2:] == [
        "| the same | 1 |  |",
        "| the same | 2 |  |",
    ]


def test_a_table_for_each_machine(report):
    one, two = measured("", ["digits", "1"]), measured("", ["mnist", "2"])
    body = report.tables(["data", "error"], "Medians.")(
        {"digits": {"A": one, "B": one}, "mnist": {"B": two}}
    )
    assert body.split("\n\n") == [
        "**A**",
        "| data | error |\n| --- | --- |\n| digits | 1 |",
        "**B**",
        "| data | error |\n| --- | --- |\n| digits | 1 |\n| mnist | 2 |",
        "Medians.",
    ]


def test_a_run_renews_its_own_figures(toys, report):
    """Those of other machines and parts stay."""
    toys("A", "--only", "one")
    _, page = toys("B", "--only", "one", "two")
    assert (
        "| fit | 3 s, 1.50 x | 3 s, 1.50 x | <= 4 s | a copy |\n| predict |  | 3 us "
        "|  |  |\n" in page
    )
    assert page.startswith("# Toys\n\n`python -m benchmarks toys`\n\n| what | A | B |")
    store = report.PAGE.parent / "benchmarks" / "toys.json"
    kept = json.loads(store.read_text())
    kept["one"]["A"]["rows"][0][1] = kept["one"]["B"]["rows"][0][1] = "5 s"
    store.write_text(json.dumps(kept))
    assert "| fit | 5 s, 1.50 x | 5 s, 1.50 x |" in toys("A", "--page")[1]
    assert "| fit | 3 s, 1.50 x | 5 s, 1.50 x |" in toys("A", "--only", "one")[1]


def test_a_trial_keeps_nothing(toys):
    printed, page = toys("A", "--quick", "--only", "two")
    assert (printed, page) == ("['predict', '1 us']\n", "")


def test_what_is_measured_before_a_failure_is_kept(toys, report):
    with pytest.raises(subprocess.CalledProcessError):
        toys("A")
    assert set(report.kept("toys")) == {"one", "two"}


def test_a_part_without_rows_keeps_nothing(toys, report):
    """As on a machine that lacks what it measures."""
    assert toys("A", "--only", "none")[1] == ""
    assert report.kept("toys") == {}


@pytest.mark.parametrize(
    "store",
    [path for path in KEPT if path.stem != "accuracy"],
    ids=lambda path: path.stem,
)
def test_page_is_made_from_what_is_kept(report, monkeypatch, store):
    pages = store.parent
    shutil.copytree(pages, report.PAGE.with_suffix(""))
    monkeypatch.setattr(sys, "argv", [f"{store.stem}.py", "--page"])
    runpy.run_path(str(BENCHMARKS / f"{store.stem}.py"), run_name="__main__")
    for page in pages.glob("*.md"):
        assert (report.PAGE.with_suffix("") / page.name).read_text() == page.read_text()


def test_figures_of_the_readme_and_the_first_page_are_those_that_are_kept(
    report, monkeypatch
):
    """So is the page on accuracy."""
    monkeypatch.setattr(report, "PAGE", BENCHMARKS.parent / "docs" / "benchmarks.md")
    monkeypatch.delitem(sys.modules, "accuracy", raising=False)
    monkeypatch.delitem(sys.modules, "overview", raising=False)
    overview = importlib.import_module("overview")
    accuracy = importlib.import_module("accuracy")
    readme = overview.README.read_text("utf-8")
    assert overview.with_figures(readme) == readme
    assert overview.overview() == overview.PAGE.read_text("utf-8")
    kept = json.loads(overview.STORE.read_text())
    page = report.page_of(accuracy.TITLE).read_text("utf-8")
    assert page == report.titled(accuracy.TITLE, accuracy.text(kept))
    (line,) = [
        line
        for line in readme.splitlines()
        if line.startswith("| california_housing, RMSE")
    ]
    ours = kept["measured"]["california_housing"]["bochner"]
    assert f"{np.median(ours['RMSE / sd']):.3g}" in line.split("|")[2]
    assert line.endswith(f"| {np.median(ours['fit']):.2g} s |")
    monkeypatch.delitem(sys.modules, "accuracy", raising=False)
    monkeypatch.delitem(sys.modules, "overview", raising=False)


@pytest.fixture
def toy_figures():
    """Errors, log losses and seconds of three learners on six tables; the third did
    not finish one of them.
    """
    rng = np.random.default_rng(0)
    measured = {}
    for k in range(6):
        errors = 10 + k + rng.normal(scale=0.1, size=3)
        measured[f"table {k}"] = {
            learner: {
                "% wrong": list(errors * factor),
                "log loss": list(errors * factor / 10),
                "fit": [seconds] * 3,
                "processor": [2 * seconds] * 3,
            }
            for learner, factor, seconds in (
                ("bochner", 0.8, 5.0),
                ("CatBoost", 1.0, 2.0),
                ("LightGBM", 0.7 if k == 5 else 0.801 + 0.002 * k, 1.0),
            )
        }
    measured["table 0"]["LightGBM"] = {"error": ["more than 300 s"]}
    return measured


def test_our_medians_beside_those_of_others(report, toy_figures):
    accuracy = importlib.import_module("accuracy")
    assert accuracy.against(toy_figures).splitlines()[2:] == [
        # Of five tables the one that is lost has the largest ratio: 10 of the 32 signs
        # have as small a sum of ranks, on either side
        "| CatBoost | 6 of 6 | 0.800 | 0.031 | 6 of 6 | 0.800 | 0.031 | 2.5 |",
        "| LightGBM | 4 of 5 | 1.021 | 0.62 | 4 of 5 | 1.021 | 0.62 | 5 |",
    ]
    medians = accuracy.middle(toy_figures, accuracy.errors_of(toy_figures))
    assert accuracy.mean_ranks(medians).to_dict() == pytest.approx(
        {"bochner": 7 / 6, "LightGBM": 12 / 6, "CatBoost": 17 / 6}
    )


def test_what_is_within_the_noise_of_the_lowest_is_bold(report, toy_figures):
    accuracy = importlib.import_module("accuracy")
    toy_figures["table 1"]["LightGBM"]["% wrong"] = list(
        np.add(toy_figures["table 1"]["bochner"]["% wrong"], [0.3, -0.1, 0.1])
    )
    lines = accuracy.figures(
        toy_figures, accuracy.errors_of(toy_figures), 3
    ).splitlines()
    assert lines[2] == "| table 0, % wrong | 3 | **8.01** | 10 | more than 300 s |"
    assert lines[3].count("**") == 4
    assert lines[7].count("**") == 2
    assert lines[7].endswith("** |")


def test_repeats_are_those_of_the_command_line(toys):
    assert (
        toys("A", "--quick", "--only", "two", "--repeats", "7")[0]
        == "['predict', '7 us']\n"
    )


def test_peers_cover_as_many_rows_as_they_should(report):
    """Over draws of the rows that calibrate; sets of true probabilities, intervals
    of scores.
    """
    conformal = importlib.import_module("conformal")
    rng = np.random.default_rng(0)
    covered = {"least": [], "adaptive": [], "scores": []}
    sizes = {"least": [], "adaptive": []}
    for seed in range(300):
        p = rng.dirichlet([0.5, 1.0, 2.0, 0.2], 300)
        labels = (rng.random((300, 1)) > p.cumsum(axis=1)).sum(axis=1)
        for name, options in (("least", ()), ("adaptive", (seed,))):
            sets = getattr(conformal, f"{name}_sets")(
                p[:99], labels[:99], p[99:], 0.9, *options
            )
            covered[name].append(sets[np.arange(201), labels[99:]].mean())
            sizes[name].append(sets.sum(axis=1).mean())
            assert name == "least" or sets.any(axis=1).all()
        covered["scores"].append(
            (p[99:, 0] <= conformal.conformal_quantile(p[:99, 0], 0.9)).mean()
        )
    for name, shares in covered.items():
        z = (np.mean(shares) - 0.9) / (np.std(shares) / np.sqrt(300))
        assert abs(z) < 4 or (name == "adaptive" and z > 0), (
            name
        )  # its sets are never empty
    assert np.mean(sizes["least"]) < np.mean(sizes["adaptive"])
    assert conformal.conformal_quantile(np.arange(8.0), 0.9) == np.inf
    fit, held_out = conformal.fitted_and_held_out(100, 0)
    assert sorted([*fit, *held_out]) == list(range(100))
    assert len(held_out) == 20


def test_linear_correlations_are_those_of_orthonormal_columns(report):
    peers = importlib.import_module("unsupervised_peers")
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((200, 5)), rng.standard_normal((200, 4))
    B[:, :2] += A[:, :2]
    P, Q = (np.linalg.qr(half - half.mean(axis=0))[0] for half in (A, B))
    expected = np.linalg.svd(P.T @ Q, compute_uv=False)[:3].sum()
    assert peers.linear_correlations((A, B), (A, B), 0.0, 3) == pytest.approx(expected)
    assert peers.median_distance(np.array([[0.0], [1.0], [4.0]])) == pytest.approx(3)


def test_rows_without_labels(report):
    """So many labels of each class; lines say what was reached."""
    data, lines = (
        importlib.import_module("unsupervised_data"),
        importlib.import_module("unsupervised_lines"),
    )
    y = np.repeat([3, 5], 40)
    marked = data.few_labels(y, 4, seed=0)
    assert np.unique(marked, return_counts=True)[1].tolist() == [72, 4, 4]
    assert (marked[marked >= 0] == y[marked >= 0]).all()
    assert [
        lines.line("fit", "1", [(2.0, 30.4)], reached=r)[2:] for r in (True, None)
    ] == [
        ("2", "30", "", "", "yes", ""),
        ("2", "30", "", "", "", ""),
    ]


WATCHED = """
import time
import numpy as np
import pandas as pd
from scale_watch import begin
rows = np.ones(10**7)
del rows
begin()
rows = np.ones(5 * 10**6)
del rows
print("done", flush=True)
time.sleep(0.5)  # until the highest mark has been read
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_a_watcher_knows_the_peak(report):
    """Of arrays of 80 MB before and 40 MB after the work began, the second counts."""
    watched = importlib.import_module("scale_watch").watched
    found = watched([sys.executable, "-c", WATCHED])
    assert (found.returncode, found.lines) == (0, ["done"])
    assert found.peak - found.base == pytest.approx(40e6, rel=0.05)


def test_fewer_rows_are_the_first_of_more(report, monkeypatch, tmp_path):
    """In whichever files and row groups; those that are there already are not
    written again.
    """
    monkeypatch.setenv("BOCHNER_SCALE_DATA", str(tmp_path))
    data = importlib.import_module("scale_data")
    monkeypatch.setattr(data, "EDGES", (100, 400))
    X, y = data.arrays(data.folder(500))
    written = {path: path.stat().st_mtime_ns for path in data.home().glob("*.parquet")}
    for n in (60, 250):
        fewer, targets = data.arrays(data.folder(n))
        np.testing.assert_array_equal(fewer, X[:n])
        np.testing.assert_array_equal(targets, y[:n])
    assert all(path.stat().st_mtime_ns == written[path] for path in written)
    assert len({*map(bytes, X)}) == 500
    assert np.corrcoef(data.function([*X.T]), y)[0, 1] > 0.9


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_many_rows_of_files_take_little_memory(report, monkeypatch, tmp_path):
    """One pass of 500 features, which would take 1 GB."""
    monkeypatch.setenv("BOCHNER_SCALE_DATA", str(tmp_path))
    data, fit = (
        importlib.import_module("scale_data"),
        importlib.import_module("scale_fit"),
    )
    found, took = fit.fitted(
        fit.Job(str(data.folder(500_000)), sample=50_000, warm=False, n_unseen=10_000)
    )
    assert not took.refused
    assert found.peak - found.base < 0.8e9
    assert took.error < 1


def test_what_the_gpu_is_held_to_is_the_same_ridge_regression(report, monkeypatch):
    """Here both on the processor."""
    pytest.importorskip("torch")
    gpu = importlib.import_module("gpu")
    for name, value in {
        "DEVICE": "cpu",
        "EXACT_ROWS": 3000,
        "UNSEEN": 100,
        "COLUMNS": 5,
        "FEATURES": 40,
    }.items():
        monkeypatch.setattr(gpu, name, value)
    monkeypatch.setattr(gpu, "LENGTHSCALE", 2.0)
    errors = [float(row.measured) for row in gpu.accuracy.__wrapped__()]
    assert len(errors) == 2
    assert max(errors) < 1e-6


@pytest.fixture
def data(monkeypatch):
    """The script that makes the tables."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("data")


def test_files_of_tables_are_read_as_they_are_published(data, tmp_path):
    (tmp_path / "census").write_text(
        "|1x3 Cross validator\n25, Private, 226802, 11th, 7, Never-married, "
        "Machine-op-inspct, Own-child, Black, Male, "
        "0, 0, 40, United-States, <=50K.\n18, ?, 103497, Some-college, 10, "
        "Never-married, ?, Own-child, White, Female, "
        "0, 0, 30, United-States, >50K.\n\n"
    )
    rows = data.census(tmp_path / "census", 1)
    assert rows["target"].tolist() == ["<=50K", ">50K"]
    assert rows["workclass"].tolist() == ["Private", "?"]
    assert rows["age"].tolist() == [25, 18]
    (tmp_path / "a9a").write_text("-1 3:1 5:1 \n+1 1:1\n")
    rows = data.libsvm(tmp_path / "a9a", 5)
    assert rows.to_numpy().tolist() == [[0, 0, 1, 0, 1, -1], [1, 0, 0, 0, 0, 1]]
    assert data.both(rows, rows[:1])["split"].tolist() == ["train", "train", "test"]


def test_the_checksum_of_a_table_is_of_its_values(data):
    rows = pd.DataFrame({"a": [1, 2, 3], "b": [0.5, 0.1, -1.5], "c": ["x", "y", "x"]})
    own = data.digest(rows)
    same = pd.DataFrame(
        {
            "C": rows["c"].astype("category"),
            "A": ["1", "2", "3"],
            "B": rows["b"].astype("float32"),
        }
    )
    assert data.digest(same) == own
    assert data.digest(rows[::-1]) != own
    for name, value in {"a": 4, "b": 0.6, "c": "z"}.items():
        other = rows.copy()
        other.loc[1, name] = value
        assert data.digest(other) != own


def test_a_table_that_cannot_be_had_does_not_stop_the_others(
    data, tmp_path, monkeypatch, capsys
):
    rows = pd.DataFrame({"x": [1, 2, 3], "target": ["a", "b", "a"]})

    def missing():
        raise OSError("no such host")

    monkeypatch.setattr(
        data,
        "SOURCES",
        {"gone": missing, "here": lambda: rows, "other": lambda: rows[::-1]},
    )
    monkeypatch.setattr(
        data, "DIGESTS", dict.fromkeys(("here", "other"), data.digest(rows))
    )
    monkeypatch.setattr(sys, "argv", ["data", str(tmp_path / "folder")])
    assert data.main() == 1
    said = capsys.readouterr()
    assert "gone: not made. OSError: no such host" in said.err
    assert "here: 3 rows, 2 columns, as in docs/benchmarks" in said.out
    assert "other: 3 rows, 2 columns; values or their order differ" in said.out
    assert f"export BOCHNER_DATA={tmp_path / 'folder'}" in said.out
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == [
        "here.parquet",
        "other.parquet",
    ]
