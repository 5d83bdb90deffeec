"""A parameter changed after `fit` counts at the next fit, or where the docs say so, never for a part of the model."""

import copy
import pickle
import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.base import is_classifier, is_regressor

import dualflow
from dualflow import (
    LDA,
    LSSVC,
    LSSVR,
    SVC,
    SVDD,
    SVR,
    CascadeSVC,
    ConformalSVC,
    ConformalSVR,
    EcoSVC,
    EcoSVDD,
    IncrementalSVC,
    IncrementalSVDD,
    IncrementalSVR,
    NuSVC,
    NuSVR,
    OneClassSVM,
    PartitionedLinearSVC,
    ProblemError,
    QuantileSVR,
    SVCSearchCV,
    SVRSearchCV,
    generalization_report,
)
from dualflow.interchange import to_c, to_libsvm, to_onnx
from tests.combinations import often

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(36, 2)), RNG.normal(size=(9, 2))
Y = (X[:, 0] + 0.4 * RNG.normal(size=36) > 0).astype(int)
THREE = Y + (X[:, 1] > 0.7)

POLY = {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.3}
MODELS = {
    "SVC": (SVC(**POLY), Y),
    "SVC of three": (SVC(kernel="linear", decision_function_shape="ovo"), THREE),
    "squared hinge": (SVC(loss="squared_hinge"), Y),
    "SVR": (SVR(**POLY), X[:, 0]),
    "SVDD": (SVDD(**POLY), None),
    "SVDD with a share": (SVDD(nu="auto", contamination=0.2), None),
    "OneClassSVM": (OneClassSVM(**POLY), None),
    "LSSVC": (LSSVC(**POLY), Y),
    "LSSVR": (LSSVR(**POLY), X[:, 0]),
    "LDA": (LDA(), THREE),
    "CascadeSVC": (CascadeSVC(**POLY, random_state=0), Y),
    "EcoSVC": (EcoSVC(**POLY), Y),
    "EcoSVC of three": (EcoSVC(), THREE),
    "EcoSVDD": (EcoSVDD(**POLY), None),
    "IncrementalSVC": (IncrementalSVC(**POLY), Y),
    "IncrementalSVC of three": (IncrementalSVC(), THREE),
    "IncrementalSVDD": (IncrementalSVDD(**POLY), None),
    "IncrementalSVR": (IncrementalSVR(**POLY), X[:, 0]),
    "NuSVC": (NuSVC(**POLY, nu=0.3), Y),
    "NuSVC of three": (NuSVC(nu=0.2), THREE),
    "NuSVR": (NuSVR(**POLY), X[:, 0]),
    "QuantileSVR": (QuantileSVR(**POLY), X[:, 0]),
    "PartitionedLinearSVC": (PartitionedLinearSVC(random_state=0), Y),
}
STREAMS = [name for name in MODELS if name.startswith(("Eco", "Incremental"))]

#: Parameters of predictions, which do not change the model: they count at each call.
AT_CALL = {"predict_dtype", "decision_function_shape", "break_ties"}
#: For each parameter other values than those of the fits.
OTHERS = {
    "C": [7.0],
    "loss": ["hinge", "squared_hinge"],
    "kernel": ["linear", "rbf", "sigmoid", "precomputed"],
    "gamma": [3.7, "auto"],
    "degree": [5],
    "coef0": [2.5],
    "fit_intercept": [False],
    "solver": ["smo"],
    "solver_options": [{"unknown": 1}],
    "refine": [False],
    "tol": [0.05],
    "max_steps": [1],
    "time_limit": [1000.0],
    "class_weight": ["balanced"],
    "warm_start": [True],
    "callback": [print],
    "on_interrupt": ["keep"],
    "random_state": [7],
    "max_iter": [1],
    "verbose": [True],
    "shrinking": [False],
    "cache_size": [1],
    "probability": [True],
    "n_jobs": [2],
    "nu": [0.77, None],
    "contamination": [0.4, None],
    "epsilon": [0.7],
    "reserve": [0.2],
    "reequilibrate": ["lotka-volterra"],
    "n_init": [3],
    "priors": [[0.2, 0.3, 0.5]],
    "shrinkage": [0.5],
    "rank_tol": [0.3],
    "partitions": [3],
    "partitioner": ["clusters"],
    "engine": ["joblib"],
    "max_invaders": [5],
    "quantile": [0.3],
    "non_crossing": [True],
    "checkpoint": ["nowhere"],
}


@cache
def fitted(name):
    model, y = MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return copy.deepcopy(model).fit(X, y)


def values(model):
    return (model.decision_function if hasattr(model, "decision_function") else model.predict)(Z)


def saved(model, path):
    model.save(path / "model")
    again = dualflow.load(path / "model")
    assert shown(again) == shown(model)
    return values(again)


def shown(model):
    return {name: value for name, value in model.get_params().items() if name != "callback"}


def libsvm(model, path):
    to_libsvm(model, path / "libsvm")
    return np.frombuffer((path / "libsvm").read_bytes(), np.uint8)


def onnx(model, path):
    to_onnx(model, path / "onnx")
    return np.frombuffer((path / "onnx").read_bytes(), np.uint8)


def c_header(model, path):
    return np.frombuffer(to_c(model).encode(), np.uint8)


def support_display(model, path):
    from matplotlib import pyplot

    from dualflow.displays import SupportDisplay

    display = SupportDisplay.from_estimator(model, X, grid_resolution=8)
    pyplot.close("all")
    return np.asarray(display.response_)


def certificates(model):
    return np.concatenate([[one.objective, one.relative_gap, *one.alpha] for one in model.certificates_])


def reported(report):
    return [report.n, report.n_support, report.loo_error, report.loo_bound, report.first_segment_error]


def certify(model, path):
    found = model.certify(X, THREE if len(model.classes_) == 3 else Y) if is_classifier(model) else model.certify(X)
    return [(one.objective, one.gap) for one in (found if isinstance(found, list) else [found])]


def purged(model, ids):
    if isinstance(model, EcoSVC):
        raise AttributeError("an EcoSVC drops the points that it forgets, and has no purge")
    return values(model.forget(ids, purge=True))


#: Methods of a fitted model: their results before and after a change of parameters are equal.
METHODS = {
    "values": lambda model, path: values(model),
    "predict": lambda model, path: model.predict(Z),
    "score_samples": lambda model, path: model.score_samples(Z),
    "predict_proba": lambda model, path: model.predict_proba(Z),
    "coef_": lambda model, path: model.coef_,
    "center_": lambda model, path: model.center_,
    "certificates_": lambda model, path: certificates(model),
    "solutions_": lambda model, path: np.concatenate([[one.bias, *one.coefficients] for one in model.solutions_]),
    "support_vectors_": lambda model, path: model.support_vectors_,
    "dual_coef_": lambda model, path: model.dual_coef_,
    "pickle": lambda model, path: values(pickle.loads(pickle.dumps(model))),
    "deepcopy": lambda model, path: values(copy.deepcopy(model)),
    "p_values": lambda model, path: model.p_values(Z),
    "jackknife": lambda model, path: model.p_values(Z, "jackknife"),
    "loo_scores_": lambda model, path: model.loo_scores_,
    "leave_one_out": lambda model, path: model.leave_one_out().margins,
    "path": lambda model, path: model.path().coefficients[-1],
    "suggest": lambda model, path: model.suggest(Z, 3),
    "forget": lambda model, path: values(model.forget([0, 5])),
    "purge": lambda model, path: purged(model, [0, 5]),
    "certify": certify,
    "generalization_report": lambda model, path: reported(generalization_report(model)),
    "save": saved,
    "libsvm": libsvm,
    "onnx": onnx,
    "c": c_header,
    "display": support_display,
}
#: Slow methods: the parameters that the model does not use are changed together.
SLOW = {"display", "generalization_report", "leave_one_out", "path", "save", "libsvm", "onnx", "c", "pickle"}
SLOW |= {"deepcopy", "p_values", "forget", "purge", "certify"}
#: How an `EcoSVC` looks for an equilibrium, which counts from its next call on, as its `forget` says.
HOW = {"tol", "reequilibrate", "reserve", "n_init"}
#: What a method raises that this model does not have.
NONE = (AttributeError, ProblemError, KeyError, IndexError)
#: Methods that change the model.
CHANGING = {"forget", "purge"}


def answer(model, method, path):
    """Return a method's result; None where this model has none."""
    if method == "save" and model.get_params().get("callback") is not None:
        model = model.set_params(callback=None)  # a function is refused by its name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return METHODS[method](model, path)


def has_no(model, method, path):
    try:
        answer(copy.deepcopy(model), method, path)
    except NONE:
        return True
    return False


def test_every_parameter_of_every_estimator_has_another_value():
    names = set().union(*(model.get_params() for model, _ in MODELS.values()))
    assert names - set(OTHERS) == AT_CALL


#: Models whose parameters are those of another model here.
ALIKE = {"SVC of three", "EcoSVC of three", "IncrementalSVC of three"}


@pytest.mark.parametrize("name", often(MODELS, *(name for name in MODELS if name not in ALIKE)))
def test_every_parameter_changed_before_every_method_changes_nothing(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("onnx")
    model, tried = fitted(name), 0
    for method in METHODS:
        copied = copy.deepcopy if method in CHANGING else copy.copy
        try:
            before = answer(copied(model), method, tmp_path)
        except NONE:
            continue
        for change in changes(model, method in SLOW):
            if method == "forget" and isinstance(model, EcoSVC):
                change = {key: value for key, value in change.items() if key not in HOW}
            after = answer(copied(model).set_params(**change), method, tmp_path)
            np.testing.assert_array_equal(after, before, err_msg=f"{name}.{method} after {change}")
            tried += 1
    assert tried > (80 if hasattr(model, "save") and name != "PartitionedLinearSVC" else 50)


def changes(model, few):
    """Return the changes: one parameter at a time, or all kept parameters together and then all others."""
    names = sorted(set(model.get_params()) - AT_CALL)
    if not few:
        return [{name: value} for name in names for value in OTHERS[name]]
    reading = {"kernel", "gamma", "degree", "coef0", "C", "nu", "epsilon"}
    single = [{name: OTHERS[name][0]} for name in names if name in reading]
    return [*single, {name: OTHERS[name][0] for name in names if name not in reading}]


def test_all_parameters_changed_together_change_nothing(tmp_path):
    for name in MODELS:
        model = fitted(name)
        changes = {key: OTHERS[key][0] for key in set(model.get_params()) - AT_CALL - {"callback"}}
        changed = copy.deepcopy(model).set_params(**changes)
        np.testing.assert_array_equal(values(changed), values(model))
        if name not in ("CascadeSVC", "PartitionedLinearSVC"):
            np.testing.assert_array_equal(saved(changed, tmp_path), values(model))
            again = dualflow.load(tmp_path / "model")
            assert again.get_params() == changed.get_params()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                again.set_params(**model.get_params()).fit(X, MODELS[name][1])
            np.testing.assert_allclose(values(again), values(model), atol=1e-6)


#: Conformal models and searches, each with its data and the parameters that count at the next call.
OUTER = {
    "sets": (ConformalSVC(SVC(**POLY)), THREE, {"confidence_level", "method", "mondrian"}),
    "full": (ConformalSVC(SVC(), method="full"), Y, {"confidence_level", "method", "mondrian"}),
    "intervals": (ConformalSVR(SVR(**POLY)), X[:, 0], {"confidence_level", "method"}),
    "quantiles": (ConformalSVR(QuantileSVR([0.1, 0.9])), X[:, 0], {"confidence_level", "method"}),
    "search": (SVCSearchCV(SVC(), {"C": [1.0, 3.0]}), Y, {"scoring", "refit"}),
    "search of numbers": (SVRSearchCV(SVR(), {"C": [1.0, 3.0]}), X[:, 0], {"scoring", "refit"}),
}


@pytest.mark.parametrize("name", OUTER)
def test_a_changed_parameter_of_an_outer_model_changes_nothing_until_it_is_fitted(name, tmp_path):
    model, y, at_call = OUTER[name]
    model, tried = copy.deepcopy(model).fit(X, y), 0
    others = OTHERS | {"cv": [3], "param_grid": [{"C": [9.0]}], "return_train_score": [True], "error_score": ["raise"]}
    changes = [
        {parameter: value}
        for parameter in set(model.get_params()) - at_call - {"estimator", "estimator__callback"}
        if (name_of_value := parameter.removeprefix("estimator__")) not in AT_CALL
        for value in others[name_of_value]
    ]
    for method in ("predict", "predict_set", "predict_interval", "p_values", "decision_function", "save"):
        if hasattr(model, method):
            before = of_outer(model, method, tmp_path)
            for change in changes:
                after = of_outer(copy.deepcopy(model).set_params(**change), method, tmp_path)
                np.testing.assert_array_equal(after, before, err_msg=f"{method} after {change}")
                tried += 1
    assert tried > 30


def of_outer(model, method, path):
    if method != "save":
        return getattr(model, method)(Z)
    model.save(path / "model")
    again = dualflow.load(path / "model")
    return (again.predict_set if hasattr(again, "predict_set") else again.predict_interval)(Z)


@pytest.mark.parametrize("name", [name for name in STREAMS if name.startswith("Incremental")])
def test_incremental_models_refuse_a_change_that_they_cannot_follow(name):
    model, y = fitted(name), MODELS[name][1]
    new = (Z,) if y is None else (Z, y[: len(Z)])
    same = values(copy.deepcopy(model).partial_fit(*new))
    for parameter in set(model.get_params()) - AT_CALL - {"reserve"}:
        changed = copy.deepcopy(model).set_params(**{parameter: OTHERS[parameter][0]})
        with pytest.raises(ProblemError, match=rf"^{parameter}=.*start again with fit, or set it back"):
            changed.partial_fit(*new)
        np.testing.assert_array_equal(values(changed), values(model))
        changed.set_params(**{parameter: model.get_params()[parameter]}).partial_fit(*new)
        np.testing.assert_array_equal(values(changed), same)
    fewer = copy.deepcopy(model).set_params(reserve=0.01).partial_fit(*new)
    assert len(fewer.ids_) < len(X) + len(Z)


@pytest.mark.parametrize("kind", ["EcoSVC", "EcoSVDD"])
@pytest.mark.parametrize("change", [{"kernel": "linear"}, {"degree": 3}, {"coef0": 2.0}, {"kernel": "rbf"}])
def test_ecosystems_change_all_communities_to_another_kernel(kind, change):
    model, y = MODELS[kind]
    parts = [(part,) if y is None else (part, own) for part, own in ((X[:20], Y[:20]), (X[20:], Y[20:]))]
    classes = {} if y is None else {"classes": [0, 1]}
    moved = copy.deepcopy(model).set_params(reserve=np.inf).partial_fit(*parts[0], **classes)
    moved.set_params(**change).partial_fit(*parts[1])
    new = copy.deepcopy(moved).fit(X, y)
    assert moved.certificate_.relative_gap <= 1e-6
    np.testing.assert_allclose(moved.certificate_.objective, new.certificate_.objective, rtol=1e-6)
    np.testing.assert_allclose(values(moved), values(new), atol=1e-3)


def test_an_ecosystem_refuses_a_kernel_without_points_and_stays_as_it_was():
    for name in ("EcoSVC", "EcoSVDD"):
        model = copy.deepcopy(fitted(name))
        before = values(model)
        with pytest.raises(ProblemError, match="precomputed"):
            model.set_params(kernel="precomputed").partial_fit(*((Z,) if name == "EcoSVDD" else (Z, Y[: len(Z)])))
        np.testing.assert_array_equal(values(model), before)


def test_a_kernel_object_that_is_changed_in_place_does_not_reach_the_model():
    from sklearn.gaussian_process.kernels import RBF

    for cls in (SVC, SVR, OneClassSVM, LSSVC, EcoSVC, IncrementalSVC):
        model = cls(kernel=RBF(1.0)).fit(X, Y)
        before = values(model)
        model.set_params(kernel__length_scale=9.0)
        np.testing.assert_array_equal(values(model), before)


def test_parameters_of_the_call_count_at_the_call():
    model = copy.deepcopy(fitted("SVC of three"))
    assert model.set_params(decision_function_shape="ovr").decision_function(Z).shape == (9, 3)
    assert model.set_params(decision_function_shape="ovo").decision_function(Z).shape == (9, 3)
    points = np.random.default_rng(1).normal(size=(100, 2))  # of fewer than 64 points it is float64
    model = SVC(kernel="rbf", gamma=0.3).fit(points, points[:, 0] > 0.3 * points[:, 1])
    exact = model.decision_function(points)
    rough = model.set_params(predict_dtype="float32").decision_function(points)
    assert 0 < np.abs(rough - exact).max() < 1e-4 * np.abs(exact).max()


def test_a_raised_nu_takes_effect_when_enough_points_are_learned():
    points = np.random.default_rng(0).normal(size=(600, 3))
    model = EcoSVDD(nu=0.1).partial_fit(points[:200])
    few = len(model.survivors_)
    model.set_params(nu=0.9)
    for start in range(200, 600, 100):
        model.partial_fit(points[start : start + 100])
        assert model.certificate_.relative_gap <= 1e-6
    assert len(model.survivors_) == few + len(model.reserve_) + 400 or len(model.survivors_) > 400
    assert is_regressor(model) is False
