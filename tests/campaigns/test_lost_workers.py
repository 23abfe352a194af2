"""A short slice of the campaign of lost workers."""

import pytest

pytest.importorskip("distributed")

import lost_workers

pytestmark = [
    pytest.mark.filterwarnings("ignore:resource_tracker:UserWarning"),
    pytest.mark.filterwarnings("ignore:Port .* is already in use:UserWarning"),
]


@pytest.mark.slow
def test_results_that_are_late(client, tmp_path):
    """Those of killed workers take too long for a slice."""
    with lost_workers.streams(tmp_path) as folder:
        found = {"moments": lost_workers.undisturbed("moments", folder, client)}
        case, wrong, _ = lost_workers.trial(0, ["results late"], folder, client, found)
    assert not wrong, f"{case}: {wrong}"
    assert not any(lost_workers.scheduler_keeps(client).values())


def test_what_is_none_of_the_known_ends():
    """An end is wrong if there are other bits, another error than one of the engine,
    or none at all.
    """

    def refused():
        raise KeyError("x")

    assert lost_workers.end(lambda: "a", lambda: None, 0, "a") == ""
    assert lost_workers.end(lambda: "b", lambda: None, 0, "a") == "other bits"
    assert lost_workers.end(refused, lambda: None, 0, "a") == "KeyError: 'x'"
