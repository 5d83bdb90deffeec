"""scikit-learn's own checks of an estimator, with no more exceptions than its SVC and OneClassSVM have."""

import inspect

import pytest
from sklearn import svm
from sklearn.utils._test_common.instance_generator import PER_ESTIMATOR_XFAIL_CHECKS
from sklearn.utils.estimator_checks import parametrize_with_checks

from dualflow import (
    LDA,
    LSSVC,
    LSSVR,
    SVC,
    SVDD,
    SVR,
    CascadeSVC,
    CascadeSVDD,
    CascadeSVR,
    EcoSVC,
    EcoSVDD,
    NuSVC,
    NuSVR,
    OneClassSVM,
    PartitionedLinearSVC,
    PartitionedLinearSVDD,
    PartitionedLinearSVR,
    QuantileSVR,
)

GAMMA_SCALE = (
    "gamma='scale' is 1/(n_features · X.var()) whatever the weights, as in scikit-learn's own SVC: repeating rows "
    "changes the kernel. With a fixed gamma the check passes (see FIXED_GAMMA)."
)
REPEATED = {f"check_sample_weight_equivalence_on_{kind}_data": GAMMA_SCALE for kind in ("dense", "sparse")}
INFEASIBLE = "nu=0.5 is infeasible with the check's weights, as in scikit-learn's own NuSVC: the error says so."
ROOT_OF_GAP = (
    "two centres within the same certified gap are up to its root apart: 2e-7 here, and the check allows 1e-9. The "
    "objectives agree to 1e-9 (tests/cascade/test_partitioned_values.py)."
)
SHARES = dict.fromkeys([*REPEATED, "check_class_weight_classifiers"], INFEASIBLE)
EXPECTED = {
    SVC: REPEATED,
    SVDD: REPEATED,
    SVR: REPEATED,
    OneClassSVM: REPEATED,
    NuSVC: SHARES,
    NuSVR: REPEATED,
    QuantileSVR: REPEATED,
    LSSVC: REPEATED,
    LSSVR: REPEATED,
    CascadeSVC: {"check_sample_weight_equivalence_on_dense_data": GAMMA_SCALE},
    CascadeSVDD: {},
    CascadeSVR: {},
    EcoSVC: {"check_sample_weight_equivalence_on_dense_data": GAMMA_SCALE},
    EcoSVDD: {},
    LDA: {},
    PartitionedLinearSVC: {},
    PartitionedLinearSVDD: {"check_sample_weight_equivalence_on_dense_data": ROOT_OF_GAP},
    PartitionedLinearSVR: {},
}
DEFAULT_GAMMA = [SVC(), SVDD(), SVC(loss="squared_hinge")]
#: The same classes as below with another γ, which two of some fifty checks of each depend on.
DEFAULT_GAMMA_SLOW = [
    SVR(),
    OneClassSVM(),
    NuSVC(),
    NuSVR(),
    QuantileSVR(),
    CascadeSVC(),
    EcoSVC(),
    EcoSVDD(),
]
FIXED_GAMMA = [
    SVC(gamma=0.3),
    SVDD(gamma=0.3, nu=0.3),
    OneClassSVM(gamma=0.3),
    SVR(gamma=0.3),
    NuSVC(gamma=0.3),
    NuSVR(gamma=0.3),
    QuantileSVR(gamma=0.3),
    LSSVC(gamma=0.3),
    LSSVR(gamma=0.3),
    LDA(),
    CascadeSVC(gamma=0.3, tol=1e-6),
    CascadeSVDD(gamma=0.3, nu=0.3, tol=1e-6),
    CascadeSVR(gamma=0.3, tol=1e-6),
    EcoSVC(gamma=0.3),
    EcoSVDD(gamma=0.3, nu=0.3),
    PartitionedLinearSVC(),
    PartitionedLinearSVDD(nu=0.3),
    PartitionedLinearSVR(),
]


def expected_failures(estimator):
    return (
        EXPECTED[type(estimator)]
        if estimator.gamma == "scale" or isinstance(estimator, (NuSVC, PartitionedLinearSVDD))
        else {}
    )


# scikit-learn 1.6 has no such argument: there an expected failure that passes goes unnoticed.
STRICT = {"xfail_strict": True} if "xfail_strict" in inspect.signature(parametrize_with_checks).parameters else {}


@parametrize_with_checks(DEFAULT_GAMMA + FIXED_GAMMA, expected_failed_checks=expected_failures, **STRICT)
def test_contract(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(DEFAULT_GAMMA_SLOW, expected_failed_checks=expected_failures, **STRICT)
def test_contract_of_default_gamma(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (SVC, svm.SVC),
        (SVDD, svm.OneClassSVM),
        (OneClassSVM, svm.OneClassSVM),
        (SVR, svm.SVR),
        (NuSVC, svm.NuSVC),
        (NuSVR, svm.NuSVR),
        (QuantileSVR, svm.SVR),
        (LSSVC, svm.SVC),
        (LSSVR, svm.SVR),
        (CascadeSVC, svm.SVC),
        (CascadeSVDD, svm.OneClassSVM),
        (CascadeSVR, svm.SVR),
        (EcoSVC, svm.SVC),
        (PartitionedLinearSVC, svm.SVC),
        (PartitionedLinearSVDD, svm.OneClassSVM),
        (PartitionedLinearSVR, svm.SVR),
    ],
)
def test_no_more_exceptions_than_scikit_learn_itself(ours, theirs):
    assert set(EXPECTED[ours]) <= set(PER_ESTIMATOR_XFAIL_CHECKS[theirs])
    assert all(len(reason) > 40 for reason in EXPECTED[ours].values())
