"""Types and bounds of options, declared beside their fields; a value outside them raises an error with the rule."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from ..exceptions import ProblemError


@dataclass(frozen=True)
class Rule:
    """The allowed values of an option.

    Parameters
    ----------
    none : bool
        Whether None is allowed.
    words : tuple of str
        Names that are allowed.
    note : str
        The end of the rule's sentence: the unit, or the meaning of None and the names.
    """

    none: bool = False
    words: tuple[str, ...] = ()
    note: str = ""

    def allows(self, value: Any) -> bool:
        """Whether a value other than None and the names is allowed."""
        raise NotImplementedError

    def _kind(self) -> str:
        """Return the words for such values."""
        raise NotImplementedError

    def __str__(self) -> str:
        others = [repr(word) for word in self.words] + (["None"] if self.none else [])
        kind = self._kind()
        if others:
            kind = ", ".join([kind, *others[:-1]]) + f", or {others[-1]}"
        return f"{kind} {self.note}".rstrip()

    def check(self, name: str, value: Any) -> Any:
        """Return the value as a plain Python object, or raise a `ProblemError` with the name, value and rule."""
        if (value is None and self.none) or (isinstance(value, str) and value in self.words):
            return value
        if not self.allows(value):
            raise ProblemError(f"{name}={value!r} must be {self}")
        return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class Number(Rule):
    """A number within bounds; bools and NaN are not allowed."""

    above: float = -math.inf
    at_least: float = -math.inf
    below: float = math.inf
    at_most: float = math.inf
    whole: bool = False
    infinite: bool = False
    powers: bool = False  # integers may be written as floats, such as 1e4

    def check(self, name: str, value: Any) -> Any:
        if self.powers and isinstance(value, (float, np.floating)) and float(value).is_integer():
            value = int(value)
        return super().check(name, value)

    def allows(self, value: Any) -> bool:
        if isinstance(value, (bool, np.bool_)):
            return False
        if not isinstance(value, (int, np.integer) if self.whole else (int, float, np.integer, np.floating)):
            return False
        try:
            if not (self.whole or math.isfinite(value) or self.infinite):
                return False
        except OverflowError:  # an int larger than any float
            return False
        # The conditions are written so that NaN fails them.
        below_end = value <= self.at_most and (value < self.below or self.below == math.inf)
        return bool(value >= self.at_least and (value > self.above or self.above == -math.inf) and below_end)

    def _kind(self) -> str:
        within = math.isfinite(self.at_least) and math.isfinite(self.at_most)
        words = "an integer" if self.whole else "a number" if self.infinite or within else "a finite number"
        if within:
            return f"{words} from {self.at_least:g} to {self.at_most:g}"
        signs = {">": self.above, "≥": self.at_least, "<": self.below, "≤": self.at_most}
        bounds = [f"{sign} {value:g}" for sign, value in signs.items() if math.isfinite(value)]
        return f"{words} {' and '.join(bounds)}".rstrip()


@dataclass(frozen=True)
class OneOf(Rule):
    """One of some names."""

    def allows(self, value: Any) -> bool:
        return False

    def _kind(self) -> str:
        return ""

    def __str__(self) -> str:
        names = [repr(word) for word in self.words] + (["None"] if self.none else [])
        return f"one of {', '.join(names)} {self.note}".rstrip()

    def check(self, name: str, value: Any) -> Any:
        if (value is None and self.none) or (isinstance(value, str) and value in self.words):
            return value
        raise ProblemError(f"{name}={value!r} is not {self}")


@dataclass(frozen=True)
class Flag(Rule):
    """True or False."""

    def allows(self, value: Any) -> bool:
        return isinstance(value, (bool, np.bool_))

    def _kind(self) -> str:
        return "True or False" if not self.none else "True, False"


def option(default: Any, rule: Rule, **more: Any) -> Any:
    """Return a dataclass field with a default and a rule; ``more`` are arguments of `dataclasses.field`."""
    return field(default=default, metadata={"rule": rule}, **more)


def check_fields(instance: Any) -> None:
    """Check each field that was declared by `option`, and convert its value to a plain Python object."""
    for name, rule in rules_of(type(instance)).items():  # type: ignore[arg-type]
        value = getattr(instance, name)
        if (checked := rule.check(name, value)) is not value:
            object.__setattr__(instance, name, checked)


@functools.cache
def rules_of(kind: type) -> dict[str, Rule]:
    """Return the rules that a dataclass declares, by the name of the field."""
    return {f.name: f.metadata["rule"] for f in fields(kind) if "rule" in f.metadata}
