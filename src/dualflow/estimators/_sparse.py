"""Sparse data as scikit-learn gives it: what models that were fitted on it say of themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
import sklearn

__all__ = ["as_csr", "frozen"]


def as_csr(array: Any) -> Any:
    """A dense or sparse array as CSR, of the kind that scikit-learn is set to give: matrices, or arrays."""
    wanted = sklearn.get_config().get("sparse_interface", "spmatrix")
    return scipy.sparse.csr_array(array) if wanted == "sparray" else scipy.sparse.csr_matrix(array)


def frozen(array: Any) -> Any:
    """The array, dense or CSR, which nobody can write to from now on."""
    (array if isinstance(array, np.ndarray) else array.data).flags.writeable = False
    return array
