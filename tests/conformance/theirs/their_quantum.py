"""A third party's package: a quantum solver with a circuit family of its own, and a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dualflow import Device, DeviceError, Kind, QuantumSolver
from dualflow.core.options import Number, option
from dualflow.quantum.circuits import ParametricCircuit
from dualflow.quantum.devices import Capabilities, Job, Readout
from dualflow.quantum.runs.laboratory import Account
from dualflow.quantum.solvers.base import QuantumContext


@dataclass(frozen=True)
class BitByBit(ParametricCircuit):
    """2^q − 1 angles: qubit k is turned by one of 2^k angles, whichever the qubits below it say."""

    family: ClassVar[str] = "bit-by-bit"

    @property
    def n_parameters(self) -> int:
        return 2**self.n_qubits - 1

    def _build(self):
        from qiskit import QuantumCircuit
        from qiskit.circuit.library import RYGate

        angles, circuit = self.parameters("a"), QuantumCircuit(self.n_qubits, name=self.name)
        circuit.ry(angles[0], 0)
        for k in range(1, self.n_qubits):
            for below in range(2**k):
                turn = RYGate(angles[2**k - 1 + below]).control(k, ctrl_state=below, annotated=False)
                circuit.append(turn, [*range(k), k])
        return circuit

    def distribution(self, theta):
        theta = self.check_parameters(theta)
        found = np.ones((*theta.shape[:-1], 1))
        for k in range(self.n_qubits):
            half = 0.5 * theta[..., 2**k - 1 : 2 ** (k + 1) - 1]
            found = np.concatenate([found * np.cos(half) ** 2, found * np.sin(half) ** 2], axis=-1)
        return found

    def angles(self, mu: NDArray) -> NDArray:
        """θ of shape (P,) whose distribution is μ, which may be shorter than 2^q."""
        padded = np.concatenate([mu, np.zeros(2**self.n_qubits - len(mu))])
        levels = []
        for k in range(self.n_qubits):
            zero, one = padded.reshape(-1, 2, 2**k).sum(axis=0)
            levels.append(2 * np.arctan2(np.sqrt(one), np.sqrt(zero)))
        return np.concatenate(levels)


@dataclass(frozen=True)
class TheirState:
    """Angles, what was measured at them, how far that moved, and the account."""

    theta: NDArray
    alpha: NDArray
    moved: float
    account: Account


@dataclass(frozen=True)
class Theirs(QuantumSolver[QuantumContext, TheirState]):
    """Projected gradient of what was measured, prepared and measured again."""

    device: str | Device = "their-device"
    rest: float = option(1e-13, Number(at_least=0))

    state_type: ClassVar[type] = TheirState
    name: ClassVar[str] = "theirs"
    kinds = frozenset({Kind.SIMPLEX})
    max_n: ClassVar[int | None] = 16
    certify_every: ClassVar[int] = 10
    default_max_steps: ClassVar[int] = 20_000

    def circuit(self, context, state):
        return BitByBit(max(1, (context.workspace.n - 1).bit_length()))

    def final_angles(self, context, state):
        return state.theta

    def start(self, context, rng, warm=None):
        n = context.workspace.n
        return self.measured(context, Account.opened(rng), np.full(n, 1 / n) if warm is None else warm, np.inf)

    def step(self, context, state):
        problem = context.workspace
        length = 1.0 / np.abs(problem.dense()).sum(axis=1).max()
        aim = problem.project(state.alpha - length * problem.gradient(state.alpha))
        return self.measured(context, state.account, aim, float(np.abs(aim - state.alpha).max()))

    def measured(self, context, account, mu, moved):
        circuit = self.circuit(context, None)
        theta = circuit.angles(mu)
        found, account = context.lab.measure(account, circuit, theta, self.shots)
        return TheirState(theta, np.array(found[: len(mu)]), moved, account)

    def alpha(self, state):
        return state.alpha

    def finished(self, state):
        return state.moved <= self.rest


class TheirJob(Job):
    """A job that is done."""

    def __init__(self, readout: Readout, tag: str) -> None:
        self.job_id, self.tag, self.readout = readout.job_id, tag, readout

    def done(self) -> bool:
        return True

    def result(self) -> Readout:
        return self.readout


class TheirDevice(Device):
    """A machine of theirs, which counts its qubits from the other end."""

    name = "their-device"
    capabilities = Capabilities(exact=True, sampled=True, noisy=False, qubits=8)

    def _submit(self, circuit, values, shots, tag, seed):
        found, counts = circuit.distribution(values), None
        if shots is not None:
            counts = np.random.default_rng(seed).multinomial(shots, found / found.sum(axis=-1, keepdims=True))
            found = counts / shots
        little = Readout(found, counts, shots, "little", f"theirs-{tag}-{seed}")
        return TheirJob(little.ordered("big"), tag)

    def fetch(self, job_id):
        raise DeviceError(f"device {self.name!r} does not know job {job_id!r}")


class TheirCloud(TheirDevice):
    """Any machine of theirs, by name."""

    @classmethod
    def named(cls, name):
        device = cls()
        device.name = name
        return device


class NotADevice:
    """Has no business in a catalogue of devices."""


class SilentDevice(Device):
    """Does not say what it can do."""
