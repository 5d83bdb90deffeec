"""What is drawn of a regularization path."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.datasets import make_moons

from dualflow import SVC, SVR, ProblemError, RegularizationPathDisplay, regularization_path

X, Y = make_moons(40, noise=0.2, random_state=0)


def test_every_breakpoint_is_drawn():
    path = regularization_path(SVC(gamma=1.0), X, Y, C=(0.1, 10.0))
    display = RegularizationPathDisplay.from_path(path, ax=Figure().subplots(2, 1), max_lines=5)
    assert len(display.lines_) == len(display.shown_) == 5
    for k, line in zip(display.shown_, display.lines_, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), path.values)
        np.testing.assert_allclose(line.get_ydata(), [path.alpha(C)[k] / C for C in path.values], atol=1e-12)
    np.testing.assert_array_equal(display.axes_[1].lines[0].get_ydata(), path.n_support)
    assert [axes.get_xscale() for axes in display.axes_] == ["log", "log"]


def test_an_axis_that_begins_at_0_is_linear():
    path = regularization_path(SVR(), X, X[:, 0] ** 2, epsilon=(0.0, 0.5))
    display = RegularizationPathDisplay.from_path(path, ax=Figure().subplots(2, 1))
    assert [axes.get_xscale() for axes in display.axes_] == ["linear", "linear"]
    assert display.axes_[0].get_xlabel() == "ε"


def test_no_lines_are_refused():
    path = regularization_path(SVC(), X, Y, C=(0.1, 1.0))
    with pytest.raises(ProblemError, match="max_lines"):
        RegularizationPathDisplay.from_path(path, max_lines=0)
    with pytest.raises(ProblemError, match="path is int"):
        RegularizationPathDisplay.from_path(5)
