"""Names that a file brought along: of code to import, of files to write to. They are data until somebody says so."""

from __future__ import annotations

from ..exceptions import ProblemError

__all__ = ["Unconfirmed"]


class Unconfirmed(str):
    """A text that reads, compares, copies and is saved like any other, but is not acted upon.

    It is the text itself that knows, not the model that holds it: clones, copies and grids of that model carry it on,
    and where a device is made or a journal opened, it is refused. The same text from the user's own hand is another
    object, and works.
    """

    __slots__ = ()

    def refuse(self, what: str, would: str) -> None:
        """Raise the `ProblemError` that says what acting on it would do, and how to allow it."""
        raise ProblemError(
            f"{what}={str(self)!r} was read from a model file, and {would}; if you trust that, set it yourself, by "
            "set_params with the same value, or read the file with dualflow.load(path, trusted=True)"
        )
