"""Random lives of streams, judged from outside after every step: no silent gap, no undocumented exception.

    python -m tests.fuzz.streams --minutes 10 --seed 1

A life learns, forgets, is saved and read back, and is struck by kernels that raise. Each step is judged by
`tests.fuzz.judge`; for each finding the numbers that repeat it are printed (``--seed S --only K``). Exit code 1 if
there is any.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from dualflow import EcoSVC, EcoSVDD, IncrementalSVC, IncrementalSVDD, IncrementalSVR, ProblemError, load
from dualflow.estimators._incremental import IncrementalMachine

from . import data_sets, judge
from .fits import INFEASIBLE, LOST, NOTHING_KNOWN, SLACK, SLOW

MODELS = ("IncrementalSVC", "IncrementalSVDD", "IncrementalSVR", "EcoSVC", "EcoSVDD")
SHARES = (0.35, 0.15, 0.2, 0.2, 0.1)
#: What an estimator's state may be off by without a word.
TOL = 1e-6
#: Most points of a life.
MOST = 90


class StruckError(Exception):
    """What a `Kernel` raises."""


@dataclass
class Kernel:
    """A kernel of the library as a callable, which raises when it has been called so often (0: never)."""

    name: str
    gamma: float
    fuse: int = 0

    def __call__(self, A: NDArray, B: NDArray) -> NDArray:
        if self.fuse:
            self.fuse -= 1
            if self.fuse == 0:
                raise StruckError
        if self.name == "linear":
            return A @ B.T
        return np.exp(-self.gamma * ((A[:, None] - B[None]) ** 2).sum(axis=2))


@dataclass
class Life:
    """A stream, what it was told, and what is wrong with it."""

    what: str
    model: Any
    X: NDArray
    targets: NDArray
    kernel: tuple[str, float, int, float]
    wrong: list[str] = field(default_factory=list)
    steps: int = 0
    warned: int = 0
    fair: int = 0
    worst: float = 0.0
    told: bool = False
    notes: list[str] = field(default_factory=list)
    known: NDArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    order: NDArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))


def draw(rng: np.random.Generator) -> Life:
    """A stream that has learned nothing, and the points it is going to meet."""
    X, about = data_sets.points(rng, MOST)
    name = str(rng.choice(MODELS, p=SHARES))
    kernel = str(rng.choice(["linear", "rbf", "poly"], p=[0.45, 0.35, 0.2]))
    C = float(10.0 ** rng.uniform(-4, 7))
    variance = float(X.var())
    scale = 1.0 / (X.shape[1] * variance) if variance > 1e-300 else 1.0
    gamma = float(scale * 10.0 ** rng.choice([0.0, rng.uniform(-3, 3)]))
    degree, coef0 = int(rng.integers(1, 5)), float(rng.choice([0.0, 1.0]))
    given: dict[str, Any] = {"kernel": kernel, "gamma": gamma, "degree": degree, "coef0": coef0}
    if kernel != "poly" and rng.random() < 0.25:
        given["kernel"] = Kernel(kernel, gamma)
    told = f"{about}, {name} {'callable ' if callable(given['kernel']) else ''}{kernel}"
    told += f" degree {degree}" if kernel == "poly" else ""
    targets = np.ones(len(X))
    if name.startswith("Eco"):
        given["n_init"] = int(rng.integers(1, 40))
        given["reserve"] = float(rng.choice([0.0, 1.0, np.inf]))
    if name.endswith("SVDD"):
        nu = None if rng.random() < 0.2 else float(10.0 ** rng.uniform(-2.5, 0))
        model = {"IncrementalSVDD": IncrementalSVDD, "EcoSVDD": EcoSVDD}[name](nu=nu, **given)
        return Life(f"{told} nu={nu}", model, X, targets, (kernel, gamma, degree, coef0))
    if name == "IncrementalSVR":
        t = X[:, 0] * rng.normal() + np.sin(np.arange(len(X))) + rng.normal(size=len(X)) * 10.0 ** rng.uniform(-3, 0)
        targets = t / max(float(np.abs(t).max()), 1e-300)
        epsilon = float(rng.choice([0.0, 10.0 ** rng.uniform(-4, 0)]))
        model = IncrementalSVR(C=C, epsilon=epsilon, **given)
        told += f" epsilon={epsilon:.2g}"
    else:
        targets, how = data_sets.labels(rng, X)
        targets = targets.astype(float)
        told += f" {how}"
        model = {"IncrementalSVC": IncrementalSVC, "EcoSVC": EcoSVC}[name](C=C, **given)
    return Life(f"{told} C={C:.3g}", model, X, targets, (kernel, gamma, degree, coef0))


def state(model: Any) -> list[bytes]:
    """All that a user can look at, to the bit."""
    if hasattr(model, "ids_") and not len(model.ids_):
        return []
    found = []
    for name in ("support_", "dual_coef_", "intercept_", "offset_", "n_pivots_", "ids_", "survivors_", "n_seen_"):
        try:
            found.append(np.asarray(getattr(model, name)).tobytes())
        except AttributeError:
            continue
    return found


def learn(life: Life, rows: NDArray) -> None:
    model = life.model
    if isinstance(model, IncrementalSVC):
        model.partial_fit(life.X[rows], life.targets[rows], classes=[-1.0, 1.0], ids=rows)
    elif isinstance(model, EcoSVC):
        model.partial_fit(life.X[rows], life.targets[rows], classes=[-1.0, 1.0])
    elif isinstance(model, IncrementalSVR):
        model.partial_fit(life.X[rows], life.targets[rows], ids=rows)
    elif isinstance(model, IncrementalSVDD):
        model.partial_fit(life.X[rows], ids=rows)
    else:
        model.partial_fit(life.X[rows])
    life.known = np.sort(np.append(life.known, rows))


def forget(life: Life, rng: np.random.Generator) -> None:
    count = int(rng.integers(1, 1 + max(1, len(life.known) // 2)))
    gone = rng.choice(life.known, size=count, replace=False)
    life.model.forget(gone, purge=bool(rng.random() < 0.2))
    life.known = np.setdiff1d(life.known, gone)


def strike(life: Life, rng: np.random.Generator, fresh: NDArray) -> bool:
    """Learn or forget with a kernel that raises somewhere: nothing may have changed then; whether it did not."""
    model, kernel, known = life.model, life.model.kernel, life.known
    before = state(model)
    kernel.fuse = int(rng.integers(1, 12))
    try:
        if len(fresh) and rng.random() < 0.5:
            learn(life, fresh)
        elif isinstance(model, IncrementalMachine) and len(known):
            forget(life, rng)
        kernel.fuse = 0
    except StruckError:
        life.known = known
        if state(model) != before:
            life.wrong.append("changed by a call that raised")
        return False
    return True


def again(model: Any) -> Any:
    """The model, saved and read back; it must be the same to the bit."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(path := Path(folder) / "stream.dualflow")
        other = load(path)
    if state(other) != state(model):
        raise AssertionError("another model was read back")
    return other


def judged(life: Life) -> judge.Worth | None:
    """What the model is worth on all it remembers, None where nothing can be said from outside."""
    model, (kernel, gamma, degree, coef0) = life.model, life.kernel
    # Nobody but the library moves the points of its own kernels; those of a callable have the digits they come with.
    moved = not callable(model.kernel)
    if isinstance(model, (EcoSVC, EcoSVDD)):
        if np.isfinite(model.reserve) or not len(life.known):
            return None
    elif not len(life.known) or not np.array_equal(model.ids_, life.known):
        if not np.array_equal(model.ids_, life.known):
            life.wrong.append("remembers other points")
        return None
    order = life.known if isinstance(model, IncrementalMachine) else life.order
    X, t = life.X[order], life.targets[order]
    coef = np.zeros(len(X))
    at = np.searchsorted(order, model.support_) if isinstance(model, IncrementalMachine) else model.support_
    coef[at] = np.atleast_2d(model.dual_coef_)[0]
    if isinstance(model, (IncrementalSVDD, EcoSVDD)):
        # A ball of no size; a stream keeps the centre of its first points: seen from there, these may be one.
        far = np.sqrt(64 * np.finfo(float).eps) * np.ptp(life.X, axis=0).max()
        if np.ptp(X, axis=0).max() <= max(1e-12 * np.abs(X).max(), far):
            return None
        upper = np.inf if model.nu is None else max(1.0 / (model.nu * len(X)), 1.0 / len(X))
        K = judge.kernel_matrix(X, kernel, gamma, degree, coef0, moved)
        return judge.of_ball(K, upper, coef, -float(model.offset_))
    K = judge.kernel_matrix(X, kernel, gamma, degree, coef0, moved)
    terms = judge.entry_terms(X, kernel, gamma)
    b: float | None = float(np.atleast_1d(model.intercept_)[0])
    best = kernel == "linear"  # far from the origin the intercept has fewer digits than the rest
    if isinstance(model, IncrementalSVR):
        left = t - (K @ coef.astype(np.longdouble)).astype(float)
        if not coef.any():
            return None
        candidates = np.concatenate([left - model.epsilon, left + model.epsilon]) if best else [b]
        each = [judge.of_regression(K, t, model.C, model.epsilon, coef, c, terms) for c in candidates]
        return min(each, key=lambda worth: worth.gap)
    return judge.of_classifier(K, t, np.full(len(X), model.C), coef, None if best else b, True, terms)


def blurred(life: Life) -> float:
    """The part of the objective that the primal's loss may be off by as every α is rounded."""
    solution = life.model.solution_
    problem, alpha = solution.problem, solution.alpha
    upper = np.where(np.isfinite(problem.upper), problem.upper, problem.d)
    terms = float(problem.diag().max()) * float(np.abs(alpha).sum()) + float(np.abs(problem.p).max())
    margins = 16 * np.finfo(float).eps * (terms + abs(solution.bias))
    size = abs(solution.certificate.objective)
    return margins * float(upper.sum()) / size if size > 0 else 0.0


def look(life: Life, told: bool) -> None:
    """Judge the model as it stands after a step that warned or did not."""
    if not life.model.__sklearn_is_fitted__() or not life.model.solutions_:
        return
    life.steps += 1
    certificate = life.model.certificate_
    if not (told or certificate.within(TOL)):
        life.wrong.append(f"silent: certified gap {certificate.relative_gap}")
    worth = judged(life)
    lost = worth is not None and worth.unknown > LOST
    life.fair += not lost
    life.warned += told and not lost
    if told and not lost:
        life.notes.append(f"warned at gap {certificate.relative_gap}")
    if worth is None or worth.unknown > NOTHING_KNOWN:
        return
    life.worst = max(life.worst, 0.0 if told or lost else float(worth.gap))
    if not (told or worth.gap <= TOL + SLACK + worth.unknown + blurred(life)):
        life.wrong.append(
            f"silent: gap {float(worth.gap):.2e}, certified {certificate.relative_gap}, unknown {worth.unknown:.1e}"
        )
    if not worth.infeasible <= INFEASIBLE:
        life.wrong.append(f"infeasible by {worth.infeasible:.1e}")


def live(seed: int, k: int) -> Life:
    """The k-th life of a seed, from its first point to its last step."""
    rng = np.random.default_rng([seed, k])
    life = draw(rng)
    fresh = rng.permutation(len(life.X))
    for _ in range(int(rng.integers(3, 25))):
        op, size = rng.random(), int(rng.choice([1, 1, 1, 3, 10, 40]))
        rows, rest = fresh[:size], fresh[size:]
        moved = True
        started = time.process_time()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                if op < 0.5 and len(rows):
                    learn(life, rows)
                    life.order = np.append(life.order, rows)
                    fresh = rest
                elif op < 0.75 and isinstance(life.model, IncrementalMachine) and len(life.known):
                    forget(life, rng)
                elif op < 0.85 and callable(life.model.kernel) and isinstance(life.model, IncrementalMachine):
                    moved = strike(life, rng, rows)
                    fresh = np.setdiff1d(fresh, life.known)
                elif not callable(life.model.kernel) and life.model.__sklearn_is_fitted__():
                    life.model, moved = again(life.model), False
                else:
                    continue
            except ProblemError as error:
                if "overflow" not in str(error):
                    life.wrong.append(f"ProblemError: {error}")
                break
            except Exception:
                life.wrong.append(traceback.format_exc(limit=-3).strip())
                break
        seconds = time.process_time() - started
        if seconds > SLOW:
            life.wrong.append(f"slow: {seconds:.1f} s")
        told = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
        life.told = bool(told) or (life.told and not moved)  # what was only saved is what it was
        documented = [w for w in caught if w.category is UserWarning and "n_init" in str(w.message)]
        life.wrong += sorted({f"{w.category.__name__}: {w.message}" for w in caught if w not in told + documented})
        try:
            look(life, life.told)
        except Exception:
            life.wrong.append(traceback.format_exc(limit=-3).strip())
        if life.wrong:
            break
    return life


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--lives", type=int, default=10**9)
    parser.add_argument("--verbose", action="store_true", help="say which lives warned")
    parser.add_argument("--only", type=int, help="the number of one life")
    options = parser.parse_args(given)
    if options.only is not None:
        life = live(options.seed, options.only)
        print(life.what, life.steps, "steps", *life.wrong, sep="\n")
        return int(bool(life.wrong))
    print(f"seed {options.seed}", flush=True)
    end, lives, steps, fair, warned, wrong, worst = time.monotonic() + 60.0 * options.minutes, 0, 0, 0, 0, 0, 0.0
    kinds: Counter[str] = Counter()
    while lives < options.lives and time.monotonic() < end:
        life = live(options.seed, lives)
        for text in life.wrong:
            print(f"--seed {options.seed} --only {lives}: {life.what}: {text}", flush=True)
            kinds[f"{type(life.model).__name__}: {text.splitlines()[-1][:40]}"] += 1
        if options.verbose and life.notes:
            print(f"--seed {options.seed} --only {lives}: {life.what}: {life.notes[0]} and {len(life.notes) - 1} more")
        lives, steps, fair, warned = lives + 1, steps + life.steps, fair + life.fair, warned + life.warned
        wrong, worst = wrong + bool(life.wrong), max(worst, life.worst)
    for text, count in kinds.most_common():
        print(f"{count:6d} {text}")
    print(
        f"{lives} lives, {steps} steps judged, {wrong} lives wrong, worst silent gap {worst:.1e}, "
        f"warnings {100 * warned / max(1, fair):.3f} % of {fair} steps with their digits"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
