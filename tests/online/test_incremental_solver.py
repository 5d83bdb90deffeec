"""Tests of the incremental engine as a solver: equal bits from a stored state, and refusal of invalid states."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_moons

from dualflow import Gram, Incremental, IncrementalSVC, ProblemError, problems
from dualflow.core.workspace import Workspace

X, T = make_moons(90, noise=0.3, random_state=0)
Y = 2.0 * T - 1
PROBLEMS = {
    "hinge": lambda: problems.svc(Gram(X, gamma=0.8), Y, 3.0),
    "box": lambda: problems.svc(Gram(X, gamma=0.8), Y, 3.0, fit_intercept=False),
    "ball": lambda: problems.svdd(Gram(X, gamma=0.8), 0.2),
}


def opened(name):
    problem = PROBLEMS[name]()
    return Incremental().open(problem, Workspace(problem))


def arrays(state):
    return {name: value for name, value in vars(state.at).items() if isinstance(value, np.ndarray)}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_step_depends_on_the_state_alone_and_changes_no_state(name):
    """Steps from the same state give the same bits, whatever the engine did before, and also in a new engine."""
    solver, context = Incremental(), opened(name)
    states = [solver.start(context, np.random.default_rng(0))]
    while not solver.finished(states[-1]):
        states.append(solver.step(context, states[-1]))
    before = [{name: value.copy() for name, value in arrays(state).items()} for state in states]
    for k in np.random.default_rng(1).permutation(len(states) - 1):
        for other in (context, opened(name)):
            after = solver.step(other, states[k])
            for array, value in arrays(after).items():
                np.testing.assert_array_equal(value, before[k + 1][array])
    for state, kept in zip(states, before, strict=True):
        for array, value in arrays(state).items():
            np.testing.assert_array_equal(value, kept[array])


def broken():
    def changed(name, change):
        def forge(at):
            value = getattr(at, name).copy()
            return replace(at, **{name: change(value)})

        return forge

    def put(index, number):
        def change(value):
            value[index] = number
            return value

        return change

    yield "short", changed("alpha", lambda a: a[:-1])
    yield "long", changed("g", lambda a: np.append(a, 0.0))
    yield "integers", changed("p", lambda a: a.astype(np.int64))
    yield "not a number", changed("inverse", put((0, 0), np.nan))
    yield "nowhere", changed("where", put(0, 99))
    yield "on its way", changed("where", put(0, 4))
    yield "far", changed("members", put(0, 10**9))
    yield "negative", changed("members", put(0, -1))
    yield "twice", changed("members", put(0, 1))
    yield "more members", changed("members", lambda a: np.append(a, 0))
    yield "no inverse", changed("inverse", lambda a: a[:-1, :-1])
    yield "count", changed("counters", put(0, 50))
    yield "entering", changed("counters", put(1, 10**9))
    yield "wanted", changed("counters", put(4, -1))
    yield "figures", changed("figures", lambda a: a[:2])
    yield "d", lambda at: replace(at, d=np.inf)


@pytest.mark.parametrize("forge", [forge for _, forge in broken()], ids=[name for name, _ in broken()])
def test_an_invalid_state_is_refused(forge):
    """Compiled code relies on valid states: a forged checkpoint must not make it leave its arrays."""
    solver, context = Incremental(), opened("hinge")
    state = solver.start(context, np.random.default_rng(0))
    for _ in range(20):
        state = solver.step(context, state)
    assert len(state.at.members) > 3
    with pytest.raises(ProblemError, match="does not fit this problem"):
        solver.step(context, replace(state, at=forge(state.at)))
    assert solver.step(context, state).fed == 42


def test_a_bound_that_cuts_a_correction_short_moves_no_gradient():
    """`polish` sets α to the solution of the margin's system, clipped to the bounds; g must belong to the clipped α."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    model = IncrementalSVC(C=2.0, gamma=1.0).fit(X, X[:, 0] > 0)
    engine = model._streams[0].engine
    S = engine.margin
    assert len(S) > 1
    engine.g[S[0]] += 50.0  # a correction larger than the distance to any bound
    before = engine.matrix.product(engine.alpha) + engine.b * engine.e - engine.g
    engine.polish()
    after = engine.matrix.product(engine.alpha) + engine.b * engine.e - engine.g
    rest = np.setdiff1d(np.arange(engine.n), S)
    np.testing.assert_allclose(after[rest], before[rest], atol=1e-9)
    assert ((engine.alpha[S] == 0) | (engine.alpha[S] == engine.u[S])).any()
