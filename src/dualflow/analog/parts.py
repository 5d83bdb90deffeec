"""What a circuit is made of: the kind of its cells, and how far its parts are from ideal ones."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.options import Number, OneOf, check_fields, option

__all__ = ["CELLS", "CELL_RULE", "FULL_SCALE", "LOG_SCALE", "RAIL", "RESISTOR", "RULES", "TIME_CONSTANT", "Parts"]

CELLS = ("multiplier", "translinear")

#: Volts that stand for the largest α, ohms of the unit resistor, seconds of the integrators (10 kΩ, 10 nF).
FULL_SCALE, RESISTOR, TIME_CONSTANT = 5.0, 1e4, 1e-4
#: Volts a factor e of translinear cells, and the supply that no amplifier's output gets beyond.
LOG_SCALE, RAIL = 0.5, 12.0

CELL_RULE = OneOf(words=CELLS)
#: By name of the part's fault, what it may be.
RULES = {
    "tolerance": Number(at_least=0, below=1, note="(a share of each resistance)"),
    "gain_bandwidth": Number(above=0, none=True, note="(in hertz; None is without limit)"),
    "offset": Number(at_least=0, note="(in volts)"),
    "noise": Number(at_least=0, note="(in volts per square root of hertz)"),
}


@dataclass(frozen=True)
class Parts:
    """What a circuit is made of.

    Parameters
    ----------
    cells : {"multiplier", "translinear"}
        "multiplier": a capacitor holds αᵢ, and a one-quadrant multiplier charges it with wᵢ times its drive.
        "translinear": a capacitor holds log αᵢ (its logit where αᵢ is capped), the drive charges it as it is, and a
        transistor's exponential law (a differential pair's) makes αᵢ of it.
    tolerance : float ≥ 0, < 1
        Each resistance is drawn once, evenly from 1 ± tolerance: 0.01 is a 1 % resistor.
    gain_bandwidth : float > 0 or None
        Of every operational amplifier, in Hz, with a gain of 1e5 at direct current; None is without limit.
    offset : float ≥ 0
        Standard deviation of the input offsets of amplifiers and cells, drawn once, in V.
    noise : float ≥ 0
        White noise at the input of every fitness amplifier, in V/√Hz, within the bandwidth that its samples have.

    Raises
    ------
    ProblemError
        A number is out of range.

    Examples
    --------
    >>> from dualflow.analog import Parts
    >>> Parts().ideal, Parts(tolerance=0.01).ideal, Parts(offset=1e-3, gain_bandwidth=1e6).amplifiers_ideal
    (True, False, False)
    """

    cells: str = option("multiplier", CELL_RULE)
    tolerance: float = option(0.0, RULES["tolerance"])
    gain_bandwidth: float | None = option(None, RULES["gain_bandwidth"])
    offset: float = option(0.0, RULES["offset"])
    noise: float = option(0.0, RULES["noise"])

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def amplifiers_ideal(self) -> bool:
        """Whether amplifiers have neither limits nor offsets: they then have no supply to run into."""
        return self.gain_bandwidth is None and self.offset == 0

    @property
    def ideal(self) -> bool:
        """Whether nothing is wrong with any part."""
        return self.amplifiers_ideal and self.tolerance == 0 and self.noise == 0
