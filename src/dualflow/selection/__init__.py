"""Selection of estimator parameters by cross-validation over shared kernel matrices."""

from .search import SVCSearchCV, SVRSearchCV

__all__ = ["SVCSearchCV", "SVRSearchCV"]
