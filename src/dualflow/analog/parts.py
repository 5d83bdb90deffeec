"""The parts of an analog circuit: the kind of its cells, and the deviations of its parts from ideal ones."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.options import Number, OneOf, check_fields, option

CELLS = ("multiplier", "translinear")

#: Volts of the largest α.
FULL_SCALE_V = 5.0
#: Ohms of the unit resistor.
RESISTOR_OHM = 1e4
#: Seconds of the integrators' time constant: 10 kΩ times 10 nF.
TIME_CONSTANT_S = 1e-4
#: Volts by which α changes by a factor of e in translinear cells.
LOG_SCALE_V = 0.5
#: Volts of the supply, the limit of every amplifier's output.
RAIL_V = 12.0

CELL_RULE = OneOf(words=CELLS)
#: The rule of each fault's value, by its name.
RULES = {
    "tolerance": Number(at_least=0, below=1, note="(a share of each resistance)"),
    "gain_bandwidth": Number(above=0, none=True, note="(in hertz; None is without limit)"),
    "offset": Number(at_least=0, note="(in volts)"),
    "noise": Number(at_least=0, note="(in volts per square root of hertz)"),
}


@dataclass(frozen=True)
class Parts:
    """The kind of a circuit's cells, and the faults of its parts.

    Parameters
    ----------
    cells : {"multiplier", "translinear"}
        "multiplier": a capacitor holds αᵢ, and a one-quadrant multiplier charges it with wᵢ times its drive.
        "translinear": a capacitor holds log αᵢ (the logit if αᵢ has an upper bound), the drive charges it directly,
        and the exponential law of a transistor (of a differential pair) gives αᵢ.
    tolerance : float ≥ 0, < 1
        Each resistance is drawn once, uniformly from 1 ± tolerance: 0.01 is a 1 % resistor.
    gain_bandwidth : float > 0 or None
        Gain-bandwidth product of every operational amplifier in Hz, with a gain of 1e5 at direct current; None is
        without limit.
    offset : float ≥ 0
        Standard deviation of the input offsets of amplifiers and cells, drawn once, in V.
    noise : float ≥ 0
        White noise at the input of every fitness amplifier, in V/√Hz, within the bandwidth of its samples.

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
        """Whether amplifiers have neither limits nor offsets; their output is then not limited by the supply."""
        return self.gain_bandwidth is None and self.offset == 0

    @property
    def ideal(self) -> bool:
        """Whether all parts are ideal."""
        return self.amplifiers_ideal and self.tolerance == 0 and self.noise == 0
