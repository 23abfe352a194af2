"""What work costs, the sizes that follow, and the file in which measured costs are kept."""

import dataclasses
import json

import numpy as np
import pytest

from bochner.engines.costs import COSTS, Costs, costs_file, plausible, read_costs
from bochner.planning.measured_costs import write_costs
from bochner.selection.budget import Budget
from bochner.selection.policy import POLICY


@pytest.mark.parametrize(
    ("seconds", "work"),
    [
        (POLICY.gram_seconds, 2e12),
        (POLICY.grown_seconds, 5e12),
        (POLICY.double_seconds, 3e10),
    ],
)
def test_work_for_which_there_is_time(seconds, work):
    """The n D^2 that sizes have always been held to."""
    assert COSTS.gram_work(seconds) == work


def test_features_for_which_there_is_time():
    """The direct solution of as many takes the share of the limit, and that of a tenth more features does not."""
    budget = Budget(10.0)
    D = budget.n_components(0.5, 100_000, 50, 20)
    assert COSTS.direct(100_000, 50, D, 20) <= 5.0 < COSTS.direct(100_000, 50, 1.2 * D, 20)
    assert Budget(1e-9).n_components(0.5, 100_000, 50, 20) == POLICY.n_components[0]
    assert Budget().n_components(0.5, 100_000, 50, 20) == np.inf


def test_rates_do_not_change():
    assert Costs() == COSTS
    assert plausible(COSTS)
    with pytest.raises(dataclasses.FrozenInstanceError):
        COSTS.gram = 1.0


class TestFile:
    def test_is_read_as_it_was_written(self, tmp_path):
        path, costs = tmp_path / "some" / "folder" / "costs.json", Costs(gram=1.25e-11, double=3.5)
        assert read_costs(path) is None
        write_costs(Costs(), path)
        write_costs(costs, path)
        assert read_costs(path) == costs
        assert [one.name for one in path.parent.iterdir()] == ["costs.json"]

    @pytest.mark.parametrize(
        "change",
        [
            {"gram": 0.0},
            {"gram": -5e-12},
            {"gram": float("nan")},
            {"gram": float("inf")},
            {"gram": 1.0},
            {"double": 1e-9},
            {"gram": "fast"},
            {"gram": None},
            {"gram": [5e-12]},
        ],
        ids=str,
    )
    def test_what_cannot_be_right_is_not_taken(self, tmp_path, change):
        path = tmp_path / "costs.json"
        path.write_text(json.dumps(dataclasses.asdict(COSTS) | change))
        assert read_costs(path) is None

    @pytest.mark.parametrize(
        "content", [b"", b"{}", b"[]", b"3", b"\xff\xfe", b"[" * 50_000, b'{"gram": 1e999}', b" " * (1 << 20)], ids=len
    )
    def test_what_is_no_record_is_not_taken(self, tmp_path, content):
        path = tmp_path / "costs.json"
        path.write_bytes(content)
        assert read_costs(path) is None

    def test_is_none_where_none_can_be_written(self, tmp_path):
        (tmp_path / "file").touch()
        path = tmp_path / "file" / "costs.json"
        write_costs(COSTS, path)
        assert read_costs(path) is None

    def test_stands_in_the_folder_of_caches(self, tmp_path, monkeypatch):
        monkeypatch.setattr("sys.platform", "linux")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert costs_file(2).parent == tmp_path / "bochner"
        assert costs_file(2) == costs_file(2) != costs_file(3)
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", str(tmp_path))
        assert costs_file(2).parent == tmp_path / ".cache" / "bochner"
        monkeypatch.setattr("sys.platform", "darwin")
        assert costs_file(2).parent == tmp_path / "Library" / "Caches" / "bochner"
        monkeypatch.setattr("sys.platform", "win32")
        monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "Local"))
        assert costs_file(2).parent == tmp_path / "Local" / "bochner"
