"""Whether a measured result is evidence for its circuits: it is compared with control devices that ignore them."""

from __future__ import annotations

from dataclasses import dataclass

#: Control devices, whose outcomes do not depend on the circuit. A result like that of one of them is no evidence.
CONTROLS = ("null", "control:random")
#: A result counts as evidence if its `margin` over its controls is at least this.
EVIDENCE = 5.0
#: Excess of α = 0, which needs no device. A control that ends farther off counts as α = 0.
EXCESS_OF_ZERO = 1.0
#: Larger margins are printed as "> 1000×".
MAX_MARGIN_SHOWN = 1000.0


@dataclass(frozen=True)
class Ending:
    """Where a run ended."""

    excess: float  # (f − f*)/|f*|
    circuits: int | None
    reached: bool  # whether the tolerance ended it


def margin(own: Ending, control: Ending, level: float) -> float:
    """Return the ratio of a control's excess to a run's, or of its circuits to the run's, the larger of the two.

    Circuits count if the run reached its tolerance; a control that did not would have needed more than it used. A
    control with an excess above 1, that of α = 0, counts as having 1, so a ratio of 5 needs an excess of at most 0.2.

    Parameters
    ----------
    own, control : Ending
    level : float > 0
        Excess below which differences are chance: the tolerance, or the excess of the optimum sampled with the shots.
    """
    nearer = max(min(control.excess, EXCESS_OF_ZERO), level) / max(own.excess, level)
    fewer = control.circuits / own.circuits if own.reached and own.circuits and control.circuits else 0.0
    return max(nearer, fewer)


def margin_text(times: float) -> str:
    """Return a margin as text for tables: "no evidence" below `EVIDENCE`."""
    if not times >= EVIDENCE:
        return "no evidence"
    return f"{times:.0f}×" if times < MAX_MARGIN_SHOWN else f"> {MAX_MARGIN_SHOWN:.0f}×"
