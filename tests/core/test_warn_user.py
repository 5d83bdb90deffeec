"""Warnings point at the line of the user's code, through every public function."""

import threading
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dualflow import (
    SVC,
    SVDD,
    SVR,
    ConformalSVR,
    EcoSVC,
    EcoSVDD,
    Gram,
    NuSVC,
    NuSVR,
    OneClassSVM,
    ProblemError,
    SVCSearchCV,
)
from dualflow.core.runtime.warn import warn_user

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = (X[:, 0] + RNG.normal(size=60) > 0).astype(int)
T = X[:, 0]
EARLY = {"max_iter": 1, "refine": False}
BENT = {"kernel": "sigmoid", "gamma": 5.0, "coef0": -1.0}
K = X @ X.T
WAYS = {
    "SVC, max_iter": lambda: SVC(**EARLY).fit(X, Y),
    "SVC, three classes": lambda: SVC(**EARLY).fit(X, np.arange(60) % 3),
    "SVC, indefinite": lambda: SVC(**BENT).fit(X, Y),
    "SVC, ignored": lambda: SVC(shrinking=False).fit(X, Y),
    "SVR, max_iter": lambda: SVR(**EARLY).fit(X, T),
    "SVR, ignored": lambda: SVR(shrinking=False).fit(X, T),
    "SVDD": lambda: SVDD(nu=0.3, **EARLY).fit(X),
    "OneClassSVM": lambda: OneClassSVM(**EARLY).fit(X),
    "NuSVC": lambda: NuSVC(**EARLY).fit(X, Y),
    "NuSVR": lambda: NuSVR(**EARLY).fit(X, T),
    "EcoSVC, fit": lambda: EcoSVC(n_init=2).fit(X, Y),
    "EcoSVC, partial_fit": lambda: EcoSVC(**BENT).partial_fit(X, Y, classes=[0, 1]),
    "EcoSVDD": lambda: EcoSVDD(n_init=2).partial_fit(X),
    "Gram": lambda: Gram(K + 1e-6 * np.triu(RNG.random(K.shape)), "precomputed"),
    "SVC, precomputed": lambda: SVC(kernel="precomputed").fit(K + 1e-6 * np.triu(RNG.random(K.shape)), Y),
    "ConformalSVR": lambda: ConformalSVR(SVR(**EARLY)).fit(X, T),
    "Pipeline": lambda: make_pipeline(StandardScaler(), SVC(**EARLY)).fit(X, Y),
    "GridSearchCV": lambda: GridSearchCV(SVC(**EARLY), {"C": [1.0, 2.0]}, cv=2).fit(X, Y),
    "SVCSearchCV": lambda: SVCSearchCV(SVC(shrinking=False), {"C": [1.0, 2.0]}).fit(X, Y),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_place_is_the_users_line(way):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        WAYS[way]()
    assert caught
    assert {(one.filename, one.lineno) for one in caught} == {(__file__, WAYS[way].__code__.co_firstlineno)}


def test_a_thread_without_a_frame_of_the_user_warns_all_the_same():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        thread = threading.Thread(target=warn_user, args=("late", ConvergenceWarning))
        thread.start()
        thread.join()
    assert [str(one.message) for one in caught] == ["late"]


@pytest.mark.parametrize(
    "call",
    [
        lambda: SVC(C=-1).fit(X, Y),
        lambda: SVC().fit(X, np.ones(60)),
        lambda: SVC(solver="none").fit(X, Y),
        lambda: SVC(kernel="none").fit(X, Y),
        lambda: SVC(class_weight={0: -1.0}).fit(X, Y),
        lambda: SVC(max_iter=0).fit(X, Y),
        lambda: SVC().fit(X, Y).predict(X[:, :2]),
        lambda: SVR(epsilon=-1).fit(X, T),
        lambda: NuSVC(nu=1.5).fit(X, Y),
        lambda: SVDD(nu=7).fit(X),
        lambda: OneClassSVM(nu=0).fit(X),
        lambda: Gram([[np.nan]]),
    ],
)
def test_errors_about_data_and_parameters_are_value_errors(call):
    with pytest.raises(ValueError) as raised:
        call()
    assert issubclass(ProblemError, ValueError)
    assert str(raised.value)
