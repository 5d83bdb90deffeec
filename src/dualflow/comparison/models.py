"""Score models on held-out rows: the majority, scikit-learn's SVC and dualflow's, with and without class weights.

The dual variables of both packages get the same certificate, and their fits are timed alternately.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.certificate import Certifier
from ..core.gram import Gram
from ..core.named_kernels import kernels_with
from ..estimators.svc import SVC
from ..exceptions import ProblemError
from ..problems import svc
from ..report.columns import seconds_text
from ..report.scores import UNEQUAL_SHARE, ClassCounts, ModelScore
from .rows import MAX_RUNS, REPEATED_S
from .tasks import Subsample, point_weights, weights_text

#: Value of ``class_weight`` that tries none and "balanced" where the classes are unequal.
AUTO_WEIGHTS = "auto"
#: Time limits that a fit of scikit-learn may take: it is what the user compares with, and there are two at most.
PEER_LIMITS = 2
#: Rows of the trial fit that predicts the time of scikit-learn's fit, which cannot be stopped.
TRIAL_ROWS = 1000
#: The time of scikit-learn's fit is taken to grow with this power of the rows: between the 2 of kernel values and the
#: 3 of LIBSVM's documentation.
GROWTH_POWER = 2.5


def model_kernels() -> list[str]:
    """Return the kernels that both packages know by these names."""
    return kernels_with(lambda kernel: kernel.libsvm)


def tried_weights(class_weight: Any, y: NDArray) -> list[Any]:
    """Return the class weights to try: the given ones; for "auto" none, and "balanced" if the classes are unequal."""
    if class_weight != AUTO_WEIGHTS:
        return [class_weight]
    share = np.unique(y, return_counts=True)[1].max() / len(y)
    return [None, "balanced"] if share >= UNEQUAL_SHARE else [None]


def score_models(
    data: Subsample,
    gram: Gram,
    *,
    C: float,
    class_weight: Any,
    positive: Any,
    time_limit: float | None,
    progress: Callable[[str], object],
) -> tuple[ModelScore, ...]:
    """Return the scores of the models on the held-out rows.

    Parameters
    ----------
    data : Subsample
    gram : Gram
        Of the training rows, with a named kernel.
    C : float > 0
    class_weight : None, "balanced", dict by label, or "auto"
    positive : label or None
        The class whose recall and precision are given; the rarer one by default.
    time_limit : float or None
        Seconds for each fit. scikit-learn's is left out if it would take more than `PEER_LIMITS` times as long, by a
        trial fit to fewer rows.
    progress : callable
        Called with the name of the next model.

    Raises
    ------
    ProblemError
        There are no held-out rows, or ``positive`` is not a label.
    """
    if not len(data.X_test):
        raise ProblemError("the scores of models need held-out rows: give X_test and y_test, or a smaller max_n")
    if positive is not None and positive not in data.classes:
        raise ProblemError(f"positive={positive!r} is not a label of y ({data.classes[0]!r}, {data.classes[1]!r})")
    truth = np.searchsorted(data.classes, data.y_test)
    shares = [int(np.sum(data.y == label)) for label in data.classes]
    index = int(shares[1] <= shares[0]) if positive is None else data.classes.index(positive)

    def counted(predicted: NDArray) -> ClassCounts:
        return ClassCounts.of(truth, np.searchsorted(data.classes, predicted), data.classes, index)

    most = data.classes[int(np.argmax(shares))]
    constant = np.full(len(truth), most)
    found = [
        ModelScore(
            f"majority ({most})", counts=counted(constant), **_order_scores(truth == index, np.zeros(len(truth)))
        )
    ]
    kernel: dict[str, Any] = {"kernel": gram.kernel, "degree": gram.degree, "coef0": gram.coef0}
    kernel["gamma"] = gram.gamma if gram.kernel != "linear" else "scale"
    for weights in tried_weights(class_weight, data.y):
        text = weights_text(weights)
        progress(f"SVC of both packages{f', {text} weights' if text else ''}")
        certifier = Certifier(_problem(data, gram, C, weights))
        ours = SVC(C=C, class_weight=weights, time_limit=time_limit, **kernel)
        theirs, reason = _peer(data, C, weights, kernel, time_limit)
        models = {"dualflow SVC": ours} | ({} if theirs is None else {"scikit-learn SVC": theirs})
        times: dict[str, list[float]] = {name: [] for name in models}
        for _ in range(MAX_RUNS):
            for name, model in models.items():
                if sum(times[name]) < REPEATED_S:
                    times[name].append(_timed_fit(model, data))
        for name, model in models.items():
            alpha = np.zeros(len(data.y))
            alpha[model.support_] = np.abs(model.dual_coef_).ravel()
            gap = certifier.certify(alpha).relative_gap
            values = model.decision_function(data.X_test) * (1 if index else -1)
            solver = model.solution_.provenance.get("solver") if isinstance(model, SVC) else None
            counts = counted(model.predict(data.X_test))
            order = _order_scores(truth == index, values)
            found.append(ModelScore(name, text, counts, min(times[name]), gap, solver=solver, **order))
        if reason:
            found.append(ModelScore("scikit-learn SVC", text, reason=reason))
    return tuple(found)


def _order_scores(positive: NDArray, values: NDArray) -> dict[str, Any]:
    """Return the scores of the order of decision values; none if the held-out rows have one class."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    if positive.all() or not positive.any():
        return {}
    scores = {"average_precision": average_precision_score, "roc_auc": roc_auc_score}
    return {name: float(score(positive, values)) for name, score in scores.items()}


def _problem(data: Subsample, gram: Gram, C: float, weights: Any) -> Any:
    signs = data.signs(data.y, data.classes[1])
    return svc(gram, signs, C, sample_weight=point_weights(weights, data.y))


def _peer(
    data: Subsample, C: float, weights: Any, kernel: dict[str, Any], time_limit: float | None
) -> tuple[Any, str | None]:
    """Return scikit-learn's SVC, or None and the reason if its fit would take longer than the limit."""
    from sklearn import svm

    if kernel["degree"] != int(kernel["degree"]) and kernel["kernel"] == "poly":
        return None, f"not fitted: it takes whole degrees only, found {kernel['degree']:g}"
    model = svm.SVC(C=C, class_weight=weights, **kernel | {"degree": int(kernel["degree"])})
    n = len(data.y)
    if time_limit is None or n <= TRIAL_ROWS:
        return model, None
    rows = np.linspace(0, n - 1, TRIAL_ROWS).astype(int)
    if len(np.unique(data.y[rows])) < 2:
        return model, None
    trial = replace(data, X=data.X[rows], y=data.y[rows])
    expected_s = _timed_fit(model, trial) * (n / TRIAL_ROWS) ** GROWTH_POWER
    if expected_s <= PEER_LIMITS * time_limit:
        return model, None
    return None, (
        f"not fitted: by a fit to {TRIAL_ROWS} rows, {n} rows take about {seconds_text(expected_s)}, and the limit is "
        f"{seconds_text(PEER_LIMITS * time_limit)}"
    )


def _timed_fit(model: Any, data: Subsample) -> float:
    """Fit a model, and return the seconds; a fit that ends by its time limit counts as it is."""
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(data.X, data.y)
    return time.perf_counter() - begun
