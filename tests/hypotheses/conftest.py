"""What tests by permutation have in common."""

import numpy as np
import pytest

B, DRAWS = 39, 40


class Level:
    """The level of a test by permutation."""

    def __init__(self, monkeypatch):
        self.monkeypatch = monkeypatch

    def is_exact(self, test, combine, draw):
        """Whichever row of the table is that of the rows as they are, each rank comes once, whatever the table is.

        Where the rows of the table are exchangeable, as they are for rows that `draw` makes without an effect, ranks
        are then uniform: their mean over some draws is as it should be within four standard errors.
        """
        module, name = combine.rsplit(".", 1)
        original, tables, found = getattr(__import__(module, fromlist=[name]), name), [], []

        def keep(values, shares):
            tables.append((values.copy(), shares))
            return original(values, shares)

        self.monkeypatch.setattr(combine, keep)
        for seed in range(DRAWS):
            X, Y = draw(np.random.default_rng(seed))
            found.append(test(X, Y, n_permutations=B, n_components=20, random_state=seed).p_value)
        ranks = np.arange(1, B + 2) / (B + 1)
        for values, shares in tables[:3]:
            each = [original(np.roll(values, k, axis=0), shares).p_value for k in range(B + 1)]
            np.testing.assert_allclose(np.sort(each), ranks, rtol=1e-12)
        assert np.isclose(np.reshape(found, (-1, 1)), ranks).any(axis=1).all()
        assert abs(np.mean(found) - ranks.mean()) < 4 * ranks.std() / np.sqrt(DRAWS)


@pytest.fixture
def level(monkeypatch):
    """Checks of the level of a test."""
    return Level(monkeypatch)
