"""Claim: every estimator that takes a time_limit keeps it at n = 20 000 and 200 000: + 1 s or 5 %, whichever is more.

Each fit is made in a forked process of its own, which has imported everything and holds the data; its time is the
wall's, from the call of `fit` to its end, for a limit is a promise of the wall's time. The processor time beside it, of
all threads, tells where a machine with other work took part of the wall's time. A fit that takes four times its limit
and half a minute more is killed, and counts as that. Two classes overlap and a tenth of the labels is wrong, so
that no fit of 200 000 points is at its optimum in time; a fit that ends before its limit keeps it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.lib.claims import Claims, Rows, conclude
from benchmarks.lib.command import chosen, command_line
from dualflow import (
    LDA,
    LSSVC,
    LSSVR,
    SVC,
    SVDD,
    SVR,
    CascadeSVC,
    ConformalSVC,
    ConformalSVR,
    NuSVC,
    NuSVR,
    OneClassSVM,
    PartitionedLinearSVC,
    PartitionedLinearSVDD,
    PartitionedLinearSVR,
    QuantileSVR,
    SVCSearchCV,
    SVRSearchCV,
    generalization_report,
    pareto_front,
)

TITLE = "classical/time_limits"
SIZES, LIMITS, FEATURES, SEED = (20_000, 200_000), (3.0, 10.0), 20, 0
#: What a limit may be overrun by: seconds, or a part of it.
SECONDS, PART = 1.0, 0.05
#: Seconds for the fit of a model that is asked for something afterwards.
FITTED_IN_S = 10.0
#: When a fit is killed: so many times its limit, and seconds.
TIMES, MORE = 4.0, 30.0

Case = Callable[[NDArray, NDArray, NDArray, float], Any]


def _fit(model: Any, of: str = "y") -> Case:
    """The fit of a model to X and labels (y), values (v), five classes (k), or nothing."""

    def fit(X: NDArray, y: NDArray, v: NDArray, limit: float) -> Any:
        target = {"y": y, "v": v, "k": y + 2 * (np.arange(len(y)) % 3), "": None}[of]
        given = model(limit)
        return given.fit(X) if target is None else given.fit(X, target)

    return fit


def _after(model: Any, call: Callable[[Any, NDArray], Any], of: str = "") -> Case:
    """What is asked of a model that was fitted within another limit."""

    def asked(X: NDArray, y: NDArray, v: NDArray, limit: float) -> Any:
        fitted = model(FITTED_IN_S).fit(X, *([y] if of else []))
        fitted.set_params(time_limit=limit)
        return lambda: call(fitted, X)

    return asked


CASES: dict[str, Case] = {
    "SVC rbf": _fit(lambda limit: SVC(time_limit=limit)),
    "SVC rbf C=100": _fit(lambda limit: SVC(C=100.0, time_limit=limit)),
    "SVC rbf squared hinge": _fit(lambda limit: SVC(loss="squared_hinge", time_limit=limit)),
    "SVC rbf five classes": _fit(lambda limit: SVC(time_limit=limit), "k"),
    "SVC linear": _fit(lambda limit: SVC(kernel="linear", time_limit=limit)),
    "SVC linear squared hinge": _fit(lambda limit: SVC(kernel="linear", loss="squared_hinge", time_limit=limit)),
    "SVC poly": _fit(lambda limit: SVC(kernel="poly", time_limit=limit)),
    "SVC poly squared hinge": _fit(lambda limit: SVC(kernel="poly", loss="squared_hinge", time_limit=limit)),
    "SVR rbf": _fit(lambda limit: SVR(time_limit=limit), "v"),
    "SVR linear": _fit(lambda limit: SVR(kernel="linear", time_limit=limit), "v"),
    "SVR hard tube": _fit(lambda limit: SVR(C=np.inf, epsilon=3.0, time_limit=limit), "v"),
    "SVDD": _fit(lambda limit: SVDD(time_limit=limit), ""),
    "SVDD hard": _fit(lambda limit: SVDD(nu=None, time_limit=limit), ""),
    "SVDD contamination": _fit(lambda limit: SVDD(nu="auto", contamination=0.05, time_limit=limit), ""),
    "OneClassSVM": _fit(lambda limit: OneClassSVM(time_limit=limit), ""),
    "OneClassSVM contamination": _fit(lambda limit: OneClassSVM(contamination=0.05, time_limit=limit), ""),
    "NuSVC": _fit(lambda limit: NuSVC(nu=0.3, time_limit=limit)),
    "NuSVC linear": _fit(lambda limit: NuSVC(nu=0.3, kernel="linear", time_limit=limit)),
    "NuSVR": _fit(lambda limit: NuSVR(time_limit=limit), "v"),
    "QuantileSVR": _fit(lambda limit: QuantileSVR(time_limit=limit), "v"),
    "PartitionedLinearSVC": _fit(lambda limit: PartitionedLinearSVC(time_limit=limit)),
    "PartitionedLinearSVR": _fit(lambda limit: PartitionedLinearSVR(time_limit=limit), "v"),
    "PartitionedLinearSVDD": _fit(lambda limit: PartitionedLinearSVDD(time_limit=limit), ""),
    "LSSVC": _fit(lambda limit: LSSVC(time_limit=limit)),
    "LSSVC linear": _fit(lambda limit: LSSVC(kernel="linear", time_limit=limit)),
    "LSSVR": _fit(lambda limit: LSSVR(time_limit=limit), "v"),
    "LDA": _fit(lambda limit: LDA(time_limit=limit)),
    "CascadeSVC": _fit(lambda limit: CascadeSVC(time_limit=limit)),
    "SVCSearchCV": _fit(lambda limit: SVCSearchCV(SVC(), {"C": [0.1, 1.0, 10.0]}, cv=3, time_limit=limit)),
    "SVRSearchCV": _fit(lambda limit: SVRSearchCV(SVR(), {"C": [0.1, 1.0]}, cv=3, time_limit=limit), "v"),
    "ConformalSVR": _fit(lambda limit: ConformalSVR(SVR(time_limit=limit), cv=5), "v"),
    "ConformalSVC": _fit(lambda limit: ConformalSVC(SVC(time_limit=limit), cv=5)),
    "pareto_front": lambda X, y, v, limit: pareto_front(X, y, time_limit=limit),
    "generalization_report": _after(
        lambda limit: SVC(kernel="linear", tol=1e-2, time_limit=limit), lambda m, X: generalization_report(m), "y"
    ),
    "SVDD p_values": _after(lambda limit: SVDD(nu=0.01, tol=1e-2, time_limit=limit), lambda m, X: m.p_values(X[:9])),
}


def drawn(n: int) -> tuple[NDArray, NDArray, NDArray]:
    """Points of two classes that overlap, their labels, and a value each."""
    rng = np.random.default_rng(SEED)
    y = rng.integers(0, 2, n)
    X = rng.standard_normal((n, FEATURES)) + 0.5 * y[:, None] * (np.arange(FEATURES) < 5)
    v = np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(n)
    return X, np.where(rng.random(n) < 0.1, 1 - y, y), v


def _measured(case: Case, data: tuple[NDArray, NDArray, NDArray], limit: float, end: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begun, used = time.monotonic(), time.process_time()
        try:
            found = case(*data, limit)
            if callable(found) and not hasattr(found, "fit"):
                begun, used = time.monotonic(), time.process_time()
                found = found()
            said = "; ".join(dict.fromkeys(type(one.message).__name__ for one in caught))
        except Exception as error:
            found, said = None, f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
        seconds, used = time.monotonic() - begun, time.process_time() - used
    try:
        gap = float(found.certificate_.relative_gap)
    except Exception:
        gap = float("nan")
    end.send((seconds, used, gap, said))


def timed(case: Case, data: tuple[NDArray, NDArray, NDArray], limit: float) -> tuple[float, float, float, str]:
    """Seconds and processor time of a fit in a process of its own, the certified gap it came to, and what it said."""
    context = multiprocessing.get_context("fork")
    mine, end = context.Pipe(duplex=False)
    process = context.Process(target=_measured, args=(case, data, limit, end))
    begun, patience = time.monotonic(), TIMES * limit + MORE
    process.start()
    end.close()
    try:
        if mine.poll(patience):
            found = mine.recv()
        else:
            found = (time.monotonic() - begun, float("nan"), float("nan"), "killed")
    except EOFError:
        found = (time.monotonic() - begun, float("nan"), float("nan"), "died")
    process.kill()
    process.join()
    return found


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--n", type=int, metavar="N", help="only so many points")


def main() -> int:
    options = command_line(__doc__, "only", "limit", extra=_more)
    table, claims = Rows(f"{TITLE}_rows", options), Claims()
    sizes = (options.n,) if options.n else SIZES[:1] if options.quick else SIZES
    limits = (options.limit,) if options.limit else LIMITS[:1] if options.quick else LIMITS
    for n in sizes:
        data = drawn(n)
        for name in (name for name in CASES if chosen(name, options.only)):
            for limit in limits:
                seconds, used, gap, said = timed(CASES[name], data, limit)
                over = max(0.0, seconds - limit)
                case = f"{name} n={n} limit={limit:g}"
                times = {"wall_s": seconds, "over_s": over, "processor_s": used}
                table.add(case, name=name, n=n, limit_s=limit, **times, gap=gap, said=said)
                claims.say("time_limit", "overrun", case, over, "<=", max(SECONDS, PART * limit), "s")
    return conclude(TITLE, claims.verdicts(), options)


if __name__ == "__main__":
    sys.exit(main())
