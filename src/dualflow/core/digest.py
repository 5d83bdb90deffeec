"""What a checkpoint must belong to: digests of a run's problem, generator and start."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .gram import Gram
from .problem import DualProblem
from .runtime.random import generator_of, generator_state
from .sparse_points import SparsePoints

__all__ = ["fingerprint", "seed_of", "start_of"]

#: Kernel rows that stand for the code of a callable, and to how many decimals of the largest entry: another machine's
#: libraries may round the last few differently.
PROBES, DECIMALS = 16, 8


def fingerprint(problem: DualProblem) -> str:
    """Digest of the numbers that define a problem; a checkpoint resumes only on the same one.

    A kernel that is a callable is known by what it returns: its diagonal, and some rows.
    """
    digest, gram, X = hashlib.sha256(), problem.gram, problem.gram.X
    name = gram.kernel if isinstance(gram.kernel, str) else "callable"
    digest.update(f"{name} {gram.gamma!r} {gram.degree!r} {gram.coef0!r} {gram.X.shape}".encode())
    digest.update(f"{problem.scale!r} {problem.offset!r} {problem.d!r} {problem.model}".encode())
    digest.update(b"" if problem.total is None else f"{problem.total!r}".encode())
    for array in (
        *((X.data, X.indices, X.indptr) if isinstance(X, SparsePoints) else (X,)),
        problem.p,
        problem.lower,
        problem.upper,
        problem.e,
        problem.sigma,
        problem.ridge,
        problem.idx,
        None if isinstance(gram.kernel, str) else _probes(gram),
    ):
        digest.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _probes(gram: Gram) -> NDArray:
    """The diagonal and rows at even distances, of shape (rows + 1, n), in units that are counted."""
    J = np.unique(np.linspace(0, gram.n - 1, PROBES).astype(np.intp))
    values = np.vstack([gram.diag(), gram.rows(J)])
    largest = float(np.abs(values).max()) or 1.0
    # + 0 makes the negative zero the other one.
    return np.concatenate([np.rint(values / largest * 10.0**DECIMALS).ravel() + 0.0, [float(f"{largest:.7e}")]])


def seed_of(random_state: Any) -> int | str | None:
    """What stands for a ``random_state``: an integer or None itself, else the state of its generator."""
    if random_state is None:
        return None
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    state = generator_state(generator_of(random_state))
    plain = json.dumps(state, sort_keys=True, default=lambda value: np.asarray(value).tolist())
    return f"generator {hashlib.sha256(plain.encode()).hexdigest()[:16]}"


def start_of(warm: NDArray | None) -> str | None:
    """What stands for a given start."""
    return None if warm is None else hashlib.sha256(np.ascontiguousarray(warm).tobytes()).hexdigest()[:16]
