"""`Status`: the ways a solve can end."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """How a solve ended; the value is the sentence shown to users.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> solve(problem).status.name
    'OPTIMAL'
    >>> solve(problem, "gradient-flow", max_steps=1).status.name
    'STEP_LIMIT'
    """

    OPTIMAL = "The certified relative gap is within the tolerance."
    ROUNDED = (
        "The gap as computed is within the tolerance, but not with what float64 may have rounded away: scale the "
        "features or lower the weights, or accept certificate.rounding by a larger tolerance."
    )
    STATIONARY = "The solver came to rest by its own criterion; no gap could be certified to the tolerance."
    FINISHED = "The solver finished; the certified relative gap is above the tolerance."
    STEP_LIMIT = "The step limit was reached before the tolerance; this is the best state so far."
    TIME_LIMIT = "The time limit was reached before the tolerance; this is the best state so far."
    INTERRUPTED = "Interrupted (Ctrl-C, or an error); this is the state that was reached."
    DEVICE_FAILED = (
        "The device failed, or lost its job; this is the state before it, and the same checkpoint resumes it."
    )
    BUDGET_SPENT = (
        "The budget of the run does not hold its next circuits; this is the state that was reached within it, and a "
        "larger budget goes on from the same checkpoint or journal."
    )
    NOISE_DOMINATED = "Noise dominates the circuits: the measured outcomes cannot be distinguished from uniform ones."
    DROWNED = NOISE_DOMINATED  # old name, an alias
    STOPPED = "The callback stopped the run; this is the state that was reached."
    NOT_SEPARABLE = "The data are not separable: no hard margin exists, and the witness proves it."
    BROKEN = "The solver returned NaN or infinity; its last finite state is given."

    @property
    def text(self) -> str:
        """The sentence shown to users."""
        return self.value
