"""Floor 6: the parameters of estimators, chosen by cross-validation over shared kernel matrices."""

from .search import SVCSearchCV, SVRSearchCV

__all__ = ["SVCSearchCV", "SVRSearchCV"]
