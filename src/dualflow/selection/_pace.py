"""Whether one kernel matrix for all folds is quicker than a fit a fold, estimated beforehand and watched on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import thread_time

__all__ = ["SlowerError", "Watch", "shared_gain"]

#: Nanoseconds an entry of the matrix takes: made and rounded to float32, for each feature, and in each product with
#: the multipliers of a fold. Least values of a processor of 2020 with one thread.
ENTRY_NS, FEATURE_NS, PRODUCT_NS = 6.0, 0.3, 1.0
#: Products for each C beside those of the folds: of the model of all points, whose steps the folds begin with.
SEED_PRODUCTS = 4
#: Seconds a problem takes in calls.
PROBLEM_S = 2e-4
#: Folds whose fits take as long as the models of all points.
SEED_FOLDS = 3
#: How many times the estimate, which is a least one, fits a fold must take for the shared matrix to be tried; and how
#: many times as many as where it was tried and lost. Of the searches of `benchmarks/classical/search_tables.py` those
#: above the first number (1.36 and more) take 0.4 to 0.8 of the time, and those below it (at most 1.0) 1.0 to 1.3.
TRIED_FROM, AGAIN_FROM = 1.3, 3.0
#: What the shared matrix may take before it has paid, as a part of what fits a fold would take for all that is left.
ALLOWED = 0.1


def shared_gain(expected: Sequence[float], points: int, variables: int, features: int, folds: int, pairs: int) -> float:
    """How many times the least time over one matrix the fits one by one take, less the models of all points.

    Parameters
    ----------
    expected : sequence of float
        Processor seconds of a fit to one fold for each C.
    points, variables, features, folds, pairs : int
        Of the data; variables of a dual of all points; folds that are left; and pairs of classes.
    """
    costs = len(expected)
    products = costs * (SEED_PRODUCTS + folds) / max(1, pairs)
    entries = 1e-9 * points * variables * (ENTRY_NS + FEATURE_NS * features + PRODUCT_NS * products)
    least = entries + PROBLEM_S * costs * (folds + 1) * pairs
    return sum(expected) * max(folds - SEED_FOLDS, 0) / least


class SlowerError(Exception):
    """Raised between pieces of work when fits a fold would be quicker."""


class Watch:
    """Hold what the shared matrix takes against what fits a fold would have taken for the same answers.

    Parameters
    ----------
    expected : sequence of float
        Processor seconds of a fit to one fold, with its values on the test rows, for each C.
    folds : int
        Folds that are left.
    check : callable
        Called first, whenever this is; may raise.
    """

    def __init__(self, expected: Sequence[float], folds: int, check: Callable[[], None]) -> None:
        self.expected, self.check = expected, check
        self.allowed = ALLOWED * sum(expected) * folds
        self.began = thread_time()

    def __call__(self) -> None:
        """Raise `SlowerError` if the shared matrix is behind by more than it is allowed."""
        self.check()
        if thread_time() - self.began > self.allowed:
            raise SlowerError

    def done(self, number: int, folds: float) -> None:
        """Book the answers of so many folds for a C."""
        self.allowed += self.expected[number] * folds
