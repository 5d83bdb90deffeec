"""What Mierswa's Table 2 says against what is found: findings, each by the rule that papers/mierswa.py states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.stats import f

from benchmarks.lib.findings import Finding, by
from benchmarks.lib.mierswa_cells import BUNDLED, SEED, Cell, Figure, Paper, z_of

CS, FOLDS = (1.0, 0.1, 0.01), 20
CLOSE, WANTED, SIGNIFICANT, DEFAULT, SOLVED = 2.0, 14, 0.05, 0.5, 0.99
EVOSVM = ("EvoSVM-G", "EvoSVM-S", "EvoSVM-H")
#: The paper's methods: their short names, and ours that stand for them.
METHODS = {m: (m[-1], m) for m in EVOSVM} | {"PSO": ("PSO", "PSO"), "mySVM": ("my", "SVC"), "LibSVM": ("Lib", "SVC")}
OURS = (*EVOSVM, "PSO", "SVC")
#: Variants that may explain a miss, in order, and what is said then; "own" is the method itself.
VARIANTS = {
    "own, mean b": "with b = mean of y − f",
    "own, hinge b": "with b of least hinge",
    "b = 0": "exact α, b = 0",
    "b = 0, mean b": "exact α, b = mean of y − f",
    "SVC": "exact, with bias",
    "SVC, balanced": "classes balanced",
    "SVC, standardised": "features standardised",
    "SVC, γ = 1/m": "γ = 1/m",
    "SVC, γ = 1/2σ²": "γ = 1/2σ²",
    "majority": "default error",
}
NONE = f"none of {len(VARIANTS)} variants"


def reason(found: Cell, method: str, theirs: Figure) -> str:
    """The first variant within ± 2 of the paper's figure."""
    for variant, said in VARIANTS.items():
        name = variant.replace("own", METHODS[method][1])
        if name in found.errors and abs(z_of(found.mean(name), found.sd(name), theirs, FOLDS)) <= CLOSE:
            return said
    return NONE


def compared(found: Cell, paper: Paper) -> Iterator[tuple[str, Figure, float]]:
    """The paper's methods whose figure is known, with it and z."""
    for method, (_, ours) in METHODS.items():
        if theirs := paper.get((found.name, found.C, method)):
            yield method, theirs, z_of(found.mean(ours), found.sd(ours), theirs, FOLDS)


def table_rows(cells: Sequence[Cell], paper: Paper) -> Iterator[Finding]:
    """A row of Table 2 a set and C."""
    for found in cells:
        rows = list(compared(found, paper))
        if not rows:
            continue
        says = ", ".join(f"{METHODS[m][0]} {theirs.error:.1f}" for m, theirs, _ in rows)
        gets = ", ".join(f"{METHODS[m][0]} {found.mean(METHODS[m][1]):.1f}" for m, _, _ in rows)
        misses: dict[str, list[str]] = {}
        for method, theirs, z in rows:
            if abs(z) > CLOSE:
                misses.setdefault(reason(found, method, theirs), []).append(METHODS[method][0])
        held = len(rows) - sum(map(len, misses.values()))
        why = "; ".join(f"{', '.join(names)}: {said}" for said, names in misses.items())
        yield Finding(f"table 2, C = {found.C:g}", f"error in %, {found.name}", says,
                      f"{gets}; |z| ≤ 2 in {held} of {len(rows)}", **by(not misses, why), seed=SEED)  # fmt: skip


def evosvm_rows(cells: Sequence[Cell], paper: Paper) -> Iterator[Finding]:
    """How many EvoSVM cells of a C are the paper's, with and without a bias."""
    for C in CS:
        counts = {"": 0, ", mean b": 0}
        total = 0
        for found in cells:
            for method in EVOSVM if found.C == C else ():
                if theirs := paper.get((found.name, C, method)):
                    total += 1
                    for bias in counts:
                        name = method + bias
                        counts[bias] += abs(z_of(found.mean(name), found.sd(name), theirs, FOLDS)) <= CLOSE
        if total:
            gets = f"b = 0: {counts['']} of {total} within |z| ≤ 2; b = mean of y − f: {counts[', mean b']}"
            why = "a bias makes them so: at small C the classes' balance alone decides it" if C < 1 else "see the rows"
            yield Finding("table 2", f"EvoSVM-G, -S, -H at C = {C:g}", f"{total} errors", gets,
                          **by(counts[""] >= WANTED, why), seed=SEED)  # fmt: skip


def default_rows(cells: Sequence[Cell], paper: Paper) -> Iterator[Finding]:
    """The default errors at the smallest C, and the bias that makes them."""
    smallest = [found for found in cells if min(CS) == found.C]
    if not smallest:
        return
    known = [
        abs(theirs.error - found.mean("majority")) <= DEFAULT
        for found in smallest
        for method in EVOSVM
        if (theirs := paper.get((found.name, found.C, method)))
    ]
    says = (
        f"the default error in {sum(known)} of {len(known)} cells" if known else "the default error nearly everywhere"
    )
    counts = {
        bias: sum(
            abs(found.mean(method + bias) - found.mean("majority")) <= DEFAULT
            for found in smallest
            for method in EVOSVM
        )
        for bias in ("", ", mean b")
    }
    total = len(EVOSVM) * len(smallest)
    gets = f"b = 0: {counts['']} of {total}; b = mean of y − f: {counts[', mean b']}" + stand_in(smallest)
    why = "|Σ yαk| ≤ C Σ k is less than a bias as large as the classes' imbalance: it outvotes every point"
    agrees = counts[""] == sum(known) if known else counts[""] > total / 2
    yield Finding("table 2", f"EvoSVM at C = {min(CS):g}", says, gets, **by(agrees, why), seed=SEED)


def f_of(figures: Sequence[Figure], folds: int = FOLDS) -> float:
    """p of the one-way analysis of variance, from means and standard deviations over so many folds each."""
    means, variances = np.array([g.error for g in figures]), np.array([g.sd**2 for g in figures])
    between, within = folds * means.var(ddof=1), variances.mean()
    if within == 0:
        return 1.0 if between == 0 else 0.0
    return float(f.sf(between / within, len(means) - 1, len(means) * (folds - 1)))


def decisive(figures: dict[str, Figure], wanted: bool) -> list[str]:
    """The methods without any of which the test is as wanted."""
    others = {gone: [figure for m, figure in figures.items() if m != gone] for gone in figures}
    return [gone for gone, rest in others.items() if (f_of(rest) < SIGNIFICANT) == wanted]


def f_rows(cells: Sequence[Cell], paper: Paper) -> Iterator[Finding]:
    """On which sets the methods differ, by the paper's figures and by ours."""
    for C in CS:
        those = [c for c in cells if c.C == C and len(list(compared(c, paper))) == len(METHODS)]
        if not those:
            continue
        theirs, ours, decided = [], [], []
        for found in those:
            figures = {method: figure for method, figure, _ in compared(found, paper)}
            groups = {m: Figure(found.mean(m), found.sd(m)) for m in OURS}
            theirs.append(f_of(list(figures.values())) < SIGNIFICANT)
            ours.append(f_of(list(groups.values())) < SIGNIFICANT)
            if theirs[-1] != ours[-1]:
                odd = [f"our {m}" for m in decisive(groups, theirs[-1])]
                odd += [f"its {m}" for m in decisive(figures, ours[-1])]
                decided.append(f"{found.name} by {odd[0] if odd else 'several columns'}")
        names = [[c.name for c, which in zip(those, told, strict=True) if which] for told in (theirs, ours)]
        says, gets = (f"p < 0.05 on {', '.join(which) or 'no set'}" for which in names)
        why = f"decided: {'; '.join(decided)}"
        yield Finding("F-test", f"of the methods, C = {C:g}", says, gets, **by(theirs == ours, why), seed=SEED)


def share_rows(cells: Sequence[Cell]) -> Iterator[Finding]:
    """How much of the optimum evolution has."""
    preset = {m: [float(np.mean(c.shares[m])) for c in cells] for m in (*EVOSVM, "PSO")}
    gets = ", ".join(f"{METHODS[m][0]} {np.median(v):.2f} ({min(v):.2f})" for m, v in preset.items())
    beside = {"long": ".2f", "memetic": ".5f", "descent": ".4f"}
    least = [
        f"{m} {min(np.min(c.shares[m]) for c in cells):{form}}" for m, form in beside.items() if m in cells[0].shares
    ]
    why = f"it stops after 5 generations without improvement; least of all folds: {', '.join(least)}"
    solved = all(min(v) >= SOLVED for m, v in preset.items() if m != "PSO")
    yield Finding("section 4", "share of the optimum, median (least) of the cells", "evolution solves the dual",
                  gets + stand_in(cells), **by(solved, why), seed=SEED)  # fmt: skip


def time_rows(cells: Sequence[Cell], paper: Paper) -> Iterator[Finding]:
    """Seconds, the paper's of 2006 beside ours: order and ratios."""
    for C in CS:
        those = [c for c in cells if c.C == C]
        figures = {m: [paper[c.name, C, m].seconds for c in those if (c.name, C, m) in paper] for m in METHODS}
        if not those or not all(figures.values()) or any(np.isnan(v).any() for v in figures.values()):
            continue
        theirs = {METHODS[m][0]: float(np.median(v)) for m, v in figures.items()}
        ours = {METHODS[m][0]: float(np.median([c.seconds[METHODS[m][1]] for c in those])) for m in METHODS}
        says, gets = (
            ", ".join(f"{m} {seconds:.2g}" for m, seconds in which.items()) for which in (theirs, ours)
        )  # fmt: skip
        first, last = ([key(w, key=w.__getitem__) for key in (max, min)] for w in (theirs, ours))
        why = f"slowest {last[0]}, fastest {last[1]} here, {first[0]} and {first[1]} there"
        same = first[0] == last[0] and (first[1] == last[1] or {first[1], last[1]} <= {"my", "Lib"})
        yield Finding("table 2", f"seconds, median of the sets, C = {C:g}", says, gets + "; all folds",
                      **by(same, why), seed=SEED)  # fmt: skip


def findings(cells: Sequence[Cell], paper: Paper) -> Iterator[Finding]:
    """All of them; without the paper's figures those that need none."""
    yield from table_rows(cells, paper)
    yield from evosvm_rows(cells, paper)
    yield from default_rows(cells, paper)
    yield from f_rows(cells, paper)
    yield from share_rows(cells)
    yield from time_rows(cells, paper)


def rows(cells: Sequence[Cell], paper: Paper) -> Iterator[dict[str, Any]]:
    """Every method and variant of every cell, with the paper's figures beside them."""
    for found in cells:
        beside: dict[str, list[dict[str, Any]]] = {}
        for method, theirs, z in compared(found, paper):
            said = "" if abs(z) <= CLOSE else reason(found, method, theirs)
            beside.setdefault(METHODS[method][1], []).append(
                {"paper_method": method, "paper_error": theirs.error, "paper_sd": theirs.sd,
                 "paper_seconds": theirs.seconds, "z": round(z, 3), "why": said}
            )  # fmt: skip
        for line in found.flat():
            for extra in beside.get(line["method"]) or [{}]:
                yield line | extra


def stand_in(cells: Sequence[Cell]) -> str:
    """What a row says of --quick."""
    return " (stand-in: 75 points of iris, 5 folds)" if any(c.name == BUNDLED for c in cells) else ""
