"""Methods under their old names: they warn, and do what the new ones do."""

import numpy as np
import pytest

from dualflow import Gram, Reading, Status, problems

PROBLEM = problems.svc(Gram([[0.0], [1.0], [2.0]]), [-1, 1, 1], C=2.0)


def test_old_names_of_a_problem_warn_and_work():
    with pytest.warns(FutureWarning, match=r"DualProblem.within is now with_upper"):
        tighter = PROBLEM.within(np.full(3, 0.5))
    np.testing.assert_array_equal(tighter.upper, 0.5)
    with pytest.warns(FutureWarning, match="write frozen_copy"):
        assert PROBLEM.value() is PROBLEM


def test_old_names_of_a_reading_warn_and_work():
    reading = PROBLEM.reading
    with pytest.warns(FutureWarning, match="is_translatable"):
        assert reading.moves(PROBLEM) is True
    with pytest.warns(FutureWarning, match="linear_term"):
        np.testing.assert_array_equal(reading.price(PROBLEM, PROBLEM.gram), PROBLEM.p)
    with pytest.warns(FutureWarning, match="weight_divisor"):
        assert reading.unit(PROBLEM, 1.0, None) == 1.0


def test_an_override_by_an_old_name_is_used_with_a_warning():
    with pytest.warns(FutureWarning, match="Halved.unit is now weight_divisor; rename the method"):

        class Halved(Reading):
            def unit(self, problem, quadratic, multiplier):
                return 2.0

    assert Halved().weight_divisor(PROBLEM, 1.0, None) == 2.0


def test_the_old_name_of_a_status_is_the_same_status():
    assert Status.DROWNED is Status.NOISE_DOMINATED is Status["DROWNED"]
    assert Status.DROWNED.name == "NOISE_DOMINATED"
