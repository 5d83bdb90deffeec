"""SciPy's ODE methods as steppers: faithful to the trajectory, and slow to come to rest.

RK45, LSODA and BDF to t = 12 leave relative distances of 0.06-1.4 on moons and digits: they are for
trajectories and pictures.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from ..exceptions import DualflowError

__all__ = ["METHODS", "ivp_step"]

METHODS = ("RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA")


def ivp_step(
    rate: Callable[[float, NDArray], NDArray],
    t: float,
    y: NDArray,
    h: float,
    *,
    method: str = "LSODA",
    rtol: float = 1e-8,
    atol: float = 1e-10,
) -> NDArray:
    """y(t + h) from y(t), with the method's own step control inside.

    Raises
    ------
    DualflowError
        The method gave up.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        result = solve_ivp(rate, (t, t + h), y, method=method, rtol=rtol, atol=atol)
    if not result.success:
        raise DualflowError(f"integrator {method!r} gave up at t = {result.t[-1]:.6g}: {result.message}")
    return result.y[:, -1]
