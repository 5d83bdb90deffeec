"""Why a row has no numbers, in a sentence."""

from __future__ import annotations

from ..core.certificate import Certifier
from ..exceptions import DualflowError, SolverMismatch, SolverUnavailable, heed
from ..registry import make_solver
from .plan import Entry

__all__ = ["barred_by", "sentence"]


def barred_by(entry: Entry, certifier: Certifier) -> tuple[str, str] | None:
    """Status and reason why no device could help, if so."""
    try:
        make_solver(entry.solver).check(certifier.problem, certifier.psd)
    except SolverMismatch as error:
        return "DOES NOT APPLY", sentence(error)
    except SolverUnavailable as error:
        return "NOT INSTALLED", sentence(error)
    except Exception as error:  # a third party's constructor may raise anything
        heed(error)
        return "FAILED", sentence(error)
    return None


def sentence(error: BaseException) -> str:
    """An exception as a reason: our own messages as they are, others with their type."""
    text = " ".join(str(error).split()) or "no message"
    return text if isinstance(error, DualflowError) else f"{type(error).__name__}: {text}"
