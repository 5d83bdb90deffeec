"""Rules of options: the values they allow, their messages, and that they are checked."""

from dataclasses import dataclass

import numpy as np
import pytest

from dualflow import ProblemError
from dualflow.core.options import Flag, Number, OneOf, check_fields, option

WHOLE = Number(at_least=1, whole=True, none=True)


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        (Number(), -1e300),
        (Number(above=0), 1e-300),
        (Number(above=0, infinite=True), np.inf),
        (Number(above=0, at_most=1), 1),
        (Number(at_least=0, below=1), 0.0),
        (Number(at_least=0), np.float32(0.5)),
        (WHOLE, np.int64(3)),
        (WHOLE, None),
        (Number(at_least=1, whole=True, words=("adaptive",)), "adaptive"),
        (OneOf(words=("tree", "grid")), "grid"),
        (OneOf(words=("tree",), none=True), None),
        (Flag(), False),
        (Flag(), np.True_),
        (Flag(none=True), None),
    ],
)
def test_what_is_in_range_comes_back_as_plain_python(rule, value):
    found = rule.check("x", value)
    assert found is None or type(found) in (int, float, bool, str)
    assert found == value or (found is None and value is None)


@pytest.mark.parametrize("rule", [Number(above=0), Number(above=0, infinite=True)])
def test_an_integer_that_no_float_holds_is_no_number(rule):
    with pytest.raises(ProblemError, match=r"x=1000.* must be a"):
        rule.check("x", 10**400)
    assert Number(whole=True).check("x", 10**400) == 10**400


@pytest.mark.parametrize(
    ("rule", "value", "message"),
    [
        (Number(), np.nan, "x=nan must be a finite number"),
        (Number(above=0), 0, "x=0 must be a finite number > 0"),
        (Number(above=0), True, "x=True must be a finite number > 0"),
        (Number(above=0, infinite=True), np.nan, "x=nan must be a number > 0"),
        (Number(above=0), np.inf, "x=inf must be a finite number > 0"),
        (Number(above=0, at_most=1), 1.5, "x=1.5 must be a finite number > 0 and ≤ 1"),
        (Number(at_least=0, below=1), 1, "x=1 must be a finite number ≥ 0 and < 1"),
        (WHOLE, 1.0, "x=1.0 must be an integer ≥ 1, or None"),
        (WHOLE, "3", "x='3' must be an integer ≥ 1, or None"),
        (Number(at_least=1, whole=True, words=("adaptive",), none=True, note="for exact"), 0,
         "x=0 must be an integer ≥ 1, 'adaptive', or None for exact"),
        (Number(above=0, note="seconds"), -1, "x=-1 must be a finite number > 0 seconds"),
        (OneOf(words=("tree", "grid")), "tee", "x='tee' is not one of 'tree', 'grid'"),
        (OneOf(words=("tree",), none=True), ["tree"], "x=['tree'] is not one of 'tree', None"),
        (Flag(), 1, "x=1 must be True or False"),
        (Flag(none=True), "yes", "x='yes' must be True, False, or None"),
    ],
)  # fmt: skip
def test_what_is_not_is_an_error_that_says_the_rule(rule, value, message):
    with pytest.raises(ProblemError) as error:
        rule.check("x", value)
    assert str(error.value) == message


def test_fields_are_held_against_their_rules():
    @dataclass(frozen=True)
    class Options:
        steps: int | None = option(None, WHOLE)
        free: str = "anything"

        def __post_init__(self):
            check_fields(self)

    assert Options(3, "x").steps == 3
    with pytest.raises(ProblemError, match="steps=0 must be an integer ≥ 1"):
        Options(0)
