"""Names to solvers: what is listed, what is refused, and what the messages say."""

import re
from dataclasses import dataclass

import numpy as np
import pytest

import dualflow
from dualflow import Kind, SolverMismatch, SolverUnavailable
from dualflow.catalogue import SOLVER_CLASSES
from dualflow.solvers import Solver
from dualflow.solvers.registry import list_solvers, make_solver, solver_class, solver_names
from dualflow.solvers.smo import SMO


@dataclass(frozen=True)
class NeedsAbsent(Solver):
    """Needs two packages that do not exist."""

    name = "needs-absent"
    kinds = frozenset({Kind.BOX})
    requires = ("dualflow_absent_one", "dualflow_absent_two")


@dataclass(frozen=True)
class NeedsExtra(NeedsAbsent):
    """Needs an extra."""

    extra = "qpsolvers"


class NotASolver:
    pass


@pytest.fixture
def extended(monkeypatch):
    here = __name__
    for name, cls in {"absent": "NeedsAbsent", "extra": "NeedsExtra", "not-a-solver": "NotASolver"}.items():
        monkeypatch.setitem(SOLVER_CLASSES, name, f"{here}:{cls}")


def test_the_catalogue_comes_first_and_in_order():
    assert solver_names()[: len(SOLVER_CLASSES)] == list(SOLVER_CLASSES)


@pytest.mark.parametrize("name", SOLVER_CLASSES)
def test_every_line_of_the_catalogue_resolves_to_a_solver_of_that_name(name):
    cls = solver_class(name)
    assert issubclass(cls, Solver)
    assert cls.name == name


def test_rows_say_what_each_solver_can_do():
    rows = {row.name: row for row in list_solvers()}
    assert list(rows) == solver_names()
    for name, row in rows.items():
        cls = solver_class(name)
        assert row.kinds == tuple(sorted(kind.value for kind in cls.kinds))
        assert (row.accuracy, row.maturity, row.max_n) == (cls.accuracy, cls.maturity, cls.max_n)
        assert (row.install is None) == (cls.missing() == [])
        assert row.summary
        assert not row.summary.startswith(cls.__name__ + "(")


def test_a_missing_package_is_a_row_with_the_pip_line_and_an_error_with_the_same(extended):
    rows = {row.name: row for row in list_solvers()}
    assert rows["absent"].install == "pip install dualflow_absent_one dualflow_absent_two"
    assert rows["extra"].install == "pip install 'dualflow[qpsolvers]'"
    with pytest.raises(SolverUnavailable, match="pip install dualflow_absent_one dualflow_absent_two"):
        make_solver("absent")
    with pytest.raises(SolverUnavailable, match=r"pip install 'dualflow\[qpsolvers\]'"):
        make_solver("extra")


def test_a_target_that_is_no_solver_is_unavailable(extended):
    with pytest.raises(SolverUnavailable, match="not a subclass"):
        make_solver("not-a-solver")
    assert "not a subclass" in {row.name: row for row in list_solvers()}["not-a-solver"].install


@pytest.mark.parametrize(("wrong", "right"), [("smoo", "smo"), ("cvxop", "cvxopt"), ("gradient_flow", "gradient-flow")])
def test_an_unknown_name_lists_the_names_and_the_nearest(wrong, right):
    with pytest.raises(SolverMismatch) as caught:
        make_solver(wrong)
    assert f"did you mean {right!r}?" in str(caught.value)
    assert all(name in str(caught.value) for name in SOLVER_CLASSES)


def test_a_name_like_no_other_gets_no_guess():
    with pytest.raises(SolverMismatch) as caught:
        make_solver("zzzzzzzz")
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize(("option", "near"), [("kkt_tols", "kkt_tol"), ("ktt_tol", "kkt_tol")])
def test_an_unknown_option_is_a_type_error_naming_the_near_miss(option, near):
    with pytest.raises(TypeError, match=rf"{option}.*did you mean '{near}'"):
        make_solver("smo", {option: 1})


def test_options_reach_the_solver():
    assert make_solver("smo", {"kkt_tol": 1e-3}) == SMO(kkt_tol=1e-3)


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("lchs", ["hamiltonian-lchs"]),
        ("variational", ["variational-flow", "variational-dqc", "variational-lotka-volterra"]),
        ("Dilation", ["hamiltonian-dilation"]),
        ("VariationalFlow", ["variational-flow"]),
        ("schrodingerization", ["hamiltonian-schrodingerisation"]),
    ],
)
def test_a_word_of_a_name_suggests_the_names_that_have_it(word, names):
    with pytest.raises(SolverMismatch) as caught:
        make_solver(word)
    suggestion = str(caught.value).partition("did you mean ")[2]
    assert re.findall(r"'([^']+)'", suggestion) == names


def test_a_mismatch_explains_the_kind_of_problem_by_its_feasible_set_and_models():
    problem = dualflow.problems.svc(dualflow.Gram([[0.0], [1.0]]), [1, -1])
    with pytest.raises(SolverMismatch) as caught:
        dualflow.solve(problem, "variational-flow")
    text = str(caught.value)
    assert "'box with equality' is 0 ≤ α ≤ u and eᵀα = d: the hinge loss with an intercept" in text
    assert "set loss='squared_hinge'" in text
    assert all(kind.meaning for kind in dualflow.Kind)


def test_an_instance_is_taken_as_it_is_and_takes_no_options():
    solver = SMO(kkt_tol=1e-3)
    assert make_solver(solver) is solver
    with pytest.raises(TypeError, match="kkt_tol"):
        make_solver(solver, {"kkt_tol": 1.0})


@pytest.mark.parametrize("wrong", [SMO, None, 3])
def test_anything_else_is_a_type_error(wrong):
    with pytest.raises(TypeError, match=r"a name or a dualflow\.Solver instance"):
        make_solver(wrong)


def test_a_mismatch_says_what_the_solver_can_do_and_who_takes_more():
    gram = dualflow.Gram([[0.0], [1.0]])
    with pytest.raises(SolverMismatch, match=r"'smo' does not solve problems of kind 'affine' \(it solves: box"):
        SMO().check(dualflow.problems.least_squares(gram, [1, -1]))

    @dataclass(frozen=True)
    class Tiny(SMO):
        name = "tiny"
        max_n = 1

    with pytest.raises(SolverMismatch, match=r"at most 1 variables, the problem has 2; try 'working-set'"):
        Tiny().check(dualflow.problems.svdd(gram))


GRAM = dualflow.Gram(np.random.default_rng(0).normal(size=(6, 2)))
Y = np.tile([1.0, -1.0], 3)
POSED = {
    "hinge": dualflow.problems.svc(GRAM, Y),
    "without bias": dualflow.problems.svc(GRAM, Y, fit_intercept=False),
    "squared hinge": dualflow.problems.svc(GRAM, Y, loss="squared_hinge"),
    "hard margin": dualflow.problems.svc(GRAM, Y, np.inf),
    "hard ball": dualflow.problems.svdd(GRAM),
    "soft ball": dualflow.problems.svdd(GRAM, 0.5),
    "one class": dualflow.problems.one_class(GRAM, 0.5),
    "regression": dualflow.problems.svr(GRAM, Y, 1.0),
    "least squares": dualflow.problems.least_squares(GRAM, Y),
}


@pytest.mark.parametrize(
    ("solver", "posed", "way_out"),
    [
        ("variational-flow", "hinge", "set loss='squared_hinge', or use 'variational-lotka-volterra'"),
        ("variational-flow", "soft ball", "set nu=None, or use 'variational-lotka-volterra'"),
        ("variational-lotka-volterra", "squared hinge", "set loss='hinge', or use 'variational-flow'"),
        ("hamiltonian-lchs", "one class", "; use 'variational-lotka-volterra'"),
        ("smo", "least squares", "; use 'gradient-flow'"),
    ],
)
def test_a_mismatch_says_the_way_out(solver, posed, way_out):
    with pytest.raises(SolverMismatch) as caught:
        dualflow.solve(POSED[posed], solver)
    assert str(caught.value).endswith(way_out)


@pytest.mark.parametrize("posed", POSED)
def test_the_way_out_of_every_mismatch_leads_somewhere(posed):
    for name in solver_names():
        if solver_class(name).missing():
            continue
        if found := re.search(r"use '([^']+)'$", make_solver(name).mismatch(POSED[posed]) or ""):
            assert make_solver(found[1]).mismatch(POSED[posed]) is None, (name, found[1])
