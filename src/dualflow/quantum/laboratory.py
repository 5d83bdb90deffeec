"""Where solvers measure: one device, and an account of every circuit, shot and second that it took."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .circuits import ParametricCircuit
from .devices import Device

__all__ = ["Account", "Laboratory", "open_account"]

#: What a solver's state keeps of its measurements, as plain data that a checkpoint holds: ``circuits``, ``shots``,
#: ``device_time_s``, ``job_ids`` (the last ones), and ``rng``, the state of the generator that draws the seeds.
Account = dict[str, Any]

#: Job ids kept in an account.
JOBS_KEPT = 10


def open_account(rng: np.random.Generator) -> Account:
    """An account of nothing yet."""
    return {"circuits": 0, "shots": 0, "device_time_s": 0.0, "job_ids": [], "rng": dict(rng.bit_generator.state)}


class Laboratory:
    """Runs circuits on a device and books them.

    Parameters
    ----------
    device : Device
    tag : str
        Label of the jobs, such as the solver's name.
    """

    def __init__(self, device: Device, tag: str) -> None:
        self.device, self.tag = device, tag

    def measure(
        self, account: Account, circuit: ParametricCircuit, theta: ArrayLike, shots: int | None
    ) -> tuple[NDArray, Account]:
        """One batch: its distributions, little-endian, and the account with the batch booked.

        Parameters
        ----------
        account : Account
            Left as it is.
        theta : array of shape (P,), or (k, P) for k circuits
        shots : int or None
            Of each circuit; None for exact distributions.

        Returns
        -------
        distributions : array of shape (2^q,) or (k, 2^q)
        account : Account
        """
        rng = _generator(account["rng"])
        seed = int(rng.integers(2**31))
        begun = time.monotonic()
        job = self.device.submit(circuit, theta, shots, tag=f"{self.tag} {account['circuits']}", seed=seed)
        readout = job.result().ordered("little")
        circuits = 1 if readout.probabilities.ndim == 1 else len(readout.probabilities)
        booked = {
            "circuits": account["circuits"] + circuits,
            "shots": account["shots"] + circuits * (readout.shots or 0),
            "device_time_s": account["device_time_s"] + time.monotonic() - begun,
            "job_ids": [*account["job_ids"], job.job_id][-JOBS_KEPT:],
            "rng": dict(rng.bit_generator.state),
        }
        return readout.probabilities, account | booked

    def cost(self, account: Account, circuit: ParametricCircuit) -> dict[str, float | int | None]:
        """The fields of `Cost` an account and its largest circuit fill."""
        resources = self.device.resources(circuit)
        return {
            "circuits": account["circuits"],
            "shots": account["shots"],
            "device_time_s": account["device_time_s"],
            "qubits": resources.qubits,
            "depth": resources.depth,
            "two_qubit_gates": resources.two_qubit_gates,
            "success_probability": None,
        }


def _generator(state: dict[str, Any]) -> np.random.Generator:
    bit_generator = getattr(np.random, state["bit_generator"])()
    bit_generator.state = dict(state)
    return np.random.Generator(bit_generator)
