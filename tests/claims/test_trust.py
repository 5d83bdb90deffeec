"""A certificate trusts no solver and no file: a solver that overwrites all it can reach, and forged files, sealed
again, end with the true gap or with an error."""

import functools
import hashlib
import os
from collections import deque
from dataclasses import dataclass, replace
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

import numpy as np
import pytest
from sklearn.base import is_classifier

import dualflow
from dualflow import (
    SMO,
    SVC,
    SVDD,
    SVR,
    EcoSVC,
    EcoSVDD,
    Gram,
    IncrementalSVC,
    IncrementalSVDD,
    IncrementalSVR,
    Kind,
    ProblemError,
    Solver,
    Status,
    problems,
    solve,
)
from dualflow.persistence import container
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


def radial(A, gamma, B=None):
    return np.exp(-gamma * ((A[:, None] - (A if B is None else B)) ** 2).sum(axis=2))


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


@dataclass(frozen=True)
class Astray(SMO):
    """Comes to rest beside the feasible set."""

    name = "astray"

    def alpha(self, state):
        return state.alpha + 0.1


def test_a_certificate_that_is_made_later_is_the_same():
    _, make, _ = CASES["hinge"]
    made = solve(make(), Astray())
    later = replace(made, certified=None, raw_certified=None)
    assert made.certificate.infeasibility > 0.05
    assert made.status is later.status is Status.FINISHED
    for name in ("objective", "relative_gap", "infeasibility", "projection_distance", "bias"):
        assert getattr(later.certificate, name) == getattr(made.certificate, name)
    refined = solve(make(), Astray(), refine=True)
    later = replace(refined, certified=None, raw_certified=None)
    assert later.raw_certificate.infeasibility == made.certificate.infeasibility
    assert later.status is refined.status is Status.OPTIMAL


# --- model files that were forged and sealed again -------------------------------------------------


def labelled(n, seed, classes=2):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    y = np.arange(n) % classes
    return X + 0.7 * np.eye(3)[y], y


X, Y = labelled(40, 1)
TRIPLE, THREE = labelled(45, 2, classes=3)
Z = np.random.default_rng(3).normal(size=(20, 3))
K = (1.0 + X @ X.T) ** 2


def fed(model, *data):
    for part in (slice(0, 25), slice(25, 40)):
        model.partial_fit(*(array[part] for array in data), **({"classes": [0, 1]} if is_classifier(model) else {}))
    return model


#: A fitted model of every kind, each small.
MODELS = {
    "SVC": lambda: SVC(C=2.0, gamma=0.4, random_state=1).fit(X, Y, 1.0 + np.arange(40) % 3),
    "SVC raw": lambda: SVC(gamma=0.4, random_state=1, solver="smo", refine=False, max_steps=1).fit(X, Y),
    "SVC penalised": lambda: SVC(C=2.0, gamma=0.4, random_state=1, fit_intercept="penalised").fit(X, Y),
    "SVC squared hinge": lambda: SVC(kernel="linear", loss="squared_hinge", random_state=1).fit(X, Y),
    "SVC hard": lambda: SVC(C=np.inf, gamma=3.0, random_state=1).fit(X, Y),
    "SVC precomputed": lambda: SVC(C=2.0, kernel="precomputed", random_state=1).fit(K, Y),
    "SVC of three": lambda: SVC(gamma=0.4, random_state=1, decision_function_shape="ovo").fit(TRIPLE, THREE),
    "SVDD": lambda: SVDD(nu=0.2, gamma=0.4, random_state=1).fit(X),
    "SVDD hard": lambda: SVDD(nu=None, kernel="linear", random_state=1).fit(X),
    "SVDD precomputed": lambda: SVDD(nu=0.2, kernel="precomputed", random_state=1).fit(K),
    "SVR": lambda: SVR(C=2.0, gamma=0.4, random_state=1).fit(X, np.sin(X[:, 0]), 1.0 + np.arange(40) % 3),
    "SVR linear": lambda: SVR(kernel="linear", epsilon=0.3, random_state=1).fit(X, X[:, 0] ** 2),
    "EcoSVC": lambda: fed(EcoSVC(C=2.0, gamma=0.4, n_init=10, reserve=5), X, Y),
    "EcoSVDD": lambda: fed(EcoSVDD(nu=0.2, gamma=0.4, n_init=10, reserve=5), X),
    "IncrementalSVC": lambda: fed(IncrementalSVC(C=2.0, gamma=0.4), X, Y),
    "IncrementalSVDD": lambda: fed(IncrementalSVDD(nu=0.2, gamma=0.4), X),
    "IncrementalSVR": lambda: fed(IncrementalSVR(C=2.0, gamma=0.4), X, np.sin(X[:, 0])),
}


def kernel_of(gram, A):
    """Kernel values between A and a Gram's points, by numpy, of its parameters alone."""
    if gram.kernel == "precomputed":
        return A
    return radial(A, gram.gamma, gram.X) if gram.kernel == "rbf" else A @ gram.X.T


def written_out(problem):
    """The numbers of a problem, and the points its variables belong to."""
    idx = np.arange(problem.n) if problem.idx is None else problem.idx
    plain = kernel_of(problem.gram, problem.gram.X)[np.ix_(idx, idx)] + problem.offset
    Q = problem.scale * np.outer(problem.sigma, problem.sigma) * plain + np.diag(problem.ridge)
    upper = np.minimum(problem.upper, problem.d) if problem.d > 0 else problem.upper
    return QuadraticProgram(Q, problem.p, upper, problem.e, problem.d, problem.total), idx


def parts_of(model):
    """Problem, α and certificate of each part of a model."""
    if hasattr(model, "_communities"):
        parts = [(model._pose(c.X, c.sign, c.cap, c.seen), c.alpha) for c in model._communities]
    elif hasattr(model, "_streams"):
        parts = [(stream.problem(), stream.alpha()) for stream in model._streams]
    else:
        for solution in model.solutions_:
            best = solution.status is Status.OPTIMAL
            assert best == (solution.certificate.relative_gap <= solution.tol)
            raw = dualflow.certify(solution.problem, solution.raw_alpha)
            assert solution.raw_certificate.relative_gap == pytest.approx(raw.relative_gap, rel=1e-6, abs=1e-9)
        assert model.fit_status_ == int(any(s.status is not Status.OPTIMAL for s in model.solutions_))
        return [(solution.problem, solution.alpha, solution.certificate) for solution in model.solutions_]
    return [(*part, certificate) for part, certificate in zip(parts, model.certificates_, strict=True)]


def bound_at(program, alpha, nu):
    rho = program.Q @ alpha - program.p - (0.0 if program.e is None else nu * program.e)
    return nu * program.d + np.where(rho < 0, program.upper * rho, 0.0).sum() - 0.5 * alpha @ program.Q @ alpha


def check_honesty(model):
    """All that a model says of itself and all that it predicts, against the numbers of its problems alone."""
    values = []
    for k, (problem, alpha, certificate) in enumerate(parts_of(model)):
        program, idx = written_out(problem)
        assert problem.infeasibility(alpha) <= 2e-6 * alpha.sum()
        quadratic, size = float(alpha @ program.Q @ alpha), max(abs(program.objective(alpha)), 1e-12)
        assert certificate.objective == pytest.approx(program.objective(alpha), abs=2e-6 * size)
        finite = np.isfinite(program.upper).all()
        # The multiplier of a model that is not optimal is no better known than its α.
        slack = (2e-6 + min(1.0, certificate.relative_gap) ** 0.5) * size
        if finite:
            assert certificate.relative_gap == pytest.approx(true_gap(program, alpha)[1], abs=2e-6)
        assert certificate.relative_gap >= 0
        new = K if problem.gram.kernel == "precomputed" else Z
        weights = np.bincount(idx, problem.sigma * alpha, minlength=problem.gram.n)
        if problem.scale == 2.0:  # a ball: offset_ = −R² = ν − αᵀKα
            distances = quadratic / 2.0 - 2.0 * kernel_of(problem.gram, new) @ weights
            distances += np.ones(len(new)) if problem.gram.kernel == "rbf" else np.diag(new @ new.T)
            if problem.gram.kernel == "precomputed":
                continue
            own = np.diag(program.Q) / 2 + quadratic / 2 - program.Q @ alpha
            if np.isinf(problem.upper).all():
                assert -model.offset_ == pytest.approx(own.max(), rel=1e-9)
            else:
                assert bound_at(program, alpha, model.offset_ + quadratic / 2) >= certificate.lower_bound - slack
            assert model.radius_**2 == pytest.approx(-model.offset_, rel=1e-9)
            np.testing.assert_allclose(model.decision_function(new), -model.offset_ - distances, atol=1e-9)
            continue
        intercept = float(np.atleast_1d(getattr(model, "intercept_", 0.0))[k])
        if problem.model == "squared_hinge":
            weights = weights / quadratic
            assert intercept == pytest.approx(problem.offset * weights.sum(), rel=1e-9)
        elif problem.e is None:
            assert intercept == pytest.approx(problem.offset * weights.sum(), rel=1e-9, abs=1e-12)
        elif finite:
            assert bound_at(program, alpha, -intercept) >= certificate.lower_bound - slack
        else:  # a hard margin: no point comes nearer than 1
            margins = problem.sigma * (kernel_of(problem.gram, problem.gram.X) @ weights + intercept)
            assert certificate.relative_gap >= 1 - 1 / margins.min() ** 2 - 1e-9 if margins.min() < 1 else True
        values.append(kernel_of(problem.gram, new) @ weights + intercept)
    if values:
        predicted = model.predict(new) if hasattr(model, "epsilon") else model.decision_function(new)
        ours = np.column_stack(values)
        np.testing.assert_allclose(predicted, ours[:, 0] if ours.shape[1] == 1 else ours, atol=1e-7)


@pytest.mark.parametrize("name", MODELS)
def test_what_models_say_of_themselves_is_so(name, tmp_path):
    model = MODELS[name]()
    check_honesty(model)
    model.save(tmp_path / "model")
    check_honesty(dualflow.load(tmp_path / "model"))


#: What is done to arrays and numbers.
CHANGES = {
    "halved": lambda a: 0.5 * a,
    "a little more": lambda a: a * (1 + 1e-4),
    "negated": lambda a: -a,
    "rolled": lambda a: np.roll(a, 1, axis=0),
    "one of them": lambda a: np.where(np.arange(a.size).reshape(a.shape) == np.abs(a).argmax(), 1.5 * a + 1, a),
}
WORDS = ["OPTIMAL", "FINISHED", "BROKEN", "NOT_SEPARABLE", "hinge", "squared_hinge", "svdd", "linear", "rbf"]
#: What is computed from points and α: whatever else a file says of these must be refused.
COMPUTED = {
    "dual_coef_",
    "pair_coef",
    "intercept_",
    "support_",
    "n_support_",
    "radius_",
    "offset_",
    "_center_square",
    "_constant_diag",
    "solve.alpha",
    "community.0.alpha",
    "community.0.h",
    "stream0_alpha",
    "stream0_g",
    "stream0_p",
    "stream0_columns",
    "stream0_members",
    "stream0_where",
    "streams.0.d",
}


def leaves(value, path=()):
    if isinstance(value, (dict, list)) and value:
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], (*path, key))
    else:
        yield path, value


def put(value, path, new):
    """A copy of nested facts with another leaf."""
    if not path:
        return new
    other = value.copy()
    other[path[0]] = put(value[path[0]], path[1:], new)
    return other


def forgeries(header, arrays):
    """Names of what is forged, header and arrays."""
    for name, array in arrays.items():
        if array.dtype.kind not in "fi" or not array.size:
            continue
        for how, change in CHANGES.items():
            forged = change(array).astype(array.dtype)
            if not np.array_equal(forged, array):
                yield f"{name} {how}", header, arrays | {name: forged}
    for path, value in leaves(header["facts"]):
        others = [word for word in WORDS if word != value] if isinstance(value, str) else []
        if isinstance(value, bool):
            others = [not value]
        elif isinstance(value, (int, float)):
            others = [0.5 * value, -value, value + 1, 0 * value, 1e6, 1e300, None]
        for other in others:
            if other != value or type(other) is not type(value):
                told = header | {"facts": put(header["facts"], path, other)}
                yield f"{'.'.join(map(str, path))} {other}", told, arrays


#: Models whose files have no kind of part that the file of another model here lacks.
ALIKE = {"SVC penalised", "SVC hard", "SVC precomputed", "SVC raw", "SVC squared hinge", "SVC of three"}
ALIKE |= {"SVDD hard", "SVR linear"}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in ALIKE else name for name in MODELS]
)
def test_whatever_is_forged_in_a_model_file_it_ends_with_the_true_gap_or_an_error(name, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    path = tmp_path / "model"
    MODELS[name]().save(path)
    header, arrays = container.read(path, 1 << 30)
    accepted, refused = set(), 0
    for what, told, forged in forgeries(header, arrays):
        container.write(path, told, forged)
        try:
            model = dualflow.load(path)
        except ProblemError:
            refused += 1
        else:
            accepted.add(what)
            check_honesty(model)
    assert refused > len(arrays)
    assert {what for what in accepted if what.split()[0] in COMPUTED} == set()
    assert not [what for what in accepted if "ended" in what and what.split()[1] in ("BROKEN", "NOT_SEPARABLE")]


def test_an_engine_finds_its_way_with_a_forged_inverse(tmp_path):
    path, more = tmp_path / "model", labelled(30, 9)
    for change in CHANGES.values():
        fed(IncrementalSVC(C=2.0, gamma=0.4), X, Y).save(path)
        header, arrays = container.read(path, 1 << 30)
        arrays["stream0_inverse"] = np.tril(change(arrays["stream0_inverse"]))
        container.write(path, header, arrays)
        model = dualflow.load(path).partial_fit(*more)
        check_honesty(model)
        assert model.certificate_.relative_gap <= 1e-9
        # One that says that it is fresh would not be looked after.
        container.write(path, header, arrays | {"stream0_counters": fresh(arrays["stream0_counters"])})
        with pytest.raises(ProblemError, match="inverse"):
            dualflow.load(path)


def test_a_problem_cannot_be_forged_together_with_its_gradient(tmp_path):
    path = tmp_path / "model"
    fed(IncrementalSVC(C=2.0, gamma=0.4), X, Y).save(path)
    header, arrays = container.read(path, 1 << 30)
    p = 0.5 * arrays["stream0_p"]
    container.write(path, header, arrays | {"stream0_p": p, "stream0_g": arrays["stream0_g"] + p})
    with pytest.raises(ProblemError, match="its p contradicts"):
        dualflow.load(path)


def fresh(counters):
    changed = counters.copy()
    changed[3] = 0
    return changed
