"""The errors dualflow raises on purpose. Each message names the argument, what was found, and the fix."""

__all__ = ["DeviceError", "DualflowError", "ProblemError", "SolverMismatch", "SolverUnavailable"]


class DualflowError(Exception):
    """Base class of every error raised on purpose."""


class ProblemError(DualflowError, ValueError):
    """The data or parameters do not make a well-posed dual problem."""


class SolverMismatch(DualflowError, ValueError):  # noqa: N818 - a public name fixed by the design
    """The solver exists but cannot solve this problem; the message says what it lacks."""


class SolverUnavailable(DualflowError, ImportError):  # noqa: N818 - a public name fixed by the design
    """A package the solver or device needs is not installed; the message gives the pip line."""


class DeviceError(DualflowError, RuntimeError):
    """A device refused, lost or failed a job."""
