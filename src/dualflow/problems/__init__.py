"""The models, as dual problems: data and parameters in, `DualProblem` out; one file a family of models.

Sign conventions are those of `DualProblem`; C is scikit-learn's for each loss. A new model is a file here: a function
that makes the problem, and the `Reading` that says what its α means.
"""

from ..core.reading import Reading
from .classification import HINGE, SQUARED_HINGE, svc
from .description import BALL, ONE_CLASS, one_class, svdd
from .regression import LEAST_SQUARES, REGRESSION, least_squares, svr

__all__ = ["READINGS", "least_squares", "one_class", "svc", "svdd", "svr"]

#: By name of the model, what makes a problem from a file what it was.
READINGS: dict[str, Reading] = {
    reading.model: reading for reading in (HINGE, SQUARED_HINGE, BALL, ONE_CLASS, LEAST_SQUARES, REGRESSION, Reading())
}
