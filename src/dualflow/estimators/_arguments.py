"""Arguments of scikit-learn's estimators: what they are here, and which of them mean nothing."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..core.options import Flag, Number, OneOf, Rule
from ..exceptions import ProblemError
from ..solvers import Solver

__all__ = ["check_arguments", "ignored", "is_limited", "limits", "refines", "warn_of_ignored"]

#: What LIBSVM has to be told and nothing here has, its default, and what to know instead.
IGNORED = {
    "shrinking": (True, "solvers here decide for themselves which points they look at"),
    "cache_size": (200, "memory follows the problem, and dualflow.release_memory() gives it back"),
    "probability": (False, "for probabilities wrap the model, sklearn.calibration.CalibratedClassifierCV(SVC())"),
}

RULES: dict[str, Rule] = {
    "max_iter": Number(at_least=-1, whole=True, note="(-1 is no limit)"),
    "shrinking": Flag(),
    "cache_size": Number(above=0, note="(in MB)"),
    "verbose": Number(at_least=0, whole=True, note="or a bool"),
}
#: "deprecated" is scikit-learn 1.9's default.
_PROBABILITY = OneOf(words=("deprecated",), note="or a bool")


def is_limited(model: Any) -> bool:
    """Whether a fit may end before its solver would."""
    return model.max_steps is not None or model.max_iter != -1


def check_arguments(model: Any) -> None:
    """`ProblemError` for an argument that is out of range; those at their defaults are not looked at."""
    if model.max_iter != -1:
        RULES["max_iter"].check("max_iter", model.max_iter)
        if model.max_iter == 0:
            raise ProblemError("max_iter=0 leaves no iteration; give 1 or more, or -1 for no limit")
        if model.max_steps is not None:
            raise ProblemError(
                f"max_iter={model.max_iter!r} and max_steps={model.max_steps!r} limit the same solve: give one of them"
            )
    if model.shrinking is not True:
        RULES["shrinking"].check("shrinking", model.shrinking)
    if model.cache_size != 200:
        RULES["cache_size"].check("cache_size", model.cache_size)
    if not isinstance(model.verbose, (bool, np.bool_)):
        RULES["verbose"].check("verbose", model.verbose)
    probability = getattr(model, "probability", False)
    if not isinstance(probability, (bool, np.bool_)):
        _PROBABILITY.check("probability", probability)


def ignored(model: Any) -> list[str]:
    """What is set and means nothing here, and why."""
    return [
        f"{name}={value!r} ({why})"
        for name, (default, why) in IGNORED.items()
        if (value := getattr(model, name, default)) != default and value != "deprecated"
    ]


def warn_of_ignored(model: Any) -> None:
    """One warning that names it."""
    if said := ignored(model):
        text = f"{type(model).__name__} takes these for scikit-learn's sake and ignores them: {'; '.join(said)}."
        warnings.warn(text, UserWarning, stacklevel=6)


def limits(model: Any, engine: Solver[Any, Any]) -> tuple[Solver[Any, Any], int | None]:
    """The solver and the driver's step limit that ``max_iter`` or ``max_steps`` ask for."""
    return (engine, model.max_steps) if model.max_iter == -1 else engine.within(int(model.max_iter))


def refines(model: Any, engine: Solver[Any, Any]) -> bool:
    """Whether a fit follows the solver up with the classical refinement; "auto" does unless it runs circuits."""
    return not engine.quantum if isinstance(model.refine, str) else bool(model.refine)
