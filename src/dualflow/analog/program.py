"""ngspice: looked for, run in a folder of its own, ended in time, read back."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import numpy as np
from numpy.typing import NDArray

from ..core.runtime.clock import look
from ..exceptions import DualflowError, SolverUnavailable
from .circuit import Circuit
from .trace import Trace

__all__ = ["INSTALL", "PROGRAM", "installed", "simulate"]

PROGRAM, INSTALL = "ngspice", "apt install ngspice"
#: Seconds between two looks at the clock while it runs.
POLL_S = 0.05
#: Lines of what ngspice said that say nothing.
_NOISE = ("error opening code model", "couldn't be loaded", "note:", "warning: singular", "trying gmin", "ngspice-")

_CONTROL = """\
.control
set numdgt=15
set wr_singlescale
run
wrdata waveforms.txt {columns}
quit
.endc
"""


def installed() -> bool:
    """Whether ngspice is on the PATH."""
    return shutil.which(PROGRAM) is not None


def simulate(circuit: Circuit, seconds: float, held: NDArray | None = None, noise_seed: int = 0) -> Trace:
    """Run a circuit in ngspice.

    Parameters
    ----------
    circuit : Circuit
    seconds : float > 0
        Of the circuit (`Circuit.seconds` of a flow's time).
    held : array, optional
        Volts on the capacitors at the start: `Trace.held` of another run's end, or `Circuit.at` an α.
    noise_seed : int ≥ 0

    Returns
    -------
    Trace

    Raises
    ------
    SolverUnavailable
        ngspice is not installed.
    DualflowError
        It found no solution of the circuit, or gave back what is none; the message has its last words.

    Examples
    --------
    >>> from dualflow import Gram, problems
    >>> from dualflow.analog import build, simulate
    >>> circuit = build(problems.svdd(Gram([[1.0], [2.0], [4.0]], "linear")))
    >>> trace = simulate(circuit, 0.2)  # doctest: +SKIP
    >>> trace.alpha[-1].round(6)  # doctest: +SKIP
    array([0.5, 0. , 0.5])
    """
    program = shutil.which(PROGRAM)
    if program is None:
        raise SolverUnavailable(f"{PROGRAM} is not installed: {INSTALL}")
    columns = circuit.columns
    text = circuit.netlist(seconds, held, noise_seed)
    control = _CONTROL.format(columns=" ".join(f"v({name})" for name in columns))
    try:
        with tempfile.TemporaryDirectory(prefix="dualflow-analog-") as folder:
            file = Path(folder) / "circuit.cir"
            file.write_text(text.removesuffix(".end\n") + control + ".end\n", encoding="ascii")
            said = _run(program, file)
            table = _read(Path(folder) / "waveforms.txt", len(columns) + 1)
    except OSError as error:
        raise DualflowError(f"{PROGRAM} could not be run: {error}") from error
    if table is None or table[-1, 0] < seconds * (1 - 1e-9):
        reached = "no state" if table is None else f"{table[-1, 0]:.3g} s"
        raise DualflowError(
            f"{PROGRAM} came to {reached} of {seconds:.3g} s of the circuit: {said or 'it said nothing'}"
        )
    return circuit.read(table)


def _run(program: str, file: Path) -> str:
    """Run it on a file; what it said last. The time limit and Ctrl-C end it."""
    folder = file.parent
    with (folder / "said.txt").open("wb") as out:
        process = None
        try:
            with _undisturbed():
                process = subprocess.Popen(
                    [program, "-n", "-b", file.name],
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                )
            while True:
                look()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_S)
                    break
        finally:
            if process is not None:
                process.kill()  # nothing, where it has ended
                process.wait()
    words = (folder / "said.txt").read_bytes()[-10_000:].decode(errors="replace").splitlines()
    kept = [line.strip() for line in words if line.strip() and not any(word in line.lower() for word in _NOISE)]
    ended = [] if process.returncode == 0 else [f"(ended with code {process.returncode})"]
    return "; ".join([*kept[-3:], *ended])[-400:]


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C waits: between a process that begins and a name for it, it would leave that behind. To block the signal is
    not enough, for the system gives it to another thread then."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # nobody is disturbed here
        return
    came: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda *about: came.append(about))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(*came[0])


def _read(file: Path, columns: int) -> NDArray | None:
    """The table that `wrdata` wrote, or None where there is none: of full rows of finite numbers, time going on."""
    try:
        rows = [line.split() for line in file.read_text(encoding="ascii").splitlines()]
        table = np.array([[float(word) for word in row] for row in rows if len(row) == columns])
    except (FileNotFoundError, ValueError):  # UnicodeDecodeError is one
        return None
    if not len(table) or len(table) != len(rows) or not np.isfinite(table).all() or (np.diff(table[:, 0]) < 0).any():
        return None
    return table
