"""Runs a circuit's netlist in ngspice, within the time limit, and reads the waveforms."""

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

from ..core.runtime.clock import check_time
from ..exceptions import DualflowError, SolverUnavailable
from .circuit import Circuit
from .trace import Trace

#: Name of the program.
PROGRAM = "ngspice"
#: Command that installs it, for error messages.
INSTALL_COMMAND = "apt install ngspice"
#: Seconds between two checks of the time limit while ngspice runs.
POLL_S = 0.05
#: Lines of ngspice's output with one of these are left out of error messages.
_UNINFORMATIVE = (
    "error opening code model",
    "couldn't be loaded",
    "note:",
    "warning: singular",
    "trying gmin",
    "ngspice-",
)

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
    """Return whether ngspice is on the PATH."""
    return shutil.which(PROGRAM) is not None


def simulate(circuit: Circuit, seconds: float, held: NDArray | None = None, noise_seed: int = 0) -> Trace:
    """Run a circuit in ngspice and return its waveforms.

    Parameters
    ----------
    circuit : Circuit
    seconds : float > 0
        Time of the circuit (`Circuit.seconds` of a time of the flow).
    held : array, optional
        Volts on the capacitors at the start: the last of another `Trace.held`, or `Circuit.at` of an α.
    noise_seed : int ≥ 0

    Returns
    -------
    Trace

    Raises
    ------
    SolverUnavailable
        ngspice is not installed.
    DualflowError
        ngspice found no solution of the circuit, or its output is malformed; the message has its last lines.

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
        raise SolverUnavailable(f"{PROGRAM} is not installed: {INSTALL_COMMAND}")
    columns = circuit.columns
    text = circuit.netlist(seconds, held, noise_seed)
    control = _CONTROL.format(columns=" ".join(f"v({name})" for name in columns))
    try:
        with tempfile.TemporaryDirectory(prefix="dualflow-analog-") as folder:
            file = Path(folder) / "circuit.cir"
            file.write_text(text.removesuffix(".end\n") + control + ".end\n", encoding="ascii")
            output = _run(program, file)
            table = _read(Path(folder) / "waveforms.txt", len(columns) + 1)
    except OSError as error:
        raise DualflowError(f"{PROGRAM} could not be run: {error}") from error
    if table is None or table[-1, 0] < seconds * (1 - 1e-9):
        reached = "no state" if table is None else f"{table[-1, 0]:.3g} s"
        raise DualflowError(
            f"{PROGRAM} came to {reached} of {seconds:.3g} s of the circuit: {output or 'it gave no message'}"
        )
    return circuit.read(table)


def _run(program: str, file: Path) -> str:
    """Run the program on a file and return its last lines of output; the time limit and Ctrl-C end it."""
    folder = file.parent
    with (folder / "output.txt").open("wb") as out:
        process = None
        try:
            with _delayed_interrupt():
                process = subprocess.Popen(
                    [program, "-n", "-b", file.name],
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                )
            while True:
                check_time()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_S)
                    break
        finally:
            if process is not None:
                process.kill()  # without effect if it has ended
                process.wait()
    lines = (folder / "output.txt").read_bytes()[-10_000:].decode(errors="replace").splitlines()
    kept = [line.strip() for line in lines if line.strip() and not any(word in line.lower() for word in _UNINFORMATIVE)]
    ended = [] if process.returncode == 0 else [f"(ended with code {process.returncode})"]
    return "; ".join([*kept[-3:], *ended])[-400:]


@contextlib.contextmanager
def _delayed_interrupt() -> Iterator[None]:
    """Delay Ctrl-C to the end of the block.

    Between the start of a process and the assignment of its name an interrupt would leave the process running. To block
    the signal is not enough, since the system then delivers it to another thread.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # Python delivers signals to the main thread only
        return
    received: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda *about: received.append(about))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if received:
            handler(*received[0])


def _read(file: Path, columns: int) -> NDArray | None:
    """Return the table that `wrdata` wrote, or None if it is not complete, finite and ordered in time."""
    try:
        rows = [line.split() for line in file.read_text(encoding="ascii").splitlines()]
        table = np.array([[float(word) for word in row] for row in rows if len(row) == columns])
    except (FileNotFoundError, ValueError):  # UnicodeDecodeError is a ValueError
        return None
    if not len(table) or len(table) != len(rows) or not np.isfinite(table).all() or (np.diff(table[:, 0]) < 0).any():
        return None
    return table
