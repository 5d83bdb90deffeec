"""Arguments shared with scikit-learn's estimators: ignored ones, limits of iterations, and the output of verbose."""

import re
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning

from dualflow import SVC, SVDD, SVR, Gram, OneClassSVM, ProblemError, Status, SVCSearchCV, load, problems, solve
from dualflow.driver import run
from dualflow.estimators import _solving
from dualflow.solvers.gradient_flow import GradientFlow

X, Y = make_moons(120, noise=0.3, random_state=0)
IRIS = load_iris(return_X_y=True)
ALL = [SVC(), SVR(), SVDD(), OneClassSVM()]
every_kind = pytest.mark.parametrize("model", ALL, ids=lambda model: type(model).__name__)


@every_kind
def test_ignored_arguments_warn_once(model):
    silly, plain = clone(model).set_params(shrinking=False, cache_size=500), clone(model).fit(X, Y)
    text = r"ignores them: shrinking=False \(.*\); cache_size=500 \(.*release_memory"
    with pytest.warns(UserWarning, match=text) as caught:
        silly.fit(X, Y)
    assert len(caught) == 1
    assert type(model).__name__ in str(caught[0].message)
    np.testing.assert_array_equal(silly.predict(X), plain.predict(X))


@pytest.mark.parametrize("value", ["deprecated", False])
def test_without_probability_the_way_to_it_is_said(value):
    model = SVC(probability=value).fit(X, Y)
    for name in ("predict_proba", "predict_log_proba"):
        assert not hasattr(model, name)
        assert not hasattr(SVC(probability=value), name)
    with pytest.raises(AttributeError, match=r"no attribute 'predict_proba'") as caught:
        model.predict_proba(X)
    assert "fit it with probability='sigmoid', or calibrate it by sklearn" in str(caught.value.__cause__)


@every_kind
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_iter": 0}, "max_iter=0 leaves no iteration"),
        ({"max_iter": -2}, "max_iter=-2 must be an integer"),
        ({"max_iter": 2.5}, "max_iter=2.5 must be an integer"),
        ({"max_iter": True}, "max_iter=True must be an integer"),
        ({"max_iter": 5, "max_steps": 5}, "max_iter=5 and max_steps=5 limit the same solve"),
        ({"shrinking": "yes"}, "shrinking='yes' must be True"),
        ({"cache_size": 0}, "cache_size=0 must be"),
        ({"verbose": -1}, "verbose=-1 must be"),
        ({"n_jobs": 0}, "n_jobs=0 must be"),
    ],
    ids=str,
)
def test_arguments_out_of_range_are_errors(model, arguments, message):
    with pytest.raises(ProblemError, match=message):
        clone(model).set_params(**arguments).fit(X, Y)


def test_probability_is_a_bool():
    with pytest.raises(ProblemError, match="probability='maybe'"):
        SVC(probability="maybe").fit(X, Y)


# --- limits -----------------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("limit", [1, 7, 40])
def test_the_default_solver_makes_no_more_pair_updates(model, limit):
    model = clone(model).set_params(max_iter=limit, refine=False)
    with pytest.warns(ConvergenceWarning, match=rf"^Solver terminated early \(max_iter={limit}\)"):
        model.fit(X, Y)
    assert (np.asarray(model.n_iter_) == limit).all()
    assert model.fit_status_ == 1
    assert np.isfinite(model.predict(X)).all()
    again = clone(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(again.fit(X, Y).dual_coef_, model.dual_coef_)


@pytest.mark.parametrize("n", [60, 400, 2500])
def test_updates_are_counted_in_every_strategy(n):
    """With a dense matrix, in blocks and by levels; more updates give a smaller gap."""
    points, labels = make_moons(n, noise=0.3, random_state=1)
    problem = problems.svc(Gram(points), np.where(labels, 1, -1), 10.0)
    gaps = []
    for limit in (3, 20, 60):
        solution = solve(problem, "working-set", max_updates=limit)
        assert solution.extras["updates"].tolist() == [limit]
        assert solution.status is not Status.OPTIMAL
        assert solution.raw_certificate.infeasibility <= 1e-9
        gaps.append(solution.raw_certificate.objective)
    assert gaps[0] > gaps[1] > gaps[2]
    free = solve(problem, "working-set", gap_tol=5e-7)  # a run, as with a limit
    wide = solve(problem, "working-set", max_updates=10**9)
    np.testing.assert_array_equal(free.raw_alpha, wide.raw_alpha)
    assert "updates" not in free.extras


def test_the_state_reached_is_refined_unless_refine_is_false():
    with pytest.warns(ConvergenceWarning, match="terminated early"):
        model = SVC(C=3.0, max_iter=20).fit(X, Y)
    np.testing.assert_allclose(model.decision_function(X), SVC(C=3.0).fit(X, Y).decision_function(X), atol=1e-6)
    assert model.fit_status_ == 0


def test_other_solvers_count_steps():
    with pytest.warns(ConvergenceWarning, match=r"max_iter=2\)"):
        model = SVC(solver="gradient-flow", max_iter=2, refine=False).fit(X, Y)
    assert model.n_iter_.tolist() == [2]
    assert model.solution_.raw_ended is Status.STEP_LIMIT


def test_every_pair_of_classes_has_the_limit():
    with pytest.warns(ConvergenceWarning, match="terminated early") as caught:
        model = SVC(max_iter=3).fit(*IRIS)
    assert model.n_iter_.tolist() == [3, 3, 3]
    assert sum("terminated early" in str(one.message) for one in caught) == 1


def test_a_search_fits_what_is_limited_one_by_one():
    with pytest.warns(ConvergenceWarning, match="terminated early") as caught:
        search = SVCSearchCV(SVC(max_iter=2), {"C": [1.0, 10.0]}, cv=3).fit(X, Y)
    assert len(caught) == 2 * 3 + 1  # and the one that is fitted again
    assert search.best_estimator_.n_iter_.tolist() == [2]


def test_a_limited_model_is_saved(tmp_path):
    with pytest.warns(ConvergenceWarning, match="terminated early"):
        model = OneClassSVM(max_iter=9, refine=False, random_state=0).fit(X)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.n_iter_ == model.n_iter_ == 9
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert again.get_params()["max_iter"] == 9


# --- output of verbose --------------------------------------------------------------------------------


@every_kind
def test_verbose_ends_with_a_line_and_changes_nothing(model, capsys):
    quiet, verbose = clone(model).fit(X, Y), clone(model).set_params(verbose=True).fit(X, Y)
    text = capsys.readouterr().out
    assert re.search(rf"^{type(model).__name__}: 1 of 1 solved, certified relative gap \S+, \d+\.\d s$", text.strip())
    np.testing.assert_array_equal(quiet.dual_coef_, verbose.dual_coef_)
    np.testing.assert_array_equal(quiet.predict(X), verbose.predict(X))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_verbose_prints_gap_survivors_and_time(monkeypatch, capsys, n_jobs):
    monkeypatch.setattr(_solving, "LINE_INTERVAL_S", 0.0)
    steps = []
    model = SVC(solver="gradient-flow", verbose=1, n_jobs=n_jobs, callback=lambda progress: steps.append(progress.step))
    model.fit(*IRIS)
    *lines, last = capsys.readouterr().out.strip().splitlines()
    assert steps
    assert len(lines) == len(steps)
    for line in lines:
        assert re.search(
            r"^SVC: solve [123] of 3, step \d+, certified relative gap \S+, \d+ survivors, \d+\.\d s$", line
        )
    assert last.startswith("SVC: 3 of 3 solved, certified relative gap ")


def test_the_gap_that_verbose_prints_moves_between_the_certificates_of_the_solver(monkeypatch, capsys):
    """Else a long fit prints the gap of its start, line by line."""
    monkeypatch.setattr(_solving, "LINE_INTERVAL_S", 0.0)
    monkeypatch.setattr(run, "MIN_CERTIFICATE_AGE_S", 0.0)
    monkeypatch.setattr(run, "MAX_CERTIFICATE_AGE", 0.0)
    monkeypatch.setattr(GradientFlow, "certify_every", 200)
    model = SVC(solver="gradient-flow", verbose=True, max_steps=7).fit(X, Y)
    gaps = re.findall(r"gap (\S+), \d+ survivors", capsys.readouterr().out)
    assert len(gaps) == 7
    assert len(set(gaps[:6])) == 6
    quiet = clone(model).set_params(verbose=False).fit(X, Y)
    np.testing.assert_array_equal(quiet.dual_coef_, model.dual_coef_)


def test_verbose_on_a_terminal_keeps_one_line(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(_solving, "LIVE_INTERVAL_S", 0.0)
    SVC(solver="gradient-flow", verbose=True).fit(X, Y)
    text = capsys.readouterr().out
    assert "1 of 1 solved" in text


def test_verbose_says_that_a_gap_is_withheld(capsys):
    K = -X @ X.T
    with pytest.warns(ConvergenceWarning, match="withheld"):
        SVC(kernel="precomputed", verbose=True).fit(K, Y)
    assert "1 of 1 solved, no certified gap" in capsys.readouterr().out


def test_a_fit_that_fails_leaves_the_terminal_alone(capsys):
    with pytest.raises(ArithmeticError):
        SVC(verbose=True, solver="gradient-flow", callback=lambda progress: 1 / 0).fit(X, Y)
    assert capsys.readouterr().out == ""


# --- labels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "other", "shown"), [(1, 2, "1"), (2.0, 3.0, "2.0"), (True, False, "True"), ("oak", "ash", "'oak'")]
)
def test_labels_are_shown_as_they_were_written(label, other, shown):
    with pytest.raises(ProblemError, match=rf"single class, {shown};"):
        SVC().fit(X, [label] * len(X))
    y = [label if low else other for low in Y == 0]
    with pytest.raises(ProblemError, match=rf"no point of class {shown} has a positive weight"):
        SVC().fit(X, y, sample_weight=Y)
