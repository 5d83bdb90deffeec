"""When a measured result is evidence for its circuits: held against the same run on devices that know nothing."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CONTROLS", "EVIDENCE", "Ending", "margin", "margin_text"]

#: Devices that know nothing of the circuit. A result that cannot be told from either's is no evidence.
CONTROLS = ("null", "control:random")
#: Times fewer circuits, or times nearer, that a result is to be told from its controls.
EVIDENCE = 5.0
#: Excess that takes no device: that of α = 0. How much farther off a control ends says nothing of the circuits.
UNTOUCHED = 1.0
#: Margins beyond that are written as it: larger ones say no more.
MOST = 1000.0


@dataclass(frozen=True)
class Ending:
    """Where a run ended.

    Attributes
    ----------
    excess : float
        (f − f*)/|f*|.
    circuits : int or None
    reached : bool
        Whether the tolerance ended it.
    """

    excess: float
    circuits: int | None
    reached: bool


def margin(own: Ending, control: Ending, level: float) -> float:
    """How many times fewer circuits a run needed than its control, or how many times nearer it ended: the larger.

    Circuits count where the run reached its tolerance; a control that did not would have needed more than it took. A
    control that ends beyond an excess of 1, where α = 0 is, counts as there: 5 times nearer begins at 0.2.

    Parameters
    ----------
    own, control : Ending
    level : float > 0
        Excess below which nearer is luck: the tolerance, or what the shots leave of the exact optimum.
    """
    nearer = max(min(control.excess, UNTOUCHED), level) / max(own.excess, level)
    fewer = control.circuits / own.circuits if own.reached and own.circuits and control.circuits else 0.0
    return max(nearer, fewer)


def margin_text(times: float) -> str:
    """A margin as tables show it: "no evidence" below `EVIDENCE`."""
    if not times >= EVIDENCE:
        return "no evidence"
    return f"{times:.0f}×" if times < MOST else f"> {MOST:.0f}×"
