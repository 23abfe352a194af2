"""Rows are split once, candidates compared, and a model chosen that knows no rows."""

import ast
import dataclasses
from pathlib import Path

import numpy as np
import pytest

import bochner.tuning
from bochner.data.hashes import row_hashes
from bochner.data.sources import ArraySource
from bochner.tuning.budget import Budget
from bochner.tuning.candidates import ROUNDS
from bochner.tuning.choose import choose
from bochner.tuning.comparison import Comparison, Entry, Proposal
from bochner.tuning.judge import Trial
from bochner.tuning.policy import POLICY, Policy
from bochner.tuning.problem import SearchSpace, prepare
from bochner.tuning.split import rows_held_out, split

PACKAGE = Path(bochner.tuning.__file__).parent


def rows(n=400, copies=1):
    rng = np.random.default_rng(0)
    X = np.tile(rng.standard_normal((n, 3)).astype(np.float32), (copies, 1))
    return X, np.sin(2 * X[:, :1]) + X[:, 1:2] + 0.1 * rng.standard_normal((len(X), 1))


def problem_of(classes=False, budget=None, **space):
    X, y = rows()
    y = np.where(y > 0, 1.0, -1.0) if classes else y
    return prepare(ArraySource(X, y), np.arange(3), None, SearchSpace(**space), classes, 0, budget or Budget())


class TestSplit:
    def test_every_row_is_fitted_or_judges(self):
        X, y = rows()
        found = split(ArraySource(X, y), 20, 0)
        np.testing.assert_array_equal(found.held_out, rows_held_out(row_hashes(X), np.ones(400), 0))
        np.testing.assert_array_equal(found.out.X, X[found.held_out])
        np.testing.assert_array_equal(found.fit.X, X[~found.held_out])
        assert (found.n_rows, found.n_solved, found.row_weight, found.largest_weight) == (400, 400, 1.0, 1.0)

    def test_many_repeats_are_one(self):
        X, y = rows(300, copies=3)
        found = split(ArraySource(X, y), 20, 0)
        fitted = 900 - found.held_out.sum()
        assert found.fit.n_rows == fitted / 3
        np.testing.assert_array_equal(found.fit.weights, 3)
        assert found.out.n_rows == found.held_out.sum()
        assert found.row_weight == 3

    def test_weights_are_measured_by_the_largest(self):
        X, y = rows()
        weight = np.random.default_rng(1).uniform(0, 8, 400)
        weight[:50] = 0
        found = split(ArraySource(X, y, weight), 20, 0)
        assert found.largest_weight == weight.max()
        assert not found.held_out[:50].any()
        np.testing.assert_allclose(found.fit.weights * found.largest_weight, weight[50:][~found.held_out[50:]])

    def test_too_few_rows(self):
        X, y = rows()
        assert split(ArraySource(X, y), 400, 0) is None
        assert split(ArraySource(X[:1].repeat(400, axis=0), y), 2, 0) is None

    def test_a_million_are_enough(self, policy):
        policy(most_fitted=100)
        X, y = rows()
        found = split(ArraySource(X, y), 20, 0)
        assert found.fit.n_rows == 100
        assert found.n_solved == 400


class TestProblem:
    def test_does_not_change(self):
        with pytest.raises(dataclasses.FrozenInstanceError):
            problem_of().seed = 1
        with pytest.raises(dataclasses.FrozenInstanceError):
            POLICY.clear = 1.0

    def test_equal_targets(self):
        X, _ = rows()
        found = prepare(ArraySource(X, np.ones((400, 1))), np.arange(3), None, SearchSpace(), False, 0, Budget())
        assert found is None

    def test_one_clock(self):
        texts = {path.name: path.read_text() for path in PACKAGE.rglob("*.py")}
        readers = [name for name, text in texts.items() if "perf_counter" in text or "CLOCK" in text]
        assert readers == ["budget.py"]

    def test_every_constant_says_what_it_is(self):
        lines = (PACKAGE / "policy.py").read_text().splitlines()
        fields = [line for line in lines if line.startswith("    ") and ": " in line and " = " in line]
        assert len(fields) == len(dataclasses.fields(Policy))
        assert all("  # " in line for line in fields)

    def test_every_constant_is_used(self):
        used = {
            node.attr
            for path in PACKAGE.parent.rglob("*.py")
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "POLICY"
        }
        assert used == {field.name for field in dataclasses.fields(Policy)}


def entry(name, rank, losses):
    return Entry(name, rank, 10, [], Trial(np.asarray(losses), np.ones(1), 1, np.zeros((len(losses), 1)), 0.1))


class TestDecision:
    @pytest.mark.parametrize(("classes", "chosen"), [(False, "large"), (True, "small")])
    def test_within_the_noise(self, classes, chosen):
        """The simplest for classes, the one of most parts for numbers; the middle one is best by next to nothing."""
        compared = Comparison(problem_of(classes))
        noise = np.random.default_rng(0).standard_normal((2, len(compared.judge.weight_out)))
        near = [
            ("small", 0, 5 + noise[0]),
            ("middle", 1, 5 + noise[1] - noise[1].mean() - 0.01),
            ("large", 2, 5 - noise[0]),
        ]
        near[0] = ("small", 0, near[0][2] - noise[0].mean())
        near[2] = ("large", 2, near[2][2] + noise[0].mean())
        compared.entries += [entry(*one) for one in near]
        found, reason = compared.decide()
        assert found.name == chosen
        assert reason == "within the noise of the least loss on the rows held out, that of middle, and preferred"

    def test_the_least_loss(self):
        compared = Comparison(problem_of())
        base = np.random.default_rng(0).uniform(1, 2, len(compared.judge.weight_out))
        compared.entries += [entry("good", 0, base), entry("bad", 5, base + 1)]
        assert compared.decide()[0].name == "good"
        assert str(compared.report("good", "why")).startswith("good: why.")

    def test_what_is_far_behind_is_not_fitted(self):
        compared = Comparison(problem_of())
        n, fitted = len(compared.judge.weight_out), []
        trials = [
            entry("first", 0, np.full(n, 1.0)),
            entry("near", 1, np.full(n, 1.1)),
            entry("far", 2, np.full(n, 1.2)),
        ]

        def proposal(trial):
            return Proposal(lambda: fitted.append(trial.name) or trial, trial)

        compared.fit([proposal(trial) for trial in trials])
        assert fitted == ["first", "near"]
        assert [one.name for one in compared.entries] == ["first", "near", "far"]


def test_there_are_six_candidates():
    names = [type(candidate).__name__ for candidates in ROUNDS for candidate in candidates]
    assert len(set(names)) == len(names) == 6


@pytest.mark.parametrize("features", ["fourier", "binning"])
def test_the_model_knows_no_rows(features):
    problem = problem_of(features=features, metric="ard", n_components=20)
    model, verdict = choose(problem)
    assert not any(len(value) == 400 for value in vars(model).values() if isinstance(value, np.ndarray))
    assert not hasattr(model.features, "n_features_in_")
    assert verdict.split is problem.split
    assert (verdict.predictions is None) == (features == "fourier")
    targets = problem.judge.targets
    assert verdict.losses(targets.T).max() < 1e-12
