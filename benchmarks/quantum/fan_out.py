"""Claim: two processes run a step's six circuits ≥ 1.6 × faster than one, with the same counts to the bit.

The hardware-efficient ansatz of n = 64 variables (6 qubits, 84 angles), 10 000 shots a circuit on Aer; every step has
six circuits at angles of its own and its own seed. One process: ``device="aer"`` itself, all six in one run, as any
solver has them. Two: ``SpreadDevice("aer", processes=2)``, three for each. Both are warm (the circuit is compiled, the
processes have started, which is said apart) and take turns, step by step, on the same angles and seeds; each library
has one thread. Two processes need two free cores. Shown beside: three circuits on one process, which is what each of
the two has to do, so that their ratio to six says what could be had; what the message to a process and back takes; a
step of `variational-flow` itself, which has 253 circuits; and six exact distributions, which take less than they
travel.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.lib import ratios
from benchmarks.lib.claims import Rows, Verdict, conclude
from benchmarks.lib.command import command_line
from benchmarks.lib.machine import QUANTUM, machine, one_thread
from dualflow import SpreadDevice
from dualflow.quantum.devices import Device, make_device
from dualflow.quantum.devices.processes import pool_of
from dualflow.quantum.solvers.ansatz import HardwareEfficientAnsatz

TITLE = "quantum/fan_out"
N, SHOTS, CIRCUITS, PROCESSES, ASKED = 64, 10_000, 6, 2, 1.6
STEPS, QUICK = 200, 10
#: Steps before the first that is timed, so that every process has compiled the circuit; and steps of the solver's own.
WARM, WHOLE_STEPS = 6, 3


def timed(device: Device, circuit: Any, angles: NDArray, shots: int | None, seed: int) -> tuple[NDArray, float]:
    """What a batch gives, and its seconds."""
    begun = time.perf_counter()
    readout = device.submit(circuit, angles, shots, seed=seed).result()
    seconds = time.perf_counter() - begun
    return readout.probabilities if readout.counts is None else readout.counts, seconds


def turns(
    devices: dict[str, Device], circuit: Any, batches: list[NDArray], shots: int | None
) -> tuple[dict[str, list[float]], bool]:
    """Seconds of every batch by device, and whether all gave the same bits; who is first changes from turn to turn."""
    seconds: dict[str, list[float]] = {name: [] for name in devices}
    same = True
    for seed, angles in enumerate(batches):
        order = list(devices) if seed % 2 else list(devices)[::-1]
        found = []
        for name in order:
            given, took = timed(devices[name], circuit, angles, shots, seed)
            found.append(given)
            seconds[name].append(took)
        same = same and all(np.array_equal(found[0], one) for one in found)
    return seconds, same


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def main() -> int:
    options: argparse.Namespace = command_line(__doc__)
    one_thread()
    print(f"{TITLE}: {machine(*QUANTUM)}, one thread a process, {cores()} cores to use")
    steps, rng = QUICK if options.quick else STEPS, np.random.default_rng(0)
    ansatz = HardwareEfficientAnsatz(N)
    circuit = ansatz.circuit

    def batches(count: int, rows: int) -> list[NDArray]:
        return [rng.uniform(0.0, 2.0 * np.pi, (rows, circuit.n_parameters)) for _ in range(count)]

    table = Rows(f"{TITLE}_rows", options)
    about = {"n": N, "qubits": circuit.n_qubits, "angles": circuit.n_parameters, "cores": cores()}

    def row(case: str, circuits: int, shots: int | None, seconds: list[float]) -> None:
        median = float(np.median(seconds))
        table.add(case, **about, circuits=circuits, shots=shots or 0, runs=len(seconds), milliseconds=1e3 * median)

    with SpreadDevice("aer", PROCESSES) as spread:
        devices: dict[str, Device] = {"one process": make_device("aer"), f"{PROCESSES} processes": spread}
        one, two = devices
        (first, *_) = batches(1, CIRCUITS)
        row("start of the processes", CIRCUITS, SHOTS, [timed(spread, circuit, first, SHOTS, 0)[1]])
        turns(devices, circuit, batches(WARM, CIRCUITS), SHOTS)
        seconds, same = turns(devices, circuit, batches(steps, CIRCUITS), SHOTS)
        for name in devices:
            row(f"a step, {name}", CIRCUITS, SHOTS, seconds[name])
        half = [timed(devices[one], circuit, angles, SHOTS, 0)[1] for angles in batches(steps, CIRCUITS // PROCESSES)]
        row(f"half a step, {one}", CIRCUITS // PROCESSES, SHOTS, half)
        pool = pool_of(PROCESSES, 1)
        trips = []
        for _ in range(steps):
            begun = time.perf_counter()
            pool.run(abs, [(-1,)])
            trips.append(time.perf_counter() - begun)
        row("a message and back", 0, None, trips)
        exact, same_exact = turns(devices, circuit, batches(steps, CIRCUITS), None)
        for name in devices:
            row(f"exact, {name}", CIRCUITS, None, exact[name])
        whole: dict[str, list[float]] = {}
        if not options.quick:
            rows = ansatz.circuits_a_step(exact=False)
            whole, same_whole = turns(devices, circuit, batches(WHOLE_STEPS, rows), SHOTS)
            same = same and same_whole
            for name in devices:
                row(f"a step of variational-flow, {name}", rows, SHOTS, whole[name])

    def gain(kind: str, what: str, slow: list[float], fast: list[float], asked: float | None = None) -> Verdict:
        wanted: dict[str, Any] = {} if asked is None else {"sense": ">=", "asked": asked}
        return Verdict(kind, what, f"ratio to {one}", **asdict(ratios.ratio(slow, fast)), **wanted, unit="×")

    verdicts = [
        gain("must", f"{two}, {CIRCUITS} circuits", seconds[one], seconds[two], ASKED),
        Verdict("must", f"{two} and {one}", "counts that differ", float(not same), "<=", 0.0),
        Verdict("must", f"{two} and {one}", "exact distributions that differ", float(not same_exact), "<=", 0.0),
        gain("shown", f"half of the {CIRCUITS} circuits", seconds[one], half),
        gain("shown", f"{two}, exact", exact[one], exact[two]),
    ]
    if whole:
        verdicts.append(gain("shown", f"{two}, a step of variational-flow", whole[one], whole[two]))
    return conclude(TITLE, verdicts, options)


if __name__ == "__main__":
    sys.exit(main())
