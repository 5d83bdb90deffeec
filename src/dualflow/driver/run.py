"""One run of one solver: its state, its clock, its record; what comes of it is concluded in `_conclusion`.

The trajectory of a run as it comes about: its states, and what is certified of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.bounds import inseparability_witness
from ..core.certificate import Certificate, Certifier
from ..core.digest import fingerprint, seed_of, start_of
from ..core.problem import DualProblem
from ..core.runtime import clock
from ..core.runtime.random import generator_of_run
from ..core.solution import Progress, Status, Trajectory
from ..core.workspace import Workspace
from ..exceptions import BudgetSpent, DeviceError
from ..refinement.refine import Refinement
from ..refinement.refine import refine as refine_support
from ..solvers import Solver
from .checkpoint import Keeping, Saved

__all__ = ["Record", "Run", "number"]


#: What a file keeps of it: nothing that a certificate says.
_STORED = ("t", "alpha", "multiplier")


class Record:
    """Rows of a `Trajectory`: of each state its flow time, its α, and the solver's own multiplier if it has one."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, NDArray, float, tuple[float, float, float]]] = []

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def t(self) -> list[float]:
        return [row[0] for row in self.rows]

    @property
    def alpha(self) -> list[NDArray]:
        return [row[1] for row in self.rows]

    @property
    def multiplier(self) -> list[float]:
        return [row[2] for row in self.rows]

    def add(self, t: float, alpha: ArrayLike, multiplier: float | None, certificate: Certificate) -> None:
        """The next state, and its certificate: whole or, where Ctrl-C comes, not at all."""
        own = (number(certificate.multiplier), certificate.objective, number(certificate.relative_gap))
        self.rows.append((t, np.array(alpha), number(multiplier), own))

    def saved(self) -> dict[str, NDArray]:
        """What a file keeps of it."""
        return {name: np.array(values) for name in _STORED if (values := getattr(self, name))}

    @classmethod
    def restored(cls, rows: Mapping[str, NDArray], steps: int, certify: Callable[[ArrayLike], Certificate]) -> Record:
        """The record of so many steps that was saved, certified anew; ValueError where it is none."""
        if set(rows) != set(_STORED) or any(array.dtype != np.float64 for array in rows.values()):
            raise ValueError(f"its rows are not {', '.join(_STORED)}")
        record, (t, alpha, multiplier) = cls(), (rows[name] for name in _STORED)
        if not t.shape == multiplier.shape == alpha.shape[:1] == (steps + 1,) or not np.isfinite(t).all():
            raise ValueError(f"its rows are not those of {steps} steps")
        for k in range(len(t)):
            record.add(float(t[k]), alpha[k], float(multiplier[k]), certify(alpha[k]))
        return record

    def trajectory(self) -> Trajectory:
        """What a solution holds of it."""
        own, alpha = np.array(self.multiplier), np.array(self.alpha)
        multiplier, objective, gap = np.array([row[3] for row in self.rows]).reshape(-1, 3).T
        size = np.abs(alpha).max(axis=1, initial=0.0, keepdims=True)
        return Trajectory(
            t=np.array(self.t),
            alpha=alpha,
            multiplier=np.where(np.isnan(own), multiplier, own),
            survivors=(np.abs(alpha) > 1e-8 * size).sum(axis=1),
            objective=np.ascontiguousarray(objective),
            gap=np.ascontiguousarray(gap),
        )


def number(value: float | None) -> float:
    """NaN for what does not exist."""
    return np.nan if value is None else float(value)


#: A hard-margin run without any finite bound after this many steps is checked once for inseparability.
_CHECK_SEPARABILITY_AT = 20
#: Certificates that a refinement may take after its end, of its answer and of what it began with.
REFINED = 3
#: What solvers get that draw no random numbers.
_NOT_DRAWN_FROM = np.random.default_rng(0)


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
    warm: NDArray | None
    keeping: Keeping
    #: What `solve` was told beside the solver, for the provenance.
    arguments: dict[str, Any] = field(default_factory=dict)
    workspace: Workspace | None = None
    context: Any = None
    state: Any = None  # the solver's own type, which only the solver knows; None until it has started
    steps: int = 0
    certificate: Certificate | None = None  # the latest; None until the first one is due
    decisive: bool = False
    shared: bool = False  # whether the solver has a copy of the certifier's kernel matrix
    status: Status = Status.STEP_LIMIT
    witness: NDArray | None = None
    device_error: str | None = None
    earlier_s: float = 0.0  # wall time of the runs this one resumes
    certify_time_s: float = 0.0
    overhead_s: float = 0.0  # callbacks and checkpoints: not the solver's time
    rows: Record = field(default_factory=Record)
    told: dict[str, Any] | None = None  # what the solver said of its last state when the run was concluded

    def run(self, random_state: Any, max_steps: int) -> None:
        """Start, or resume, and step until something ends it: what that was is the status afterwards."""
        try:
            with clock.within(self.deadline):
                self.start(random_state)
                self.loop(max_steps)
        except clock.OutOfTime as late:
            if self.deadline is None:
                raise  # the limit is that of other work, of which this run is a part
            self.status, self.device_error = Status.TIME_LIMIT, str(late) or None
        except DeviceError as error:
            if self.state is None:
                raise
            # What the run has is worth circuits: it is kept, and the half-finished step is made again on resuming.
            spent = isinstance(error, BudgetSpent)
            self.status, self.device_error = Status.BUDGET_SPENT if spent else Status.DEVICE_FAILED, str(error)
        except BaseException:
            # Ctrl-C, or a kernel's, a callback's or a device's own: the caller gets it, and the next run what there was
            # before it.
            if self.keeping.saved is None or self.steps > self.keeping.saved.steps:
                self.settle()
            raise
        self.settle()

    def start(self, random_state: Any) -> None:
        keeping, wanted = self.keeping, self.keeping.checkpoint is not None
        keeping.key = {
            "solver": self.engine.name,
            "options": repr(self.engine) if wanted else "",
            "seed": seed_of(random_state),
            "problem": fingerprint(self.problem) if wanted else "",
            "warm": start_of(self.warm) if wanted else None,
            "trajectory": self.record,
        }
        saved = keeping.load(self.engine)
        self.workspace = Workspace(self.twin, evidence=self.certifier.psd.twin())
        self.context = self.engine.open(self.twin, self.workspace)
        if saved is not None:
            self.resume(saved)
        else:
            # Making a generator takes as long as a tenth of a small fit.
            # With a checkpoint one that is given stays as it is: by its state the run is known when it is resumed.
            rng = generator_of_run(random_state, moves=not wanted) if self.engine.stochastic else _NOT_DRAWN_FROM
            self.state = self.engine.start(self.context, rng, self.warm)
            # A cold start is not worth a certificate where even steps are not, unless somebody looks at it.
            worth = self.warm is not None or self.certify_every == 1
            if worth or self.record or self.callback is not None:
                self.certify(decisive=worth)
            self.note()
        keeping.begin()

    def resume(self, saved: Saved) -> None:
        """Take up a saved run: all that is believed of its file is that the solver may go on from there."""
        self.state, self.steps, self.earlier_s = saved.state, saved.steps, saved.wall_time_s
        with self.keeping.accountable():
            # Between two certificates the uninterrupted run would not have ended here.
            due = self.steps % self.certify_every == 0 or self.engine.asks_for_certificate(self.state)
            self.certify(decisive=due)
            if not self.record and saved.rows:
                raise ValueError("it holds a trajectory that was not asked for")
            if self.record:
                self.restore(saved)

    def restore(self, saved: Saved) -> None:
        """Take up its trajectory."""
        rows = Record.restored(saved.rows, saved.steps, self.certifier.certify)
        if not np.array_equal(rows.alpha[-1], self.engine.alpha(saved.state)):
            raise ValueError("its last row is not the state")
        self.rows = rows

    def settle(self) -> None:
        """Save the last state, with the row of the record that an error or the clock may have come before."""
        begun = time.monotonic()
        if self.record and not len(self.rows) and self.keeping.saved is not None:
            self.restore(self.keeping.saved)
        if self.record and len(self.rows) <= self.steps:
            self.add_row()
        self.save()
        self.overhead_s += time.monotonic() - begun

    @property
    def certify_every(self) -> int:
        """Steps between certificates; every step where the dual may fall for ever, so that it is noticed."""
        return 1 if self.problem.is_hard_margin else self.engine.certify_every

    def loop(self, max_steps: int) -> None:
        while not self.at_rest():
            if self.steps >= max_steps:
                self.status = Status.STEP_LIMIT
                break
            clock.look()
            with self.keeping.accountable():
                with clock.within(self.stop_at()):
                    self.share()
                    state = self.engine.step(self.context, self.state)
                broken = not np.isfinite(self.engine.alpha(state)).all()
            if broken:
                self.status = Status.BROKEN
                break
            is_last = self.deadline is not None and self.is_too_dear(state)
            if is_last:
                # Prices are estimates: the time of the one before it stays set aside meanwhile.
                with clock.within(self.stop_at()):
                    self.certifier.certify(self.engine.alpha(state))
            self.state, self.steps = state, self.steps + 1
            if is_last:
                raise clock.OutOfTime
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

    def stop_at(self, certificates: int = 1) -> float | None:
        """When work on the answer must end, for so many certificates like that of the state at hand to be in time; not
        before the deadline if that is too late for them anyway: another state may have a cheaper one."""
        if self.deadline is None:
            return None
        set_aside = certificates * self.certifier.seconds(self.alpha())
        return self.deadline - set_aside if time.monotonic() < self.deadline - set_aside else self.deadline

    def is_too_dear(self, state: Any) -> bool:
        """Whether a new state cannot be certified in the time that is left, and sooner the one before it."""
        assert self.deadline is not None
        left, price = self.deadline - time.monotonic(), self.certifier.seconds(self.engine.alpha(state))
        return price > max(left, self.certifier.seconds(self.alpha()))

    def share(self) -> None:
        """Give the workspace a copy of the certifier's whole kernel matrix, if the solver wants it, in its own time."""
        if self.shared or self.workspace is None or not self.engine.wants_whole(self.context, self.state):
            return
        self.shared, gram = True, self.certifier.workspace.gram
        if gram.is_dear:
            self.workspace.gram.take_single(gram.in_single())

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
        return certificate.reaches(self.tol) and near

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
        self.certificate = self.certifier.certify(self.alpha(), quick=self.certify_every == 1, primal=self.primal())
        self.decisive = decisive
        self.certify_time_s += time.monotonic() - begun

    def alpha(self) -> NDArray:
        """The state read as α; where there is none yet, what the run was to start from."""
        if self.state is not None:
            return self.engine.alpha(self.state)
        return self.problem.project(np.zeros(self.problem.n)) if self.warm is None else self.warm

    def primal(self) -> NDArray | None:
        """The solver's weights of the features, if it has some that can be."""
        if self.state is None or (w := self.engine.primal(self.context, self.state)) is None:
            return None
        gram = self.problem.gram
        return w if gram.is_linear and np.shape(w) == gram.X.shape[1:] and np.isfinite(w).all() else None

    def seconds(self) -> float:
        """Solver seconds so far, over all resumed runs."""
        return self.earlier_s + time.monotonic() - self.started - self.certify_time_s - self.overhead_s

    def columns(self) -> float:
        """Kernel entries evaluated for the solver, in columns; NaN if it wrote over its workspace."""
        if self.workspace is None:
            return 0.0
        try:
            return float(self.workspace.gram.entries_computed) / self.problem.gram.n
        except (AttributeError, TypeError, ValueError):
            return np.nan

    def flow_time(self) -> float:
        t = self.engine.time(self.state)
        return float(self.steps) if t is None else float(t)

    def note(self) -> None:
        begun = time.monotonic()
        if self.record:
            self.add_row()
        if self.keeping.due and self.steps:
            self.save()
        self.overhead_s += time.monotonic() - begun

    def add_row(self) -> None:
        started, certificate = self.state is not None, self.certifier.certify(self.alpha())
        t, nu = (self.flow_time(), self.engine.multiplier(self.state)) if started else (0.0, None)
        nu = None if nu is None else nu + self.certifier.shift(certificate.alpha)
        self.rows.add(t, self.alpha(), nu, certificate)

    def save(self) -> None:
        if self.state is not None:
            self.keeping.save(self.state, self.steps, self.seconds(), self.rows.saved())

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
            self.seconds(),
        )
        stop = bool(self.callback(progress))
        self.overhead_s += time.monotonic() - begun
        return stop

    def refined(self, start: NDArray, gradient: NDArray | None = None, tol: float = 0.0) -> Refinement:
        return refine_support(
            self.problem, start, deadline=self.stop_at(REFINED), certifier=self.certifier, gradient=gradient, tol=tol
        )
