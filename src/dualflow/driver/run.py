"""One run of one solver: the loop over its steps, with certificates, limits, checkpoints and a record of its states.

`result.conclude` makes a solution from a run that has ended.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
from ..working_set.dense import solve_nearly_free
from .checkpoint import CheckpointFile, Saved

#: Fields of a record that a checkpoint has: those that certificates do not give.
_STORED = ("t", "alpha", "multiplier", "shots")


class Row(NamedTuple):
    """One state of a record."""

    t: float
    alpha: NDArray
    #: The solver's own multiplier, or NaN.
    multiplier: float
    #: Multiplier, objective and relative gap of the certificate.
    certified: tuple[float, float, float]
    #: Shots of the run so far.
    shots: float


class Record:
    """The rows of a `Trajectory`, one for each state of a run."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def t(self) -> list[float]:
        return [row.t for row in self.rows]

    @property
    def alpha(self) -> list[NDArray]:
        return [row.alpha for row in self.rows]

    @property
    def multiplier(self) -> list[float]:
        return [row.multiplier for row in self.rows]

    @property
    def shots(self) -> list[float]:
        return [row.shots for row in self.rows]

    def add(
        self, t: float, alpha: ArrayLike, multiplier: float | None, certificate: Certificate, shots: float = 0.0
    ) -> None:
        """Append a state and its certificate, in one call that Ctrl-C cannot leave half done."""
        certified = (number(certificate.multiplier), certificate.objective, number(certificate.relative_gap))
        self.rows.append(Row(t, np.array(alpha), number(multiplier), certified, float(shots)))

    def saved(self) -> dict[str, NDArray]:
        """Return the arrays that a checkpoint stores."""
        return {name: np.array(values) for name in _STORED if (values := getattr(self, name))}

    @classmethod
    def restored(cls, rows: Mapping[str, NDArray], steps: int, certify: Callable[[ArrayLike], Certificate]) -> Record:
        """Return the record of ``steps`` steps from its arrays, certified anew; ValueError if they do not fit."""
        if set(rows) != set(_STORED) or any(array.dtype != np.float64 for array in rows.values()):
            raise ValueError(f"its rows are not {', '.join(_STORED)}")
        record, (t, alpha, multiplier, shots) = cls(), (rows[name] for name in _STORED)
        if (
            not t.shape == multiplier.shape == shots.shape == alpha.shape[:1] == (steps + 1,)
            or not np.isfinite(t).all()
        ):
            raise ValueError(f"its rows are not those of {steps} steps")
        for k in range(len(t)):
            record.add(float(t[k]), alpha[k], float(multiplier[k]), certify(alpha[k]), float(shots[k]))
        return record

    def trajectory(self) -> Trajectory:
        """Return the trajectory for a solution."""
        own, alpha = np.array(self.multiplier), np.array(self.alpha)
        multiplier, objective, gap = np.array([row.certified for row in self.rows]).reshape(-1, 3).T
        size = np.abs(alpha).max(axis=1, initial=0.0, keepdims=True)
        return Trajectory(
            t=np.array(self.t),
            alpha=alpha,
            multiplier=np.where(np.isnan(own), multiplier, own),
            survivors=(np.abs(alpha) > 1e-8 * size).sum(axis=1),
            objective=np.ascontiguousarray(objective),
            gap=np.ascontiguousarray(gap),
            shots=np.array(self.shots),
        )


def number(value: float | None) -> float:
    """Return a value as a float, NaN for None."""
    return np.nan if value is None else float(value)


#: If a hard-margin run has no finite bound at this certificate, it is checked once for inseparability.
SEPARABILITY_CHECK_STEP = 20
#: Certificates for which time is reserved after a refinement: those of its answer and of its start.
CERTIFICATES_AFTER_REFINEMENT = 3
#: For a callback, a certificate is recomputed when its age exceeds this multiple of its cost. Certificates that only
#: report progress then take a sixth of the time at most.
MAX_CERTIFICATE_AGE = 5.0
#: Seconds; a younger certificate is not made anew for a callback. A log has a line a second.
MIN_CERTIFICATE_AGE_S = 0.5
#: The generator of solvers that draw no random numbers.
UNUSED_GENERATOR = np.random.default_rng(0)


@dataclass
class Run:
    """One run of one solver.

    The problem is `centred`. The solver works on an isolated copy of it and on a workspace of its own. Certificates,
    support set and refinement use the problem itself, in the certifier's workspace: nothing that a solver writes to can
    change them.
    """

    problem: DualProblem
    isolated: DualProblem
    engine: Solver[Any, Any]
    certifier: Certifier
    tol: float
    record: bool
    callback: Callable[[Progress], bool | None] | None
    deadline: float | None
    started: float
    warm: NDArray | None
    checkpoint_file: CheckpointFile
    #: Arguments of `solve` beside the solver, for the provenance.
    arguments: dict[str, Any] = field(default_factory=dict)
    workspace: Workspace | None = None
    context: Any = None
    state: Any = None  # of the solver's state type; None until the run has started
    steps: int = 0
    certificate: Certificate | None = None  # the latest; None until the first one
    decisive: bool = False  # whether that certificate may end the run
    certified_at: float = 0.0  # `time.monotonic` after the latest certificate
    certificate_s: float = 0.0  # wall time of the latest certificate
    shared: bool = False  # whether the kernel matrix has been shared with the solver, if it can use it
    status: Status = Status.STEP_LIMIT
    witness: NDArray | None = None
    device_error: str | None = None
    earlier_s: float = 0.0  # wall time of the runs that this one resumes
    certify_time_s: float = 0.0
    overhead_s: float = 0.0  # callbacks and checkpoints, which are not the solver's time
    rows: Record = field(default_factory=Record)
    reported: dict[str, Any] | None = None  # cost, extras and provenance that the solver reported at the end

    def run(self, random_state: Any, max_steps: int) -> None:
        """Start or resume, and make steps until the run ends; `status` then says what ended it."""
        try:
            with clock.within(self.deadline):
                self.start(random_state)
                self.loop(max_steps)
        except clock.OutOfTime as late:
            if self.deadline is None:
                raise  # the limit of the caller has passed, not the run's
            self.status, self.device_error = Status.TIME_LIMIT, str(late) or None
        except DeviceError as error:
            if self.state is None:
                raise
            # The state has cost circuits, so it is kept; a resumed run repeats the unfinished step.
            spent = isinstance(error, BudgetSpent)
            self.status, self.device_error = Status.BUDGET_SPENT if spent else Status.DEVICE_FAILED, str(error)
        except BaseException:
            # Ctrl-C, or an error of a kernel, a callback or a device: the caller gets the error, and the checkpoint the
            # state before it.
            if self.checkpoint_file.saved is None or self.steps > self.checkpoint_file.saved.steps:
                self.save_final()
            raise
        self.save_final()

    def start(self, random_state: Any) -> None:
        """Make the first state, or resume from the checkpoint."""
        checkpoint_file, wanted = self.checkpoint_file, self.checkpoint_file.checkpoint is not None
        checkpoint_file.key = {
            "solver": self.engine.name,
            "options": repr(self.engine) if wanted else "",
            "seed": seed_of(random_state),
            "problem": fingerprint(self.problem) if wanted else "",
            "warm": start_of(self.warm) if wanted else None,
            "trajectory": self.record,
        }
        saved = checkpoint_file.load(self.engine)
        self.workspace = Workspace(self.isolated, evidence=self.certifier.psd.copied())
        self.context = self.engine.open(self.isolated, self.workspace)
        if saved is not None:
            self.resume(saved)
        else:
            # Making a generator takes a tenth of the time of a small fit. With a checkpoint a given generator is not
            # advanced: its state identifies the run when it is resumed.
            rng = generator_of_run(random_state, moves=not wanted) if self.engine.stochastic else UNUSED_GENERATOR
            self.state = self.engine.start(self.context, rng, self.warm)
            # A cold start is certified only if every step is, or if it is recorded or reported.
            decisive = self.warm is not None or self.certify_every == 1
            if decisive or self.record or self.callback is not None:
                self.certify(decisive=decisive)
            self.record_step()
        checkpoint_file.begin()

    def resume(self, saved: Saved) -> None:
        """Continue a saved run; the file is trusted to hold a state that the solver can continue from, and no more."""
        self.state, self.steps, self.earlier_s = saved.state, saved.steps, saved.wall_time_s
        with self.checkpoint_file.blame_file():
            # Between two certificates the uninterrupted run could not have ended.
            due = self.steps % self.certify_every == 0 or self.engine.asks_for_certificate(self.state)
            self.certify(decisive=due)
            if not self.record and saved.rows:
                raise ValueError("it holds a trajectory, which this run does not record")
            if self.record:
                self.restore(saved)

    def restore(self, saved: Saved) -> None:
        """Restore the record of a saved run."""
        rows = Record.restored(saved.rows, saved.steps, self.certifier.certify)
        if not np.array_equal(rows.alpha[-1], self.engine.alpha(saved.state)):
            raise ValueError("its last row is not the state")
        self.rows = rows

    def save_final(self) -> None:
        """Save the last state, with its row of the record, which an error or the deadline may have prevented."""
        begun = time.monotonic()
        if self.record and not len(self.rows) and self.checkpoint_file.saved is not None:
            self.restore(self.checkpoint_file.saved)
        if self.record and len(self.rows) <= self.steps:
            self.add_row()
        self.save()
        self.overhead_s += time.monotonic() - begun

    @property
    def certify_every(self) -> int:
        """Steps between certificates; 1 where the dual may be unbounded below, so that this is noticed."""
        return 1 if self.problem.is_hard_margin else self.engine.certify_every

    def loop(self, max_steps: int) -> None:
        """Make steps until the run ends."""
        while not self.has_ended():
            if self.steps >= max_steps:
                self.status = Status.STEP_LIMIT
                break
            clock.check_time()
            with self.checkpoint_file.blame_file():
                with clock.within(self.stop_at()):
                    self.share_kernel_matrix()
                    state = self.engine.step(self.context, self.state)
                broken = not np.isfinite(self.engine.alpha(state)).all()
            if broken:
                self.status = Status.BROKEN
                break
            is_last = self.deadline is not None and self.exceeds_time(state)
            if is_last:
                # The time of a certificate is an estimate: the time for the previous state's one stays reserved.
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
            if due or self.record or self.certificate_is_stale():
                self.certify(decisive=due)
            self.record_step()
            if self.callback_stops():
                self.status = Status.STOPPED
                break

    def stop_at(self, certificates: int = 1) -> float | None:
        """Return the time at which work must end so that ``certificates`` of the current state are made in time.

        It is the deadline itself if that time has passed already: the next state may have a cheaper certificate.
        """
        if self.deadline is None:
            return None
        reserved_s = certificates * self.certifier.seconds(self.alpha())
        return self.deadline - reserved_s if time.monotonic() < self.deadline - reserved_s else self.deadline

    def exceeds_time(self, state: Any) -> bool:
        """Whether a new state's certificate takes longer than the time that is left, and than the previous state's."""
        assert self.deadline is not None
        left_s, needed_s = self.deadline - time.monotonic(), self.certifier.seconds(self.engine.alpha(state))
        return needed_s > max(left_s, self.certifier.seconds(self.alpha()))

    def share_kernel_matrix(self) -> None:
        """Copy the certifier's dense kernel matrix to the workspace, if the solver requests it; counted as its time."""
        if self.shared or self.workspace is None or not self.engine.wants_whole(self.context, self.state):
            return
        self.shared, gram = True, self.certifier.workspace.gram
        if gram.saves_if_many:
            self.workspace.gram.use_float32(gram.in_single())

    def has_ended(self) -> bool:
        """Whether the run has ended, by its certificate or by the solver; sets `status`."""
        certificate = self.certificate
        if certificate is not None and self.decisive and self.problem.is_hard_margin:
            # Before the gap is checked: on the simplex a witness has f = 0, and so a gap of 0.
            self.find_witness(certificate)
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
        """Whether the gap is within tol and α is near the feasible set, which is not required of sampled answers."""
        near = certificate.is_near_feasible(self.tol) or self.engine.accuracy_class() == "sampled"
        return certificate.reaches(self.tol) and near

    def find_witness(self, certificate: Certificate) -> None:
        """Look for a witness that the data are not separable."""
        begun = time.monotonic()
        self.witness = inseparability_witness(self.problem, certificate.alpha)
        due = certificate.gap == math.inf and self.steps == SEPARABILITY_CHECK_STEP * self.certify_every
        if self.witness is None and due:
            self.witness = self.refined(certificate.alpha).witness
        self.certify_time_s += time.monotonic() - begun

    def certify(self, decisive: bool = True) -> None:
        """Certify the current state.

        A recorded or watched run must end where another one does, so a certificate that is made for the record or for a
        callback only is not ``decisive``.
        """
        begun = time.monotonic()
        self.certificate = self.certifier.certify(self.alpha(), quick=self.certify_every == 1, primal=self.primal())
        self.decisive = decisive
        self.certified_at = time.monotonic()
        self.certificate_s = self.certified_at - begun
        self.certify_time_s += self.certificate_s

    def certificate_is_stale(self) -> bool:
        """Whether a callback would see an old certificate, and a new one takes little of the time since then."""
        if self.callback is None:
            return False
        age_s = time.monotonic() - self.certified_at
        if age_s < max(MIN_CERTIFICATE_AGE_S, MAX_CERTIFICATE_AGE * self.certificate_s):
            return False
        cost_s = self.certifier.seconds(self.alpha())
        left_s = math.inf if self.deadline is None else self.deadline - time.monotonic()
        return age_s >= MAX_CERTIFICATE_AGE * cost_s and left_s > CERTIFICATES_AFTER_REFINEMENT * cost_s

    def alpha(self) -> NDArray:
        """Return α of the current state, or of the start if the run has not started."""
        if self.state is not None:
            return self.engine.alpha(self.state)
        return self.problem.project(np.zeros(self.problem.n)) if self.warm is None else self.warm

    def primal(self) -> NDArray | None:
        """Return the solver's weights of the features, or None if it has none or they are not valid."""
        if self.state is None or (w := self.engine.primal(self.context, self.state)) is None:
            return None
        gram = self.problem.gram
        return w if gram.is_linear and np.shape(w) == gram.X.shape[1:] and np.isfinite(w).all() else None

    def seconds(self) -> float:
        """Return the solver's seconds so far, over all resumed runs."""
        return self.earlier_s + time.monotonic() - self.started - self.certify_time_s - self.overhead_s

    def columns(self) -> float:
        """Return the kernel entries evaluated for the solver, in columns; NaN if it overwrote its workspace."""
        if self.workspace is None:
            return 0.0
        try:
            return float(self.workspace.gram.entries_computed) / self.problem.gram.n
        except (AttributeError, TypeError, ValueError):
            return np.nan

    def flow_time(self) -> float:
        """Return the solver's flow time, or the number of steps if it has none."""
        t = self.engine.time(self.state)
        return float(self.steps) if t is None else float(t)

    def record_step(self) -> None:
        """Add a row to the record and save a checkpoint, where they are due."""
        begun = time.monotonic()
        if self.record:
            self.add_row()
        if self.checkpoint_file.due and self.steps:
            self.save()
        self.overhead_s += time.monotonic() - begun

    def add_row(self) -> None:
        """Add the current state to the record."""
        started, certificate = self.state is not None, self.certifier.certify(self.alpha())
        t, nu = (self.flow_time(), self.engine.multiplier(self.state)) if started else (0.0, None)
        nu = None if nu is None else nu + self.certifier.shift(certificate.alpha)
        self.rows.add(t, self.alpha(), nu, certificate, self.engine.shots_spent(self.state) if started else 0.0)

    def save(self) -> None:
        """Save a checkpoint of the current state."""
        if self.state is not None:
            self.checkpoint_file.save(self.state, self.steps, self.seconds(), self.rows.saved())

    def callback_stops(self) -> bool:
        """Call the callback; return whether it stops the run."""
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
        """Return the refinement from a start, with time reserved for its certificates."""
        return refine_support(
            self.problem,
            start,
            deadline=self.stop_at(CERTIFICATES_AFTER_REFINEMENT),
            certifier=self.certifier,
            gradient=gradient,
            tol=tol,
            solve_nearly_free=solve_nearly_free,
        )
