"""Tests of hypotheses on random features: whether two samples differ, and whether two tables depend on each other."""

from bochner.hypotheses.independence import independence_test
from bochner.hypotheses.result import HypothesisTest
from bochner.hypotheses.two_sample import two_sample_test

__all__ = ["HypothesisTest", "independence_test", "two_sample_test"]
