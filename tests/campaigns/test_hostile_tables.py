"""A short slice of the campaign of hostile tables."""

import hostile_tables
import pytest


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    return folder, hostile_tables.usual_model(folder)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_slice(usual, first):
    for seed in range(first, first + 20):
        case, verdict = hostile_tables.judge(seed, *usual)
        assert not verdict.wrong, f"{case}: {verdict.wrong}"
