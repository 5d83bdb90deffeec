"""A certificate trusts nobody: a solver that overwrites all it can reach, and files forged and sealed again, end with
the true gap, or with an error."""

import functools
import hashlib
from collections import deque
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

import numpy as np
import pytest

from dualflow import Gram, Kind, Solver, Status, problems, solve
from dualflow.problems import READINGS
from dualflow.testing.reference import QuadraticProgram, coneqp_optimum

# --- a solver that overwrites ----------------------------------------------------------------------

#: Code is code: who writes to functions and classes can as well write another `certify`.
_CODE = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
_PLAIN = (type(None), bool, int, float, str, bytes, np.generic, np.dtype)


class Vandal:
    """Walks through attributes, ``__dict__``s, slots, containers and arrays, and puts something else everywhere.

    "garbage" is of the right type at best; "cunning" is plausible: all numbers halved, all evidence favourable.
    """

    def __init__(self, manner):
        self.manner, self.seen, self.written = manner, {}, 0

    def visit(self, thing):
        if isinstance(thing, (*_CODE, *_PLAIN)) or id(thing) in self.seen:
            return
        self.seen[id(thing)] = thing
        if isinstance(thing, np.ndarray):
            self.visit(thing.base)
            self.spoil(thing)
        elif isinstance(thing, dict):
            self.each(list(thing.items()), functools.partial(dict.__setitem__, thing))
        elif isinstance(thing, (list, deque)):
            self.each(list(enumerate(thing)), thing.__setitem__)
        elif isinstance(thing, (tuple, set, frozenset)):
            self.each([(None, item) for item in thing])
        elif isinstance(thing, np.random.Generator):
            thing.random(3)
        else:
            slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
            parts = {name: getattr(thing, name) for name in slots if hasattr(thing, name)} | getattr(
                thing, "__dict__", {}
            )
            self.each(list(parts.items()), functools.partial(object.__setattr__, thing))
            self.each(list(parts.items()), getattr(thing, "__dict__", {}).__setitem__)

    def each(self, items, write=None):
        for key, item in items:
            self.visit(item)
            if write is not None:
                try:
                    write(key, self.instead_of(item))
                    self.written += 1
                except (AttributeError, TypeError, ValueError):
                    pass  # it may be protected

    def instead_of(self, item):
        cunning = self.manner == "cunning"
        if isinstance(item, bool):
            return cunning
        if isinstance(item, (int, float)):
            return 0.5 * item if cunning else -7
        if isinstance(item, str):
            return "by kernel" if cunning else "garbage"
        return item if cunning else None

    def spoil(self, array):
        for write in (
            lambda: setattr(array.flags, "writeable", True),
            lambda: array.__setitem__(..., 0.5 * array if self.manner == "cunning" else 100),
            lambda: setattr(array, "shape", (*array.shape, 1)),
            lambda: setattr(array, "dtype", np.dtype("u1")),
        ):
            try:
                with np.errstate(all="ignore"):
                    write()
                self.written += 1
            except (AttributeError, TypeError, ValueError):
                pass


@dataclass(frozen=True)
class HostileState:
    alpha: np.ndarray
    steps: int


@dataclass(frozen=True)
class Hostile(Solver):
    """Overwrites everything within reach whenever it is asked anything, and hands out one array again and again."""

    manner: str = "garbage"

    name = "hostile"
    state_type = HostileState
    kinds = frozenset(Kind)
    needs_psd = False

    def mismatch(self, problem):
        _REACHED.append(problem)
        return

    def open(self, problem, workspace):
        # What a run keeps as it goes: all there is to be forged must be there.
        _PLAN[:] = plan(problem)
        workspace.dense(), workspace.matvec(_PLAN[0]), workspace.psd, workspace.gram.kept_row(0), workspace.gram.full()
        workspace.gram.sum_rows(np.arange(2), np.ones(2), np.float32)
        _REACHED.extend([problem, workspace])
        self.vandalise()
        return {"problem": problem, "workspace": workspace}

    def start(self, context, rng, warm=None):
        _REACHED.extend([context, rng, warm])
        self.vandalise()
        return HostileState(_PLAN[0].copy(), 0)

    def step(self, context, state):
        self.vandalise()
        steps = state.steps + 1
        _REACHED.append(state)
        return HostileState(_PLAN[steps].copy(), steps)

    def alpha(self, state):
        self.vandalise()
        if len(_BUFFER) != len(state.alpha):
            _BUFFER.resize(len(state.alpha), refcheck=False)
        _BUFFER[:] = state.alpha
        return _BUFFER

    def finished(self, state):
        return state.steps >= 3

    def cost(self, context, state):
        self.vandalise()
        _BUFFER[:] = 0.0
        return {}

    def vandalise(self):
        for thing in list(_REACHED):
            vandal = Vandal(self.manner)
            vandal.visit(thing)
            _WRITTEN.append(vandal.written)


#: What hostile solvers have in hand, how much they wrote, what they are to answer, and the array they answer with.
_REACHED, _WRITTEN, _PLAN, _BUFFER = [], [], [], np.zeros(0)


def plan(problem):
    """The states of a hostile run: feasible, and none of them optimal."""
    return [problem.project(np.linspace(0.0, 1.0, problem.n) * (1 + 0.3 * k)) for k in range(4)]


@pytest.fixture
def hands():
    """Empty hands before and after; and names of enumerations, which are the program's, are put back."""
    members = [*Kind, *Status]
    names = [dict(vars(member)) for member in members]
    _REACHED.clear(), _WRITTEN.clear()
    yield
    _REACHED.clear()
    for member, own in zip(members, names, strict=True):
        vars(member).clear()
        vars(member).update(own)


class Callable:
    """A kernel with attributes."""

    def __init__(self, gamma):
        self.gamma, self.memory = gamma, [np.array([gamma])]

    def __call__(self, A, B):
        return np.exp(-float(self.memory[0][0]) * ((A[:, None] - B) ** 2).sum(axis=2))


def radial(X, gamma):
    return np.exp(-gamma * ((X[:, None] - X) ** 2).sum(axis=2))


def cases():
    """Problems, each with its numbers written out by numpy."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(30, 3))
    y = np.where(np.arange(30) % 2, 1.0, -1.0)
    K, gamma, ones = radial(X, 0.4), 0.4, np.ones(30)
    yKy = y[:, None] * K * y
    weight = rng.uniform(0.5, 2.0, 30)
    yield (
        "hinge",
        X,
        lambda: problems.svc(Gram(X, gamma=gamma), y, 2.0, sample_weight=weight),
        QuadraticProgram(yKy, ones, 2.0 * weight, y, 0.0),
    )
    yield (
        "callable kernel",
        X,
        lambda: problems.svc(Gram(X, Callable(gamma)), y, 2.0),
        QuadraticProgram(yKy, ones, 2 * ones, y, 0.0),
    )
    yield (
        "squared hinge",
        X,
        lambda: problems.svc(Gram(X, gamma=gamma), y, 2.0, loss="squared_hinge"),
        QuadraticProgram(yKy + np.outer(y, y) + 0.25 * np.eye(30), 0 * ones, ones, ones, 1.0),
    )
    yield (
        "ball",
        X,
        lambda: problems.svdd(Gram(X, gamma=gamma), 0.2),
        QuadraticProgram(2 * K, ones, ones / 6, ones, 1.0),
    )
    yield (
        "no bias, precomputed",
        K,
        lambda: problems.svc(Gram.precomputed(K), y, 2.0, fit_intercept=False),
        QuadraticProgram(yKy, ones, 2 * ones, None),
    )


CASES = {name: (X, make, program) for name, X, make, program in cases()}


def true_gap(program, alpha):
    """Absolute and relative gap of a feasible α, by the best of the dual bounds at all breakpoints."""
    h = program.Q @ alpha - program.p
    knots = [0.0] if program.e is None else h * program.e
    e = np.zeros(len(h)) if program.e is None else program.e
    bounds = [nu * program.d + np.minimum(0.0, program.upper * (h - nu * e)).sum() for nu in knots]
    value, bound = program.objective(alpha), max(bounds) - 0.5 * alpha @ program.Q @ alpha
    return value - bound, (value - bound) / max(abs(value), abs(bound))


def digest(problem, X):
    """Of all that a problem says, and of what the package shares between problems."""
    found = hashlib.sha256()
    arrays = [X, problem.gram.X, problem.gram.center, problem.gram.squares, problem.gram.diag()]
    arrays += [problem.p, problem.lower, problem.upper, problem.e, problem.sigma, problem.ridge, problem.idx]
    for array in arrays:
        found.update(b"-" if array is None else f"{array.shape} {array.dtype}".encode() + array.tobytes())
    gram = problem.gram
    found.update(repr([gram.gamma, gram.degree, gram.coef0, gram.n, gram.reach, sorted(vars(gram))]).encode())
    found.update(repr([problem.d, problem.scale, problem.offset, problem.reading, sorted(vars(problem))]).encode())
    found.update(repr([repr(reading) for reading in READINGS.values()]).encode())
    found.update(gram.block([0, 1], [2, 3]).tobytes())
    return found.hexdigest()


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("manner", ["garbage", "cunning"])
@pytest.mark.parametrize("name", CASES)
def test_a_solver_that_overwrites_all_it_reaches_ends_with_the_true_gap(name, manner, refine, hands):
    X, make, program = CASES[name]
    problem = make()
    optimum, _ = coneqp_optimum(program)
    states = plan(problem)
    end, before = states[-1], digest(problem, X)
    warm = states[0].copy()
    solution = solve(problem, Hostile(manner), refine=refine, trajectory=True, warm=warm)
    assert sum(_WRITTEN) > 1000  # it did get at something
    assert digest(problem, X) == before
    np.testing.assert_array_equal(warm, states[0])
    assert solution.problem is problem
    np.testing.assert_array_equal(solution.raw_alpha, end)
    raw = solution.raw_certificate
    assert (raw.gap, raw.relative_gap) == pytest.approx(true_gap(program, end), rel=1e-9)
    assert raw.objective == pytest.approx(program.objective(end), rel=1e-9)
    assert raw.relative_gap > 1e-3  # there is something to lie about
    assert solution.raw_status is Status.FINISHED
    gaps = [true_gap(program, alpha)[1] for alpha in states]
    assert len(set(np.round(gaps, 6))) == 4
    np.testing.assert_allclose(solution.trajectory.gap, gaps, rtol=1e-9)
    np.testing.assert_array_equal(solution.trajectory.alpha, states)
    if refine:
        assert solution.certificate.objective == pytest.approx(optimum, rel=1e-7)
        _, relative = true_gap(program, solution.alpha)
        assert solution.certificate.relative_gap == pytest.approx(relative, abs=1e-9)
        assert solution.status is Status.OPTIMAL
    else:
        assert solution.certificate is raw
    # Later problems are none the worse for it.
    assert solve(make(), refine=True).certificate.objective == pytest.approx(optimum, rel=1e-7)


@pytest.mark.parametrize("manner", ["garbage", "cunning"])
def test_what_is_known_of_the_spectrum_cannot_be_written_to(manner, hands):
    K = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    problem = problems.svc(Gram.precomputed(K), [1, -1, 1], C=1.0)
    solution = solve(problem, Hostile(manner))
    assert solution.certificate.gap is None
    assert solution.certificate.psd.kind == problem.psd.kind == "indefinite"
    assert solution.status is Status.STATIONARY
