"""Devices that hang, raise or return wrong data: the limit and the state are kept, the error is a `DeviceError`."""

import os
import sys
import threading
import time
import warnings
from types import ModuleType

import numpy as np
import pytest

import dualflow
from dualflow import Device, DeviceError, Status
from dualflow.core.runtime import clock
from dualflow.quantum.circuits import TreeCircuit
from dualflow.quantum.devices import Capabilities, Job, Readout, make_device
from dualflow.quantum.devices.emulator import EmulatorDevice
from dualflow.quantum.devices.guard import Guard, import_packages
from dualflow.quantum.runs.laboratory import Account, Laboratory
from tests.combinations import covering, often

CIRCUIT, THETA = TreeCircuit(3), np.random.default_rng(4).uniform(0.2, 2.0, (2, 7))
#: Seconds of a hang. A limit is kept to within a second; four are allowed on a busy machine.
HANG_S, LIMIT_S, SLACK_S = 12.0, 1.0, 4.0
RUN = {"shots": 200, "steps": 30, "random_state": 1, "tol": 1e-300}


def posed():
    X = np.random.default_rng(0).normal(size=(8, 2))
    return dualflow.problems.svdd(dualflow.Gram(X, gamma=0.5))


class Trouble:
    """A fault of call number ``on``: it hangs or raises; with kind=None all calls succeed."""

    released = threading.Event()

    def __init__(self, kind=None, on=3):
        self.kind, self.on, self.calls = kind, on, 0

    def __deepcopy__(self, memo):
        return self

    def __call__(self):
        self.calls += 1
        if self.calls != self.on:
            return
        if self.kind == "hangs":
            self.released.wait(HANG_S)
        elif self.kind is not None:
            raise self.kind


@pytest.fixture(scope="module", autouse=True)
def loaded():
    """Import all packages first, so that their import does not count as a hang."""
    dualflow.solve(posed(), "variational-flow", device=Own(Trouble()), max_steps=1)


@pytest.fixture(autouse=True)
def no_thread_hangs_on():
    Trouble.released.clear()
    yield
    Trouble.released.set()


def backend(trouble, late=False):
    """A BackendV2 with a fault when a job is sent, or, with ``late``, when the result is requested."""
    from qiskit.providers.fake_provider import GenericBackendV2

    class Theirs(GenericBackendV2):
        def run(self, *arguments, **options):
            job = super().run(*arguments, **options)
            if not late:
                trouble()
                return job
            real = job.result
            job.result = lambda: trouble() or real()
            return job

    return Theirs(3, seed=1)


def late_backend(trouble):
    return backend(trouble, late=True)


def sampler(trouble):
    from qiskit.primitives import StatevectorSampler

    class Theirs(StatevectorSampler):
        def run(self, *arguments, **options):
            trouble()
            return super().run(*arguments, **options)

    return Theirs(seed=3)


def pennylane(trouble):
    kind = type(pytest.importorskip("pennylane").device("default.qubit"))

    class Theirs(kind):
        def execute(self, *arguments, **options):
            trouble()
            return super().execute(*arguments, **options)

    return Theirs(wires=3, seed=3)


def aer(trouble):
    from qiskit_aer import AerSimulator

    class Theirs(AerSimulator):
        def run(self, *arguments, **options):
            trouble()
            return super().run(*arguments, **options)

    return Theirs()


class Own(EmulatorDevice):
    name = "own"

    def __init__(self, trouble):
        super().__init__()
        self.trouble = trouble

    def _run(self, *arguments):
        self.trouble()
        return super()._run(*arguments)


class OwnJob(Job):
    def __init__(self, inner, trouble):
        self.inner, self.trouble, self.job_id, self.tag = inner, trouble, inner.job_id, inner.tag

    def done(self):
        return True

    def result(self):
        self.trouble()
        return self.inner.result()


class OwnOfJobs(EmulatorDevice):
    """A remote device whose jobs have a fault."""

    name, remote = "own of jobs", True

    def __init__(self, trouble):
        super().__init__()
        self.trouble = trouble

    def _submit(self, *arguments):
        return OwnJob(super()._submit(*arguments), self.trouble)


MAKERS = {
    "a backend": backend,
    "a backend's job": late_backend,
    "a sampler": sampler,
    "a simulator of Aer": aer,
    "a device of PennyLane": pennylane,
    "a device of one's own": Own,
    "a job of one's own": OwnOfJobs,
}


# --- hanging -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("maker", often(MAKERS, "a backend's job", "a device of one's own"))
def test_a_limit_is_kept_on_a_device_that_hangs(maker):
    whole = dualflow.solve(
        posed(), "variational-flow", device=MAKERS[maker](Trouble()), trajectory=True, max_steps=2, **RUN
    )
    device = make_device(MAKERS[maker](Trouble("hangs", on=5)))
    dualflow.solve(posed(), "variational-flow", device=device, max_steps=1, **RUN)  # it has compiled
    begun = time.monotonic()
    found = dualflow.solve(posed(), "variational-flow", device=device, time_limit=LIMIT_S, **RUN)
    assert time.monotonic() - begun < LIMIT_S + SLACK_S
    assert found.status is Status.TIME_LIMIT
    assert found.cost.steps == 1
    np.testing.assert_array_equal(found.raw_alpha, whole.trajectory.alpha[1])
    assert "had not answered when the time was over; its later result is dropped" in found.provenance["device_error"]


@pytest.mark.slow
def test_an_estimator_keeps_its_limit_too():
    X = np.random.default_rng(0).normal(size=(8, 2))
    y = np.where(np.arange(8) % 2 == 0, 1, -1)
    options = {"device": Own(Trouble("hangs")), "shots": 200, "steps": 30}
    model = dualflow.SVC(
        loss="squared_hinge", solver="variational-flow", solver_options=options, time_limit=LIMIT_S, refine=False
    )
    begun = time.monotonic()
    with pytest.warns(UserWarning, match="time limit"):
        model.fit(X, y)
    assert time.monotonic() - begun < LIMIT_S + SLACK_S


@pytest.mark.parametrize("name", often(["resources", "price", "check", "wants_check"], "resources", "check"))
def test_a_limit_is_kept_where_a_device_hangs_before_or_after_its_jobs(name):
    class Hanging(EmulatorDevice):
        name = "hanging"

    setattr(Hanging, name, lambda self, *arguments: Trouble.released.wait(HANG_S))
    begun = time.monotonic()
    found = dualflow.solve(posed(), "variational-flow", device=Hanging(), time_limit=LIMIT_S, **RUN)
    assert time.monotonic() - begun < LIMIT_S + SLACK_S
    assert found.cost.depth > 0 or name != "resources"
    assert ("resources" in found.provenance) == (name == "resources")


def test_a_kernel_of_a_device_that_hangs_ends_with_the_time():
    kernel = dualflow.FidelityKernel("angle", device=Own(Trouble("hangs", on=2)), shots=50)
    X = np.random.default_rng(0).uniform(size=(4, 2))
    kernel(X[:2], X[:2])
    begun = time.monotonic()
    with clock.within(time.monotonic() + 0.3), pytest.raises(clock.OutOfTime, match="device 'own' had not answered"):
        kernel(X, X)
    assert time.monotonic() - begun < SLACK_S


def test_a_call_that_notices_the_deadline_before_its_caller_names_its_device():
    def late():
        raise clock.OutOfTime

    with pytest.raises(clock.OutOfTime, match="device 'it' had not answered"):
        Guard("it").call("failed", late)


def test_a_late_result_is_dropped_and_the_next_call_succeeds():
    device = Own(Trouble("hangs", on=1))
    lab = Laboratory(device, "late")
    account = Account.opened(np.random.default_rng(0))
    with clock.within(time.monotonic() + 0.2), pytest.raises(clock.OutOfTime):
        lab.measure(account, CIRCUIT, THETA, None)
    Trouble.released.set()
    found, after = lab.measure(account, CIRCUIT, THETA, None)
    np.testing.assert_array_equal(found, CIRCUIT.distribution(THETA))
    assert after.circuits == 2


def test_ctrl_c_does_not_wait_for_a_device_that_hangs():
    import _thread

    lab = Laboratory(Own(Trouble("hangs", on=1)), "interrupted")
    threading.Timer(0.3, _thread.interrupt_main).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        lab.measure(Account.opened(np.random.default_rng(0)), CIRCUIT, THETA, None)
    assert time.monotonic() - begun < SLACK_S


def test_a_keyboard_interrupt_of_a_device_is_not_a_device_error():
    with pytest.raises(KeyboardInterrupt):
        Laboratory(Own(Trouble(KeyboardInterrupt(), on=1)), "x").measure(
            Account.opened(np.random.default_rng(0)), CIRCUIT, THETA, None
        )


def test_work_in_the_thread_is_interrupted():
    ended = threading.Event()

    def looking():
        try:
            while True:
                clock.check_time()
                time.sleep(0.01)
        finally:
            ended.set()

    with clock.within(time.monotonic() + 0.2), pytest.raises(clock.OutOfTime):
        Guard("it").call("failed", looking)
    assert ended.wait(1.0)


# --- raising -----------------------------------------------------------------------------------------

ERRORS = [ValueError("no such angle"), IndexError("list index"), RuntimeError("the fridge is warm"), KeyError("x")]


@pytest.mark.parametrize(("maker", "error"), covering(list(MAKERS), ERRORS, together=1))
def test_what_a_device_raises_is_a_device_error_and_the_state_is_kept(maker, error):
    whole = dualflow.solve(
        posed(), "variational-flow", device=MAKERS[maker](Trouble()), trajectory=True, max_steps=2, **RUN
    )
    found = dualflow.solve(posed(), "variational-flow", device=MAKERS[maker](Trouble(error)), **RUN)
    assert found.status is Status.DEVICE_FAILED
    np.testing.assert_array_equal(found.raw_alpha, whole.trajectory.alpha[1])
    assert f"{type(error).__name__}: {error}" in found.provenance["device_error"]
    with pytest.raises(DeviceError) as caught:
        dualflow.solve(posed(), "variational-flow", device=MAKERS[maker](Trouble(error, on=1)), **RUN)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("maker", MAKERS)
def test_a_kernels_device_that_raises(maker):
    X = np.random.default_rng(0).uniform(size=(3, 3))
    kernel = dualflow.FidelityKernel("angle", device=MAKERS[maker](Trouble(ERRORS[0], on=1)), shots=50)
    with pytest.raises(DeviceError, match="no such angle") as caught:
        kernel(X, X)
    assert caught.value.__cause__ is ERRORS[0]


@pytest.mark.parametrize(
    "name", ["resources", "price", "check", "wants_check", "capabilities", "limits", "configuration"]
)
def test_any_other_call_that_raises(name, tmp_path):
    class Raising(EmulatorDevice):
        name = "raising"

    def broken(self, *arguments):
        raise ValueError("what is that")

    plain = name in ("capabilities", "limits", "configuration")
    setattr(Raising, name, property(broken) if plain else broken)
    if name == "resources":
        found = dualflow.solve(posed(), "variational-flow", device=Raising(), max_steps=2, **RUN)
        assert found.cost.depth > 0
        assert "what is that" in found.provenance["resources"]
        return
    with pytest.raises(DeviceError, match="what is that"):
        dualflow.solve(posed(), "variational-flow", device=Raising(), journal=tmp_path / "jobs.db", **RUN)


@pytest.mark.parametrize("name", ["resources", "price", "check"])
def test_an_estimate_on_a_device_that_raises(name):
    class Raising(EmulatorDevice):
        name = "raising"

    setattr(Raising, name, lambda self, *arguments: [][1])
    with pytest.raises(DeviceError, match="IndexError"):
        dualflow.estimate(posed(), "variational-flow", Raising(), shots=200, steps=3)


def test_a_backend_that_raises_when_its_type_is_checked():
    class Mute(type(backend(Trouble()))):
        num_qubits = property(lambda self: [][1])

    with pytest.raises(DeviceError, match="'Mute' raised an error when its type was checked"):
        make_device(Mute.__new__(Mute))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_of_a_fork_uses_a_device_that_a_thread_of_its_parents_hangs_in():
    device = Own(Trouble("hangs", on=1))
    lab = Laboratory(device, "x")
    account = Account.opened(np.random.default_rng(0))
    with clock.within(time.monotonic() + 0.2), pytest.raises(clock.OutOfTime):
        lab.measure(account, CIRCUIT, THETA, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, on forks beside threads
        child = os.fork()
    if child == 0:  # pragma: no cover - another process
        with clock.within(time.monotonic() + 5.0):
            found, _ = lab.measure(account, CIRCUIT, THETA, None)
        os._exit(0 if np.array_equal(found, CIRCUIT.distribution(THETA)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# --- wrong data --------------------------------------------------------------------------------------


class Lying(Device):
    """A device that returns the given read-out."""

    name, capabilities = "lying", Capabilities(exact=True, sampled=True, noisy=False, qubits=24)

    def __init__(self, lie):
        self.lie = lie

    def _submit(self, circuit, values, shots, tag, seed):
        honest = EmulatorDevice().submit(circuit, values, shots, tag, seed)
        outer = self

        class Answer(Job):
            job_id, tag = honest.job_id, honest.tag

            def done(self):
                return True

            def result(self):
                return outer.lie(honest.result())

        return Answer()


def changed(readout, **fields):
    names = ("probabilities", "counts", "shots", "bit_order", "job_id")
    return Readout(**({name: getattr(readout, name) for name in names} | fields))


LIES = {
    "nothing": (lambda r: None, "NoneType where a Readout is due"),
    "a list": (lambda r: [1, 2], "list where a Readout is due"),
    "words": (lambda r: changed(r, probabilities=np.array(["a"] * 8)), "probabilities of type <U1"),
    "a number": (lambda r: changed(r, probabilities=np.float64(1.0)), "1 outcomes where 3 qubits have 8"),
    "no array": (lambda r: changed(r, probabilities=[[1.0], [1.0, 2.0]]), "no array of numbers"),
    "complex numbers": (lambda r: changed(r, probabilities=r.probabilities + 0j), "of type complex128"),
    "two rows": (lambda r: changed(r, probabilities=np.tile(r.probabilities, (2, 1))), "2 circuits where 1 were sent"),
    "two rows of counts": (lambda r: changed(r, counts=np.tile(r.counts, (2, 1))), "2 circuits where 1 were sent"),
    "counts lying down": (lambda r: changed(r, counts=r.counts.reshape(8, 1)), "1 outcomes where 3 qubits have 8"),
    "another order": (lambda r: changed(r, bit_order="middle"), "bit_order='middle'"),
    "other counts": (lambda r: changed(r, counts=r.counts[..., ::-1]), "no|not its counts by its shots"),
    "frequencies": (
        lambda r: changed(r, counts=None, probabilities=np.full(8, 0.125) + 0.001 * np.array([1, -1] * 4)),
        "no whole numbers",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_device_that_returns_wrong_data(lie):
    change, message = LIES[lie]
    device = Lying(lambda readout: change(readout))
    with pytest.raises(DeviceError, match=message):
        Laboratory(device, "x").measure(Account.opened(np.random.default_rng(0)), CIRCUIT, THETA[0], 200)
    results = []
    late = Lying(lambda readout: results.append(1) or (change(readout) if len(results) > 2 else readout))
    found = dualflow.solve(posed(), "variational-flow", device=late, **RUN)
    assert (found.status, found.cost.steps) == (Status.DEVICE_FAILED, 1)


def test_frequencies_alone_are_counts():
    device = Lying(lambda readout: changed(readout, counts=None))
    lab, account = Laboratory(device, "x"), Account.opened(np.random.default_rng(0))
    plain = Laboratory(EmulatorDevice(), "x")
    np.testing.assert_array_equal(
        lab.measure(account, CIRCUIT, THETA, 200)[0], plain.measure(account, CIRCUIT, THETA, 200)[0]
    )


@pytest.mark.parametrize("shots", [None, 50])
def test_samples_of_double_width_are_not_reshaped(shots):
    qml = pytest.importorskip("pennylane")

    class Wide(type(qml.device("default.qubit"))):
        def execute(self, circuits, *arguments, **options):
            found = super().execute(circuits, *arguments, **options)
            return [np.concatenate([np.asarray(one)] * 2, axis=-1) for one in found]

    for theta in (THETA, THETA[0]):
        with pytest.raises(DeviceError, match=r"an array of shape .* was requested; nothing of it is used"):
            make_device(Wide(wires=3)).submit(CIRCUIT, theta, shots, seed=1)


def test_a_binding_sent_and_two_rows_back():
    class Twice(EmulatorDevice):
        name = "twice"

        def _run(self, circuit, values, shots, seed):
            return super()._run(circuit, np.tile(np.asarray(values), (2, 1)), shots, seed)

    for shots in (None, 50):
        with pytest.raises(DeviceError, match="2 circuits where 1 were sent"):
            Twice().submit(CIRCUIT, THETA[0], shots, seed=1)


def test_submit_must_return_a_job():
    class Nothing(EmulatorDevice):
        name = "nothing"

        def _submit(self, *arguments):
            return None

    with pytest.raises(DeviceError, match="NoneType where a Job with a job_id is due"):
        Laboratory(Nothing(), "x").measure(Account.opened(np.random.default_rng(0)), CIRCUIT, THETA, None)


def test_a_limit_is_kept_where_a_circuit_takes_long_to_be_built(monkeypatch):
    """Gates are counted after the run, on a circuit that the emulator does not build."""
    monkeypatch.setattr(TreeCircuit, "_build", lambda self: Trouble.released.wait(HANG_S))
    begun = time.monotonic()
    found = dualflow.solve(posed(), "variational-flow", device="emulator", time_limit=LIMIT_S, **RUN)
    assert time.monotonic() - begun < LIMIT_S + SLACK_S
    assert (found.cost.qubits, found.cost.depth, found.cost.two_qubit_gates) == (3, 0, 0)
    assert "not counted: the time was over" in found.provenance["resources"]


def test_an_import_is_waited_for_no_longer_than_the_limit(monkeypatch, tmp_path):
    (tmp_path / "dualflow_slow_import.py").write_text("from slow_gate import _")
    gate = ModuleType("slow_gate")
    gate.__getattr__ = lambda name: Trouble.released.wait(HANG_S)
    monkeypatch.setitem(sys.modules, "slow_gate", gate)
    monkeypatch.syspath_prepend(tmp_path)
    begun = time.monotonic()
    with pytest.raises(clock.OutOfTime), clock.within(begun + 0.3):
        import_packages(["dualflow_slow_import"])
    assert time.monotonic() - begun < SLACK_S
    begun = time.monotonic()
    with pytest.raises(clock.OutOfTime), clock.within(begun + 0.3):  # half of a package is not taken for all of it
        import_packages(["dualflow_slow_import"])
    assert time.monotonic() - begun < SLACK_S
    Trouble.released.set()
    import_packages(["dualflow_slow_import"])
    assert "dualflow_slow_import" in sys.modules
    del sys.modules["dualflow_slow_import"]


def test_the_gates_of_a_device_that_hangs_are_not_requested():
    device = Own(Trouble("hangs"))
    requested = []
    device.resources = lambda circuit: requested.append(circuit) or EmulatorDevice.resources(device, circuit)
    found = dualflow.solve(posed(), "variational-flow", device=device, time_limit=LIMIT_S, **RUN)
    assert found.status is Status.TIME_LIMIT
    assert not requested
    assert found.cost.depth > 0
    assert "as it was built" in found.provenance["resources"]
