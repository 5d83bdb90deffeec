"""A few quick cases, and all others slow."""

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import Any

import pytest


def covering(*axes: Sequence[Any], together: int = 2) -> list[Any]:
    """All combinations of the axes' values, marked slow but for some in which every `together` values occur together.

    With ``together=2`` each value of one axis meets each value of every other axis in a quick case (pairwise testing);
    with ``together=1`` each value occurs in one.
    """
    cases = list(product(*(range(len(axis)) for axis in axes)))

    def met(case: tuple[int, ...]) -> set[tuple[tuple[int, int], ...]]:
        return set(combinations(enumerate(case), together))

    missing, quick = set().union(*map(met, cases)), set()
    while missing:
        best = max(cases, key=lambda case: len(met(case) & missing))
        quick.add(best)
        missing -= met(best)
    return [
        pytest.param(
            *(axis[k] for axis, k in zip(axes, case, strict=True)), marks=() if case in quick else pytest.mark.slow
        )
        for case in cases
    ]


def often(cases: Iterable[Any], *quick: Any) -> list[Any]:
    """All cases, marked slow but for the quick ones; a tuple holds the values of several arguments."""
    cases = list(cases)
    assert all(case in cases for case in quick), "a quick case is none of the cases"
    return [
        case if case in quick else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for case in cases
    ]
