"""A circuit's netlist as text, for ngspice and for readers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .parts import FULL_SCALE_V, LOG_SCALE_V, RAIL_V, RESISTOR_OHM, TIME_CONSTANT_S, Parts

#: Smallest weight wᵢ of a cell in V, its leakage: a variable below it is driven as if at it, so that it can grow again.
LEAK_V = 1e-12
#: Gain of real amplifiers at direct current.
GAIN = 1e5
#: Gain-bandwidth product in Hz of amplifiers that are real but without limit.
UNLIMITED_HZ = 1e9
#: Capacitance of the multiplier's wire in farads.
WIRE_F = 1e-12
#: Samples of the noise in a netlist.
NOISE_SAMPLES = 200

#: Options of ngspice for ideal parts; the relative tolerance is ten times smaller if λ is dynamic and may oscillate.
OPTIONS_IDEAL = (
    ".options reltol={reltol:g} abstol=1e-15 vntol=1e-12 chgtol=1e-20 trtol=1 gmin=1e-18 method=gear maxord=2 itl4=200"
)
#: Options of ngspice for real parts, whose errors are larger than these tolerances.
OPTIONS_REAL = ".options reltol=1e-4 abstol=1e-12 vntol=1e-8 chgtol=1e-15 gmin=1e-15 method=gear maxord=2 itl4=200"

#: Subcircuit of an ideal amplifier.
IDEAL_AMPLIFIER = """\
.subckt opamp p m out
Eout out 0 p m 1e9
.ends"""

#: Subcircuit of a real amplifier.
REAL_AMPLIFIER = """\
* gain {gain:g}, gain-bandwidth {gbw:g} Hz, output within +-{rail:g} V
.subckt opamp p m out vos=0 ic=0
Bgain 0 pole I={twice:g}*tanh({gain:g}*(V(p)-V(m)+{{vos}})/{twice:g})
Rpole pole 0 1
Cpole pole 0 {pole!r} IC={{ic}}
Bout out 0 V={rail:g}*tanh(V(pole)/{rail:g})
.ends"""


@dataclass(frozen=True, eq=False)
class NetlistPlan:
    """The values of a netlist, dimensionless or in volts, for the m variables with u > 0.

    Attributes
    ----------
    title : str
    conductances : array of shape (m, m)
        In units of 1/`RESISTOR_OHM`; negative ones are connected to the inverted copy.
    prices : array of shape (m,)
        Conductances from the reference, in the same units.
    e : array of shape (m,) or None
    target : float
        Volts at which eᵀα is held.
    caps : array of shape (m,)
        Volts of the upper bounds.
    slowness : float or None
        Capacitor of λ relative to that of the integrators; None for the exact multiplier.
    """

    title: str
    conductances: NDArray
    prices: NDArray
    e: NDArray | None
    target: float
    caps: NDArray
    slowness: float | None

    @property
    def inverted(self) -> NDArray:
        """Which variables need an inverted copy, boolean, shape (m,)."""
        needed: NDArray = np.any(self.conductances < 0, axis=0)
        return needed if self.e is None else needed | (self.e < 0)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Number of resistors, of amplifiers and of cells."""
        m, copies, held = len(self.prices), int(self.inverted.sum()), self.e is not None
        resistors = np.count_nonzero(self.conductances) + np.count_nonzero(self.prices) + m + 2 * copies
        resistors += (m + 1 + (self.target != 0)) * held
        return int(resistors), 2 * m + copies + held, m * (2 if held and self.slowness is None else 1)


@dataclass(frozen=True, eq=False)
class DrawnFaults:
    """The drawn faults of the parts: resistances relative to their value, and input offsets in V.

    At another tolerance the same seed draws the same faults, scaled.

    Attributes
    ----------
    network : array of shape (m, m)
        Resistors of Q.
    singles : array of shape (m, 5)
        Resistors of price, feedback, the inverter's two, and the equality's amplifier, for each variable.
    rest : array of shape (2,)
        Resistors of that amplifier's reference and feedback.
    offsets : array of shape (m, 4)
        Offsets of buffer, inverter, fitness amplifier and cell.
    hold_offset : float
        Offset of the equality's amplifier.
    """

    network: NDArray
    singles: NDArray
    rest: NDArray
    offsets: NDArray
    hold_offset: float

    @classmethod
    def of(cls, m: int, parts: Parts, seed: int) -> DrawnFaults:
        """Return the faults of m variables' parts, drawn with a seed."""
        rng, off = np.random.default_rng([seed, 0]), parts.tolerance
        network, singles, rest = (1.0 + off * rng.uniform(-1, 1, shape) for shape in ((m, m), (m, 5), 2))
        offsets = parts.offset * rng.standard_normal((m, 4))
        return cls(network, singles, rest, offsets, parts.offset * float(rng.standard_normal()))


def netlist_text(
    plan: NetlistPlan, drawn: DrawnFaults, parts: Parts, seconds: float, held: NDArray, noise_seed: int
) -> str:
    """Return the netlist as text."""
    return "\n".join(_Writer(plan, drawn, parts, seconds, held, noise_seed).lines()) + "\n"


@dataclass(frozen=True, eq=False)
class _Writer:
    """Writes the lines of a netlist, part by part."""

    plan: NetlistPlan
    drawn: DrawnFaults
    parts: Parts
    seconds: float
    held: NDArray
    noise_seed: int

    def lines(self) -> Iterator[str]:
        """Yield all lines."""
        plan, parts = self.plan, self.parts
        faults = "ideal parts" if parts.ideal else f"resistors within {parts.tolerance:.3g}"
        yield f"* {plan.title}, {parts.cells} cells, {faults}"
        yield f"* V(a<i>) is alpha_i: {FULL_SCALE_V:g} V for the largest that is allowed; n<i> its inverted copy"
        yield f"* V(f<i>) is the fitness (p - Q alpha)_i: {FULL_SCALE_V:g} V for its largest term; V(u) the multiplier"
        yield f"* x<i> is a capacitor, of {'alpha_i' if parts.cells == 'multiplier' else 'log alpha_i'}"
        yield f"* unit resistor {RESISTOR_OHM:g} ohm, integrators' time constant {TIME_CONSTANT_S:g} s"
        yield OPTIONS_IDEAL.format(reltol=1e-6 if plan.slowness is None else 1e-7) if parts.ideal else OPTIONS_REAL
        yield from self.amplifier()
        yield f"Vref ref 0 {FULL_SCALE_V:g}"
        yield f"Vnref nref 0 {-FULL_SCALE_V:g}"
        for i in range(len(plan.prices)):
            yield from self.variable(i)
        if plan.e is not None:
            yield from self.equality(plan.e)
        columns = " ".join(f"v({name}{i + 1})" for name in "ax" for i in range(len(plan.prices)))
        yield f".save {columns}{'' if plan.e is None else ' v(u)'}"
        yield f".tran {TIME_CONSTANT_S / 1000:.6g} {self.seconds!r} 0 {self.seconds / 50!r} uic"
        yield ".end"

    def amplifier(self) -> Iterator[str]:
        """Yield the subcircuit of an amplifier."""
        if self.parts.amplifiers_ideal:
            yield IDEAL_AMPLIFIER
            return
        gbw = self.parts.gain_bandwidth or UNLIMITED_HZ
        pole = GAIN / (2 * math.pi * gbw)
        yield REAL_AMPLIFIER.format(gain=GAIN, gbw=gbw, rail=RAIL_V, twice=2 * RAIL_V, pole=pole)

    def opamp(self, name: str, pins: str, offset: float, out: float = 0.0) -> str:
        """Return the line of an amplifier; ``out`` is its output at the start in V."""
        if self.parts.amplifiers_ideal:
            return f"X{name} {pins} opamp"
        pole = RAIL_V * math.atanh(min(max(out / RAIL_V, -0.999), 0.999))
        return f"X{name} {pins} opamp vos={float(offset)!r} ic={pole!r}"

    def variable(self, i: int) -> Iterator[str]:
        """Yield capacitor, cell, buffer, inverter and fitness amplifier of a variable."""
        plan, drawn, k = self.plan, self.drawn, i + 1
        price, feedback, first, second, _ = (float(RESISTOR_OHM * error) for error in drawn.singles[i])
        offsets, alpha = drawn.offsets[i], self.alpha(i)
        yield f"* --- variable {k}"
        yield f"Cx{k} x{k} 0 {TIME_CONSTANT_S / RESISTOR_OHM:g} IC={float(self.held[i])!r}"
        yield from self.cell(i, f"({self.drive(i)})")
        yield self.opamp(f"a{k}", f"{'x' if self.parts.cells == 'multiplier' else 'y'}{k} a{k} a{k}", offsets[0], alpha)
        if plan.inverted[i]:
            yield f"Rn{k} a{k} m{k} {first!r}"
            yield f"Rm{k} m{k} n{k} {second!r}"
            yield self.opamp(f"n{k}", f"0 m{k} n{k}", offsets[1], -alpha)
        for j in np.flatnonzero(plan.conductances[i]):
            g = plan.conductances[i, j]
            ohms = RESISTOR_OHM / abs(g) * drawn.network[i, j]
            yield f"Rq{k}_{j + 1} {'a' if g > 0 else 'n'}{j + 1} s{k} {float(ohms)!r}"
        if (g := plan.prices[i]) != 0:
            yield f"Rp{k} {'nref' if g > 0 else 'ref'} s{k} {float(price / abs(g))!r}"
        yield f"Rf{k} s{k} f{k} {feedback!r}"
        plus = "0"
        if self.parts.noise:
            plus = f"e{k}"
            yield from self.noise(k)
        yield self.opamp(f"f{k}", f"{plus} s{k} f{k}", offsets[2])

    def alpha(self, i: int) -> float:
        """Return αᵢ at the start in V."""
        x, cap = float(self.held[i]), float(self.plan.caps[i])
        if self.parts.cells == "multiplier":
            return x
        share = math.exp(min(x / LOG_SCALE_V, 300.0))
        return FULL_SCALE_V * min(share, 1.0) if math.isinf(cap) else cap * share / (1.0 + share)

    def drive(self, i: int) -> str:
        """Return the expression of gᵢ + νeᵢ in V."""
        e, offset = self.plan.e, float(self.drawn.offsets[i, 3])
        nu = "" if e is None else f"{'+' if e[i] > 0 else '-'}V(u)"
        return f"V(f{i + 1}){nu}" + (f"{offset:+.6g}" if offset else "")

    def weight(self, i: int) -> str:
        """Return the expression of wᵢ in V."""
        a, cap = f"V(a{i + 1})", float(self.plan.caps[i])
        return f"max({a if math.isinf(cap) else f'{a}*(1-{a}/{cap!r})'},{LEAK_V:g})"

    def cell(self, i: int, drive: str) -> Iterator[str]:
        """Yield the cell that charges a variable's capacitor."""
        k, cap = i + 1, float(self.plan.caps[i])
        if self.parts.cells == "multiplier":
            back = f"min(V(x{k}),0)" + ("" if math.isinf(cap) else f"+max(V(x{k})-{cap!r},0)")
            yield f"Bc{k} 0 x{k} I={self.weight(i)}*{drive}/{FULL_SCALE_V * RESISTOR_OHM:g}-({back})/{RESISTOR_OHM:g}"
            return
        stop = "" if self.parts.amplifiers_ideal else f"-(max(V(x{k})-{RAIL_V:g},0)+min(V(x{k})+{RAIL_V:g},0))/100"
        yield f"Bc{k} 0 x{k} I={drive}/{RESISTOR_OHM * FULL_SCALE_V / LOG_SCALE_V:g}{stop}"
        if math.isinf(cap):
            yield f"By{k} y{k} 0 V={FULL_SCALE_V:g}*exp(min(V(x{k})/{LOG_SCALE_V:g},30))"
        else:
            yield f"By{k} y{k} 0 V={cap!r}/(1+exp(-max(V(x{k})/{LOG_SCALE_V:g},-300)))"

    def equality(self, e: NDArray) -> Iterator[str]:
        """Yield the amplifier that holds eᵀα at d, and the multiplier."""
        plan, drawn, offset = self.plan, self.drawn, self.drawn.hold_offset
        yield "* --- equality: h = -(sum of e_i a_i - its target)"
        for i, sign in enumerate(e):
            yield f"Rh{i + 1} {'a' if sign > 0 else 'n'}{i + 1} sh {float(RESISTOR_OHM * drawn.singles[i, 4])!r}"
        if plan.target != 0:
            ohms = RESISTOR_OHM * FULL_SCALE_V / abs(plan.target) * drawn.rest[0]
            yield f"Rht {'nref' if plan.target > 0 else 'ref'} sh {float(ohms)!r}"
        yield f"Rhf sh h {float(RESISTOR_OHM * drawn.rest[1])!r}"
        yield self.opamp("h", "0 sh h", offset)
        if plan.slowness is not None:
            yield "* multiplier: a capacitor that h charges"
            yield f"Cu u 0 {float(TIME_CONSTANT_S / RESISTOR_OHM * plan.slowness)!r} IC={float(self.held[-1])!r}"
            yield f"Gu 0 u h 0 {1 / RESISTOR_OHM:g}"
            return
        yield "* multiplier: the voltage at which the cells' currents, and what h draws, sum to nothing"
        for i, sign in enumerate(e):
            product = f"{'' if sign > 0 else '-'}{self.weight(i)}*({self.drive(i)})"
            yield f"Bu{i + 1} u 0 I={product}/{FULL_SCALE_V * RESISTOR_OHM:g}"
        yield f"Gu 0 u h 0 {1 / RESISTOR_OHM:g}"
        yield f"Cu u 0 {WIRE_F:g} IC={float(self.held[-1])!r}"

    def noise(self, k: int) -> Iterator[str]:
        """Yield samples of white noise, joined by straight lines."""
        step = self.seconds / NOISE_SAMPLES
        rng = np.random.default_rng([self.noise_seed, k])
        volts = self.parts.noise / math.sqrt(2 * step) * rng.standard_normal(NOISE_SAMPLES + 1)
        points = [f"{step * s:.9g} {v:.6g}" for s, v in enumerate(volts)]
        yield f"Ve{k} e{k} 0 PWL("
        yield from ("+ " + " ".join(points[s : s + 8]) for s in range(0, len(points), 8))
        yield "+ )"
