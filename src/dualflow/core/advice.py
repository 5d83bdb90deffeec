"""Advice for a solve that ended above its tolerance, according to what limited it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .certificate import Certificate, Certifier
from .kernel_functions import largest_entry, mean_of
from .named_kernels import named
from .problem import DualProblem
from .shot_floor import DRAWS, sampled
from .status import Status

#: Centring is advised if the points are at least this many times their spread away from the origin.
MIN_DISTANCE_SPREADS = 20.0
#: The solution is sampled again. If its gap grows by more than this factor, shot noise limits it; a gap from missing
#: steps does not grow.
MIN_GAP_RATIO = 1.2
#: The solution is sampled again with this share of a run's shots, because a run averages over its last steps.
SHOTS_PART = 0.25
#: If the noise of one circuit's shots is at most this share of the gap, the number of steps limits a flow in angles.
#: Set on 117 runs on five data sets, and measured on six others (docs/explanation/trust.md).
MAX_NOISE_STEPS = 0.2
#: If it is more than this share, shot noise limits the flow.
MIN_NOISE_SHOTS = 0.8
#: Options for the length of a sampled run; the advice names the first one that applies.
LENGTH_OPTIONS = ("shot_budget", "steps", "windows", "max_blocks")
_REFINED = "refine=True refines the answer classically"


def advice_on(
    problem: DualProblem,
    certificate: Certificate,
    ended: Status,
    circuits: bool,
    shots: int,
    steps: int,
    provenance: dict[str, Any],
) -> str:
    """Return advice, in one or two sentences, for a solution above its tolerance.

    Parameters
    ----------
    problem : DualProblem
    certificate : Certificate
        Of the solution, with a gap.
    ended : Status
        How the run ended.
    circuits : bool
        Whether it ran circuits.
    shots, steps : int
        Of the whole run.
    provenance : dict
        Solver, options, device error and fidelity of the run.
    """
    if ended is Status.DEVICE_FAILED:
        return f"{provenance.get('device_error', 'The device failed')}."
    if ended is Status.BUDGET_SPENT:
        return f"{provenance.get('device_error', 'The budget is spent')}. The budget binds: raise it to go on."
    if circuits:
        return _on_circuits(problem, certificate, ended, shots, steps, provenance)
    if named(problem.gram.kernel).of_products and not problem.is_translatable:
        mean = mean_of(problem.gram.X)
        spread, size = largest_entry(problem.gram.X - mean), float(np.abs(mean).max())
        if 0 < MIN_DISTANCE_SPREADS * spread < size:
            return (
                f"The points are {size / spread:.3g} times as far from the origin as from one another, and "
                f"kernel={problem.gram.kernel!r} has lost the digits in which its values differ: centre the features."
            )
    return "Raise max_steps or time_limit, scale the features, or lower C."


def _on_circuits(
    problem: DualProblem,
    certificate: Certificate,
    ended: Status,
    shots: int,
    steps: int,
    provenance: dict[str, Any],
) -> str:
    """Return advice for a run of circuits."""
    options, fidelity = provenance.get("options", {}), provenance.get("fidelity") or {}
    if fidelity.get("low") or fidelity.get("fault"):
        return (
            f"The device binds: its read-outs are not those of its circuits (fidelity {fidelity['slope']:.2f}), and "
            "more shots or steps do not help. Check it by dualflow.testing.check_device, or take another one."
        )
    if ended is Status.NOISE_DOMINATED:
        return "Noise binds: take a device with less, fewer points, or mitigation='confusion'; shots alone do not help."
    if ended is Status.TIME_LIMIT:
        return f"The time binds: raise time_limit; {_REFINED}."
    given = [name for name in LENGTH_OPTIONS if options.get(name) is not None]
    length = (given or [name for name in LENGTH_OPTIONS[1:] if name in options])[:1]
    if shots and length and (noise := provenance.get("shot_noise")) is not None:
        return _on_flow(certificate, float(noise), length[0])
    averages = str(provenance.get("answer", "")).startswith("average")  # then more steps also mean more shots
    if (
        shots
        and not averages
        and (again := _sampled_gap(problem, certificate, shots)) > MIN_GAP_RATIO * (certificate.gap or 0.0)
    ):
        return (
            f"Shot noise binds: sampled anew with a quarter of the run's {shots:,} shots, this answer has a gap of "
            f"{again:.2g}, not {certificate.gap:.2g}. Raise {' or '.join([*length, 'shots'])}; shots=None takes "
            f"exact distributions where the device gives them, and {_REFINED}."
        )
    if ended is Status.STEP_LIMIT:
        return f"The steps bind: raise max_steps, or take a solver whose steps go farther; {_REFINED}."
    angles = provenance.get("angles")
    if provenance.get("ansatz", "tree") != "tree" and angles is not None and angles < problem.n - 1:
        return (
            f"The ansatz binds: its {angles} angles do not reach every point of {problem.n} variables. Take "
            f"ansatz='tree' or more layers; {_REFINED}."
        )
    if shots and length and averages:
        return (
            f"The number of steps binds: the answer is an {provenance['answer']}, so that more steps take it farther "
            f"and average the noise of more shots. Raise {length[0]} first; {_REFINED}."
        )
    if shots and length:
        return (
            f"The number of steps binds more than the shots: of {steps} steps, a quarter of their {shots:,} shots "
            f"leaves the gap nearly as it is. Raise {length[0]} first; {_REFINED}."
        )
    return f"The solver itself binds: it came to rest, and no shots or steps are missing. Take another one; {_REFINED}."


def _on_flow(certificate: Certificate, noise: float, length: str) -> str:
    """Return advice for a flow that takes all its steps.

    Noise stops it when the gap is about the noise of one circuit's shots; the average of later states has less noise. A
    larger gap means that steps are missing.
    """
    gap = certificate.gap or 0.0
    found = f"the shots of one circuit leave {noise:.2g} in the objective, and the gap is {gap:.2g}"
    if noise > MIN_NOISE_SHOTS * gap:
        return f"Shot noise binds: {found}. Raise shots first; shots=None takes exact distributions; {_REFINED}."
    if noise <= MAX_NOISE_STEPS * gap:
        return f"The number of steps binds: {found}. Raise {length} first; {_REFINED}."
    return (
        f"Shot noise and the number of steps bind alike: {found}. Raise each, {length} and shots, and see which one "
        f"helps; {_REFINED}."
    )


def _sampled_gap(problem: DualProblem, certificate: Certificate, shots: int) -> float:
    """Return the median gap of samples of the solution, with seeds 0 to 10."""
    certifier, found, count = Certifier(problem), [], max(1, round(SHOTS_PART * shots))
    for seed in range(DRAWS):
        gap = certifier.certify(sampled(problem, certificate.alpha, count, np.random.default_rng(seed))).gap
        found.append(np.inf if gap is None else gap)
    return float(np.median(found))
