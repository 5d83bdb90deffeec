"""The comparison: every row accounted for, raw gaps rank, controls stand beside, nothing hostile gets through."""

from __future__ import annotations

import contextlib
import csv
import html.parser
import inspect
import math
import sqlite3
import sys
import time
import types
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest
from sklearn.svm import SVC, LinearSVC, OneClassSVM

import dualflow
from dualflow.catalogue import SOLVER_CLASSES
from dualflow.comparison import CONTROLS, compare, shot_floor
from dualflow.comparison import rows as rows_module
from dualflow.comparison.plan import plan
from dualflow.comparison.rows import floors_of
from dualflow.core.certificate import Certifier
from dualflow.core.decision import decision_values
from dualflow.core.evidence import Ending, margin
from dualflow.core.solver import EVERY_CONVEX, Solver
from dualflow.report import Row
from dualflow.report.columns import QUANTUM, RESULTS
from dualflow.report.html import HEIGHT_PX, WIDTH_PX, chart
from dualflow.report.terminal import SHARED_STATUSES
from dualflow.solvers import registry

SHOTS = 4000
FIGURES = ("raw_gap", "refined_gap", "infeasibility", "accuracy", "support_agreement", "excess", "parameter_gap")


def blobs(n: int = 60, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.repeat(["east", "west"], n // 2)
    return rng.normal(size=(n, 3)) + np.where(y == "west", 1.0, -1.0)[:, None], y


@pytest.fixture(scope="module")
def comparison() -> dualflow.Comparison:
    # Two whose circuits have thousands of gates would be cut off in every row: they take part with fewer ancillas, and
    # on their own device. Any other row that takes seconds on PennyLane is cut off, and is a row all the same.
    large = {"hamiltonian-lchs", "hamiltonian-schrodingerisation"}
    small = [registry.solver_class(name)(device="aer", shots=SHOTS, ancillas=4) for name in sorted(large)]
    studies = {info.name for info in dualflow.list_solvers() if info.maturity == "study"}
    others = [name for name in registry.solver_names() if name not in large | studies]
    return compare(*blobs(), solvers=[*others, *small], max_n=16, shots=SHOTS, time_limit=2.5)


@pytest.fixture(scope="module")
def unhurried() -> dualflow.Comparison:
    """Without a time limit: how near a solver comes must not hang on how busy the machine is."""
    solvers = ["variational-flow", "hamiltonian-dilation"]
    return compare(*blobs(), ("squared_hinge", "svdd"), solvers, max_n=16, shots=SHOTS, time_limit=None)


def section(comparison: dualflow.Comparison, name: str):
    return next(s for s in comparison.sections if s.problem == name)


# --- solvers made for these tests, registered by name ----------------------------------------------------


@dataclass(frozen=True)
class State:
    alpha: np.ndarray
    steps: int = 0


@dataclass(frozen=True)
class Garbage(Solver):
    """Feasible, and no better than a guess; the refinement makes it perfect."""

    name: ClassVar[str] = "garbage"
    kinds = EVERY_CONVEX

    def start(self, problem, rng, warm=None):
        return State(problem.project(rng.random(problem.n)))

    def step(self, problem, state):
        return replace(state, steps=state.steps + 1)

    def alpha(self, state):
        return state.alpha

    def finished(self, state):
        return state.steps >= 1


@dataclass(frozen=True)
class Hostile(Garbage):
    name: ClassVar[str] = "hostile"

    def step(self, problem, state):
        raise RuntimeError("<script>alert('x')</script> [bold]& more")


@dataclass(frozen=True)
class Endless(Garbage):
    name: ClassVar[str] = "endless"
    default_max_steps: ClassVar[int] = 10**9

    def finished(self, state):
        return False


@dataclass(frozen=True)
class Impatient(Garbage):
    name: ClassVar[str] = "impatient"

    def step(self, problem, state):
        if problem.n > 4:  # not while it is warmed up
            raise KeyboardInterrupt
        return super().step(problem, state)


@dataclass(frozen=True)
class SlowToLoad(Garbage):
    name: ClassVar[str] = "slow-to-load"
    loaded: ClassVar[list[bool]] = []

    def step(self, problem, state):
        if not self.loaded:
            time.sleep(0.5)
            self.loaded.append(True)
        return super().step(problem, state)


@dataclass(frozen=True)
class Missing(Garbage):
    name: ClassVar[str] = "missing"
    requires: ClassVar[tuple[str, ...]] = ("no_such_package_at_all",)


@dataclass(frozen=True)
class Study(Garbage):
    name: ClassVar[str] = "study"
    maturity: ClassVar[str] = "study"


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch):
    """Put solver classes into the catalogue for the length of a test."""
    module = types.ModuleType("solvers_of_a_test")
    monkeypatch.setitem(sys.modules, "solvers_of_a_test", module)

    def enter(*classes: type[Solver]) -> None:
        for cls in classes:
            setattr(module, cls.__name__, cls)
            monkeypatch.setitem(SOLVER_CLASSES, cls.name, f"solvers_of_a_test:{cls.__name__}")

    return enter


# --- rows ---------------------------------------------------------------------------------------------


def test_every_solver_is_a_row_with_numbers_or_a_reason(comparison):
    studies = {info.name for info in dualflow.list_solvers() if info.maturity == "study"}
    for part in comparison.sections:
        assert {row.solver for row in part.rows} >= set(registry.solver_names()) - studies
        for row in part.rows:
            numbers = [row.raw_gap, row.infeasibility, row.accuracy, row.wall_time_s, row.steps]
            if row.ran:
                assert None not in numbers, row
            else:
                assert row.reason.strip()
                assert set(numbers) == {None}


def test_a_quantum_solver_runs_on_every_device_and_in_its_controls(comparison):
    for name in ("squared_hinge", "svdd"):
        rows = [row for row in section(comparison, name).rows if row.solver == "variational-flow"]
        assert {(row.device, row.shots_per_circuit, row.role) for row in rows} == {
            ("aer", SHOTS, "quantum"),
            ("aer", None, "quantum"),
            ("pennylane:lightning.qubit", SHOTS, "quantum"),
            ("null", SHOTS, "control"),
            ("null", None, "control"),
            ("control:random", SHOTS, "control"),
            ("control:random", None, "control"),
            ("classical-sampler", SHOTS, "control"),
        }
        for row in rows:
            assert row.ran, row.reason
            assert row.rank is None if row.role == "control" else row.rank
            assert row.shots == (SHOTS * row.circuits if row.shots_per_circuit else 0)
            assert 0 <= row.classical_share <= 1
        measured = [row for row in rows if row.role == "quantum"]
        assert min(min(row.qubits, row.depth, row.two_qubit_gates) for row in measured) > 0


def test_exact_rows_run_on_the_solvers_own_device(register):
    @dataclass(frozen=True)
    class Homeless(Garbage):
        device: str = field(kw_only=True)
        shots: int | None = None
        name: ClassVar[str] = "homeless"
        quantum: ClassVar[bool] = True

    @dataclass(frozen=True)
    class AtHome(Homeless):
        device: str = field(default="emulator", kw_only=True)
        name: ClassVar[str] = "at-home"

    register(Homeless)
    register(AtHome)
    owns = {"hamiltonian-descent": "aer", "hamiltonian-dilation": "aer", "homeless": "aer", "at-home": "emulator"}
    for solver, own in owns.items():
        exact, *controls = [entry for entry in plan([solver], 100, None, True, False) if entry.shots is None]
        role = "emulated" if own == "emulator" else "quantum"
        assert (exact.role, exact.device, exact.options["device"]) == (role, own, own)
        assert [entry.role for entry in controls] == ["control"] * len(controls)
        assert [entry.device for entry in controls][:2] == ["null", "control:random"]
    assert inspect.signature(compare).parameters["time_limit"].default == 2.0


def test_box_solvers_have_two_controls_of_their_own():
    devices = [(entry.device, entry.shots) for entry in plan(["hamiltonian-descent"], 100, None, True, False)]
    for control in ("control:corner", "control:field"):
        assert {(control, 100), (control, None)} <= set(devices)
    assert len(devices) == len(set(devices))
    others = {entry.device for entry in plan(["variational-flow"], 100, None, True, False)}
    assert not others & {"control:corner", "control:field"}


def test_evidence_is_what_controls_do_not_reach(comparison, unhurried):
    for part in comparison.sections:
        for row in part.rows:
            assert row.margin is None or row.role in ("quantum", "emulated")
    rows = [row for row in section(unhurried, "squared_hinge").rows if row.solver == "variational-flow"]
    found = {(row.device, row.shots_per_circuit): row for row in rows}
    assert found["aer", None].margin > 100
    assert found["aer", SHOTS].margin > 10
    evidence = next(column for column in QUANTUM if column.header == "over chance")
    assert evidence.cell(replace(found["aer", None], margin=4.99)) == "no evidence"
    assert evidence.cell(replace(found["aer", None], margin=12.3)) == "12×"


def test_a_solver_that_asks_its_circuits_nothing_is_no_evidence(register):
    @dataclass(frozen=True)
    class Deaf(Garbage):
        """Takes its answer from where it likes: a random one, whatever the device."""

        device: str = "aer"
        shots: int | None = None
        name: ClassVar[str] = "deaf"
        quantum: ClassVar[bool] = True

    register(Deaf)
    found = compare(*blobs(), "svdd", ["cvxopt", "deaf"], max_n=12, shots=100)
    quantum = [row for row in found.rows if row.role == "quantum"]
    assert len(quantum) == 3
    assert [row.margin for row in quantum] == [1.0] * 3
    assert found.table().count("evidence") == 3  # each below its "no"
    evidence = next(column for column in QUANTUM if column.header == "over chance")
    assert [evidence.cell(row) for row in quantum] == ["no evidence"] * 3


def test_a_noise_model_among_the_devices_has_its_name_and_its_controls():
    aer = pytest.importorskip("qiskit_aer.noise")
    noise = aer.NoiseModel()
    noise.add_all_qubit_quantum_error(aer.depolarizing_error(0.01, 2), ["cx"])
    entries = plan(["variational-flow"], 400, [noise], True, False)
    assert entries[0].device.startswith("aer:noise-")
    rows = compare(*blobs(), "squared_hinge", ["variational-flow"], devices=[noise], shots=400, max_n=10).rows
    (own,) = [row for row in rows if row.role == "quantum"]
    assert own.device == entries[0].device
    assert own.margin is not None
    assert {row.device for row in rows if row.role == "control"} == set(CONTROLS)


def test_two_of_one_class_have_controls_of_their_own():
    tree = dualflow.VariationalFlow(device="emulator", shots=500, steps=2)
    layers = replace(tree, ansatz="hardware-efficient", layers=1, steps=5)
    own = [compare(*blobs(), "squared_hinge", [solver], max_n=10).rows for solver in (tree, layers)]
    both = compare(*blobs(), "squared_hinge", [tree, layers], max_n=10).rows
    alone = [row.margin for rows in own for row in rows if row.role == "emulated"]
    assert len(set(alone)) == 2
    assert sorted(row.margin for row in both if row.role == "emulated") == sorted(alone)


def test_a_journal_is_the_run_s_own_and_no_control_s(tmp_path):
    """Neither what warms a library up nor the controls are written into it; controls run without mitigation."""
    own = dualflow.VariationalFlow(device="emulator", shots=200, steps=2, mitigation="confusion")
    own = replace(own, journal=tmp_path / "jobs.db", max_shots=10**6)
    first, again = (compare(*blobs(), "squared_hinge", [own], max_n=10).rows for _ in range(2))
    assert {row.status for row in (*first, *again)} <= {"FINISHED", "NOISE_DOMINATED", "DEVICE_FAILED"}
    (found,), (other,) = ([row for row in rows if row.role == "emulated"] for rows in (first, again))
    assert found.margin == other.margin is not None
    with contextlib.closing(sqlite3.connect(tmp_path / "jobs.db")) as journal:
        assert journal.execute("SELECT DISTINCT device FROM jobs").fetchall() == [("emulator",)]


def test_the_emulator_is_ranked_apart_and_its_costs_are_emulated():
    found = compare(*blobs(), "svdd", ["cvxopt", "smo", "variational-flow"], max_n=12, devices=["aer", "emulator"])
    by_device = {row.device: row for row in found.rows if row.role in ("quantum", "emulated")}
    emulated, aer = by_device["emulator"], by_device["aer"]
    assert (emulated.role, emulated.rank, emulated.place) == ("emulated", 1, "(1)")
    assert aer.role == "quantum"
    (part,) = found.sections
    assert [row.rank for row in part.ranking] == list(range(1, len(part.ranking) + 1))
    assert emulated not in part.ranking
    cells = {column.header: (column.cell(emulated), column.cell(aer)) for column in QUANTUM}
    for header in ("circuits", "depth", "2-qubit"):
        assert cells[header][0] == "emulated" != cells[header][1]


@pytest.mark.parametrize(
    ("own", "control", "expected"),
    [
        (Ending(1e-5, 10, True), Ending(1e-5, 60, True), 6.0),  # as near with more circuits
        (Ending(1e-5, 10, True), Ending(1e-5, 10, True), 1.0),
        (Ending(1e-5, 60, True), Ending(1e-5, 10, True), 1.0),  # luck of the control
        (Ending(1e-3, 10, False), Ending(1e-3, 600, False), 1.0),  # neither came to what was asked for
        (Ending(1e-12, 10, True), Ending(1e-4, 10, True), 10.0),  # nearer than the level is luck
        (Ending(1e-2, 10, False), Ending(1e-1, 10, False), 10.0),
        (Ending(1e-1, 10, False), Ending(1e-3, 10, True), 0.01),
        (Ending(0.0, 0, True), Ending(0.0, 0, True), 1.0),
        (Ending(0.9, 10, False), Ending(4000.0, 10, False), 1 / 0.9),  # α = 0 is as near
        (Ending(1e-2, 10, False), Ending(math.inf, None, False), 100.0),
    ],
)
def test_the_margin_of_a_run_over_its_control(own, control, expected):
    assert margin(own, control, 1e-5) == pytest.approx(expected)


def test_what_does_not_apply_is_one_row_with_the_reason(comparison):
    (row,) = [row for row in section(comparison, "hinge").rows if row.solver == "variational-flow"]
    assert row.status == "DOES NOT APPLY"
    assert "box with equality" in row.reason


def test_one_subsample_for_all(comparison):
    X, y = blobs()
    hinge = section(comparison, "hinge").rows[0].solution.problem
    points = hinge.gram.X
    assert points.shape == (16, 3)
    origin = [int(np.flatnonzero((point == X).all(axis=1))[0]) for point in points]
    assert len(set(origin)) == 16
    assert np.array_equal(hinge.sigma, np.where(y[origin] == "west", 1.0, -1.0))
    assert (hinge.sigma > 0).sum() == 8
    for row in comparison.rows:
        if not row.ran:
            continue
        gram = row.solution.problem.gram
        assert gram.gamma == hinge.gram.gamma
        expected = points[y[origin] == "east"] if row.problem == "svdd" else points
        assert np.array_equal(gram.X, expected)


def test_stratified_when_the_classes_are_unequal():
    X, y = blobs()
    keep = np.r_[0:30, 30:36]
    found = compare(X[keep], y[keep], "hinge", ["smo"], max_n=12)
    assert found.settings["training points"] == "12 (10 of class east, 2 of class west)"
    assert found.settings["held-out points"] == "24 (20 of class east, 4 of class west)"


def test_raw_gaps_rank_whatever_the_refinement_finds(register):
    register(Garbage)
    found = compare(*blobs(), solvers=["garbage", "smo", "cvxopt", "gradient-flow"], max_n=20)
    for part in found.sections:
        rows_module = part.ranking
        assert [row.rank for row in rows_module] == [1, 2, 3, 4]
        assert rows_module[-1].solver == "garbage"
        assert rows_module[-1].raw_gap > 1e-2
        assert rows_module[-1].refined_gap <= 1e-10
        gaps = [row.raw_gap for row in rows_module if not row.met(part.tol)]
        assert gaps == sorted(gaps)
        times = [row.wall_time_s for row in rows_module if row.met(part.tol)]
        assert times == sorted(times)


def test_sections_with_sampled_rows_rank_by_excess(comparison):
    for part in comparison.sections:
        assert part.by_excess
        excesses = [max(row.excess, comparison.settings["tol"]) for row in part.ranking]
        assert excesses == sorted(excesses)
    one = Row("p", "one", "classical", raw_gap=1e-3, excess=1e-4)
    two = Row("p", "two", "quantum", "aer", 100, raw_gap=1e-1, excess=1e-5)
    three = Row("p", "three", "classical", raw_gap=1e-9, excess=1e-9, wall_time_s=0.2)
    four = Row("p", "four", "classical", raw_gap=1e-8, excess=1e-8, wall_time_s=0.1)
    ranked = [row.solver for row in rows_module.ranked([one, two, three, four], 1e-6)]
    assert ranked == ["four", "three", "two", "one"]  # within the tolerance the time decides
    times = {"a": 0.1, "b": 0.19, "c": 0.3, "d": 0.7, "e": 1.0, "f": 1.3, "g": 1.5}
    rows = [replace(three, solver=name, wall_time_s=time) for name, time in times.items()]
    rows.append(replace(one, solver="h", wall_time_s=1.5))  # above the tolerance: by its gap
    places = [row.place for row in rows_module.ranked(rows, 1e-6)]
    assert places == ["1=", "1=", "3", "4=", "4=", "4=", "7", "8"]
    exact = replace(two, shots_per_circuit=None)
    assert [row.solver for row in rows_module.ranked([one, exact, three, four], 1e-6)] == [
        "four",
        "three",
        "one",
        "two",
    ]
    left_out = replace(two, reason="failed", excess=None, raw_gap=None)
    assert [row.solver for row in rows_module.ranked([one, left_out, four], 1e-6)] == ["four", "one", "two"]


def test_the_floor_is_that_of_all_shots_of_the_run():
    solver = dualflow.VariationalFlow(device="emulator", shots=200, steps=4)
    found = compare(*blobs(), "svdd", ["cvxopt", solver], max_n=12, controls=False)
    (part,) = found.sections
    (row,) = (row for row in part.rows if row.device)
    assert row.shots == 1000
    problem, best = row.solution.problem, part.reference.alpha
    assert row.shot_floor == shot_floor(problem, best, 1000)
    assert row.excess_floor < 0.5 * floors_of(Certifier(problem), best, 200, 0, None)[1]
    cells = {column.header: column.value(row) for column in QUANTUM}
    assert cells["shot floor"] == row.excess_floor
    assert cells["excess/floor"] == row.excess / row.excess_floor
    assert cells["gap/floor"] == row.raw_gap / row.shot_floor


@pytest.mark.parametrize("solver", ["variational-flow", "hamiltonian-dilation"])
def test_the_null_device_is_far_worse_and_the_classical_sampler_is_not(unhurried, solver):
    for name in ("squared_hinge", "svdd"):
        rows = {(r.device, r.shots_per_circuit): r for r in section(unhurried, name).rows if r.solver == solver}
        aer, null, classical = (rows[device, SHOTS] for device in ("aer", "null", "classical-sampler"))
        assert null.excess > 20 * aer.excess
        assert null.raw_gap > 2 * aer.raw_gap
        # One draw of the floor lies within a factor of 5 of its median.
        for row in (aer, classical):
            assert row.raw_gap < 5 * row.shot_floor


def test_the_shot_floor_is_the_gap_of_the_sampled_optimum():
    gram = dualflow.Gram(blobs()[0])
    problem = dualflow.problems.svdd(gram)
    best = dualflow.solve(problem, "cvxopt", refine=True).alpha
    rng = np.random.default_rng(99)
    gaps = []
    for _ in range(400):
        counts = np.bincount(rng.choice(len(best), p=best / best.sum(), size=2000), minlength=len(best))
        gaps.append(dualflow.certify(problem, counts / 2000).relative_gap)
    # A median of 9 draws lies between the 5 % and 95 % quantiles of single draws in all but 1 of 10⁴ cases.
    low, high = np.quantile(gaps, [0.05, 0.95])
    assert low < shot_floor(problem, best, 2000) < high
    # Not for want of width: a hundredfold of shots leaves a tenth of the gap.
    assert shot_floor(problem, best, 200_000) < low
    y = np.repeat([1, -1], 30)
    assert shot_floor(dualflow.problems.svc(gram, y, np.inf), np.ones(60), 100) is None


def test_the_shot_floor_of_a_box_is_read_index_by_index():
    X, y = blobs()
    problem = dualflow.problems.svc(dualflow.Gram(X), np.where(y == "west", 1, -1), 1.0)
    best = dualflow.solve(problem, "cvxopt", refine=True).alpha
    rng = np.random.default_rng(98)
    gaps = []
    for _ in range(400):
        index = rng.integers(len(best), size=2000)
        ones = np.bincount(index, rng.random(2000) < best[index], minlength=len(best))
        gaps.append(dualflow.certify(problem, ones / np.bincount(index, minlength=len(best))).relative_gap)
    low, high = np.quantile(gaps, [0.05, 0.95])  # as above
    assert low < shot_floor(problem, best, 2000) < high
    # A capped simplex can be read either way, and reads differently.
    problem = dualflow.problems.svdd(dualflow.Gram(X), nu=0.3)
    best = dualflow.solve(problem, "cvxopt", refine=True).alpha
    assert shot_floor(problem, best, 2000) == shot_floor(problem, best, 2000, encoding="simplex")
    assert shot_floor(problem, best, 2000) != shot_floor(problem, best, 2000, encoding="box")


def test_the_refined_gap_is_beside_the_raw_one_and_never_mixed(comparison):
    for row in comparison.rows:
        if row.ran:
            solution = row.solution
            assert row.raw_gap == dualflow.certify(solution.problem, solution.raw_alpha).relative_gap
            again = dualflow.certify(solution.problem, solution.alpha).relative_gap
            if row.refined_gap is None:  # the solver's own answer was no worse
                assert not solution.refined
                assert again == row.raw_gap
                continue
            assert row.refined_gap == again


def test_a_failure_a_missing_package_and_a_time_limit_are_rows(register):
    register(Hostile, Missing, Endless)
    found = compare(
        *blobs(), "hinge", ["hostile", "missing", "endless", "smo"], max_n=12, time_limit=0.2, random_state=1
    )
    rows = {row.solver: row for row in found.rows}
    assert rows["hostile"].status == "FAILED"
    assert rows["hostile"].reason.startswith("RuntimeError: <script>")
    assert rows["missing"].status == "NOT INSTALLED"
    assert "  not installed (pip install no_such_package_at_all): missing" in found.table().splitlines()
    assert "pip install no_such_package_at_all" in rows["missing"].reason
    assert rows["endless"].status == "TIME_LIMIT"
    assert rows["endless"].raw_gap > 0
    assert 0.1 < rows["endless"].wall_time_s + rows["endless"].solution.cost.certify_time_s < 2.0
    assert rows["smo"].status == "OPTIMAL"


def test_studies_come_when_asked_or_named(register):
    register(Study)

    def names(solvers, studies):
        return {entry.name for entry in plan(solvers, SHOTS, None, controls=False, studies=studies)}

    all_studies = {info.name for info in dualflow.list_solvers() if info.maturity == "study"}
    assert names(None, studies=False) == set(registry.solver_names()) - all_studies
    assert "study" in all_studies
    assert names(None, studies=True) == set(registry.solver_names()) > {"study"}
    assert names(["study"], studies=False) == {"study"}
    assert [row.solver for row in compare(*blobs(), "hinge", ["study"], max_n=8).rows] == ["study"]


def test_every_row_pays_for_its_own_kernel_whoever_ran_before():
    alone = {}
    for solver in ("smo", "gradient-flow", "cvxopt"):
        (row,) = compare(*blobs(), "hinge", [solver], max_n=12).rows
        alone[solver] = row.solution.cost.kernel_columns
    after = compare(*blobs(), "hinge", ["cvxopt", "smo", "gradient-flow"], max_n=12).rows
    assert {row.solver: row.solution.cost.kernel_columns for row in after} == alone
    assert min(alone.values()) >= 12


def test_a_row_goes_to_the_tolerance_though_a_refinement_follows():
    (row,) = compare(*blobs(), "hinge", ["working-set"], max_n=40).rows
    assert row.status == "OPTIMAL"
    assert row.raw_gap <= 1e-6


def test_an_import_is_not_the_solvers_time(register):
    register(SlowToLoad)
    (row,) = compare(*blobs(), "hinge", ["slow-to-load"], max_n=12).rows
    assert SlowToLoad.loaded
    assert row.wall_time_s < 0.25


def test_ctrl_c_is_raised_with_what_there_is(register):
    register(Impatient)
    with pytest.raises(KeyboardInterrupt) as raised:
        compare(*blobs(), ("hinge", "svdd"), ["smo", "impatient", "cvxopt"], max_n=12)
    found = raised.value.comparison
    assert found.interrupted
    rows = {(row.problem, row.solver): row for row in found.rows}
    assert rows["hinge", "smo"].ran
    for key in (
        ("hinge", "impatient"),
        ("hinge", "cvxopt"),
        ("svdd", "smo"),
        ("svdd", "impatient"),
        ("svdd", "cvxopt"),
    ):
        assert rows[key].status == "NOT RUN"
        assert "Ctrl-C" in rows[key].reason
    assert "Interrupted" in found.table()


def test_same_seed_same_numbers():
    # No row may end by the clock. One with its own options on one device, and one by name on all of them.
    own = dualflow.HamiltonianDilation(device="aer", shots=SHOTS, steps=20)
    solvers = ["smo", "lotka-volterra", "frank-wolfe", own, "variational-flow"]
    first, again = (compare(*blobs(), solvers=solvers, max_n=8, shots=SHOTS, time_limit=None) for _ in range(2))
    other = compare(*blobs(), "hinge", ["smo"], max_n=8, random_state=1)
    key = lambda row: (row.problem, row.solver, row.device or "", row.shots_per_circuit or 0)  # noqa: E731
    for one, two in zip(sorted(first.rows, key=key), sorted(again.rows, key=key), strict=True):
        assert (one.status, one.steps, one.shots) == (two.status, two.steps, two.shots)
        assert one.met(1e-6) or one.rank == two.rank  # within the tolerance the clock ranks
        for name in FIGURES:
            a, b = getattr(one, name), getattr(two, name)
            # BLAS sums depend on memory alignment in their last bits: not bit for bit.
            assert (a is None) == (b is None)
            assert a is None or a == pytest.approx(b, rel=1e-6, abs=1e-9), (one, name)
    assert not np.array_equal(other.rows[0].solution.problem.gram.X, first.rows[0].solution.problem.gram.X)


def test_an_instance_keeps_its_options_and_gets_its_controls():
    solver = dualflow.VariationalFlow(device="aer", shots=500)
    found = compare(*blobs(), "svdd", [solver, dualflow.SMO(kkt_tol=1e-12)], max_n=12)
    assert {(row.solver, row.device, row.role) for row in found.rows} == {
        ("variational-flow", "aer", "quantum"),
        *(("variational-flow", control, "control") for control in CONTROLS),
        ("smo", None, "classical"),
    }
    assert {row.shots_per_circuit for row in found.rows if row.device} == {500}
    (row,) = compare(*blobs(), "hinge", [solver], max_n=12).rows
    assert row.status == "DOES NOT APPLY"


def test_an_unknown_device_is_a_row_with_the_reason():
    found = compare(*blobs(), "svdd", ["variational-flow"], max_n=8, devices=["aerr"], controls=False)
    (row,) = found.rows
    assert row.status == "FAILED"
    assert "'aer'" in row.reason


def test_an_indefinite_kernel_is_said_and_not_ranked():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    (row,) = compare(X, y, "hinge", ["smo"], max_n=30, kernel="sigmoid", gamma=2.0, coef0=1.0, repairs=None).rows
    assert row.rank is None
    assert row.raw_gap is None
    assert "indefinite" in row.note


# --- decision values, against scikit-learn ---------------------------------------------------------------


def test_hinge_decision_values_are_libsvms(comparison):
    X, y = blobs()
    row = section(comparison, "hinge").rows[0]
    problem = row.solution.problem
    peer = SVC(C=1.0, gamma=problem.gram.gamma, tol=1e-10).fit(problem.gram.X, problem.sigma)
    ours = decision_values(problem, row.solution.certificate, X)
    assert np.allclose(ours, peer.decision_function(X), atol=1e-6)
    trained = (X[:, None] == problem.gram.X).all(axis=2).any(axis=1)
    right = peer.predict(X[~trained]) == np.where(y[~trained] == "west", 1, -1)
    assert row.accuracy == pytest.approx(right.mean())


def test_squared_hinge_decision_values_are_liblinears():
    X, y = blobs()
    signs = np.where(y == "west", 1, -1)
    problem = dualflow.problems.svc(dualflow.Gram(X, "linear"), signs, 2.0, loss="squared_hinge")
    solution = dualflow.solve(problem, "smo", refine=True)
    peer = LinearSVC(C=2.0, intercept_scaling=1, tol=1e-12, max_iter=10**6, random_state=0).fit(X, signs)
    Z = X[:7] + 0.3
    assert np.allclose(decision_values(problem, solution.certificate, Z), peer.decision_function(Z), atol=1e-5)


def test_svdd_decision_values_are_one_class_svms_in_their_units():
    X, _ = blobs()
    nu, n = 0.3, len(X)
    problem = dualflow.problems.svdd(dualflow.Gram(X, gamma=0.4), nu)
    solution = dualflow.solve(problem, "smo", refine=True)
    peer = OneClassSVM(nu=nu, gamma=0.4, tol=1e-12).fit(X)
    Z = X[:9] + 0.5
    ours = decision_values(problem, solution.certificate, Z)
    assert np.allclose(ours, 2.0 / (nu * n) * peer.decision_function(Z), atol=1e-7)


def test_svdd_accuracy_is_of_the_class_it_describes():
    X, y = blobs()
    X = X + np.where(y == "west", 3.0, -3.0)[:, None]
    for inlier in ("east", "west"):
        (row,) = compare(X, y, "svdd", ["cvxopt"], max_n=30, inlier_class=inlier).rows
        own, shift = row.solution.problem.gram.X, 1.0 if inlier == "west" else -1.0
        assert np.sign(own.mean()) == shift
        assert row.accuracy > 0.75


# --- output ------------------------------------------------------------------------------------------------


class Page(html.parser.HTMLParser):
    """Tags in balance, and what matters of them."""

    VOID: ClassVar[set[str]] = {"meta", "line", "rect", "circle"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.links: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "style", "onclick", "onload")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_html_is_whole_and_leans_on_nothing(comparison, tmp_path):
    path = tmp_path / "report.html"
    comparison.to_html(path)
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.links == []
    assert "http" not in text
    assert page.seen.count("svg") == 3
    assert page.seen.count("table") == 6
    outside = [row for row in comparison.rows if row.status == "DOES NOT APPLY"]
    assert page.seen.count("tr") == 6 + len(comparison.rows) - len(outside) + sum(
        r.device is not None and r.ran for r in comparison.rows
    )
    assert page.seen.count("details") == 7 + sum(
        any(row.status == "DOES NOT APPLY" for row in part.rows) for part in comparison.sections
    )
    for row in outside:
        assert " ".join(f"{row.solver}: {row.reason}".split()) in " ".join(" ".join(page.text).split())
    shown = " ".join(page.text)
    for words in ("No quantum advantage is claimed", "dualflow", "control: null", "does not apply", "shot floor"):
        assert words in shown
    for column in (*RESULTS, *QUANTUM):
        assert (column.meaning in shown) == (column.header != "excess band")  # there is one seed


def test_hostile_names_and_reasons_stay_text(register, tmp_path):
    register(Hostile)
    X, y = blobs()
    labels = np.where(y == "east", "<script>east", "<b>west")
    found = compare(X, labels, "svdd", ["hostile", "smo"], max_n=12)
    path = tmp_path / "report.html"
    found.to_html(path)
    page = Page(path.read_text(encoding="utf-8"))
    assert page.seen.count("script") == 1
    assert "b" not in page.seen
    shown = " ".join(page.text)
    assert "RuntimeError: <script>alert('x')</script> [bold]& more" in shown
    assert "[bold]& more" in found.table()


def test_the_csv_holds_every_row_in_full_precision(comparison, tmp_path):
    path = tmp_path / "rows.csv"
    comparison.to_csv(path)
    with open(path, newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(comparison.rows)
    for line, row in zip(lines, comparison.rows, strict=True):
        assert line["solver"] == row.solver
        assert line["reason"] == (row.reason or "")
        for name in FIGURES:
            value = getattr(row, name)
            assert (line[name] == "") if value is None else float(line[name]) == value


def test_the_tables_fit_120_columns_and_show_all(comparison):
    text = comparison.table()
    assert max(map(len, text.splitlines())) <= 120
    assert "…" not in text
    assert any(line.split()[:1] == ["dilation"] for line in text.splitlines())  # whole
    flat = " ".join(text.split())
    for row in comparison.rows:
        if row.ran:
            assert RESULTS[0].cell(row) in flat
            assert RESULTS[-1].cell(row) in text
        elif row.status == "NOT INSTALLED":
            assert f" not installed ({row.reason.partition('not installed: ')[2]}): " in flat
            assert row.solver in flat
        elif row.status != "DOES NOT APPLY":
            assert " ".join(row.reason.split()) in flat
    # What does not apply is one line a section; the reasons are in the report.
    lines = [line for line in text.splitlines() if line.startswith("  does not apply: ")]
    outside = [[row.solver for row in part.rows if row.status == "DOES NOT APPLY"] for part in comparison.sections]
    assert len(lines) == sum(map(bool, outside))
    assert all(", ".join(dict.fromkeys(names)) in flat for names in outside)
    # In each section rows point to the reason below its table; those that a limit cuts off may share it.
    notes = [line.split() for line in text.splitlines() if line.split()[:1] == ["[1]"]]
    noted = [
        any(row.status not in SHARED_STATUSES and (row.reason or row.note) for row in part.rows)
        for part in comparison.sections
    ]
    assert sum(noted) >= 2
    # Below a status that is cut off, the number stands alone.
    assert sum(len(words) > 1 for words in notes) == sum(noted)
    assert text.count("[1]") >= 2 * sum(noted)
    assert text.count("steps") == 3
    assert text.count("angles") == 3
    assert str(comparison) == text


def test_the_chart_draws_finite_gaps_only_and_stays_inside(comparison):
    part = section(comparison, "svdd")
    drawn = chart(part, 1e-6)
    assert len(drawn.marks) == sum(row.ran for row in part.rows)
    for mark in drawn.marks:
        assert 0 < mark.x < WIDTH_PX
        assert 0 < mark.y < HEIGHT_PX
    by_gap = sorted(drawn.marks, key=lambda mark: -mark.y)
    assert by_gap[0].title.split()[0] == min(part.ranking, key=lambda row: row.raw_gap).solver.rstrip(",")
    rows = tuple(replace(row, raw_gap=math.inf if row.rank == 1 else row.raw_gap) for row in part.rows)
    assert chart(replace(part, rows=rows), 1e-6).hidden == 1
    assert chart(replace(part, rows=rows[-1:] and ()), 1e-6) is None


def test_progress_is_told():
    told = []
    compare(*blobs(), ("hinge", "svdd"), ["smo", "cvxopt"], max_n=8, progress=lambda *a: told.append(a))
    assert [done for done, _, _ in told] == [0, 1, 2, 2, 3, 4]
    assert {total for _, total, _ in told} == {4}
    assert told[0][2] == "hinge: smo"


# --- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"problems": ["hing"]}, "did you mean 'hinge'"),
        ({"problems": []}, "problems is empty"),
        ({"solvers": ["sm0"]}, "did you mean 'smo'"),
        ({"solvers": []}, "solvers is empty"),
        ({"max_n": 1}, "max_n=1 must be an integer ≥ 2"),
        ({"shots": 0}, "shots=0 must be an integer ≥ 1"),
        ({"shots": -5}, "shots=-5"),
        ({"random_state": -1}, "random_state=-1"),
        ({"tol": 0}, "tol=0"),
        ({"time_limit": True}, "time_limit=True"),
        ({"time_limit": 0}, "time_limit=0"),
        ({"C": math.nan}, "C=nan"),
        ({"C": 0}, "C=0"),
        ({"nu": 1.5}, "nu=1.5"),
        ({"gamma": "foo"}, "gamma='foo'"),
        ({"kernel": "rbff"}, "did you mean 'rbf'"),
        ({"kernel": "precomputed"}, r"must be square, found shape \(60, 3\)"),
        ({"repairs": ["clip", "flop"]}, "repairs: 'flop' is not one of"),
        ({"repairs": 3}, "repairs: 3 is not one of"),
        ({"repairs": [["clip"]]}, r"repairs: \['clip'\] is not one of"),
        ({"inlier_class": "north"}, "inlier_class='north' is not a label"),
        ({"X_test": np.zeros((2, 3))}, "X_test and y_test go together"),
        ({"X_test": np.zeros((2, 5)), "y_test": ["east", "west"]}, "X_test has 5 features, X has 3"),
        ({"X_test": np.zeros((1, 3)), "y_test": ["north"]}, "'north'"),
        ({"X": np.full((60, 3), np.nan)}, "X contains NaN"),
        ({"y": np.repeat("east", 60)}, "single class"),
        ({"y": np.repeat(["a", "b", "c"], 20)}, r"np.isin\(y, \['a', 'b'\]\)"),
        ({"y": np.array([1, "a"] * 30, dtype=object)}, "mixes labels of types int, str"),
        ({"y": np.repeat([0.0, np.nan], 30)}, "y contains NaN"),
        ({"y": np.zeros(5)}, "X has 60 rows"),
    ],
)
def test_refusals_name_the_argument(change, words):
    X, y = blobs()
    arguments = {"X": X, "y": y} | change
    with pytest.raises(ValueError, match=words):
        compare(**arguments)


def test_labels_of_any_type_and_a_test_set_of_ones_own():
    X, y = blobs()
    whole = compare(X, y, "hinge", ["smo"], max_n=100)
    assert whole.rows[0].accuracy is None
    assert whole.settings["held-out points"] == "0 (0 of class east, 0 of class west)"
    for one, two in ((False, True), (-1, 1), (1.5, 7.25)):
        labels = np.where(y == "east", one, two)[:, None]
        own = compare(X, labels, "hinge", ["smo"], max_n=100, X_test=X, y_test=labels)
        assert own.rows[0].raw_gap == whole.rows[0].raw_gap
        assert own.rows[0].accuracy > 0.8


def test_shots_are_set_in_instances_if_they_are_given():
    """By default an instance keeps its own, and a solver by name takes 10 000."""
    problem = dualflow.problems.svdd(dualflow.Gram(np.random.default_rng(0).normal(size=(6, 2)), gamma=0.5))
    own = dualflow.VariationalFlow(device="emulator", shots=50, steps=2)
    exact = dualflow.VariationalFlow(device="emulator", steps=2)
    run = {"solvers": [own, exact, "smo"], "controls": False, "time_limit": None}

    def shots(**given):
        return [row.shots_per_circuit for row in compare(problem, **run, **given).rows if row.device == "emulator"]

    assert sorted(shots(), key=str) == [50, None]
    assert shots(shots=70) == [70, 70]
    assert shots(shots=None) == [None, None]
    named = compare(problem, solvers=["variational-flow"], devices=["emulator"], controls=False)
    assert [row.shots_per_circuit for row in named.rows] == [10_000]
    with pytest.raises(dualflow.ProblemError, match="shots"):
        shots(shots="many")


def test_a_run_that_ends_before_its_first_circuit_is_no_result():
    X, y = blobs()
    found = compare(X, y, "hinge", ["cvxopt", "hamiltonian-descent"], devices=["aer"], shots=100, time_limit=0.01)
    rows = [row for row in found.rows if row.solver == "hamiltonian-descent" and row.role != "reference"]
    cut = [row for row in rows if not row.ran]
    assert cut
    for row in cut:
        assert "before its first circuit; raise time_limit" in row.reason
        assert (row.rank, row.margin, row.raw_gap, row.excess) == (None,) * 4
    assert "raise time_limit" in " ".join(found.table().split())
