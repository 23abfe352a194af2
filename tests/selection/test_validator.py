"""Candidates fitted on some rows and judged on others: against direct solutions."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import log_expit
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_squared_error

import exact
from bochner import (
    BinningFeatures,
    ConcatenatedFeatures,
    FourierFeatures,
    KernelMachineClassifier,
)
from bochner.kernels import Gaussian, Laplacian
from bochner.selection.budget import Budget
from bochner.selection.policy import POLICY
from bochner.selection.report import Candidate, Report
from bochner.selection.validation import Validator, are_mixed

FIT, OUT = 250, 90
MIXTURES, SLOPES = POLICY.mixtures, np.array(POLICY.slopes)
FOURIER = FourierFeatures(Gaussian(2.0), 40, random_state=0)
BINS = BinningFeatures(Laplacian(8.0), 30, random_state=1)
OUTPUTS = pytest.mark.parametrize("K", [1, 3])


def rows(K=1, classes=False, weighted=False, sparse=False):
    """Rows to fit and rows to validator by, as (X, y, weight)."""
    rng = np.random.default_rng(K)
    X = rng.standard_normal((FIT + OUT, 3)).astype(np.float32)
    y = np.sin(X @ rng.uniform(0.3, 1.0, (3, K))) + 0.1 * rng.standard_normal(
        (len(X), K)
    )
    y = np.where(y > 0.2, 1.0, -1.0) if classes else 10 * y + 50
    weight = rng.integers(1, 5, len(X)).astype(float) if weighted else np.ones(len(X))
    X = sp.csr_array(X) if sparse else X
    return (X[:FIT], y[:FIT], weight[:FIT]), (X[FIT:], y[FIT:], weight[FIT:])


def trials_on(K=1, classes=False, weighted=False, sparse=False):
    return Validator(*rows(K, classes, weighted, sparse), classes, seed=0)


def features_of(features, X, X_out):
    """Features of the rows to fit and of those to validator by, in double precision."""
    fitted = features.fit(X.astype(float))
    Z, Z_out = fitted.transform(X.astype(float)), fitted.transform(X_out.astype(float))
    return (Z.toarray(), Z_out.toarray()) if sp.issparse(Z) else (Z, Z_out)


def standardised(y, weight):
    """With the mean and the deviation of the rows to fit."""
    mean = np.average(y, axis=0, weights=weight)
    return mean, np.sqrt(np.average((y - mean) ** 2, axis=0, weights=weight))


def unscaled(validator, predicted):
    """Predictions in the units of the targets."""
    return predicted * validator.deviation + validator.mean


class TestTargets:
    @pytest.mark.parametrize("weighted", [False, True])
    @OUTPUTS
    def test_are_standardised(self, K, weighted):
        (X, y, weight), (X_out, y_out, weight_out) = rows(K, weighted=weighted)
        validator = Validator((X, y, weight), (X_out, y_out, weight_out), False, seed=0)
        mean, deviation = standardised(y, weight)
        np.testing.assert_allclose(
            validator.y, (y - mean) / deviation, rtol=1e-12, atol=1e-12
        )
        np.testing.assert_allclose(
            validator.y_out, (y_out - mean) / deviation, rtol=1e-12, atol=1e-12
        )
        np.testing.assert_allclose(
            unscaled(validator, validator.y_out), y_out, rtol=1e-12
        )

    def test_classes_keep_their_unit(self):
        validator = trials_on(3, classes=True)
        (_, y, _), _ = rows(3, classes=True)
        np.testing.assert_allclose(
            validator.y, y - y.mean(axis=0), rtol=1e-12, atol=1e-12
        )

    def test_a_constant_target(self):
        (X, _, weight), out = rows()
        validator = Validator((X, np.full((FIT, 1), 3.0), weight), out, False, seed=0)
        np.testing.assert_array_equal(validator.y, 0)
        np.testing.assert_array_equal(unscaled(validator, np.zeros((2, 1))), 3)


class TestLosses:
    @pytest.mark.parametrize("weighted", [False, True])
    @OUTPUTS
    def test_squares(self, K, weighted):
        fit, out = rows(K, weighted=weighted)
        validator = Validator(fit, out, False, seed=0)
        F = np.random.default_rng(5).standard_normal((K, OUT))
        losses = validator.losses(F)
        np.testing.assert_allclose(
            losses, ((validator.y_out - F.T) ** 2).sum(axis=1), rtol=1e-12
        )
        _, deviation = standardised(fit[1], fit[2])
        predicted = unscaled(validator, F.T)
        parts = mean_squared_error(
            out[1] / deviation,
            predicted / deviation,
            sample_weight=out[2],
            multioutput="raw_values",
        )
        assert validator.average(losses) == pytest.approx(parts.sum(), rel=1e-10)
        assert validator.average(validator.final_losses(predicted.T)) == pytest.approx(
            parts.sum(), rel=1e-10
        )

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("size", [0.01, 1.0, 100.0])
    @OUTPUTS
    def test_logistic(self, K, weighted, size):
        """That of the best slope: weak scores are to be read as steeper ones."""
        fit, out = rows(K, classes=True, weighted=weighted)
        validator = Validator(fit, out, True, seed=0)
        f = size * (out[1] + 0.8 * np.random.default_rng(5).standard_normal((OUT, K)))
        each = [-log_expit(slope * f * out[1]).sum(axis=1) for slope in SLOPES]
        means = [np.average(losses, weights=out[2]) for losses in each]
        best = int(np.argmin(means))
        assert best in {0.01: [len(SLOPES) - 1], 1.0: [1, 2, 3, 4, 5], 100.0: [0]}[size]
        found = validator.losses((f - validator.mean).T)
        np.testing.assert_allclose(found, each[best], rtol=1e-6, atol=1e-9)
        assert validator.average(found) == pytest.approx(min(means), rel=1e-6)
        assert validator.average(validator.final_losses(f.T)) == pytest.approx(
            min(means), rel=1e-6
        )

    def test_standard_error(self):
        """Of the mean of independent losses; whole weights are not repetitions of a
        row, but shares of the mean.
        """
        losses = np.random.default_rng(0).exponential(size=OUT)
        plain = trials_on()
        assert plain.mean_and_error(losses)[1] == pytest.approx(
            losses.std() / np.sqrt(OUT), rel=1e-10
        )
        assert plain.mean_and_error(np.ones(OUT))[1] == pytest.approx(0, abs=1e-12)
        weight = trials_on(weighted=True).weight_out
        shares = weight / weight.sum()
        expected = np.sqrt(
            (shares**2 * (losses - np.average(losses, weights=weight)) ** 2).sum()
        )
        assert trials_on(weighted=True).mean_and_error(losses)[1] == pytest.approx(
            expected, rel=1e-10
        )


class LastStep(Validator):
    """Trials in which a later step is always better."""

    calls = 0

    def losses(self, F):
        self.calls += 1
        return np.full(OUT, -float(self.calls))


@pytest.mark.parametrize("weighted", [False, True])
@OUTPUTS
class TestIterate:
    @pytest.fixture(autouse=True)
    def patient(self, policy):
        policy(patience=1000)

    @pytest.mark.parametrize("features", [FOURIER, BINS], ids=["fourier", "bins"])
    def test_converges_to_the_direct_solution(self, K, weighted, features):
        validator = LastStep(*rows(K, weighted=weighted), False, seed=0)
        judged = validator.iterate(features.draw(3), np.array([[3.0]]), 60)
        Z, Z_out = features_of(features, validator.X, validator.X_out)
        coef, intercept = exact.ridge(Z, validator.y, 3.0, validator.weight)
        np.testing.assert_allclose(
            judged.predicted, Z_out @ coef + intercept, atol=1e-4
        )

    def test_a_penalty_for_each_map(self, K, weighted):
        validator = LastStep(*rows(K, weighted=weighted), False, seed=0)
        features = ConcatenatedFeatures([FOURIER, BINS], weights=[1.0, 1.0]).draw(3)
        judged = validator.iterate(features, np.array([[2.0, 20.0]]), 100)
        # A penalty of 20 is one of 2 on features that are smaller by sqrt(10).
        parts = [
            features_of(one, validator.X, validator.X_out) for one in (FOURIER, BINS)
        ]
        Z, Z_out = (
            np.hstack([fourier, bins / np.sqrt(10)])
            for fourier, bins in zip(*parts, strict=True)
        )
        coef, intercept = exact.ridge(Z, validator.y, 2.0, validator.weight)
        np.testing.assert_allclose(
            judged.predicted, Z_out @ coef + intercept, atol=1e-4
        )

    @pytest.mark.parametrize("features", [FOURIER, BINS], ids=["fourier", "bins"])
    def test_losses_are_those_of_what_is_predicted(self, K, weighted, features):
        """Side by side, the ridge penalties do what each does alone, and the best of
        them is told.
        """
        validator = trials_on(K, weighted=weighted)

        def of(*penalties):
            return validator.iterate(
                features.draw(3), np.array(penalties)[:, np.newaxis], 12
            )

        both, alone = of(3000.0, 3.0), of(3.0)
        assert validator.average(alone.losses) < validator.average(of(3000.0).losses)
        np.testing.assert_array_equal(both.penalty, [3.0])
        np.testing.assert_allclose(both.predicted, alone.predicted, atol=1e-5)
        np.testing.assert_allclose(
            both.losses,
            ((validator.y_out - both.predicted) ** 2).sum(axis=1),
            rtol=1e-4,
            atol=1e-6,
        )
        # Sampled rows precondition so well that the first step is as good as the
        # second.
        assert both.n_iter == alone.n_iter or features is FOURIER
        assert both.seconds > 0

    def test_the_best_step_is_told(self, K, weighted):
        """Of a tiny ridge penalty on other rows, whose loss rises again: no later
        one, and what was predicted then.
        """
        validator = trials_on(K, weighted=weighted)

        def after(steps):
            return validator.iterate(BINS.draw(3), np.array([[1e-4]]), steps)

        runs = [after(steps) for steps in (1, 3, 60)]
        means = [validator.average(run.losses) for run in runs]
        assert means == sorted(means, reverse=True)
        assert runs[0].n_iter == 1
        assert runs[-1].n_iter < 60
        best = after(runs[-1].n_iter)
        assert best.n_iter == runs[-1].n_iter
        np.testing.assert_array_equal(best.predicted, runs[-1].predicted)
        np.testing.assert_allclose(
            best.losses,
            ((validator.y_out - best.predicted) ** 2).sum(axis=1),
            rtol=1e-4,
            atol=1e-6,
        )


def test_a_candidate_is_not_cut_short_at_once():
    """Without any time left it has a sixth of its iterations, as losses after one tell
    less than those of a linear model.
    """
    validator = trials_on()

    def after(steps):
        return validator.iterate(BINS.draw(3), np.array([[1.0]]), steps)

    sixth = after(4)
    assert sixth.n_iter == 4
    validator.budget = Budget(0.0)
    np.testing.assert_array_equal(after(24).losses, sixth.losses)
    assert after(24).n_iter == 4
    assert after(5).n_iter == 1


def test_gives_up_where_nothing_is_gained(monkeypatch, policy):
    """After some steps without a gain worth the while; only the steps that would
    follow are saved.
    """
    validator, seen = trials_on(), []
    losses = Validator.losses
    monkeypatch.setattr(
        Validator, "losses", lambda self, F: seen.append(1) or losses(self, F)
    )
    found = {}
    for patience in (2, 1000):
        seen.clear()
        policy(patience=patience)
        found[patience] = (
            validator.iterate(BINS.draw(3), np.array([[1e-4]]), 60),
            len(seen),
        )
    assert found[2][1] < 60 <= found[1000][1]
    assert found[2][0].n_iter + 2 < 60
    np.testing.assert_allclose(
        found[2][0].losses.mean(), found[1000][0].losses.mean(), rtol=0.05
    )


class TestSolve:
    @pytest.mark.parametrize("weighted", [False, True])
    @OUTPUTS
    def test_is_ridge_regression(self, K, weighted):
        validator = trials_on(K, weighted=weighted)
        Z, Z_out = features_of(FOURIER, validator.X, validator.X_out)
        alphas = np.array([0.1, 1.0, 100.0])
        judged = validator.solve(FOURIER.draw(3), np.empty(0), alphas)
        fits = [
            Ridge(alpha).fit(Z, validator.y, sample_weight=validator.weight)
            for alpha in alphas
        ]
        predicted = [fit.predict(Z_out).reshape(OUT, K) for fit in fits]
        losses = [((one - validator.y_out) ** 2).sum(axis=1) for one in predicted]
        best = int(
            np.argmin([np.average(own, weights=validator.weight_out) for own in losses])
        )
        assert best < 2
        np.testing.assert_array_equal(judged.penalty, alphas[best : best + 1])
        np.testing.assert_allclose(judged.predicted, predicted[best], atol=1e-3)
        np.testing.assert_allclose(judged.losses, losses[best], atol=1e-3)
        assert judged.n_iter == 0
        assert judged.seconds > 0

    def test_shares_of_the_trace(self):
        validator = trials_on()
        Z, _ = features_of(FOURIER, validator.X, validator.X_out)
        judged = validator.solve(FOURIER.draw(3), np.array([1e-3]), None)
        trace = ((Z - Z.mean(axis=0)) ** 2).sum()
        assert judged.penalty[0] == pytest.approx(1e-3 * trace, rel=1e-4)
        assert judged.share == pytest.approx(1e-3)

    def test_classes(self):
        validator = trials_on(2, classes=True)
        judged = validator.solve(FOURIER.draw(3), np.geomspace(1e-6, 1, 5), None)
        np.testing.assert_array_equal(
            judged.losses, validator.losses(judged.predicted.T)
        )
        assert validator.average(judged.losses) < 2 * np.log(2) * 0.7
        assert validator.average(
            validator.final_losses(unscaled(validator, judged.predicted).T)
        ) == pytest.approx(validator.average(judged.losses))

    def test_sparse_rows(self):
        plain, sparse = trials_on(2), trials_on(2, sparse=True)
        one = plain.solve(FOURIER.draw(3), np.array([1e-3]), None)
        other = sparse.solve(FOURIER.draw(3), np.array([1e-3]), None)
        np.testing.assert_allclose(other.predicted, one.predicted, atol=1e-4)


class TestManyOutputs:
    """Of more than 16 of many rows, eight combinations are judged."""

    @pytest.fixture(autouse=True)
    def many_rows(self, policy):
        policy(rows_for_full_learning=0)

    @pytest.mark.parametrize("classes", [False, True])
    def test_are_mixed(self, classes):
        validator = trials_on(20, classes=classes)
        (_, y, weight), (_, y_out, _) = rows(20, classes=classes)
        mean, deviation = standardised(y, weight)
        deviation = np.ones(20) if classes else deviation
        assert validator.y.shape == (FIT, MIXTURES)
        mix = np.linalg.lstsq((y - mean) / deviation, validator.y, rcond=None)[0]
        np.testing.assert_allclose(
            (y - mean) / deviation @ mix, validator.y, atol=1e-10
        )
        np.testing.assert_allclose(
            (y_out - mean) / deviation @ mix, validator.y_out, atol=1e-10
        )
        np.testing.assert_allclose(mix.T @ mix, np.eye(MIXTURES), atol=1e-10)

    def test_are_judged_by_squares(self):
        validator = trials_on(20, classes=True)
        judged = validator.solve(FOURIER.draw(3), np.array([1e-3]), None)
        assert judged.predicted.shape == (OUT, MIXTURES)
        np.testing.assert_allclose(
            judged.losses,
            ((judged.predicted - validator.y_out) ** 2).sum(axis=1),
            rtol=1e-10,
        )
        iterated = validator.iterate(BINS.draw(3), np.array([[1.0]]), 5)
        assert iterated.predicted.shape == (OUT, MIXTURES)

    def test_predictions_of_all_are_judged_as_they_are(self):
        validator = trials_on(20, classes=True)
        _, (_, y_out, _) = rows(20, classes=True)
        F = np.random.default_rng(0).standard_normal((OUT, 20))
        expected = 20 * mean_squared_error(y_out, F)
        assert validator.average(validator.final_losses(F.T)) == pytest.approx(
            expected, rel=1e-10
        )

    def test_sixteen_are_not_mixed(self):
        assert trials_on(16).y.shape == (FIT, 16)


@pytest.mark.parametrize(
    ("n_outputs", "n_rows", "expected"),
    [(16, 10**6, False), (40, 5000, False), (40, 10_000, True), (129, 100, True)],
)
def test_outputs_are_mixed_by_the_number_of_targets(n_outputs, n_rows, expected):
    assert are_mixed(n_outputs, n_rows) == expected


class TestSubsample:
    def test_rows_stay_together(self):
        validator = trials_on(2, weighted=True)
        few = validator.subsample(60)
        assert few.n_rows == 60
        weight = {
            tuple(row): own
            for *row, own in np.column_stack(
                [validator.X, validator.y, validator.weight]
            )
        }
        part = [tuple(row) for row in np.column_stack([few.X, few.y])]
        assert len(set(part)) == 60
        own = np.array([weight[row] for row in part])
        # Drawn with a probability in proportion, so that all count the same
        light = own < own.max() / 2
        np.testing.assert_allclose(few.weight[light], few.weight[light][0])
        assert few.weight.mean() == pytest.approx(validator.weight.mean(), rel=0.2)
        assert few.X_out is validator.X_out
        assert validator.n_rows == FIT

    def test_have_a_mean_of_their_own(self):
        few = LastStep(*rows(2), False, seed=0).subsample(40)
        judged = few.iterate(FOURIER.draw(3), np.array([[3.0]]), 60)
        Z, Z_out = features_of(FOURIER, few.X, few.X_out)
        coef, intercept = exact.ridge(Z, few.y, 3.0)
        np.testing.assert_allclose(
            judged.predicted, Z_out @ coef + intercept, atol=1e-4
        )

    def test_all_of_few(self):
        validator = trials_on()
        assert validator.subsample(FIT) is validator


def test_report_of_candidates():
    assert str(Report()) == ""
    report = Report("log loss", 900, chosen="bins", reason="lowest validation loss")
    long = "random binning, learned lengthscales and linear map"
    lost = "3.0 standard errors worse"
    report.candidates += [
        Candidate(long, 1500, 0.31234, 0.012, 1.5, lost, 0.1, 0.0333),
        Candidate("bins", 100, 0.21234, 0.011, 2.26),
    ]
    report.parts = ["100 grids", "50 Fourier features"]
    assert str(report).splitlines() == [
        "bins: lowest validation loss.",
        "Parts: 100 grids; 50 Fourier features.",
        "       log loss      behind (s.e.)    size  candidate",
        "*        0.2123                        100  bins",
        "         0.3123        0.1 (0.033)   1,500  random binning, learned lengthscales",
        "                                            and linear map",
    ]


def test_the_first_that_is_not_clearly_worse_is_taken():
    """By the standard error of its losses less those of the best one."""
    validator = trials_on()
    each = [
        validator.iterate(BINS.draw(3), np.array([[alpha]]), 12).losses
        for alpha in (30.0, 3.0, 0.3)
    ]
    best = min(each, key=np.mean)
    behind = [
        np.mean(own - best) / (np.std(own - best) / np.sqrt(OUT) or 1.0) for own in each
    ]
    assert behind[0] > behind[1]
    for clear in (0.0, (behind[0] + behind[1]) / 2, behind[0] + 0.1):
        judged = validator.iterate(
            BINS.draw(3), np.array([[30.0], [3.0], [0.3]]), 12, clear
        )
        k = next(k for k in range(3) if behind[k] <= clear)
        np.testing.assert_allclose(judged.losses, each[k], rtol=1e-4, atol=1e-6)
        assert judged.penalty == [30.0, 3.0, 0.3][k]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_loss_of_three_classes_is_of_each_against_the_rest(n_classes):
    X = np.random.default_rng(0).normal(size=(300, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5][: n_classes - 1])
    given = {"features": "binning", "metric": "ard", "n_components": 8}
    report = KernelMachineClassifier(**given, random_state=0).fit(X, y).report_
    name = "log loss" if n_classes == 2 else "one-vs-rest log loss"
    assert report.criterion == name
    head, *candidates = [line for line in str(report).splitlines() if line[0] in " *"]
    assert head.split("  behind")[0].strip() == name
    assert head.index("candidate") == candidates[0].index("random binning")
