"""Random fits, each judged from outside: no undocumented exception, no silent gap, nothing slow.

    python -m tests.fuzz.fits --fits 10000 --seed 1 --processes 2

prints what was found, and for each finding the numbers that repeat it (``--seed S --only K``). Exit code 1 if there
is any.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from dualflow import (
    SVC,
    SVDD,
    SVR,
    EcoSVC,
    EcoSVDD,
    FitError,
    IncrementalSVC,
    IncrementalSVDD,
    IncrementalSVR,
    ProblemError,
)

from . import data_sets, judge, large

#: Seconds of processor time after which a fit of at most 160 points is a finding.
SLOW = 5.0
#: By the wall clock: a fit that waits takes no processor time.
HANGING = 30.0
#: The part of its limit that a fit must have had of the processor for a `FitError` out of time to be a finding: on a
#: busy machine the limit passes before anything is solved.
MIN_SHARE_OF_LIMIT = 0.5
#: Beyond `tol`: what two ways to add the same numbers may differ by.
SLACK = 1e-9
INFEASIBLE = 1e-7
#: The part of the objective that may be lost in kernel values before a gap is theirs.
LOST = 1e-7
#: The part from which nothing can be said: kernel values differ by less than their rounding errors.
NOTHING_KNOWN = 1e-2

KERNELS = ("linear", "rbf", "poly")
MODELS = ("SVC", "SVDD", "IncrementalSVC", "EcoSVC", "IncrementalSVDD", "EcoSVDD", "IncrementalSVR")
#: What becomes of the intercept of a classifier, and how often; the squared hinge has it inside the kernel.
MANNERS = ("free", "none", "penalised", "squared hinge")
MANNER_SHARES = (0.66, 0.12, 0.08, 0.14)
#: How often each is drawn: the batch models are what most people use.
SHARES = (0.4, 0.2, 0.1, 0.1, 0.08, 0.05, 0.07)


@dataclass
class Outcome:
    """One fit: what it was, how it ended ("fine", "warned", "refused"), and what is wrong with it."""

    what: str
    model: str
    kernel: str
    ended: str = "fine"
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0
    gap: float = 0.0
    lost_digits: bool = False
    ratio: float | None = None  # to scikit-learn's processor time, where that was taken and no longer than ours


@dataclass(frozen=True)
class Case:
    """A data set, a model with its parameters, and who judges the fitted model."""

    what: str
    model: Any
    arguments: tuple[NDArray, ...]
    options: dict[str, Any]
    worth: Callable[[Any], judge.Worth]


def draw(seed: int, k: int) -> Case:
    """The k-th case of a seed."""
    rng = np.random.default_rng([seed, k])
    X, about = data_sets.points(rng)
    name = str(rng.choice(MODELS, p=SHARES))
    kernel = str(rng.choice(KERNELS, p=[0.4, 0.4, 0.2]))
    C = float(10.0 ** rng.uniform(-4, 7))
    variance = float(X.var())
    scale = 1.0 / (X.shape[1] * variance) if variance > 1e-300 else 1.0
    gamma = float(scale * 10.0 ** rng.choice([0.0, rng.uniform(-3, 3)]))
    degree, coef0 = int(rng.integers(1, 5)), float(rng.choice([0.0, 1.0]))
    given: dict[str, Any] = {"kernel": kernel}
    if kernel != "linear":
        given["gamma"] = gamma
    if kernel == "poly":
        given |= {"degree": degree, "coef0": coef0}
    told = f"{about}, {name} {kernel}" + (f" degree {degree}" if kernel == "poly" else "")

    def K(shift: bool) -> NDArray:
        return judge.kernel_matrix(X, kernel, gamma, degree, coef0, shift)

    if "SVDD" in name:
        nu = None if rng.random() < 0.2 else float(10.0 ** rng.uniform(-2.5, 0))
        if name == "EcoSVDD":
            given |= {"n_init": len(X), "reserve": len(X)}  # all points are kept: the batch problem
        model = {"SVDD": SVDD, "IncrementalSVDD": IncrementalSVDD, "EcoSVDD": EcoSVDD}[name](nu=nu, **given)

        def of_ball(model: Any) -> judge.Worth:
            upper = np.inf if nu is None else 1.0 / (nu * len(X))
            worth = judge.of_ball(K(True), max(upper, 1.0 / len(X)), weights(model, len(X)), -float(model.offset_))
            # Points that are one point but for the rounding of their mean.
            alike = float(np.ptp(X, axis=0).max()) <= 64 * np.finfo(float).eps * float(np.abs(X).max())
            return replace(worth, unknown=np.inf) if alike else worth

        return Case(f"{told} nu={nu}", model, (X,), {}, of_ball)
    if name == "IncrementalSVR":
        t = X[:, 0] * rng.normal() + np.sin(np.arange(len(X))) + rng.normal(size=len(X)) * 10.0 ** rng.uniform(-3, 0)
        t = t / max(float(np.abs(t).max()), 1e-300)
        epsilon = float(rng.choice([0.0, 10.0 ** rng.uniform(-4, 0)]))
        model = (SVR if k % 2 else IncrementalSVR)(C=C, epsilon=epsilon, **given)
        told = told.replace(name, type(model).__name__)

        def of_regression(model: Any) -> judge.Worth:
            b = float(np.atleast_1d(model.intercept_)[0])
            return judge.of_regression(
                K(False), t, C, epsilon, weights(model, len(X)), b, plane=judge.plane_of(model, X)
            )

        return Case(f"{told} C={C:.3g} epsilon={epsilon:.2g}", model, (X, t), {}, of_regression)
    y, how = data_sets.labels(rng, X)
    manners = {"SVC": 4, "EcoSVC": 2}.get(name, 1)
    manner = str(rng.choice(MANNERS[:manners], p=np.array(MANNER_SHARES[:manners]) / sum(MANNER_SHARES[:manners])))
    free = manner == "free"
    options: dict[str, Any] = {}
    upper = np.full(len(X), C)
    if name == "SVC":
        given["fit_intercept"] = {"free": True, "none": False}.get(manner, "penalised")
        if manner == "squared hinge":
            given["loss"] = given.pop("fit_intercept") and "squared_hinge"
        elif rng.random() < 0.2:
            options["sample_weight"] = 10.0 ** rng.uniform(-2, 2, size=len(X))
            upper = C * options["sample_weight"]
        model = SVC(C=C, **given)
    elif name == "IncrementalSVC":
        model = IncrementalSVC(C=C, **given)
    else:  # all points are kept, so that it is the batch problem
        model = EcoSVC(C=C, fit_intercept=free, n_init=len(X), reserve=len(X), **given)

    def of_classifier(model: Any) -> judge.Worth:
        coef = weights(model, len(X))
        b = float(np.atleast_1d(model.intercept_)[0])
        if manner == "squared hinge":
            return judge.of_squared_hinge(K(False) + 1, y, C, coef, judge.plane_of(model, X, b))
        if manner == "penalised":
            return judge.of_classifier(K(False) + 1, y, upper, coef, 0.0, False, plane=judge.plane_of(model, X, b))
        best = free and kernel == "linear"  # far from the origin the intercept has fewer digits than the rest
        return judge.of_classifier(K(free), y, upper, coef, None if best else b, free, plane=judge.plane_of(model, X))

    return Case(f"{told} C={C:.3g} {how}, intercept {manner}", model, (X, y), options, of_classifier)


def far_from_origin(X: NDArray) -> bool:
    """Whether products of points agree in most of their digits: what differs is lost in their powers."""
    spread = float(np.abs(X - X.mean(axis=0)).max())
    return spread < 1e-2 * float(np.abs(X.mean(axis=0)).max())


def reach(model: Any, X: NDArray) -> float:
    """By how much an entry of the radial kernel is wrong, in its last place: products of points are in its exponent."""
    if model.kernel != "rbf":
        return 1.0
    centred = X - X.mean(axis=0)
    return 1.0 + float(model.gamma) * float((centred**2).sum(axis=1).max())


def weights(model: Any, n: int) -> NDArray:
    """The model's coefficients by training point, shape (n,)."""
    coef, given = np.zeros(n), model.dual_coef_
    dense = given.toarray() if scipy.sparse.issparse(given) else np.atleast_2d(given)
    coef[model.support_] = dense[0]
    return coef


def run(seed: int, k: int, large_every: int = 0, timed: bool = False) -> Outcome:
    """Fit and judge the k-th case of a seed; each ``large_every``-th one is large, or all are, and ``timed``."""
    if timed:
        return run_large(seed, k, timed)
    return run_large(seed, k) if large_every and k % large_every == large_every - 1 else run_small(seed, k)


def run_large(seed: int, k: int, timed: bool = False) -> Outcome:
    """Fit and judge a case of `large`, and time scikit-learn's model where a fit is not fast."""
    what, model, arguments, worth_of, peer = (large.draw_timed if timed else large.draw)(seed, k)
    least, most = (large.TIMED_SECONDS, large.TIMED_RATIO) if timed else (large.MIN_SECONDS, large.MAX_RATIO)
    out = Outcome(what, type(model).__name__, model.kernel)
    kept = [array.copy() for array in arguments]
    begun = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(*arguments)
        except ProblemError as error:
            out.ended = "refused"
            had = (time.process_time() - begun) / large.TIME_LIMIT
            starved = isinstance(error, FitError) and "time_limit" in str(error) and had < MIN_SHARE_OF_LIMIT
            out.wrong += [] if starved or "overflow" in str(error) else [f"ProblemError: {error}"]
        except Exception:
            out.ended = "raised"
            out.wrong.append(traceback.format_exc(limit=-2).strip())
    out.seconds = time.process_time() - begun
    if any(not _equal(a, b) for a, b in zip(kept, arguments, strict=True)):
        out.wrong.append("wrote into its input")
    told = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    out.wrong += sorted({f"{w.category.__name__}: {w.message}" for w in caught if w not in told})
    if out.seconds > least and peer is not None:
        theirs = large.peer_seconds(peer, arguments, out.seconds if timed else out.seconds / most)
        if theirs is not None:
            out.ratio = out.seconds / theirs
            if out.ratio > most:
                out.wrong.append(f"slow: {out.seconds:.2f} s, scikit-learn {theirs:.2f} s")
    if out.ended != "fine":
        return out
    out.ended = "warned" if told else "fine"
    if what.startswith("indefinite") and not _is_mended(model, arguments[0]):
        psd = model.certificate_.psd.is_psd
        out.wrong += [] if told and not psd else [f"silent: the matrix has eigenvalues below 0, certified {not psd}"]
        return out
    worth = worth_of(model, weights(model, arguments[0].shape[0]))
    far = model.kernel == "poly" and far_from_origin(arguments[0])
    out.gap, out.lost_digits = float(worth.gap), bool(worth.unknown > LOST or far)
    allowed = float(model.tol) + SLACK + 2 * worth.unknown
    if worth.unknown > NOTHING_KNOWN:
        return out
    if not worth.gap <= allowed and not told:
        certified = model.certificate_.relative_gap
        out.wrong.append(f"silent: gap {out.gap:.2e}, certified {certified}, unknown {worth.unknown:.1e}")
    if not worth.infeasible <= INFEASIBLE:
        out.wrong.append(f"infeasible by {worth.infeasible:.1e}")
    return out


def _is_mended(model: Any, K: NDArray) -> bool:
    """Whether the ridge of the squared hinge, 1/(2C), takes all eigenvalues above 0."""
    return getattr(model, "loss", "") == "squared_hinge" and np.linalg.eigvalsh(K)[0] > -0.5 / model.C


def _equal(a: Any, b: Any) -> bool:
    """Whether two arrays, sparse or not, are."""
    return not (a != b).nnz if scipy.sparse.issparse(a) else np.array_equal(a, b)


def run_small(seed: int, k: int) -> Outcome:
    """Fit and judge the k-th small case of a seed."""
    case = draw(seed, k)
    name = type(case.model).__name__
    out = Outcome(case.what, name, case.model.kernel)
    kept = [array.copy() for array in case.arguments]
    started, begun = time.process_time(), time.monotonic()  # of a busy machine the wall clock says little
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            case.model.fit(*case.arguments, **case.options)
        except ProblemError as error:
            out.ended = "refused"
            if "overflow" not in str(error):
                out.wrong.append(f"ProblemError: {error}")
        except Exception:
            out.ended = "raised"
            out.wrong.append(traceback.format_exc(limit=-2).strip())
    out.seconds = time.process_time() - started
    waited = time.monotonic() - begun
    if out.seconds > SLOW or waited > HANGING:
        out.wrong.append(f"slow: {out.seconds:.1f} s, {waited:.1f} s by the wall clock")
    if any(not np.array_equal(a, b) for a, b in zip(kept, case.arguments, strict=True)):
        out.wrong.append("wrote into its input")
    told = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    documented = [w for w in caught if w.category is UserWarning and "n_init" in str(w.message)]
    out.wrong += sorted({f"{w.category.__name__}: {w.message}" for w in caught if w not in told + documented})
    if out.ended != "fine":
        return out
    out.ended = "warned" if told else "fine"
    try:
        worth = case.worth(case.model)
        worth = replace(worth, unknown=worth.unknown * reach(case.model, case.arguments[0]))
    except Exception:
        out.wrong.append(traceback.format_exc(limit=-2).strip())
        return out
    far = case.model.kernel == "poly" and far_from_origin(case.arguments[0])
    out.gap, out.lost_digits = float(worth.gap), bool(worth.unknown > LOST or far)
    tol = float(getattr(case.model, "tol", 1e-6))
    # Twice: ours may be wrong by as much as the judge's (a ball's radius is, on purpose, so that its surface is in).
    allowed = tol + SLACK + 2 * worth.unknown
    certified = case.model.certificate_.relative_gap
    if worth.unknown > NOTHING_KNOWN:
        return out
    if not worth.gap <= allowed and not told:
        out.wrong.append(f"silent: gap {float(worth.gap):.2e}, certified {certified}, unknown {worth.unknown:.1e}")
    # The squared hinge is certified as a problem on the simplex, whose relative gap is another number.
    comparable = not out.lost_digits and getattr(case.model, "loss", "hinge") == "hinge"
    if told and comparable and certified is not None and worth.gap > certified * 1.01 + allowed:
        out.wrong.append(f"gap {float(worth.gap):.2e} is wider than certified, {certified:.2e}")
    if not worth.infeasible <= INFEASIBLE:
        out.wrong.append(f"infeasible by {worth.infeasible:.1e}")
    return out


def several(arguments: tuple[int, int, int, int, bool]) -> list[tuple[int, Outcome]]:
    seed, start, stop, large_every, timed = arguments
    return [(k, run(seed, k, large_every, timed)) for k in range(start, stop)]


def outcomes(
    seed: int, first: int, last: int, processes: int, minutes: float | None, large_every: int, timed: bool = False
) -> Iterator[tuple[int, Outcome]]:
    """The fits from ``first`` to before ``last``, for at most ``minutes``."""
    end = np.inf if minutes is None else time.monotonic() + 60.0 * minutes
    step = 5 if timed else 50
    parts = ((seed, k, min(k + step, last), large_every, timed) for k in range(first, last, step))
    if processes == 1:
        for part in parts:
            yield from several(part)
            if time.monotonic() > end:
                return
        return
    with ProcessPoolExecutor(processes) as pool:
        waiting = []
        for part in parts:
            waiting.append(pool.submit(several, part))
            if len(waiting) > 2 * processes:
                yield from waiting.pop(0).result()
            if time.monotonic() > end:
                break
        for each in waiting:
            yield from each.result()


def summary(found: list[Outcome]) -> str:
    """Counts, a line each."""
    lines = []
    for name in (*MODELS, "SVR", "OneClassSVM"):
        own = [out for out in found if out.model == name]
        if own:
            ended = Counter(out.ended for out in own)
            fair = [out for out in own if not out.lost_digits]
            warned = sum(out.ended == "warned" for out in fair)
            lines.append(
                f"{name:16s} {len(own):7d} fits, {dict(ended)}, warned where digits are there {warned}, "
                f"wrong {sum(bool(out.wrong) for out in own)}, slowest {max(out.seconds for out in own):.2f} s"
            )
    fair = [out for out in found if not out.lost_digits]
    share = sum(out.ended == "warned" for out in fair) / max(1, len(fair))
    wrong = sum(bool(out.wrong) for out in found)
    lines.append(f"{len(found)} fits, {wrong} wrong, warnings {100 * share:.3f} % of {len(fair)} with their digits")
    if ratios := [out.ratio for out in found if out.ratio is not None]:
        shares = ", ".join(f"above {most} x {sum(ratio > most for ratio in ratios)}" for most in (3, 10))
        lines.append(f"slower than scikit-learn {len(ratios)}, {shares}, slowest {max(ratios):.1f} x")
    return "\n".join(lines)


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--fits", type=int, default=10**9)
    parser.add_argument("--first", type=int, default=0, help="the number of the first fit")
    parser.add_argument("--large-every", type=int, default=0, help="draw a large fit as each so-many-th; 0: none")
    parser.add_argument("--timed", action="store_true", help="large fits alone, in all forms, against scikit-learn")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one fit")
    options = parser.parse_args(given)
    if options.only is not None:
        print(run(options.seed, options.only, options.large_every, options.timed))
        return 0
    print(f"seed {options.seed}", flush=True)
    found = []
    last = options.first + options.fits
    drawn = options.seed, options.first, last, options.processes, options.minutes, options.large_every, options.timed
    for k, out in outcomes(*drawn):
        found.append(out)
        for wrong in out.wrong:
            how = " --timed" if options.timed else ""
            print(f"--seed {options.seed} --only {k}{how}: {out.what}: {wrong}", flush=True)
    print(summary(found))
    return int(any(out.wrong for out in found))


if __name__ == "__main__":
    sys.exit(main())
