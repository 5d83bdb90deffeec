"""Text from a file that names code to import or files to write; it has no effect until the user confirms it."""

from __future__ import annotations

from ..exceptions import ProblemError


class Unconfirmed(str):
    """A text from a file that compares, copies and is saved like any other, but is refused where it would have effects.

    The mark belongs to the text and not to the model, so clones, copies and grids of the model keep it. It is refused
    where a device is made or a journal is opened. The same text set by the user is an unmarked object, and works.
    """

    __slots__ = ()

    def refuse(self, what: str, would: str) -> None:
        """Raise the `ProblemError` that says what using the text would do, and how to allow it."""
        raise ProblemError(
            f"{what}={str(self)!r} was read from a model file, and {would}; if you trust that, set it yourself, by "
            "set_params with the same value, or read the file with dualflow.load(path, trusted=True)"
        )
