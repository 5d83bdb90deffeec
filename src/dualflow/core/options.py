"""Bounds and types of options, said once, beside the field: what is out of range is an error that says the rule."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from ..exceptions import ProblemError

__all__ = ["Flag", "Number", "OneOf", "Rule", "check_fields", "option", "rules_of"]


@dataclass(frozen=True)
class Rule:
    """What a value may be.

    Parameters
    ----------
    none : bool
        Whether None may stand for it.
    words : tuple of str
        Names that may.
    note : str
        What the rule's sentence ends with: the unit, or what None and the names mean.
    """

    none: bool = False
    words: tuple[str, ...] = ()
    note: str = ""

    def allows(self, value: Any) -> bool:
        """Whether a value that is no word and not None is one of these."""
        raise NotImplementedError

    def _kind(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        others = [repr(word) for word in self.words] + (["None"] if self.none else [])
        kind = self._kind()
        if others:
            kind = ", ".join([kind, *others[:-1]]) + f", or {others[-1]}"
        return f"{kind} {self.note}".rstrip()

    def check(self, name: str, value: Any) -> Any:
        """The value as plain Python has it; ProblemError names the argument, what was found and the rule."""
        if (value is None and self.none) or (isinstance(value, str) and value in self.words):
            return value
        if not self.allows(value):
            raise ProblemError(f"{name}={value!r} must be {self}")
        return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class Number(Rule):
    """A number within bounds; no bool is one, and NaN never."""

    above: float = -math.inf
    at_least: float = -math.inf
    below: float = math.inf
    at_most: float = math.inf
    whole: bool = False
    infinite: bool = False
    powers: bool = False  # whole numbers may be written 1e4, too

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
        except OverflowError:  # an int may be larger than any float
            return False
        # Put so that NaN does not meet them.
        reach = value <= self.at_most and (value < self.below or self.below == math.inf)
        return bool(value >= self.at_least and (value > self.above or self.above == -math.inf) and reach)

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
    """A dataclass field with a default and the rule of its values; ``more`` is `dataclasses.field`'s own."""
    return field(default=default, metadata={"rule": rule}, **more)


def check_fields(instance: Any) -> None:
    """Hold every field that was declared by `option` against its rule; it is then as plain Python has it."""
    for name, rule in rules_of(type(instance)).items():  # type: ignore[arg-type]
        value = getattr(instance, name)
        if (checked := rule.check(name, value)) is not value:
            object.__setattr__(instance, name, checked)


@functools.cache
def rules_of(kind: type) -> dict[str, Rule]:
    """By name of the field, the rules a dataclass declares."""
    return {f.name: f.metadata["rule"] for f in fields(kind) if "rule" in f.metadata}
