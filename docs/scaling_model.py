"""The tables of docs/explanation/scaling.md: `python docs/scaling_model.py`.

They are made from the rows of `benchmarks/classical/cascade`.

A model of two terms: a round of a cascade holds n rows against s survivors (a sweep, shared out among workers), and
solves k points of which s survive (in one place). Processor time is a · Σ n s m in the one, b · Σ k s m in the other,
over the rounds, m features; both were measured apart, and a and b are medians over sizes. s and k are powers of n, by
straight lines in the logarithms. The largest size of a set is held out, and predicted.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROWS = Path(__file__).parents[1] / "benchmarks" / "results" / "classical" / "cascade_rows.csv"
PAGE = Path(__file__).parent / "explanation" / "scaling.md"
MARKS = "<!-- made by python docs/scaling_model.py: {} -->", "<!-- end -->"
FEATURES = {"classification": 20, "mnist": 784}
#: Rows up to which a set is another one: MNIST's ones and fours have this number, and the rows after them are shifted.
OTHERWISE = {"mnist": 12_584}
#: Rows, workers, bytes a second between two of them, for the last table.
LARGE, WORKERS, WIRE = 10**8, 100, 1e9

Row = dict[str, str]


def read(path: Path = ROWS) -> dict[str, list[Row]]:
    """Rows of fits in process, by set, the smallest first; of sizes at which all are alike."""
    with path.open(newline="", encoding="utf-8") as file:
        lines = [row for row in csv.DictReader(file) if row["how"] == "in process"]
    least = {name: OTHERWISE.get(name, 0) for name in FEATURES}
    sets = {name: [r for r in lines if r["case"].startswith(name) and int(r["n"]) > least[name]] for name in FEATURES}
    return {name: sorted(rows, key=lambda row: int(row["n"])) for name, rows in sets.items()}


def column(rows: list[Row], name: str) -> NDArray:
    return np.array([float(row[name]) for row in rows])


def power(rows: list[Row], name: str) -> tuple[float, float]:
    """c and the exponent of c · n^exponent, by a straight line in the logarithms."""
    slope, level = np.polyfit(np.log(column(rows, "n")), np.log(column(rows, name)), 1)
    return math.exp(level), float(slope)


class Model:
    """What fits of some sizes say of others."""

    def __init__(self, rows: list[Row], features: int) -> None:
        self.features, self.rounds = features, float(column(rows, "rounds").max())
        self.survivors, self.points = power(rows, "support_vectors"), power(rows, "first_points")
        alone = column(rows, "solve_cpu_s")
        self.sweep = float(np.median((column(rows, "cpu_s") - alone) / column(rows, "sweeps")))
        self.solve = float(np.median(alone / column(rows, "solves")))

    def at(self, n: float, workers: int = 1) -> dict[str, float]:
        """Survivors, seconds in the parts (each worker's) and in one place, and GB moved in a round."""
        s, k = (c * n**exponent for c, exponent in (self.survivors, self.points))
        return {
            "survivors": s,
            "parts_s": self.sweep * self.rounds * n * s * self.features / workers,
            "alone_s": self.solve * self.rounds * k * s * self.features,
            "moved_gb": (workers + 0.5) * s * self.features * 8 / 1e9,
        }


def held_out(sets: dict[str, list[Row]]) -> list[tuple[str, int, str, float, float]]:
    """Set, size, what, predicted and measured, of each set's largest size."""
    found = []
    for name, rows in sets.items():
        if len(rows) < 3:
            continue
        model, last = Model(rows[:-1], FEATURES[name]), rows[-1]
        said = model.at(int(last["n"]))
        seconds = said["parts_s"] + said["alone_s"]
        found.append((name, int(last["n"]), "survivors", said["survivors"], float(last["support_vectors"])))
        found.append((name, int(last["n"]), "processor time, s", seconds, float(last["cpu_s"])))
        found.append((name, int(last["n"]), "of it in one place, s", said["alone_s"], float(last["solve_cpu_s"])))
    return found


def tables(sets: dict[str, list[Row]]) -> dict[str, str]:
    """The page's tables by name."""
    measured = [
        [
            name,
            row["n"],
            row["support_vectors"],
            row["rounds"],
            *(short(float(row[key])) for key in ("cpu_s", "solve_cpu_s")),
        ]
        for name, rows in sets.items()
        for row in rows
    ]
    checked = [
        [name, str(n), what, short(said), short(was), f"{said / was:.2f}"]
        for name, n, what, said, was in held_out(sets)
    ]
    fitted, far = [], []
    for name, rows in sets.items():
        if len(rows) < 3:
            continue
        model = Model(rows, FEATURES[name])
        fitted.append([name, f"{model.survivors[1]:.2f}", *(f"{x:.2g}" for x in (model.sweep, model.solve))])
        said = model.at(LARGE, WORKERS)
        wire = said["moved_gb"] * 1e9 / WIRE * model.rounds
        times = [lasts(said["parts_s"]), lasts(said["alone_s"]), lasts(wire)]
        far.append([name, f"{said['survivors']:.2g}", *times, f"{said['moved_gb']:.2g} GB"])
    return {
        "measured": markdown(
            ["data", "rows", "support vectors", "rounds", "processor time, s", "in one place"], measured
        ),
        "held out": markdown(["data", "rows", "what", "predicted", "measured", "ratio"], checked),
        "fitted": markdown(["data", "survivors grow as n to the", "a, s", "b, s"], fitted),
        "far": markdown(
            ["data", "survivors", "in the parts, each worker", "in one place", "on the wire", "moved a round"], far
        ),
    }


def lasts(seconds: float) -> str:
    """A time in two digits and the unit that suits it."""
    for unit, size in (("years", 3.15e7), ("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{float(f'{seconds / size:.2g}'):g} {unit}"
    return f"{float(f'{seconds:.2g}'):g} s"


def short(value: float) -> str:
    return f"{float(f'{value:.3g}'):g}"


def markdown(head: list[str], rows: list[list[str]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in [head, ["---"] * len(head), *rows])


def written(text: str) -> str:
    """The page with its tables made anew."""
    for name, table in tables(read()).items():
        begin, end = MARKS[0].format(name), MARKS[1]
        head, found, rest = text.partition(f"{begin}\n")
        if not found:
            raise SystemExit(f"{PAGE.name} has no table {name!r}")
        text = head + found + table + rest[rest.index(end) :]
    return text


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
