"""Text of others, made harmless for terminals and spreadsheets."""

from __future__ import annotations

import unicodedata

__all__ = ["cell", "span", "visible"]

#: What a spreadsheet takes for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def visible(text: str, keep: str = "") -> str:
    """The text with everything that a terminal would obey rather than show written as an escape, ``\\x1b`` say.

    That is control characters, which move the cursor and send commands; format characters, which turn the direction of
    writing or are not seen at all; separators of lines and paragraphs; and halves of surrogate pairs, which cannot be
    encoded. Characters in ``keep`` stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(c) if c not in keep and _unseen(c) else c for c in text)


def cell(value: object) -> object:
    """A value for a CSV file: text that a spreadsheet would compute has an apostrophe before it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _unseen(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _shown(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def span(seconds: float) -> str:
    """Seconds, minutes or hours, whichever reads best."""
    if seconds < 90:
        return f"{seconds:.3g} seconds"
    return f"{seconds / 60:.3g} minutes" if seconds < 5400 else f"{seconds / 3600:,.1f} hours"
