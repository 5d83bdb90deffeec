"""What models have once they are fitted, and what some kinds of them cannot have: refused in the same words by all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._sparse import frozen

__all__ = ["fitted", "immutable", "read_when_asked", "refused", "set_by_fit"]


class _Fitted:
    """An attribute that is made when it is asked for, unless `fit` has set it; before, `NotFittedError`."""

    def __init__(self, make: Callable[[Any], Any] | None = None, instead: str = "") -> None:
        self.make, self.instead = make, instead
        self.__doc__ = make.__doc__ if make else None

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self
        model._check_fitted()
        if self.make is None:
            raise AttributeError(f"{type(model).__name__} has no {self.name}{self.instead}")
        return self.make(model)


class _Immutable(_Fitted):
    """One that nobody can set, and whose arrays nobody can write to."""

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        found = super().__get__(model, owner)
        return found if model is None else frozen(found)

    def __set__(self, model: Any, value: Any) -> None:
        raise AttributeError(
            f"{type(model).__name__}.{self.name} is made of what was fitted and cannot be set: fit the model anew"
        )


# To type checkers these are what the attribute is.


def fitted(make: Callable[[Any], Any]) -> Any:
    """A property of fitted models."""
    return _Fitted(make)


def immutable(make: Callable[[Any], Any]) -> Any:
    """An array that fitted models say when asked, as it is."""
    return _Immutable(make)


def read_when_asked(name: str) -> Any:
    """An attribute that is made together with others, by ``_read_now``, when one of them is asked for."""

    def read(model: Any) -> Any:
        # In a dictionary of their own: to ask for a prediction must not give the model new attributes.
        if name not in model._reading:
            model._reading.update(model._read_now())
        return model._reading[name]

    return _Fitted(read)


def set_by_fit() -> Any:
    """An attribute that a subclass sets or makes."""
    return _Fitted()


def refused(instead: str) -> Any:
    """What this kind of model cannot have; ``instead`` says what it has."""
    return _Fitted(instead=f": see {instead}")
