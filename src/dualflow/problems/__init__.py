"""The models, as dual problems: data and parameters in, `DualProblem` out; one file a family of models.

Sign conventions are those of `DualProblem`; C is scikit-learn's for each loss. A new model is a file here: a function
that makes the problem, the `Reading` that says what its α means, and for streams the `Growing` that says what each
point brings.
"""

from ..core.reading import Reading
from .affine import DISCRIMINANT, LEAST_SQUARES, LEAST_SQUARES_REGRESSION, discriminant, least_squares
from .classification import HINGE, NU_HINGE, SQUARED_HINGE, GrowingHinge, nu_svc, svc
from .description import BALL, ONE_CLASS, GrowingBall, one_class, svdd
from .growing import Growing
from .regression import NU_REGRESSION, REGRESSION, GrowingTube, nu_svr, svr

__all__ = [
    "READINGS",
    "Growing",
    "GrowingBall",
    "GrowingHinge",
    "GrowingTube",
    "discriminant",
    "least_squares",
    "nu_svc",
    "nu_svr",
    "one_class",
    "svc",
    "svdd",
    "svr",
]

#: By name of the model, what makes a problem from a file what it was.
READINGS: dict[str, Reading] = {
    reading.model: reading
    for reading in (
        HINGE,
        SQUARED_HINGE,
        NU_HINGE,
        BALL,
        ONE_CLASS,
        LEAST_SQUARES,
        LEAST_SQUARES_REGRESSION,
        DISCRIMINANT,
        REGRESSION,
        NU_REGRESSION,
        Reading(),
    )
}
