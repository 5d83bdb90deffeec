"""Tests of searches that fail or end early."""

import itertools
import re
import threading
import time
import warnings

import numpy as np
import pytest
import sklearn.svm
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold

import dualflow
from dualflow import SVC, SVR, FitError, ProblemError, SVCSearchCV, SVRSearchCV
from dualflow.core.runtime import clock
from dualflow.selection import _evaluation, _plan

GRID = {"C": [0.1, 1.0, 30.0], "gamma": [0.01, 0.1, 1.0]}


def german():
    return make_classification(n_samples=260, n_features=24, weights=[0.7], flip_y=0.1, random_state=0)


def test_other_estimators_are_refused():
    X, y = german()
    with pytest.raises(ProblemError, match="is not a dualflow"):
        SVCSearchCV(sklearn.svm.SVC(), GRID).fit(X, y)
    with pytest.raises(ProblemError, match="is not a dualflow"):
        SVRSearchCV(SVC(), GRID).fit(X, y)
    with pytest.raises(ProblemError, match="time_limit=-1"):
        SVCSearchCV(SVC(), GRID, time_limit=-1).fit(X, y)
    with pytest.raises(ProblemError, match="error_score='no'"):
        SVCSearchCV(SVC(), GRID, error_score="no").fit(X, y)
    with pytest.raises(ValueError, match="Invalid parameter"):
        SVCSearchCV(SVC(), {"cost": [1]}).fit(X, y)


def test_candidates_that_fail_have_the_error_score():
    X, y = german()
    search = SVCSearchCV(SVC(), {"C": [1.0, -1.0]}, cv=3, error_score=-5.0)
    with pytest.warns(FitFailedWarning, match="C=-1"):
        search.fit(X, y)
    assert search.cv_results_["mean_test_score"][1] == -5.0
    assert search.best_params_ == {"C": 1.0}
    with pytest.raises(ProblemError, match="C=-1"):
        SVCSearchCV(SVC(), {"C": [1.0, -1.0]}, cv=3, error_score="raise").fit(X, y)
    with pytest.raises(ValueError, match="All the 3 fits failed"):
        SVCSearchCV(SVC(), {"C": [-1.0]}, cv=3).fit(X, y)


def test_data_that_cannot_be_used_are_refused_by_the_fits():
    X, y = german()
    broken = X.copy()
    broken[3, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        SVCSearchCV(SVC(), {"C": [1.0]}, cv=3, error_score="raise").fit(broken, y)
    with pytest.raises(ValueError, match="single class"):
        SVCSearchCV(SVC(), {"C": [1.0]}, cv=KFold(3)).fit(X, np.zeros(len(y), dtype=int))


@pytest.mark.parametrize("jobs", [1, 2])
def test_complete_candidates_survive_an_early_end(monkeypatch, jobs):
    X, y = german()
    seen, lock = [], threading.Lock()
    row = _evaluation.SearchTask.row

    def ends(task, *arguments):
        with lock:
            seen.append(arguments[:2])
            late = len(seen) == 14 * jobs  # a kernel has 15 fits: at least the third one was not complete
        if late:
            searching[0].deadline = time.monotonic() - 1
        return row(task, *arguments)

    searching = []
    times = _evaluation.Times.__init__

    def keep(self, *arguments):
        times(self, *arguments)
        searching.append(self)

    monkeypatch.setattr(_evaluation.SearchTask, "row", ends)
    monkeypatch.setattr(_evaluation.Times, "__init__", keep)
    search = SVCSearchCV(SVC(), GRID, cv=5, n_jobs=jobs, time_limit=1e6)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X, y)
    assert any("The search ended before this fit" in str(w.message) for w in caught)
    scores = search.cv_results_["mean_test_score"]
    assert 1 <= np.isfinite(scores).sum() < len(scores)
    monkeypatch.undo()
    whole = SVCSearchCV(SVC(), GRID, cv=5).fit(X, y).cv_results_["mean_test_score"]
    reached = np.isfinite(scores)
    np.testing.assert_array_equal(scores[reached], whole[reached])
    assert search.best_score_ == whole[reached].max()


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("nth", [1, 14])
def test_ctrl_c_is_always_raised(monkeypatch, nth, jobs):
    calls, row = itertools.count(1), _evaluation.SearchTask.row

    def interrupt(*arguments):
        if next(calls) == nth:
            raise KeyboardInterrupt
        return row(*arguments)

    monkeypatch.setattr(_evaluation.SearchTask, "row", interrupt)
    X, y = german()
    search = SVCSearchCV(SVC(), GRID, cv=5, n_jobs=jobs)
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, y)
    assert not hasattr(search, "cv_results_")


def test_no_time_at_all_is_an_error_that_says_so():
    X, y = german()
    with pytest.raises(FitError, match=r"time_limit=1e-09 was over before a candidate .* 0 of 45 fits ended"):
        SVCSearchCV(SVC(), GRID, cv=5, time_limit=1e-9).fit(X, y)


@pytest.mark.parametrize("search", [SVCSearchCV, SVRSearchCV])
@pytest.mark.parametrize("fits", [0, 2])
def test_a_limit_before_a_complete_candidate_is_an_error_with_its_cost(monkeypatch, search, fits):
    """The fit after those that end lasts until the clock says stop; a fit to all points is then of 9/4 such fits."""
    X, y = german()
    began, model = time.monotonic(), SVC if search is SVCSearchCV else SVR
    count, whole = itertools.count(), model.fit

    def slow(self, X, y, sample_weight=None):
        if next(count) < fits:
            return whole(self, X, y, sample_weight)
        while True:
            clock.check_time()

    monkeypatch.setattr(model, "fit", slow)
    monkeypatch.setattr(_plan, "MAX_POINTS_LONE", 0)  # candidates are fitted one by one
    with pytest.raises(FitError, match=rf"time_limit=0.6 was over before .*: {fits} of 6 fits ended") as caught:
        search(model(), {"gamma": [0.1, 1.0]}, cv=3, time_limit=0.6).fit(X, y)
    assert time.monotonic() - began < 1.6
    took, least = map(float, re.search(r"had taken (\S+) s\. .* at least (\S+) s", str(caught.value)).groups())
    assert 0 < took <= 0.7
    assert least == pytest.approx((3 + 9 / 4) * took, rel=0.1)


def test_a_limit_before_the_best_is_fitted_to_all_points_is_an_error_of_the_search(monkeypatch):
    X, y = german()
    whole = SVC.fit

    def slow(self, X, y, sample_weight=None):
        if len(X) < 260:
            return whole(self, X, y, sample_weight)
        time.sleep(self.time_limit)
        raise FitError("time_limit=0.1 was over before what the solver had reached could be certified")

    monkeypatch.setattr(SVC, "fit", slow)
    search = SVCSearchCV(SVC(), {"C": [1.0]}, cv=3, time_limit=1.5)
    with pytest.raises(FitError, match=r"time_limit=1.5 was over before the best candidate, {'C': 1.0}, was fitted"):
        search.fit(X, y)


def test_a_search_is_cloned_and_nested():
    X, y = load_iris(return_X_y=True)
    search = SVCSearchCV(SVC(), {"C": [0.1, 1.0]}, cv=StratifiedKFold(3), time_limit=60.0)
    assert clone(search).get_params(deep=False).keys() == search.get_params(deep=False).keys()
    outer = GridSearchCV(search, {"estimator__gamma": [0.1, 1.0]}, cv=2).fit(X, y)
    assert outer.best_score_ > 0.9
    assert dualflow.SVCSearchCV is SVCSearchCV
