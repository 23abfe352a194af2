import matplotlib.pyplot as plt
import numpy as np
import pytest

from bochner.display import WaterfallDisplay
from bochner.explanations import Explanation

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(40, 12)) * np.arange(12, 0, -1)
DATA = np.array(
    [[f"town {i % 3}", *row] for i, row in enumerate(RNG.normal(size=(40, 11)))], object
)
NAMES = tuple(f"column {j}" for j in range(12))
ONE = Explanation(
    VALUES, np.float64(3.0), DATA, NAMES, ("prediction",), "unit of the target", 100
)
SEVERAL = Explanation(
    np.stack([VALUES, -VALUES], axis=2),
    np.array([1.0, 2.0]),
    DATA,
    NAMES,
    ("low", "high"),
    "log-odds",
    100,
)


def test_steps_lead_from_the_base_to_the_prediction():
    display = ONE.plot(3, max_columns=4)
    bars = display.bars_.patches
    assert len(bars) == 5
    assert bars[-1].get_x() == pytest.approx(3.0)
    first = max(range(5), key=lambda k: abs(bars[k].get_width()) * (k < 4))
    assert first == 0
    assert bars[0].get_x() + bars[0].get_width() == pytest.approx(ONE.predictions[3])
    assert display.names[-1] == "8 others"
    plt.close("all")


def test_swarms_are_of_the_largest_columns_and_do_not_overlap():
    display = ONE.plot(max_columns=5)
    top = [name for name, _ in ONE.top_columns(5)]
    assert [label.get_text() for label in display.axes_[0].get_yticklabels()] == top
    for j, points in enumerate(display.points_):
        x, y = np.asarray(points.get_offsets()).T
        assert np.array_equal(np.sort(x), np.sort(VALUES[:, NAMES.index(top[j])]))
        assert np.abs(y - j).max() < 0.5
    plt.close("all")


def test_steps_of_a_row_have_signs():
    steps = WaterfallDisplay(["a", "b", "2 others"], [0.25, -12345.0, 0.0], 1.0)
    texts = [text.get_text() for text in steps.plot().ax_.texts]
    assert texts == ["+0.25", "-12,345", "0"]
    plt.close("all")


def test_one_of_several_outputs_is_named():
    assert "high" in SEVERAL.plot(0, output="high").title
    assert np.array_equal(
        SEVERAL.plot(output=1).values, SEVERAL.plot(output="high").values
    )
    with pytest.raises(ValueError, match=r"several outputs: .* of low, high"):
        SEVERAL.plot()
    with pytest.raises(ValueError, match=r"no output 'middle': .* one of low, high"):
        SEVERAL.plot(output="middle")
    plt.close("all")
