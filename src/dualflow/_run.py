"""One run of one solver: its state, its clock, its record; what comes of it is concluded in `_conclusion`."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _checkpoint
from ._checkpoint import Checkpoint
from ._record import Record
from .core.certificate import Certificate, Certifier, inseparability_witness
from .core.problem import DualProblem
from .core.seeds import generator_of
from .core.solution import Status
from .core.support import Refinement
from .core.support import refine as refine_support
from .core.workspace import Workspace
from .exceptions import DeviceError, ProblemError
from .solvers import Solver

__all__ = ["Progress", "Run"]

#: A hard-margin run without any finite bound after this many steps is checked once for inseparability.
_CHECK_SEPARABILITY_AT = 20

#: What solvers get that draw no random numbers.
_NOT_DRAWN_FROM = np.random.default_rng(0)


@dataclass(frozen=True)
class Progress:
    """What a callback is told after each step.

    ``certificate`` is the latest one (solvers with cheap steps are not certified after every one).
    """

    step: int
    time: float
    alpha: NDArray
    certificate: Certificate
    wall_time_s: float


@dataclass
class Run:
    """One run of one solver: its state, its clock, its record.

    The problem is `centred`. The solver works on a workspace and a twin of it; certificates, support set and refinement
    are made of the problem itself, in the certifier's own workspace. Nothing that a solver writes to can reach them.
    """

    problem: DualProblem
    twin: DualProblem
    engine: Solver[Any, Any]
    certifier: Certifier
    tol: float
    record: bool
    callback: Callable[[Progress], bool | None] | None
    deadline: float | None
    started: float
    workspace: Workspace = field(init=False)
    context: Any = field(init=False)
    state: Any = None  # the solver's own type, which only the solver knows
    steps: int = 0
    certificate: Certificate | None = None  # the latest; None until the first one is due
    decisive: bool = False
    status: Status = Status.STEP_LIMIT
    witness: NDArray | None = None
    device_error: str | None = None
    earlier_s: float = 0.0  # wall time of the runs this one resumes
    certify_time_s: float = 0.0
    overhead_s: float = 0.0  # callbacks and checkpoints: not the solver's time
    rows: Record = field(default_factory=Record)
    checkpoint: Checkpoint | None = None
    resumed: bool = False
    saved_at: float = 0.0
    key: dict[str, Any] = field(default_factory=dict)

    def start(self, warm: NDArray | None, random_state: Any, checkpoint: str | Path | Checkpoint | None) -> None:
        if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
            checkpoint = Checkpoint(checkpoint)
        self.checkpoint = checkpoint
        self.key = {
            "solver": self.engine.name,
            "options": repr(self.engine) if checkpoint else "",
            "seed": random_state if isinstance(random_state, (int, type(None))) else "generator",
            "problem": _checkpoint.fingerprint(self.problem) if checkpoint else "",
            "warm": warm is not None,
            "trajectory": self.record,
        }
        self.workspace = Workspace(self.twin, evidence=replace(self.certifier.psd))
        self.context = self.engine.open(self.twin, self.workspace)
        if checkpoint and Path(checkpoint.path).exists():
            self.resume(_checkpoint.load(Path(checkpoint.path), self.key, self.engine.state_type))
        else:
            # Making a generator takes as long as a tenth of a small fit.
            rng = generator_of(random_state) if self.engine.stochastic else _NOT_DRAWN_FROM
            self.state = self.engine.start(self.context, rng, warm)
            # A cold start is not worth a certificate where even steps are not, unless somebody looks at it.
            worth = warm is not None or self.certify_every == 1
            if worth or self.record or self.callback is not None:
                self.certify(decisive=worth)
            self.note()
        self.saved_at = time.monotonic()

    def resume(self, saved: _checkpoint.Saved) -> None:
        """Take up a saved run: all that is believed of its file is that the solver may go on from there."""
        self.state, self.steps, self.earlier_s = saved.state, saved.steps, saved.wall_time_s
        self.resumed = True
        with self.accountable():
            # Between two certificates the uninterrupted run would not have ended here.
            due = self.steps % self.certify_every == 0 or self.engine.asks_for_certificate(self.state)
            self.certify(decisive=due)
            if not self.record and saved.rows:
                raise ValueError("it holds a trajectory that was not asked for")
            if self.record:
                self.rows = Record.restored(saved.rows, self.steps, self.certifier.certify)
                if not np.array_equal(self.rows.alpha[-1], self.engine.alpha(self.state)):
                    raise ValueError("its last row is not the state")

    @contextlib.contextmanager
    def accountable(self) -> Iterator[None]:
        """Where a run was resumed, whatever goes wrong within is the file's fault."""
        try:
            yield
        except DeviceError:
            raise
        except Exception as error:
            if not self.resumed or self.checkpoint is None:
                raise
            path = self.checkpoint.path
            raise ProblemError(
                f"checkpoint {path} holds a state that is none of this problem: {error}; delete the file"
            ) from error

    @property
    def certify_every(self) -> int:
        """Steps between certificates; every step where the dual may fall for ever, so that it is noticed."""
        return 1 if self.problem.is_hard_margin else self.engine.certify_every

    def loop(self, max_steps: int) -> None:
        try:
            while not self.at_rest():
                if self.steps >= max_steps:
                    self.status = Status.STEP_LIMIT
                    break
                if self.deadline is not None and time.monotonic() >= self.deadline:
                    self.status = Status.TIME_LIMIT
                    break
                with self.accountable():
                    state = self.engine.step(self.context, self.state)
                    broken = not np.isfinite(self.engine.alpha(state)).all()
                if broken:
                    self.status = Status.BROKEN
                    break
                self.state, self.steps = state, self.steps + 1
                due = (
                    self.steps % self.certify_every == 0
                    or self.steps >= max_steps
                    or self.engine.asks_for_certificate(state)
                )
                if due or self.record:
                    self.certify(decisive=due)
                self.note()
                if self.told_to_stop():
                    self.status = Status.STOPPED
                    break
        except KeyboardInterrupt:
            self.status = Status.INTERRUPTED
        except DeviceError as error:
            # What the run has is worth circuits: it is kept, and the half-finished step is made again on resuming.
            self.status, self.device_error = Status.DEVICE_FAILED, str(error)
        self.save(final=True)

    def at_rest(self) -> bool:
        certificate = self.certificate
        if certificate is not None and self.decisive and self.problem.is_hard_margin:
            # Before the gap: on the simplex a witness has f = 0, and with it a gap of 0.
            self.look_for_witness(certificate)
            if self.witness is not None:
                self.status = Status.NOT_SEPARABLE
                return True
        if certificate is not None and self.decisive and self.within_tol(certificate):
            self.status = Status.OPTIMAL
            return True
        if self.engine.finished(self.state):
            self.status = Status.FINISHED if self.certifier.psd.is_psd else Status.STATIONARY
            return True
        return False

    def within_tol(self, certificate: Certificate) -> bool:
        """Whether the gap is, and α itself lies near the feasible set; a sampled one never does."""
        near = certificate.is_near_feasible(self.tol) or self.engine.accuracy_class() == "sampled"
        return certificate.within(self.tol) and near

    def look_for_witness(self, certificate: Certificate) -> None:
        begun = time.monotonic()
        self.witness = inseparability_witness(self.problem, certificate.alpha)
        due = certificate.gap == math.inf and self.steps == _CHECK_SEPARABILITY_AT * self.certify_every
        if self.witness is None and due:
            self.witness = self.refined(certificate.alpha).witness
        self.certify_time_s += time.monotonic() - begun

    def certify(self, decisive: bool = True) -> None:
        # A recorded run must end where an unrecorded one does, so a certificate made only for the record
        # does not decide.
        begun = time.monotonic()
        self.certificate = self.certifier.certify(self.engine.alpha(self.state), quick=self.certify_every == 1)
        self.decisive = decisive
        self.certify_time_s += time.monotonic() - begun

    def clock(self) -> float:
        """Solver seconds so far, over all resumed runs."""
        return self.earlier_s + time.monotonic() - self.started - self.certify_time_s - self.overhead_s

    def columns(self) -> float:
        """Kernel entries evaluated for the solver, in columns; NaN if it wrote over its workspace."""
        try:
            return float(self.workspace.gram.entries_computed) / self.problem.gram.n
        except (AttributeError, TypeError, ValueError):
            return np.nan

    def flow_time(self) -> float:
        t = self.engine.time(self.state)
        return float(self.steps) if t is None else float(t)

    def note(self) -> None:
        begun = time.monotonic()
        if self.record and self.certificate is not None:
            alpha, nu = self.engine.alpha(self.state), self.engine.multiplier(self.state)
            certificate = self.certifier.certify(alpha)
            nu = None if nu is None else nu + self.certifier.shift(certificate.alpha)
            self.rows.add(self.flow_time(), alpha, nu, certificate)
        self.save()
        self.overhead_s += time.monotonic() - begun

    def save(self, final: bool = False) -> None:
        if self.checkpoint is None or self.state is None:
            return
        if not final and (self.steps == 0 or time.monotonic() - self.saved_at < self.checkpoint.interval_s):
            return
        path, rows = Path(self.checkpoint.path), self.rows.saved()
        saved = _checkpoint.Saved(path, self.state, self.steps, self.clock(), rows)
        _checkpoint.save(saved, self.key)
        self.saved_at = time.monotonic()

    def told_to_stop(self) -> bool:
        if self.callback is None:
            return False
        assert self.certificate is not None
        begun = time.monotonic()
        progress = Progress(
            self.steps,
            self.flow_time(),
            np.array(self.engine.alpha(self.state)),
            self.certificate,
            self.clock(),
        )
        stop = bool(self.callback(progress))
        self.overhead_s += time.monotonic() - begun
        return stop

    def refined(self, start: NDArray, gradient: NDArray | None = None) -> Refinement:
        return refine_support(self.problem, start, deadline=self.deadline, certifier=self.certifier, gradient=gradient)
