"""The iteration over the rows whose bounds a sample leaves undetermined: the same answers as over all rows."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from dualflow import SVC, Gram, Workspace, problems, solve
from dualflow.interior.low_rank import LowRank
from dualflow.interior.reduced import MIN_POINTS, MIN_POINTS_RELAXED, Reduced, can_reduce, can_sample
from dualflow.solvers.registry import make_solver
from tests.golden.cases import data

N = MIN_POINTS + 800
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 4))
VALUES = X[:, 0] - 0.5 * X[:, 1] + RNG.normal(size=N)
LABELS = np.where(VALUES > 0.3, 1, -1)
WEIGHT = np.where(np.arange(N) % 5 == 0, 0.0, RNG.random(N) + 0.2)
GRAM = Gram(X + 5.0, "linear")
POSED = {
    "hinge": lambda: problems.svc(GRAM, LABELS, 1.0),
    "hinge, C = 1e4": lambda: problems.svc(GRAM, LABELS, 1e4),
    "hinge, weights": lambda: problems.svc(GRAM, LABELS, 2.0, sample_weight=WEIGHT),
    "hinge, no bias": lambda: problems.svc(GRAM, LABELS, 2.0, fit_intercept=False),
    "hinge, bias in the kernel": lambda: problems.svc(GRAM, LABELS, 2.0, fit_intercept="penalised"),
    "rare class": lambda: problems.svc(GRAM, np.where(VALUES > 3.5, 1, -1), 1.0),
    "tube": lambda: problems.svr(GRAM, VALUES, 1.0, epsilon=0.1),
    "one class": lambda: problems.one_class(GRAM, 0.3),
    "soft ball": lambda: problems.svdd(GRAM, 0.2),
}


def forms(problem):
    """How many variables each step is about."""
    solver = make_solver("interior-point")
    context = solver.open(problem.centred(), Workspace(problem.centred()))
    state, sizes = solver.start(context, None), []
    while not state.done:
        state = solver.step(context, state)
        sizes.append(len(state.within) or problem.n)
    return context, sizes


@pytest.mark.parametrize("name", POSED)
def test_answers_are_those_of_all_rows(name, monkeypatch):
    problem = POSED[name]()
    found = solve(problem, "interior-point")
    monkeypatch.setattr("dualflow.solvers.interior_point.can_reduce", lambda problem: False)
    other = solve(problem, "interior-point")
    assert found.certificate.within(1e-9)
    size = abs(other.certificate.objective)
    assert found.certificate.objective == pytest.approx(other.certificate.objective, abs=1e-9 * size)
    assert found.bias == pytest.approx(other.bias, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", ["hinge", "hinge, C = 1e4", "tube"])
def test_most_steps_are_about_few_rows(name):
    context, sizes = forms(POSED[name]())
    assert isinstance(context, Reduced)
    assert max(sizes[:-1]) < 0.5 * sizes[-1]
    assert sum(sizes) < 0.6 * 15 * sizes[-1]  # over all rows there are 15 steps and more


def test_where_a_sample_tells_nothing_its_rows_carry_the_weights_alone():
    """A rare class whose weights cannot pull the plane: all other points are on their margins, and w = 0."""
    labels = np.where(np.arange(N) % 500 == 0, 1, -1)
    problem = problems.svc(GRAM, labels, 1.0)
    solution, sizes = solve(problem, "interior-point"), forms(problem)[1]
    assert solution.certificate.within(1e-9)
    assert solution.certificate.objective == pytest.approx(-2.0 * np.sum(labels > 0), rel=1e-9)
    assert max(sizes[:-1]) < 0.5 * sizes[-1]


def test_what_cannot_be_reduced():
    few = problems.svc(Gram(X[: MIN_POINTS_RELAXED - 1], "linear"), LABELS[: MIN_POINTS_RELAXED - 1], 1.0)
    assert can_reduce(POSED["hinge"]())
    assert not can_reduce(problems.svc(GRAM, LABELS, 1.0, loss="squared_hinge"))
    assert not can_reduce(few)
    assert can_sample(N, 4)
    assert not can_sample(N, 500)
    assert not can_sample(MIN_POINTS - 1, 4)
    assert isinstance(forms(few)[0], LowRank)


def test_without_a_sample_variables_near_their_bounds_are_left_out():
    """The first steps are about all variables, the last ones about few, and the answer is that of all rows."""
    problem = problems.svc(Gram(X[:4000], "linear"), LABELS[:4000], 1.0)
    context, sizes = forms(problem)
    assert isinstance(context, Reduced)
    assert sizes[0] == sizes[-1] == 4000
    assert min(sizes) < 400
    assert solve(problem, "interior-point").certificate.within(1e-12)


def test_what_was_left_out_too_early_does_not_start_the_run_again_and_again():
    """Blobs far apart, where seven of 2000 points support the plane: few variables near their bounds stay there."""
    points, labels = data("blobs", 3000, 5, 3)
    two = labels < 2
    solution = solve(problems.svc(Gram(points[two], "linear"), 2 * labels[two] - 1, 1.0), "interior-point")
    assert solution.certificate.within(1e-12)
    assert solution.cost.steps <= 100


def test_variables_that_were_left_out_wrongly_join_again():
    """A state whose largest multipliers are at the wrong bounds: a pass over all rows finds them."""
    problem = problems.svc(Gram(X[:4000], "linear"), LABELS[:4000], 1.0).centred()
    context = make_solver("interior-point").open(problem, Workspace(problem))
    state = context.start(None)
    while len(state.within) == 0:
        state = context.step(state)
    fixed = np.setdiff1d(np.arange(problem.n), state.within)[:50]
    wrong = state.rest.copy()
    wrong[fixed] = problem.upper[fixed] - wrong[fixed]
    rows = context.all_rows.weighted_rows(wrong)
    state = replace(state, rest=wrong, within=state.within.copy(), fixed_rows=rows)
    while not state.done:
        state = context.step(state)
    reference = solve(problem, "interior-point").alpha
    np.testing.assert_allclose(state.alpha, reference, atol=1e-9)


def test_a_run_over_few_rows_resumes_to_the_bit(tmp_path):
    problem, path = POSED["hinge"](), tmp_path / "run"
    whole = solve(problem, "interior-point")
    for steps in (4, 16):
        solve(problem, "interior-point", checkpoint=path, max_steps=steps)
    resumed = solve(problem, "interior-point", checkpoint=path)
    np.testing.assert_array_equal(resumed.alpha, whole.alpha)


@pytest.mark.slow
def test_a_linear_fit_of_many_rows_holds_little_more_than_its_copy_of_them():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 50))
    y = X @ rng.normal(size=50) + 4.0 * rng.normal(size=len(X)) > 0
    SVC(kernel="linear").fit(X[:2000], y[:2000])
    tracemalloc.start()
    try:
        SVC(kernel="linear").fit(X, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= 1.85 * X.nbytes  # 1.5 of a million rows, of which a smaller part is undetermined


def test_a_memory_map_is_fitted_like_the_array_in_it(tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    one, other = SVC(kernel="linear").fit(X, LABELS), SVC(kernel="linear").fit(mapped, LABELS)
    np.testing.assert_array_equal(one.coef_, other.coef_)


@pytest.mark.parametrize("features", [1, 4])
def test_support_vectors_are_copied_when_they_are_read(features):
    model = SVC(kernel="linear", C=0.1).fit(X[:3000, :features] + 3.0, LABELS[:3000])
    support = model._vectors
    assert "gram" not in vars(support)
    center, values = support.center, model.decision_function(X[:50, :features])
    np.testing.assert_array_equal(center, support.gram.center)
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_, :features] + 3.0)
    np.testing.assert_array_equal(model.decision_function(X[:50, :features]), values)


def test_weights_of_a_solver_are_tried_where_alpha_alone_leaves_a_gap():
    ordinary = solve(problems.svc(GRAM, LABELS, 1.0), "interior-point")
    assert ordinary.certificate.within(1e-12)
    assert ordinary.certificate.primal is None
    apart = Gram(X[:3000] * [1.0, 1.0, 1.0, 1e9], "linear")
    solution = solve(problems.svc(apart, LABELS[:3000], 1.0), "interior-point")
    assert solution.certificate.primal is not None
    assert solution.certificate.within(1e-9)
