"""Digests of the problem, random generator and start of a run: a checkpoint resumes only with equal ones."""

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

#: Kernel rows that are hashed for a callable, instead of its code.
PROBE_ROWS = 16
#: Decimals of these rows that are hashed, relative to the largest entry. Libraries of another machine may round the
#: last digits differently.
PROBE_DECIMALS = 8


def fingerprint(problem: DualProblem) -> str:
    """Return a digest of the numbers that define a problem; a checkpoint resumes only the same problem.

    For a callable kernel, its diagonal and some rows are hashed.
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
    """Return the diagonal and evenly spaced rows, rounded to integers, followed by their largest entry."""
    J = np.unique(np.linspace(0, gram.n - 1, PROBE_ROWS).astype(np.intp))
    values = np.vstack([gram.diag(), gram.rows(J)])
    largest = float(np.abs(values).max()) or 1.0
    # Adding 0 turns −0 into 0.
    return np.concatenate([np.rint(values / largest * 10.0**PROBE_DECIMALS).ravel() + 0.0, [float(f"{largest:.7e}")]])


def seed_of(random_state: Any) -> int | str | None:
    """Return the provenance of a ``random_state``: an integer or None itself, or a digest of the generator's state."""
    if random_state is None:
        return None
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    state = generator_state(generator_of(random_state))
    plain = json.dumps(state, sort_keys=True, default=lambda value: np.asarray(value).tolist())
    return f"generator {hashlib.sha256(plain.encode()).hexdigest()[:16]}"


def start_of(warm: NDArray | None) -> str | None:
    """Return a digest of a given start, or None without one."""
    return None if warm is None else hashlib.sha256(np.ascontiguousarray(warm).tobytes()).hexdigest()[:16]
