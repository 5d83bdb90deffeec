"""The models as dual problems: functions of data and parameters that return a `DualProblem`, one file for each family.

Sign conventions are those of `DualProblem`; C is that of scikit-learn for each loss. A new model is a file here with a
function that makes the problem, a `Reading` with the formulas for bias and decision function, and for streams a
`Growing` with the variables of each point.
"""

from ..core.reading import Reading
from .affine import DISCRIMINANT, LEAST_SQUARES, LEAST_SQUARES_REGRESSION, discriminant, least_squares
from .classification import HINGE, NU_HINGE, SQUARED_HINGE, GrowingHinge, nu_svc, svc
from .description import BALL, ONE_CLASS, GrowingBall, one_class, svdd
from .growing import Growing
from .regression import NU_REGRESSION, REGRESSION, GrowingTube, nu_svr, quantile_svr, svr

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
    "quantile_svr",
    "svc",
    "svdd",
    "svr",
]

#: The reading of each model, by name, to restore a problem from a file.
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
