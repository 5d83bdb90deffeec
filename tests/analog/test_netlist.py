"""The netlist of a problem, evaluated from its text without ngspice."""

import re

import numpy as np
import pytest

from dualflow import AnalogFlow, DualProblem, Gram, ProblemError, problems
from dualflow.analog import Parts, Trace, build
from dualflow.analog.parts import FULL_SCALE_V, LOG_SCALE_V, RESISTOR_OHM, TIME_CONSTANT_S
from dualflow.flows.gradient import GradientField
from dualflow.flows.lotka_volterra import LotkaVolterraField
from dualflow.solvers import analog_flow
from dualflow.testing.by_hand import SIX_LABELS, SIX_POINTS


def l2(C=1.0):
    return problems.svc(Gram(SIX_POINTS, "linear"), SIX_LABELS, C, loss="squared_hinge")


def boxed(**options):
    return problems.svc(Gram(SIX_POINTS, "linear"), SIX_LABELS, 2.0, **options)


def precomputed(Q, **parts):
    n = len(Q)
    given = {"p": np.zeros(n), "lower": 0.0, "upper": np.inf, "e": np.ones(n), "d": 1.0} | parts
    return DualProblem(Gram.precomputed(np.asarray(Q, dtype=float)), **given)


PROBLEMS = {
    "simplex, signs": l2(),
    "simplex, prices": problems.svdd(Gram(SIX_POINTS, "linear")),
    "capped": problems.svdd(Gram(SIX_POINTS, gamma=0.3), nu=0.4),
    "box": boxed(fit_intercept=False),
    "box, equality": boxed(),
    "weights of 0": problems.svc(
        Gram(SIX_POINTS, "linear"), SIX_LABELS, 1.0, loss="squared_hinge", sample_weight=[1, 1, 0, 1, 2, 1]
    ),
}


class Read:
    """A netlist's resistors and sources, evaluated in numpy at given capacitor voltages: an independent solution of the
    ideal circuit by its own text."""

    def __init__(self, circuit, held):
        self.text = circuit.netlist(1e-3, held)
        self.lines = [line for line in self.text.splitlines() if not line.startswith(("*", ".", "+"))]
        self.resistors = {w[0]: (w[1], w[2], float(w[3])) for w in map(str.split, self.lines) if w[0][0] == "R"}
        self.capacitors = {w[1]: float(w[3]) for w in map(str.split, self.lines) if w[0][0] == "C"}
        self.starts = {w[1]: float(w[4].removeprefix("IC=")) for w in map(str.split, self.lines) if w[0][0] == "C"}
        self.sources = dict(re.findall(r"^(B\w+) \w+ \w+ [IV]=(.*)$", self.text, flags=re.MULTILINE))
        self.m = sum(name.startswith("Bc") for name in self.sources)
        self.v = {"ref": FULL_SCALE_V, "nref": -FULL_SCALE_V, "0": 0.0, **self.starts}

    def value(self, expression, **more):
        names = {"max": max, "min": min, "exp": np.exp, "V": lambda node: (self.v | more)[node]}
        quoted = re.sub(r"V\((\w+)\)", r"V('\1')", expression)
        return float(eval(quoted, {"__builtins__": {}}, names))

    def amplified(self, node, feedback):
        """Output of the inverting amplifier whose summing node that is."""
        ohms = self.resistors[feedback][2]
        inputs = [(a, r) for name, (a, b, r) in self.resistors.items() if b == node and name != feedback]
        return -sum(self.v[a] * ohms / r for a, r in inputs)

    def solve(self):
        """Rates of all capacitors, in V/s, and the αs in V."""
        index = range(1, self.m + 1)
        for i in index:
            self.v[f"a{i}"] = self.value(self.sources[f"By{i}"]) if f"By{i}" in self.sources else self.v[f"x{i}"]
        for i in index:
            if f"Rn{i}" in self.resistors:
                self.v[f"n{i}"] = self.amplified(f"m{i}", f"Rm{i}")
        for i in index:
            self.v[f"f{i}"] = self.amplified(f"s{i}", f"Rf{i}")
        if "Rhf" in self.resistors:
            self.v["h"] = self.amplified("sh", "Rhf")
        if "Bu1" in self.sources:  # the currents out of u are a straight line in V(u)
            flows = [
                sum(self.value(self.sources[f"Bu{i}"], u=u) for i in index) - self.v["h"] / RESISTOR_OHM for u in (0, 1)
            ]
            self.v["u"] = flows[0] / (flows[0] - flows[1])
        rates = [self.value(self.sources[f"Bc{i}"]) / self.capacitors[f"x{i}"] for i in index]
        if "u" in self.v and "Bu1" not in self.sources:
            rates.append(self.v["h"] / RESISTOR_OHM / self.capacitors["u"])
        return np.array(rates), np.array([self.v[f"a{i}"] for i in index])


@pytest.mark.parametrize("cells", ["multiplier", "translinear"])
@pytest.mark.parametrize("flow", ["gradient", "lotka-volterra"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_text_is_the_flow(name, flow, cells):
    problem = PROBLEMS[name]
    circuit = build(problem, flow, Parts(cells), tau=0.7)
    field = GradientField(problem) if flow == "gradient" else LotkaVolterraField(problem, 0.7)
    y = field.start()
    alpha = y[: problem.n] * np.random.default_rng(0).uniform(0.5, 1.0, problem.n)
    if problem.e is not None and flow == "gradient":
        alpha = 0.9 * problem.project(alpha) + 0.1 * y[: problem.n]
    alpha = np.where(problem.upper > 0, alpha, 0.0)
    lam = 0.3
    y = alpha if flow == "gradient" else np.append(alpha, lam)
    read = Read(circuit, circuit.at(alpha, lam))
    volts, shown = read.solve()
    np.testing.assert_allclose(shown * circuit.unit / FULL_SCALE_V, alpha[circuit.live], rtol=1e-12)
    expected = field.rate(0.0, y)
    per_second = TIME_CONSTANT_S * circuit.fitness_unit  # of the circuit, of the flow's time
    m = len(circuit.live)
    rates = volts[:m] * per_second
    if cells == "translinear":  # of the logarithm, or logit
        caps = circuit.plan.caps * circuit.unit / FULL_SCALE_V
        a = alpha[circuit.live]
        rates = rates / LOG_SCALE_V * np.where(np.isfinite(caps), a * (1 - a / caps), a)
    else:
        rates = rates * circuit.unit / FULL_SCALE_V
    np.testing.assert_allclose(rates, expected[: problem.n][circuit.live], atol=1e-9 * max(1.0, np.abs(expected).max()))
    if flow == "lotka-volterra" and problem.e is not None:
        np.testing.assert_allclose(volts[m] * per_second * circuit.fitness_unit / FULL_SCALE_V, expected[-1], rtol=1e-9)
    if flow == "gradient" and problem.e is not None:
        nu = read.v["u"] * circuit.fitness_unit / FULL_SCALE_V
        assert nu == pytest.approx(field.multiplier(alpha), rel=1e-9)


def test_the_netlist_is_readable():
    text = build(l2()).netlist(1e-2)
    title, *comments = [line for line in text.splitlines() if line.startswith("* ")]
    assert title == "* gradient flow of an L2-SVM dual (simplex), 6 variables, multiplier cells, ideal parts"
    assert any("5 V for the largest that is allowed" in line for line in comments)
    assert text.isascii()
    assert [line for line in comments if line.startswith("* --- ")] == [
        *(f"* --- variable {k}" for k in range(1, 7)),
        "* --- equality: h = -(sum of e_i a_i - its target)",
    ]
    assert text.endswith(".end\n")
    names = [line.split()[0] for line in text.splitlines() if line[0] not in "*.+"]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=list(PROBLEMS))
@pytest.mark.parametrize("flow", ["gradient", "lotka-volterra"])
def test_parts_are_counted(problem, flow):
    circuit = build(problem, flow)
    lines = circuit.netlist(1.0).splitlines()
    assert circuit.resistors == sum(line.startswith("R") for line in lines)
    assert circuit.amplifiers == sum(line.startswith("X") for line in lines)
    assert circuit.cells == sum(line.startswith(("Bc", "Bu")) for line in lines)


def test_zeros_have_no_resistor_and_signs_choose_the_copy():
    text = build(precomputed([[2, 0, -1], [0, 1, 0], [-1, 0, 1]])).netlist(1.0)
    wires = {w[0]: w[1] for w in map(str.split, text.splitlines()) if w[0].startswith("Rq")}
    assert wires == {"Rq1_1": "a1", "Rq1_3": "n3", "Rq2_2": "a2", "Rq3_1": "n1", "Rq3_3": "a3"}
    assert "Rn2" not in text


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_units_of_the_problem_do_not_matter(scale):
    Q = np.array([[2.0, 0.5], [0.5, 1.0]])
    texts = [
        re.sub(r"\d+\.\d+", lambda m: f"{float(m[0]):.6g}", build(precomputed(s * Q)).netlist(1.0)) for s in (1, scale)
    ]
    assert texts[0] == texts[1]


def test_resistors_are_within_their_tolerance_and_of_their_seed():
    plain, drawn = build(l2()).netlist(1.0), build(l2(), parts=Parts(tolerance=0.01), seed=4).netlist(1.0)

    def ohms(text):
        return np.array([float(line.split()[3]) for line in text.splitlines() if line.startswith("R")])

    off = ohms(drawn) / ohms(plain) - 1
    assert (np.abs(off) <= 0.01).all()
    assert np.abs(off).max() > 0.009
    assert off.std() == pytest.approx(0.01 / np.sqrt(3), rel=0.3)
    assert len(set(off)) == len(off)
    twice = build(l2(), parts=Parts(tolerance=0.02), seed=4).netlist(1.0)
    np.testing.assert_allclose(ohms(twice) / ohms(plain) - 1, 2 * off, rtol=1e-9)
    assert build(l2(), parts=Parts(tolerance=0.01), seed=4).netlist(1.0) == drawn
    assert build(l2(), parts=Parts(tolerance=0.01), seed=5).netlist(1.0) != drawn


def test_faults_of_amplifiers_are_in_the_text():
    text = build(l2(), parts=Parts(offset=1e-3, gain_bandwidth=1e6), seed=1).netlist(1.0)
    offsets = np.array([float(found) for found in re.findall(r"vos=(\S+) ", text)])
    assert len(offsets) == build(l2()).amplifiers + 1  # and the model's own default, 0
    assert 3e-4 < offsets.std() < 3e-3
    assert "gain-bandwidth 1e+06 Hz, output within +-12 V" in text
    assert "vos" not in build(l2()).netlist(1.0)


def test_noise_has_the_requested_density():
    circuit = build(l2(), parts=Parts(noise=1e-6))
    text = circuit.netlist(0.2, noise_seed=3)
    points = " ".join(re.findall(r"^\+ ([-\d.].*)$", text, flags=re.MULTILINE)).split()
    volts = np.array(points[1::2], dtype=float)
    step = 0.2 / 200
    assert len(volts) == 6 * 201
    assert volts.std() == pytest.approx(1e-6 / np.sqrt(2 * step), rel=0.1)
    assert circuit.netlist(0.2, noise_seed=3) == text != circuit.netlist(0.2, noise_seed=4)


def test_the_control_has_the_same_conductances_at_other_places():
    right, wrong = build(l2()).plan.conductances, build(l2(), control="shuffled", seed=2).plan.conductances
    np.testing.assert_allclose(np.sort(np.diag(right)), np.sort(np.diag(wrong)))
    np.testing.assert_allclose(np.sort(right.ravel()), np.sort(wrong.ravel()))
    np.testing.assert_array_equal(wrong, wrong.T)
    assert not np.allclose(right, wrong)
    again = build(l2(), control="shuffled", seed=2).plan.conductances
    np.testing.assert_array_equal(wrong, again)


@pytest.mark.parametrize("cells", ["multiplier", "translinear"])
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=list(PROBLEMS))
def test_a_table_is_read_as_it_was_written(problem, cells):
    circuit = build(problem, "lotka-volterra", Parts(cells))
    alpha = GradientField(problem).start()
    alpha[problem.upper == 0] = 0.0
    held = circuit.at(alpha, 0.25)
    volts = alpha[circuit.live] * FULL_SCALE_V / circuit.unit
    m = len(circuit.live)
    row = np.concatenate([[TIME_CONSTANT_S], volts, held[:m], held[m:]])
    trace = circuit.read(row[None])
    assert isinstance(trace, Trace)
    assert len(circuit.columns) == len(row) - 1 == 2 * m + (problem.e is not None)
    np.testing.assert_allclose(trace.alpha, [alpha], rtol=1e-12)
    np.testing.assert_allclose(trace.held, [held], rtol=1e-12)
    np.testing.assert_allclose(trace.multiplier, 0.25 if problem.e is not None else 0.0, rtol=1e-12)
    np.testing.assert_allclose(trace.t, 1 / circuit.fitness_unit)
    assert circuit.seconds(circuit.flow_time(3.0)) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Parts(cells="valve"), "cells='valve' is not one of 'multiplier', 'translinear'"),
        (lambda: Parts(tolerance=1.0), "tolerance=1.0 must be a finite number"),
        (lambda: Parts(offset=-1e-3), "offset=-0.001 must be"),
        (lambda: Parts(gain_bandwidth=0.0), r"gain_bandwidth=0.0 must be .* \(in hertz"),
        (lambda: Parts(noise=np.nan), "noise=nan must be"),
        (lambda: build(l2(), "langevin"), "flow='langevin' is not one of"),
        (lambda: build(l2(), control="null"), "control='null' is not one of 'shuffled', None"),
    ],
)
def test_values_out_of_range_are_named(make, message):
    with pytest.raises(ProblemError, match=message):
        make()


def test_a_stretch_of_the_solver_ends_with_the_last_row_of_its_trace(monkeypatch):
    problem = problems.svdd(Gram(SIX_POINTS, "linear"))
    rows = np.arange(3.0)[:, None]
    trace = Trace(rows[:, 0], rows[:, 0], rows + np.zeros(problem.n), 0.1 * rows[:, 0], rows + np.arange(problem.n))
    monkeypatch.setattr(analog_flow, "simulate", lambda *given: trace)
    solver, context = AnalogFlow(), analog_flow.AnalogContext(problem)
    state = solver.step(context, solver.start(context, np.random.default_rng(0)))
    assert (state.alpha == 2.0).all()
    np.testing.assert_array_equal(state.held, 2.0 + np.arange(problem.n))
