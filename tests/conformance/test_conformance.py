"""Every solver the registry knows passes the public test kit, with no list of solvers kept here."""

import importlib
import sys
import textwrap

import pytest

import dualflow
from dualflow.solvers.registry import solver_class, solver_names
from dualflow.testing import check_solver, zoo
from dualflow.testing.bench import Bench


def _reason_to_skip(name):
    try:
        missing = solver_class(name).missing()
    except dualflow.SolverUnavailable as error:
        return str(error)
    return f"{name!r} needs {', '.join(missing)}, which is not installed" if missing else None


def _is_study(name):
    return _reason_to_skip(name) is None and solver_class(name).maturity == "study"


#: Points of the largest problems that .ci/run checks a quantum solver on, on circuits or with shots, and on the
#: emulator; .ci/long takes all of them, and studies.
SMALL, EMULATED = 8, 16
#: Seconds each with `EMULATED` points, over the same code as with `SMALL` ones.
EXPENSIVE = (
    "hamiltonian-dilation",
    "hamiltonian-lchs",
    "hamiltonian-schrodingerisation",
    "variational-lotka-volterra",
)
#: The one that .ci/run also checks on circuits: an exact emulator computes the same distributions at a tenth of Aer's
#: price, and tests/quantum compare the two for every family. .ci/long checks all on their own devices.
ON_CIRCUITS = "variational-flow"
#: Hundreds of thousands of circuits, or new ones of up to 16 qubits at each step, which Aer runs one by one.
ON_THE_EMULATOR = ("variational-dqc", "quantum-interior-point")


def _runs():
    for name in solver_names():
        study = _is_study(name)
        quantum = not study and _reason_to_skip(name) is None and solver_class(name).quantum
        if quantum:
            yield pytest.param(name, "emulator", SMALL if name in EXPENSIVE else EMULATED, id=f"{name}-emulated")
        if name == ON_CIRCUITS:
            yield pytest.param(name, None, SMALL, id=f"{name}-small-on-circuits")
        slow = (pytest.mark.slow, pytest.mark.timeout(1500)) if study or quantum else ()
        device = "emulator" if name in ON_THE_EMULATOR else None
        yield pytest.param(name, device, None, id=name, marks=slow)


@pytest.mark.parametrize(("name", "device", "max_n"), list(_runs()))
def test_solver_conforms(name, device, max_n):
    if reason := _reason_to_skip(name):
        pytest.skip(reason)
    solver = name if device is None else solver_class(name)(device=device)
    # A study takes minutes (pytest -m slow): on a busy machine one may cut its hardest runs off.
    report = check_solver(solver, max_n=max_n, time_limit_s=300 if _is_study(name) else 60)
    assert report.problems
    assert set(report.gaps) <= set(report.problems)


def _sampled_solver_names():
    """Quantum solvers that are called solvers; a study may end farther from the optimum than its shots."""
    installed = [solver_class(name) for name in solver_names() if _reason_to_skip(name) is None]
    return [cls.name for cls in installed if cls.quantum and cls.maturity == "solver"]


#: The one small problem on which averages of counts that are not taken show.
SHOWS_AVERAGES = "equality with d = 1"


def _two_a_kind(solver):
    """Of the small problems, those that the kit's checks of behaviour take, and what else tells something of counts."""
    bench = Bench(solver, zoo(max_n=SMALL), seeds=21, time_limit_s=60.0)
    more = [z for z in bench.claimed if not z.has_answer or z.name == SHOWS_AVERAGES]
    return [*bench.two_a_kind, *more]


#: Five seconds to half a minute even on the small problems. Their own tests in tests/quantum/solvers compare sampled
#: answers with the shot floor in every run.
SLOW_FROM_COUNTS = (
    "hamiltonian-dilation",
    "hamiltonian-lchs",
    "hamiltonian-schrodingerisation",
    "quantum-invasion",
    "variational-lotka-volterra",
)


def _sampled_runs():
    for name in _sampled_solver_names():
        marks = pytest.mark.slow if name in SLOW_FROM_COUNTS else ()
        yield pytest.param(name, _two_a_kind, id=f"{name}-small", marks=marks)
        yield pytest.param(name, lambda solver: None, id=f"{name}-all", marks=pytest.mark.slow)


# Every small problem is solved from exact distributions above. From counts each takes 11 seeds and more, over the same
# way for all of a kind: some of each here, all in .ci/long.
@pytest.mark.parametrize(("name", "chosen"), list(_sampled_runs()))
def test_quantum_solver_with_shots_stays_within_the_shot_floor(name, chosen):
    # The classical sampler draws from the same distributions as the emulator, at a tenth of its price.
    solver = solver_class(name).from_options({"shots": 10_000, "device": "classical-sampler"})
    assert solver.accuracy_class() == "sampled"
    report = check_solver(solver, problems=chosen(solver))
    assert report.gaps


NEWCOMER = '''
    """A solver as a third party would write it: one file."""

    from dataclasses import dataclass, replace

    import numpy as np

    from dualflow import Kind, Solver


    @dataclass(frozen=True)
    class State:
        alpha: np.ndarray
        moved: float


    @dataclass(frozen=True)
    class ProjectedGradient(Solver):
        """Projected gradient with step 1/‖Q‖."""

        rest: float = 1e-12

        state_type = State
        name = "projected-gradient"
        kinds = frozenset({Kind.BOX, Kind.CAPPED_SIMPLEX, Kind.SIMPLEX})
        default_max_steps = 100_000
        certify_every = 25

        def start(self, problem, rng, warm=None):
            alpha = problem.project(np.zeros(problem.n)) if warm is None else warm
            return State(alpha, np.inf)

        def step(self, problem, state):
            Q = problem.dense()
            length = 1.0 / np.abs(Q).sum(axis=1).max()
            alpha = problem.project(state.alpha - length * (Q @ state.alpha - problem.p))
            return State(alpha, float(np.abs(alpha - state.alpha).max()))

        def alpha(self, state):
            return state.alpha

        def finished(self, state):
            return state.moved <= self.rest
'''


@pytest.fixture
def newcomer(tmp_path, monkeypatch):
    """A distribution of one module and one entry-point line, on sys.path and nowhere in the package."""
    (tmp_path / "dualflow_newcomer.py").write_text(textwrap.dedent(NEWCOMER), encoding="utf-8")
    info = tmp_path / "dualflow_newcomer-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dualflow-newcomer\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[dualflow.solvers]\nprojected-gradient = dualflow_newcomer:ProjectedGradient\n"
        "absent = dualflow_no_such_module:Nothing\nsmo = dualflow_newcomer:ProjectedGradient\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield "projected-gradient"
    sys.modules.pop("dualflow_newcomer", None)


def test_newcomer_is_listed_solves_and_conforms(newcomer):
    rows = {row.name: row for row in dualflow.list_solvers()}
    assert rows[newcomer].install is None
    assert rows[newcomer].kinds == ("box", "capped simplex", "simplex")
    assert rows[newcomer].summary == "Projected gradient with step 1/‖Q‖."
    gram = dualflow.Gram([[1.0, 0.0], [0.0, 2.0]], kernel="linear")
    solution = dualflow.solve(dualflow.problems.svc(gram, [1, -1], C=0.5, fit_intercept=False), newcomer, rest=1e-13)
    assert solution.alpha == pytest.approx([0.5, 0.25], abs=1e-9)
    report = check_solver(newcomer, problems=[z for z in zoo() if z.n <= SMALL or z.name == "box clouds"])
    assert report.failed == {}
    assert "box clouds" in report.problems


def test_newcomer_that_cannot_be_imported_is_a_row_with_the_reason(newcomer):
    row = {row.name: row for row in dualflow.list_solvers()}["absent"]
    assert "dualflow_no_such_module" in row.install
    with pytest.raises(dualflow.SolverUnavailable, match="dualflow_no_such_module"):
        dualflow.solve(dualflow.problems.svdd(dualflow.Gram([[0.0], [1.0]])), "absent")


def test_newcomer_cannot_take_a_name_of_the_catalogue(newcomer):
    assert solver_class("smo").__module__ == "dualflow.solvers.smo"


def test_without_the_entry_point_the_name_is_not_known():
    assert "projected-gradient" not in solver_names()
