"""The problem zoo: small dual problems whose optima are known by hand or from an independent computation.

Every kind of feasible set has at least two problems. Optima "by hand" are exact (`dualflow.testing.by_hand`). The
others come from CVXOPT's coneqp or one linear system on matrices that the package did not compute
(`dualflow.testing.computed`).
"""

from __future__ import annotations

from ..core.problem import Kind
from .by_hand import by_hand
from .computed import computed
from .specimen import ZooProblem


def zoo(*, kinds: frozenset[Kind] | None = None, max_n: int | None = None) -> list[ZooProblem]:
    """Return new copies of the problems, optionally only some kinds and sizes up to ``max_n``.

    Examples
    --------
    >>> from dualflow import Kind
    >>> from dualflow.testing import zoo
    >>> {known.problem.kind.value for known in zoo(kinds=frozenset({Kind.SIMPLEX}))}
    {'simplex'}
    """
    found = [*by_hand(), *computed()]
    return [z for z in found if (kinds is None or z.kind in kinds) and (max_n is None or z.n <= max_n)]
