"""Selection of estimator parameters: cross-validation over shared kernel matrices, and exact paths."""

from .regularization import RegularizationPath, regularization_path
from .search import SVCSearchCV, SVRSearchCV

__all__ = ["RegularizationPath", "SVCSearchCV", "SVRSearchCV", "regularization_path"]
