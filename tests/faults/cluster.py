"""Fits on a dask cluster with one random fault each: ``python -m tests.faults.cluster --runs 100 [--command-line]``.

The cluster has two worker processes, of a LocalCluster or, with ``--command-line``, of ``dask scheduler`` and ``dask
worker``. A fit must end in a model that a judge, who has all rows in one place, finds as good as its certificate says,
or in an error that names the fault. A run that takes longer than `HANG_S` counts as a hang, and ends all.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
import numpy as np
from numpy.typing import NDArray

from dualflow import CascadeSVC, DualflowError, PartitionedLinearSVC
from dualflow.cascade import dask_engine

__all__ = ["Bench", "main", "tried"]

#: Seconds after which a run counts as a hang, and for which a fit waits for a worker here.
HANG_S, WORKERLESS_S = 300.0, 90.0
#: Seconds in which a dead worker may come back; after 15, dask's default, a busy machine's cluster gives it up.
COMES_BACK = "80s"
#: Seconds within which a fault comes.
SOON_S = 2.0
#: Memory of a worker.
MEMORY = "900MB"
PARTS = 4
#: What an error must say, by the fault that it comes from.
NAMES = {
    "memory": "memory|several workers died",
    "changed": "part changed between two reads",
    "swapped": "column . of X is",
    "scheduler": "scheduler is lost|no worker",
    "cancel": "was lost|cancel",
    "slow": "time_limit",
    "kill two": "had no worker",
    "retire": "had no worker",
    "restart": "had no worker|was lost",
}
FAULTS = ("none", "kill", *NAMES)


def drawn(n: int, noise: float) -> tuple[NDArray, NDArray]:
    """All rows, and labels."""
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 4))
    return X, (X[:, 0] + 0.5 * X[:, 1] + noise * rng.standard_normal(n) > 0).astype(int)


@dataclass(frozen=True)
class Piece:
    """A part, which has its own fault; the folder keeps how often it was read."""

    n: int
    noise: float
    k: int
    folder: str
    fault: str

    def load(self) -> tuple[Any, ...]:
        import pandas

        X, y = (array[self.k :: PARTS] for array in drawn(self.n, self.noise))
        turn = len(list(Path(self.folder).glob(f"{self.k}-*")))
        Path(self.folder, f"{self.k}-{turn}").touch()
        if self.fault == "slow":
            time.sleep(1.5)
        if self.fault == "memory" and turn:
            held = []
            while True:
                held.append(np.ones(1 << 22))
                time.sleep(0.005)
        if self.fault == "changed" and turn:
            order = np.random.default_rng(turn).permutation(len(X))
            X, y = X[order], y[order]
        names = ["b", "a", "c", "d"] if self.fault == "swapped" else ["a", "b", "c", "d"]
        return pandas.DataFrame(X, columns=names), y


class Bench:
    """A cluster of two workers, begun again if it was lost."""

    def __init__(self, by_command: bool) -> None:
        self.by_command, self.client, self.processes, self.cluster = by_command, None, list[Any](), None

    def begin(self) -> Any:
        """Return a client of a cluster with two workers."""
        import distributed

        if self.client is None or self.client.status != "running":
            self.end()
            if self.by_command:
                address = f"tcp://127.0.0.1:{(port := np.random.default_rng().integers(20_000, 60_000))}"
                command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1"]
                self._run([*command, "--port", str(port), "--no-dashboard"])
                worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--host", "127.0.0.1"]
                for _ in range(2):
                    self._run([*worker, "--nthreads", "1", "--memory-limit", MEMORY, "--no-dashboard"])
                self.client = distributed.Client(address, timeout="60s")
            else:
                options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": MEMORY, "dashboard_address": ":0"}
                self.cluster = distributed.LocalCluster(host="127.0.0.1", **options)
                self.client = distributed.Client(self.cluster)
        elif self.cluster is not None:
            self.cluster.scale(2)  # workers that were retired do not come back by themselves
        elif len(self.client.nthreads()) < 2:
            self.client.close()
            return self.begin()
        try:
            self.client.wait_for_workers(2, timeout=WORKERLESS_S)
        except TimeoutError:  # the last fault has ended a nanny, too
            self.client.close()
            return self.begin()
        return self.client

    def _run(self, command: list[str]) -> None:
        self.processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def lose_scheduler(self) -> None:
        """End the scheduler."""
        if self.cluster is not None:
            self.cluster.close()
        else:
            self.processes[0].kill()

    def end(self) -> None:
        """End all processes."""
        for one in (self.client, self.cluster):
            if one is not None:
                with contextlib.suppress(Exception):
                    one.close()
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
        self.client, self.cluster, self.processes = None, None, []


def _faulty(bench: Bench, fault: str, rng: np.random.Generator) -> Callable[[], None]:
    """Return a function that makes the fault."""
    client = bench.client
    assert client is not None

    def make() -> None:
        pids = list(client.run(os.getpid).values())
        if fault == "kill":
            os.kill(pids[int(rng.integers(len(pids)))], signal.SIGKILL)
        elif fault == "kill two":
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
                time.sleep(float(rng.random()))
        elif fault == "restart":
            client.restart(timeout=60)
        elif fault == "retire":
            client.retire_workers([next(iter(client.nthreads()))])
        elif fault == "cancel":
            client.cancel(_futures(client))
        elif fault == "scheduler":
            bench.lose_scheduler()

    return make


def _futures(client: Any) -> list[Any]:
    """Return futures of all that the client has asked for."""
    import distributed

    return [distributed.Future(key, client) for key in list(client.futures)]


def judged(model: Any, X: NDArray, y: NDArray) -> str:
    """Return what a judge of all rows finds wrong with a model's certificate; empty if nothing is."""
    certificate, margin = model.certificate_, np.where(y == 1, 1.0, -1.0) * model.decision_function(X)
    if hasattr(model, "coef_") and isinstance(model, PartitionedLinearSVC):
        square = float(model.coef_[0] @ model.coef_[0])
    else:
        values = model.decision_function(model.support_vectors_) - model.intercept_[0]
        square = float(model.dual_coef_[0] @ values)
    primal = 0.5 * square + model.C * float(np.maximum(0.0, 1.0 - margin).sum())
    gap, room = primal + certificate.objective, 1e-9 * abs(primal)
    if gap < -room:
        return f"the primal {primal:.10g} is below the dual {-certificate.objective:.10g}"
    # A primal objective at the certificate's own weights and bias is within its gap.
    if gap > certificate.gap + room + 1e-6 * abs(primal) * model.tol:
        return f"the certificate says {certificate.gap:.3g}, all rows say {gap:.3g}"
    return ""


def tried(seed: int, bench: Bench) -> tuple[str, str, str]:
    """Return the fault, how a run ended ("right", "named", or what is wrong), and the error's text."""
    rng = np.random.default_rng(seed)
    fault = FAULTS[seed % len(FAULTS)]
    n, noise = (40_000, 1.0) if rng.random() < 0.3 else (3000, 0.3)
    kinds = [PartitionedLinearSVC()] if n > 10_000 else [
        PartitionedLinearSVC(), CascadeSVC(C=2.0), CascadeSVC(kernel="linear", tol=1e-4), CascadeSVC(C=0.5, tol=1e-5)
    ]  # fmt: skip
    model, client = kinds[int(rng.integers(len(kinds)))], bench.begin()
    model.set_params(engine=client, time_limit=5.0 if fault == "slow" else None)
    ended: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        odd = int(rng.integers(PARTS))
        parts = [Piece(n, noise, k, folder, fault if k == odd else "none") for k in range(PARTS)]

        def fit() -> None:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    ended.append(model.fit(parts))
            except BaseException as error:
                ended.append(error)

        fitting = threading.Thread(target=fit, daemon=True)
        fitting.start()
        fitting.join(float(rng.random()) * SOON_S)
        with contextlib.suppress(Exception):
            _faulty(bench, fault, rng)()
        fitting.join(HANG_S)
        if fitting.is_alive():
            return fault, "HANG", repr(model)
    (found,) = ended
    if isinstance(found, DualflowError):
        named = fault in NAMES and re.search(NAMES[fault], str(found))
        return fault, "named" if named else "ERROR THAT DOES NOT NAME THE FAULT", str(found)
    if isinstance(found, BaseException):
        return fault, "ERROR OF ANOTHER PACKAGE", repr(found)
    if fault == "swapped":
        return fault, "SWAPPED COLUMNS WERE TAKEN", repr(model)
    wrong = judged(model, *drawn(n, noise))
    return fault, f"WRONG CERTIFICATE: {wrong}" if wrong else "right", ""


@contextlib.contextmanager
def begun(by_command: bool) -> Iterator[Bench]:
    """A bench whose processes end with it."""
    bench = Bench(by_command)
    try:
        yield bench
    finally:
        bench.end()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--command-line", action="store_true", help="a scheduler and workers begun by commands")
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin no run after so many minutes")
    options = parser.parse_args()
    total, since, runs = Counter[str](), time.monotonic(), 0
    dask_engine.MAX_WITHOUT_WORKER_S = WORKERLESS_S
    with dask.config.set({"distributed.deploy.lost-worker-timeout": COMES_BACK}), begun(options.command_line) as bench:
        for seed in range(options.seed, options.seed + options.runs):
            if time.monotonic() - since > 60 * options.minutes:
                break
            fault, end, text = tried(seed, bench)
            runs += 1
            if fault == "memory":  # its workers are begun again at any time, and one that goes is a second fault
                bench.end()
            total[f"{fault}: {end.partition(':')[0]}"] += 1
            print(f"run {seed}, {fault}: {end}", text[:300], flush=True)
            if end == "HANG":
                break
    bad = sum(count for name, count in total.items() if name.rpartition(": ")[2].isupper())
    print("; ".join(f"{name} {count}" for name, count in sorted(total.items())), f"({time.monotonic() - since:.0f} s)")
    print(f"{bad} of {runs} runs ended otherwise than in a right model or an error that names the fault")
    return int(bad > 0)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # a thread that hangs must not keep the process
