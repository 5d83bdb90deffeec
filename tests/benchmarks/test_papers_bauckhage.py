"""The flow of Bauckhage's paper: path and rates against independent ones; its findings can go either way."""

import argparse

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from benchmarks.lib import replicator
from benchmarks.lib.flow_draws import Flow
from benchmarks.papers import bauckhage
from dualflow import Gram, problems, solve
from dualflow.flows.gradient import GradientField


def small(n=14, seed=3):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, 2)), np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    return problems.svc(Gram(X + 0.8 * y[:, None], gamma=0.5), y, C=20.0, loss="squared_hinge")


PROBLEM = small()
H = PROBLEM.dense()
REST = solve(PROBLEM, tol=1e-12, refine=True).alpha


def test_rates_are_those_of_the_fields_jacobian_at_rest():
    field, n = GradientField(PROBLEM), PROBLEM.n
    step = 1e-7  # inwards only at μᵢ = 0: the field is a polynomial, its one-sided differences do
    jacobian = np.array([(field.rate(0, REST + step * e) - field.rate(0, REST)) / step for e in np.eye(n)]).T
    basis = np.linalg.svd(np.ones((1, n)))[2][1:]  # of the directions in the simplex
    wanted = np.sort(-np.linalg.eigvals(basis @ jacobian @ basis.T).real)
    found = replicator.modes(H, REST)
    assert len(found.outer) > 0
    np.testing.assert_allclose(np.sort([*found.inner, *found.outer]), wanted, rtol=1e-4, atol=1e-7)
    assert found.level == pytest.approx(REST @ H @ REST)
    assert found.inner.sum() + found.level == pytest.approx(REST @ H.diagonal())  # the trace of D^½HD^½
    assert found.slowest == pytest.approx(wanted[0], rel=1e-3)


def test_the_path_is_that_of_the_field_on_the_simplex():
    times = np.linspace(0, 20, 30)
    found = replicator.path(H, times)
    field = GradientField(PROBLEM)
    run = solve_ivp(field.rate, (0, 20), np.full(PROBLEM.n, 1 / PROBLEM.n), t_eval=times, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.mu, run.y.T, atol=1e-7)
    np.testing.assert_allclose(found.mu.sum(axis=1), 1.0, atol=1e-14)
    assert (np.diff(found.objective) < 0).all()
    assert found.objective[-1] == pytest.approx(PROBLEM.objective(found.mu[-1]))


def test_the_fitted_rate_is_that_of_the_end():
    slowest = replicator.modes(H, REST).slowest
    found = replicator.path(H, np.append(0, np.geomspace(1, 17 / slowest, 200)))
    assert replicator.fitted_rate(found, REST, slowest) == pytest.approx(slowest, rel=5e-3)
    times = np.linspace(0, 20, 50)
    made = replicator.Path(times, REST + 0.01 * np.exp(-times)[:, None], np.exp(-times))
    assert replicator.fitted_rate(made, REST, 1.0) == pytest.approx(1.0)
    assert made.first_within(REST, 1e-4) == pytest.approx(np.log(100), abs=20 / 49)
    assert np.isnan(made.first_within(REST, 0.0))
    assert np.isnan(made.first_below(1e-12, 1e-3))


def test_the_literal_equation_is_the_field_on_the_simplex_and_leaves_it():
    mu = np.random.default_rng(0).dirichlet(np.ones(PROBLEM.n))
    np.testing.assert_allclose(replicator.literal(H, mu), GradientField(PROBLEM).rate(0, mu), atol=1e-15)
    for bump, side in ((1e-6, 1.0), (-1e-6, -1.0)):
        times, total, grown = replicator.drift(H, np.full(PROBLEM.n, (1 + bump) / PROBLEM.n), 1e4, 1e-9)
        assert times[-1] < 1e4
        assert total[-1] - 1 == pytest.approx(side * 0.5)
        early = np.abs(total - 1) < 1e-3
        np.testing.assert_allclose(np.log((total[early] - 1) / bump), grown[early], atol=1e-3)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plots")
    return bauckhage.find(argparse.Namespace(quick=True, plot=folder, csv=None, data=None)), folder


@pytest.mark.slow
def test_quick_finds_what_is_known(quick):
    found, folder = quick
    verdicts = {f"{f.where}, {f.what}": f.verdict for f in found}
    assert len(verdicts) == len(found)
    assert {v for name, v in verdicts.items() if name.startswith("rates")} == {"match"}
    assert verdicts["equation 3, integrated literally, t ≤ 1000"] == "mismatch"
    assert verdicts["equation 3, integrated literally, t ≤ 12"] == "match"
    assert verdicts["remark, [μμᵀ − D(μ)]H"] == "mismatch"
    assert verdicts["outlook, nearest mean, as the flow's rest for C → 0"] == "match"
    assert all(f.seed is not None or f.verdict == "not reproducible" for f in found)
    assert max(len(text) for f in found for text in (f"{f.where}: {f.what}", f.says, f.gets, f.why)) <= 120
    assert {p.name for p in folder.iterdir()} == {"bauckhage_figure_1.png", "bauckhage_rates.png"}


def test_a_trained_state_is_found_trained():
    flow = Flow(0, "polynomial")
    flow.__dict__.update({"at_twelve": flow.rest, "wolfe": flow.rest})
    found = {f.what: f.verdict for f in bauckhage.figure_1([flow])}
    del found["data, kernel offset, C"]
    assert set(found.values()) == {"match"}
    assert len(found) == 5


def test_a_hermitian_unitary_matrix_is_found_to_be_both():
    flow = Flow(0, "polynomial")
    n = bauckhage.N
    flow.__dict__.update({"hessian": np.eye(n), "rest": np.full(n, 1 / n)})
    found = {f.what: f.verdict for f in bauckhage.equations([flow])}
    assert found["[μμᵀ − D(μ)]H"] == "match"
    assert found["H†H = HH† = 1"] == "match"
