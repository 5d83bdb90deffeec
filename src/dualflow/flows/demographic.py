"""The gradient flow on a box with demographic noise, whose variance is proportional to abundance. A study.

Births and deaths of single individuals make the number of a species fluctuate by the square root of its mean. With
temperature T and mutation ε, as Itô equations for 0 < αᵢ < uᵢ,

    dαᵢ = (wᵢgᵢ + ε(1 − 2αᵢ/uᵢ)) dt + √(2T wᵢ) dBᵢ,   wᵢ = αᵢ(uᵢ − αᵢ)/uᵢ

Drift over diffusion is the gradient of −f/T + (ε/T)Σ log wᵢ, so that the stationary density is known:

    p(α) ∝ exp(−f(α)/T) Πᵢ wᵢ^(ε/T − 1)

With ε = T it is exp(−f/T), and for T → 0 the optimum. With ε < T it diverges at the bounds: species are nearly extinct,
or nearly at their bound, most of the time, and mutation brings them back.

In angles αᵢ = uᵢ(1 − cos θᵢ)/2 the noise does not depend on the state:

    dθᵢ = (½gᵢ sin θᵢ + (2ε − T)/uᵢ cot θᵢ) dt + √(2T/uᵢ) dBᵢ

Without noise and mutation these are the angles of the quantum flow, θ̇ᵢ = ½gᵢ sin θᵢ. A step is implicit in the
cotangent (drift-implicit Euler; Alfonsi 2005 for square-root noise), which keeps 0 < θ < π for any length h and needs
ε > T/2. Explicit steps with reflection leave means off by 9 to 30 standard errors where implicit ones show no
difference.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.factored import FactoredWorkspace
from ..core.problem import DualProblem, Kind
from ..exceptions import ProblemError

#: Newton steps for the implicit part. They converge from one side; the error is then round-off.
NEWTON_STEPS = 6


class DemographicFlow:
    """The noisy flow of a problem of kind BOX, for several independent runs at once.

    Parameters
    ----------
    problem : DualProblem
        With finite bounds and without an equality, such as the hinge with ``fit_intercept=False``. Products of a
        `FactoredWorkspace` take O(nr), of others the dense Q is formed.
    temperature : float > 0
        T, in units of f.
    mutation : float > temperature/2, optional
        ε, in units of f; T by default, which makes the stationary density exp(−f/T).

    Raises
    ------
    ProblemError
        The problem is of another kind, an upper bound is 0, or a number is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import Gram, problems
    >>> from dualflow.flows.demographic import DemographicFlow
    >>> problem = problems.svc(Gram([[1.0], [2.0]], "linear"), [-1, 1], C=1.0, fit_intercept=False)
    >>> flow = DemographicFlow(problem, temperature=0.1)
    >>> theta, rng = flow.start(1000), np.random.default_rng(0)
    >>> for _ in range(500):
    ...     theta = flow.step(theta, 0.02, rng)
    >>> flow.alpha(theta).mean(axis=0).round(1)  # the optimum, at T = 0, is (1, 0.75)
    array([0.9, 0.7])
    """

    def __init__(self, problem: DualProblem, temperature: float, mutation: float | None = None) -> None:
        if problem.kind is not Kind.BOX or not (problem.upper > 0).all():
            raise ProblemError(
                f"demographic noise needs bounds 0 < u < ∞ and no equality, found kind {problem.kind.value!r}; "
                "take the hinge with fit_intercept=False and positive weights"
            )
        mutation = temperature if mutation is None else mutation
        if not 0 < temperature < np.inf:
            raise ProblemError(f"temperature={temperature!r} must be positive and finite")
        if not 0.5 * temperature < mutation < np.inf:
            raise ProblemError(f"mutation={mutation!r} must be finite and above half the temperature, {temperature!r}")
        self.problem, self.temperature, self.mutation = problem, float(temperature), float(mutation)

    def start(self, runs: int) -> NDArray:
        """Return θ of shape (runs, n) at αᵢ = uᵢ/2."""
        return np.full((runs, self.problem.n), 0.5 * np.pi)

    def alpha(self, theta: NDArray) -> NDArray:
        """Return α, of the shape of θ."""
        return 0.5 * self.problem.upper * (1.0 - np.cos(theta))

    def fitness(self, alpha: NDArray) -> NDArray:
        """Return g = p − Qα of states of shape (runs, n)."""
        problem = self.problem
        if isinstance(problem, FactoredWorkspace):
            return problem.p - (alpha @ problem.L) @ problem.L.T - problem.ridge * alpha
        return problem.p - alpha @ problem.dense()

    def step(self, theta: NDArray, h: float, rng: np.random.Generator) -> NDArray:
        """Return θ after a step of length h."""
        u, T = self.problem.upper, self.temperature
        moved = theta + 0.5 * h * self.fitness(self.alpha(theta)) * np.sin(theta)
        moved += np.sqrt(2 * T * h / u) * rng.standard_normal(theta.shape)
        return _implicit_angle(moved, h * (2 * self.mutation - T) / u)

    def log_density(self, alpha: NDArray) -> NDArray:
        """Return log p(α) of states of shape (…, n) inside the bounds, up to a constant."""
        problem = self.problem
        g = self.fitness(np.atleast_2d(alpha)).reshape(alpha.shape)
        f = -0.5 * ((g + problem.p) * alpha).sum(axis=-1)
        w = alpha * (problem.upper - alpha) / problem.upper
        log_p: NDArray = -f / self.temperature + (self.mutation / self.temperature - 1.0) * np.log(w).sum(axis=-1)
        return log_p


def _implicit_angle(y: NDArray, c: NDArray) -> NDArray:
    """Return the x in (0, π) with x − c cot x = y, for c > 0."""
    below = y <= 0.5 * np.pi  # x is below π/2 where y is; the equation is antisymmetric about π/2
    y = np.where(below, y, np.pi - y)
    # x cot x ≥ 1 − 4x²/π² below π/2, so that this start is at most x. The left side is increasing and concave there.
    slope = 1.0 + 4.0 * c / np.pi**2
    larger = np.abs(y) + np.sqrt(y * y + 4.0 * slope * c)
    x = np.where(y > 0, larger / (2.0 * slope), 2.0 * c / larger)
    for _ in range(NEWTON_STEPS):
        sine, cosine = np.sin(x), np.cos(x)
        x = x + (y - x + c * cosine / sine) / (1.0 + c / sine**2)
    return np.where(below, x, np.pi - x)
