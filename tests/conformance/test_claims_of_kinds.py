"""The suite keeps the problems of a kind that a solver claims and always refuses."""

from dualflow import Kind
from dualflow.solvers.smo import SMO
from dualflow.testing import zoo
from dualflow.testing.bench import Bench


class Refusing(SMO):
    def mismatch(self, problem):
        return "no simplex" if problem.kind is Kind.SIMPLEX else super().mismatch(problem)


def test_a_kind_that_is_always_refused_stays_claimed():
    kinds = {problem.kind for problem in Bench(Refusing(), list(zoo()), 1, 1.0).claimed}
    assert Kind.SIMPLEX in kinds
    assert kinds == {problem.kind for problem in Bench(SMO(), list(zoo()), 1, 1.0).claimed}
