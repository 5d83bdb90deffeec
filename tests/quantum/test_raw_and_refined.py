"""Estimators with circuits: the raw answer of the circuits, and reports of a refinement that replaced it."""

import json
import pickle
import warnings

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from typer.testing import CliRunner

from dualflow import (
    LSSVC,
    SVC,
    SVDD,
    SVR,
    EcosystemDisplay,
    Gram,
    OneClassSVM,
    SupportDisplay,
    SVCSearchCV,
    TrajectoryDisplay,
    UnusedCircuitsWarning,
    generalization_report,
    load,
    problems,
    solve,
)
from dualflow.cli import app
from dualflow.core.shot_floor import sampled_excess
from dualflow.testing import WrongDevice

X, T = make_moons(16, noise=0.15, random_state=3)
RUN = {"solver_options": {"device": "emulator", "shots": 1000}, "random_state": 0, "gamma": 2.0}
BAD = RUN | {"solver_options": {"device": WrongDevice("angles ignored"), "shots": 1000}}


def svc(**more):
    return SVC(C=10.0, loss="squared_hinge", solver="variational-flow", **(RUN | more))


MODELS = {
    "SVC": lambda **more: svc(**more).fit(X, T),
    "SVDD": lambda **more: SVDD(nu=0.3, solver="variational-lotka-volterra", **(RUN | more)).fit(X),
    "OneClassSVM": lambda **more: OneClassSVM(nu=0.3, solver="variational-lotka-volterra", **(RUN | more)).fit(X),
    "SVR": lambda **more: SVR(solver="variational-lotka-volterra", **(RUN | more)).fit(X, X[:, 0]),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_by_default_the_model_is_the_circuits_own_answer(name):
    model = MODELS[name]()
    solution = model.solution_
    assert not model.refined_
    assert not solution.refined
    np.testing.assert_array_equal(solution.alpha, solution.problem.project(solution.raw_alpha))
    assert model.certificate_.relative_gap == model.raw_certificate_.relative_gap == -model.solver_score_ > 1e-3
    assert model.fit_status_ == 1
    assert "refined" not in repr(solution)


@pytest.mark.filterwarnings("ignore::dualflow.FidelityWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_a_refined_answer_says_what_the_circuits_had_found(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = MODELS[name](**(BAD | {"refine": True}))
    solution = model.solution_
    assert model.refined_
    assert model.certificate_.relative_gap < 1e-6
    messages = [str(w.message) for w in caught if w.category is UnusedCircuitsWarning]
    assert len(messages) == 1
    assert "owes nothing to circuits" in messages[0]
    for text in (messages[0], repr(solution), solution.raw_summary()):
        assert "refined by the classical active-set method; the circuits' own answer: " in text
        assert f"excess {solution.raw_excess:.3g}" in text
    expected = (solution.raw_certificate.objective - solution.certificate.objective) / abs(
        solution.certificate.objective
    )
    assert solution.raw_excess == pytest.approx(expected)
    assert model.solver_score_ == -solution.raw_certificate.relative_gap < -1e-3


def test_a_right_device_gives_no_such_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnusedCircuitsWarning)
        model = svc(refine=True).fit(X, T)
    assert model.solution_.shows_circuits
    assert model.refined_


def test_classical_solvers_are_refined_as_before():
    model = SVC(C=10.0, solver="gradient-flow").fit(X, T)
    assert model.refined_
    assert model.certificate_.relative_gap < 1e-9
    assert not model.solution_.ran_circuits
    assert "own answer" not in repr(model.solution_)


def test_a_search_tells_the_emulator_from_the_null_device_by_solver_score():
    grid = [{"device": "emulator", "shots": 1000}, {"device": "null", "shots": 1000}]
    search = GridSearchCV(
        svc(refine=True), {"solver_options": grid}, scoring=lambda model, X, y: model.solver_score_, cv=2
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(X, T)
    assert search.best_params_["solver_options"]["device"] == "emulator"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_saved_models_keep_both_answers(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedCircuitsWarning)
        model = svc(refine=True, solver_options={"device": "null", "shots": 1000}).fit(X, T)
    model.save(tmp_path / "model")
    for other in (load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert other.solution_.raw_summary() == model.solution_.raw_summary()
        assert "NOISE_DOMINATED" in other.solution_.raw_summary()


SAID = "refined by the classical active-set method; the circuits' own answer: NOISE_DOMINATED"


@pytest.fixture(scope="module")
def refined():
    """A refined model, to which the circuits contributed nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return svc(refine=True, solver_options={"device": "null", "shots": 1000}).fit(X, T)


def test_an_estimator_says_it(refined):
    assert len(refined.raw_summaries_) == 1
    assert refined.raw_summaries_[0].startswith(SAID)
    assert SVC(C=10.0).fit(X, T).raw_summaries_ == ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (raw,) = svc().fit(X, T).raw_summaries_
    assert raw.startswith("the circuits' own answer: FINISHED, relative gap ")
    assert "; sampled: " in raw


def test_a_generalization_report_says_it(refined):
    report = generalization_report(refined, leave_one_out=False)
    assert report.circuits == refined.raw_summaries_
    assert SAID in str(report)
    assert "circuits" not in str(generalization_report(SVC(C=10.0).fit(X, T), leave_one_out=False))


@pytest.mark.parametrize(
    "drawn",
    [
        lambda model, ax: SupportDisplay.from_estimator(model, X, T, ax=ax).ax_.get_title(),
        lambda model, ax: SupportDisplay.from_solution(model.solution_, ax=ax).ax_.get_title(),
        lambda model, ax: EcosystemDisplay.from_estimator(model, ax=ax).ax_.get_title(),
        lambda model, ax: EcosystemDisplay.from_solution(model.solution_, ax=ax).ax_.get_title(),
    ],
    ids=["support of a model", "support of a solution", "ecosystem of a model", "ecosystem of a solution"],
)
def test_pictures_say_it(refined, drawn):
    title = drawn(refined, Figure().subplots())
    assert SAID in " ".join(title.split())
    assert max(map(len, title.splitlines())) <= 80
    assert "circuits" not in drawn(SVC(C=10.0).fit(X, T), Figure().subplots())


def test_a_picture_of_a_trajectory_says_what_followed():
    problem = problems.svc(Gram(X, gamma=2.0), 2 * T - 1, C=10.0, loss="squared_hinge")
    found = solve(problem, "variational-flow", device="null", shots=100, trajectory=True, refine=True, max_steps=3)
    display = TrajectoryDisplay.from_solution(found)
    assert "refined by the classical active-set method" in " ".join(display.figure_.get_suptitle().split())


def test_an_onnx_file_says_it(refined):
    pytest.importorskip("skl2onnx")
    from dualflow.interchange import to_onnx

    assert {p.key: p.value for p in to_onnx(refined).metadata_props}["circuits"].startswith(SAID)
    assert "circuits" not in {p.key for p in to_onnx(SVC(C=10.0).fit(X, T)).metadata_props}


@pytest.mark.parametrize("command", ["check", "predict"])
def test_the_command_line_says_it_of_a_saved_model(refined, command, tmp_path):
    refined.save(tmp_path / "model")
    rows = "\n".join(f"{a},{b}" for a, b in X)
    (tmp_path / "points.csv").write_text(f"a,b\n{rows}\n")
    given = [str(tmp_path / "model")] + ([str(tmp_path / "points.csv")] if command == "predict" else [])
    found = CliRunner().invoke(app, [command, *given])
    assert found.exit_code == 0, found.output
    assert "circuits" in found.output
    assert "active-set" in found.output
    said = json.loads(CliRunner().invoke(app, [command, *given, "--json"]).stdout)
    assert said["circuits"] == list(refined.raw_summaries_)


def test_a_search_of_its_own_warns_of_it():
    with pytest.warns(UnusedCircuitsWarning, match="owes nothing to circuits"):
        search = SVCSearchCV(
            svc(refine=True, solver_options={"device": "null", "shots": 1000}), {"C": [1.0, 10.0]}, cv=2
        ).fit(X, T)
    assert search.best_estimator_.raw_summaries_[0].startswith("refined by")


def test_verbose_says_it(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        svc(refine=True, verbose=True).fit(X, T)
    assert "the circuits' own answer: FINISHED" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("emulator", "The number of steps binds: .* Raise steps first"),
        (WrongDevice("75 % noise"), "more shots or steps do not help"),
    ],
)
@pytest.mark.filterwarnings("ignore::dualflow.FidelityWarning")
def test_advice_is_by_what_limits_the_run(device, words):
    with pytest.warns(ConvergenceWarning, match=words) as caught:
        svc(solver_options={"device": device, "shots": 1000}).fit(X, T)
    (said,) = (str(w.message) for w in caught if w.category is ConvergenceWarning)
    assert "bound" in said
    assert "lower C" not in said


def test_the_floor_of_an_excess_is_that_of_the_sampled_optimum():
    problem = problems.svc(Gram(X, "rbf", gamma=2.0), 2 * T - 1, C=10.0, loss="squared_hinge")
    best = solve(problem, tol=1e-10, refine=True)
    few, many = (sampled_excess(problem, best.alpha, shots) for shots in (100, 10_000))
    assert few > 0
    # Second order in the noise: a hundredth, within the spread of the median of 11 draws.
    assert 30 < few / many < 300


@pytest.mark.parametrize("refine", ["yes", 2, None])
def test_other_values_are_refused(refine):
    with pytest.raises(ValueError, match="refine="):
        SVC(refine=refine).fit(X, T)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_least_squares_on_circuits_is_raw_too():
    model = LSSVC(solver="hhl", solver_options={"device": "emulator"}, gamma=2.0).fit(X[:8], T[:8])
    assert not model.refined_
