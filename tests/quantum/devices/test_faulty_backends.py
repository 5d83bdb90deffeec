"""Backends and samplers that return other data than requested: results are right, or the error names the fault."""

import copy

import numpy as np
import pytest

import dualflow
from dualflow import DeviceError
from dualflow.quantum.circuits import HardwareEfficientCircuit, TreeCircuit
from dualflow.quantum.devices import Readout, make_device
from dualflow.quantum.devices.backend import BackendDevice
from dualflow.quantum.devices.readouts import Request, check_readout
from dualflow.quantum.devices.sampler import SamplerDevice

CIRCUIT = TreeCircuit(3)
THETA = np.random.default_rng(0).uniform(0.6, np.pi - 0.6, (2, 7))
SHOTS = 4_000


def generic(n=3, **options):
    from qiskit.providers.fake_provider import GenericBackendV2

    return GenericBackendV2(n, noise_info=True, seed=7, **options)


class Result:
    """A result with counts only, by `get_counts`, and without memory."""

    success = True

    def __init__(self, inner, change, job_id):
        self.inner, self.change, self.job_id, self.results = inner, change, job_id, inner.results

    def get_counts(self, k):
        return self.change(dict(self.inner.get_counts(k)))


class Doctored:
    """A backend's job whose counts are changed."""

    def __init__(self, inner, change, result_id=None):
        self.inner, self.change, self.result_id = inner, change, result_id

    def job_id(self):
        return self.inner.job_id()

    def status(self):
        return self.inner.status()

    def result(self):
        return Result(self.inner.result(), self.change, self.result_id or self.job_id())


class Faulty(type(generic())):
    """A backend that never requests memory and returns changed counts."""

    change = staticmethod(lambda counts: counts)
    result_id = None

    def run(self, circuits, **options):
        options.pop("memory", None)
        return Doctored(super().run(circuits, **options), self.change, self.result_id)


def faulty(change=None, **attributes):
    backend = Faulty(3, noise_info=True, seed=7)
    if change is not None:
        backend.change = change
    for name, value in attributes.items():
        setattr(backend, name, value)
    return backend


def first(counts, **changed):
    key = next(iter(counts))
    return {**counts, key: changed["to"]}


def reverse(counts):
    return {key[::-1]: number for key, number in counts.items()}


def test_counts_alone_are_enough():
    theirs = BackendDevice(faulty()).submit(CIRCUIT, THETA, SHOTS, seed=3).result().counts
    ours = BackendDevice(generic()).submit(CIRCUIT, THETA, SHOTS, seed=3).result().counts
    np.testing.assert_array_equal(theirs, ours)
    assert (theirs > 0).all()


def test_counts_are_those_of_qiskit_own_sampler_where_that_can_read_them():
    from qiskit.primitives import BackendSamplerV2

    device = BackendDevice(generic())
    compiled, names = device.compiled(CIRCUIT), [p.name for p in CIRCUIT.build().parameters]
    columns = dict(zip(names, CIRCUIT.gate_parameters(THETA).T, strict=True))
    sampler = BackendSamplerV2(backend=generic(), options={"seed_simulator": 3})
    job = sampler.run([(compiled, {p: columns[p.name] for p in compiled.parameters}, SHOTS)])
    theirs = [job.result()[0].data.meas.get_int_counts(k) for k in range(2)]
    ours = device.submit(CIRCUIT, THETA, SHOTS, seed=3).result().counts
    for row, counts in zip(ours, theirs, strict=True):
        assert {k: int(v) for k, v in enumerate(row) if v} == counts


FAULTS = {
    "a shot too few": (lambda c: first(c, to=next(iter(c.values())) - 1), rf"{SHOTS - 1} shots where {SHOTS} were"),
    "no shots": (lambda c: dict.fromkeys(c, 0), rf"0 shots where {SHOTS} were requested"),
    "NaN": (lambda c: first(c, to=float("nan")), "counts that are infinite or NaN"),
    "negative": (lambda c: {**first(c, to=-5)}, "a negative count, -5"),
    "halves": (lambda c: first(c, to=next(iter(c.values())) + 0.5), "no whole numbers"),
    "a qubit more": (lambda c: {key + "0": n for key, n in c.items()}, "an outcome .*none of 3 qubits"),
    "no bits": (lambda c: {"xyz": SHOTS}, "a count 'xyz'"),
    "no mapping": (lambda c: [SHOTS], "counts of type list"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_wrong_counts(fault):
    change, message = FAULTS[fault]
    job = BackendDevice(faulty(change)).submit(CIRCUIT, THETA, SHOTS, seed=3)
    with pytest.raises(DeviceError, match=message) as caught:
        job.result()
    assert job.job_id in str(caught.value)
    assert caught.value.sent
    assert not caught.value.transient


def test_another_jobs_result():
    with pytest.raises(DeviceError, match="another job's result, of 0815"):
        BackendDevice(faulty(result_id="0815")).submit(CIRCUIT, THETA, SHOTS, seed=3).result()


def test_the_result_of_an_earlier_job_under_the_new_ones_id():
    class Late(Faulty):
        kept = None

        def run(self, circuits, **options):
            now = super().run(circuits, **options)
            self.kept = self.kept or now
            job = Doctored(self.kept.inner, self.change, now.job_id())
            job.job_id = now.job_id
            return job

    device = BackendDevice(Late(3, noise_info=True, seed=7))
    device.submit(CIRCUIT, THETA, SHOTS, seed=3).result()
    with pytest.raises(DeviceError, match="another job's result: circuit 0 is called"):
        device.submit(CIRCUIT, THETA + 0.1, SHOTS, seed=3).result()


def test_too_few_circuits():
    class Fewer(Faulty):
        def run(self, circuits, **options):
            return super().run(circuits[:1], **options)

    with pytest.raises(DeviceError, match="1 circuits where 2 were sent"):
        BackendDevice(Fewer(3, noise_info=True, seed=7)).submit(CIRCUIT, THETA, SHOTS).result()


def test_more_circuits_than_a_job_holds_are_not_sent():
    from dualflow.quantum.devices import Limits

    device = BackendDevice(generic())
    for limits, message in (
        (Limits(circuits=1), "takes 1 circuits in a job, found 2"),
        (Limits(shots=SHOTS - 1), f"takes {SHOTS - 1} shots a circuit"),
        (Limits(executions=2 * SHOTS - 1), "circuits × shots in a job"),
    ):
        device.limits = limits
        with pytest.raises(DeviceError, match=message) as caught:
            device.submit(CIRCUIT, THETA, SHOTS)
        assert caught.value.sent is False


def test_reversed_bits_are_found_by_the_calibration():
    for circuit in (CIRCUIT, HardwareEfficientCircuit(2, 1)):
        theta = np.ones(circuit.n_parameters)
        with pytest.raises(DeviceError, match="the bits come back in reverse order"):
            BackendDevice(faulty(reverse), check_bit_order=True).submit(circuit, theta, SHOTS)
    BackendDevice(faulty(), check_bit_order=True).submit(CIRCUIT, THETA, SHOTS).result()
    with pytest.raises(DeviceError, match="read what was prepared on qubits 1, 2, 0"):
        BackendDevice(faulty(lambda c: {key[-1] + key[:-1]: n for key, n in c.items()}), check_bit_order=True).submit(
            CIRCUIT, THETA, SHOTS
        )
    with pytest.raises(DeviceError, match="two jobs that differ in every qubit gave the same"):
        BackendDevice(faulty(lambda c: {"000": sum(c.values())}), check_bit_order=True).submit(CIRCUIT, THETA, SHOTS)


def test_noise_is_no_permutation():
    noise = np.random.default_rng(3)

    def coins(counts):
        drawn = noise.multinomial(sum(counts.values()), np.full(8, 1 / 8))
        return {f"{k:03b}": int(n) for k, n in enumerate(drawn)}

    for _ in range(5):
        with pytest.raises(DeviceError, match=r"that is noise, which shows no order|no order of the qubits explains"):
            BackendDevice(faulty(coins), check_bit_order=True).submit(CIRCUIT, THETA, SHOTS)


@pytest.mark.parametrize("errors", [(0.25, 0.25), (0.02, 0.5)])
def test_read_out_errors_are_not_a_wrong_bit_order(errors):
    chance = np.random.default_rng(3)

    def misread(counts):
        found = {}
        for key, number in counts.items():
            for _ in range(number):
                bits = "".join(str(int(bit) ^ (chance.random() < errors[int(bit)])) for bit in key)
                found[bits] = found.get(bits, 0) + 1
        return found

    BackendDevice(faulty(misread), check_bit_order=True).submit(CIRCUIT, THETA, SHOTS)


def test_a_device_that_repeats_its_first_job_is_found():
    class Repeats(Faulty):
        first = None

        def run(self, circuits, **options):
            now = super().run(circuits, **options)
            names = [circuit.name for circuit in circuits]
            kept = self.first = self.first or now.inner.result()

            class Same(type(now)):
                def result(self):
                    found = copy.deepcopy(kept)
                    found.job_id = self.job_id()
                    for experiment, name in zip(found.results, names, strict=True):
                        experiment.header = {**dict(experiment.header), "name": name}
                    return found

            return Same(now.inner, now.change, None)

    with pytest.raises(DeviceError, match="two jobs that differ in every qubit gave the same: it repeats a result"):
        BackendDevice(Repeats(3, noise_info=True, seed=7), check_bit_order=True).submit(CIRCUIT, THETA, SHOTS)


def problem():
    X = np.random.default_rng(0).normal(size=(8, 2))
    return dualflow.problems.svdd(dualflow.Gram(X, gamma=0.5))


@pytest.mark.parametrize("fault", ["a shot too few", "NaN", "no shots"])
def test_wrong_counts_make_no_model(fault):
    with pytest.raises(DeviceError, match="nothing of it is used"):
        dualflow.solve(problem(), "variational-flow", device=faulty(FAULTS[fault][0]), shots=SHOTS, steps=2)


def test_a_backend_instance_is_a_device():
    options = {"shots": 500, "steps": 2, "random_state": 1}
    by_counts = dualflow.solve(problem(), "variational-flow", device=faulty(), **options)
    plain = dualflow.solve(problem(), "variational-flow", device=generic(), **options)
    np.testing.assert_array_equal(by_counts.raw_alpha, plain.raw_alpha)
    assert plain.provenance["device"] == make_device(generic()).identity
    solver = dualflow.VariationalFlow(device=generic(), shots=500)
    assert repr(solver) == repr(dualflow.VariationalFlow(device=generic(), shots=500))  # checkpoints compare it


class Sampler:
    """A V2 sampler without base class, with the given registers."""

    def __init__(self, rename=None, drop=0, other=None, mark=None):
        from qiskit.primitives import StatevectorSampler

        self.inner, self.rename, self.drop = StatevectorSampler(seed=5), rename, drop
        self.other, self.mark = other, mark

    def run(self, pubs, *, shots=None):
        outer, job = self, self.inner.run(pubs, shots=shots - self.drop if self.drop else shots)

        class Job:
            def job_id(self):
                return "job-1"

            def status(self):
                return "DONE"

            def result(self):
                from qiskit.primitives import BitArray, DataBin, PrimitiveResult, PubResult

                (pub,) = job.result()
                bits = pub.data.meas
                array = bits.array[..., outer.drop :, :] if outer.drop else bits.array
                registers = {outer.rename or "meas": BitArray(array, bits.num_bits)}
                if outer.other:
                    registers["more"] = BitArray(array, outer.other)
                metadata = {"circuit_metadata": {"dualflow": outer.mark}} if outer.mark else pub.metadata
                return PrimitiveResult([PubResult(DataBin(**registers, shape=bits.shape), metadata)])

        return Job()


def test_a_sampler_by_duck_type_with_a_register_of_any_name():
    device = make_device(Sampler("c0"))
    counts = device.submit(CIRCUIT, THETA, SHOTS).result().counts
    for row, mean in zip(counts, SHOTS * CIRCUIT.distribution(THETA), strict=True):
        assert ((row - mean) ** 2 / mean).sum() < 7 + 5 * np.sqrt(14)
    assert device.name == "sampler:Sampler"
    one = device.submit(CIRCUIT, THETA[0], SHOTS).result()
    assert one.counts.shape == (8,)


def test_a_second_register_is_ignored_if_of_another_width_and_else_refused():
    assert SamplerDevice(Sampler(other=4)).submit(CIRCUIT, THETA, SHOTS).result().counts.sum() == 2 * SHOTS
    with pytest.raises(DeviceError, match="not one register of 3 bits but meas of 3 bits, more of 3 bits"):
        SamplerDevice(Sampler(other=3)).submit(CIRCUIT, THETA, SHOTS).result()


def test_a_sampler_that_drops_shots():
    with pytest.raises(DeviceError, match="3999 shots where 4000 were requested"):
        SamplerDevice(Sampler(drop=1)).submit(CIRCUIT, THETA, SHOTS).result()


def test_a_samplers_result_with_another_jobs_mark():
    with pytest.raises(DeviceError, match="another job's result, marked 'dfdeadbeef'"):
        SamplerDevice(Sampler(mark="dfdeadbeef")).submit(CIRCUIT, THETA, SHOTS).result()


def test_qiskits_sampler_over_backends_is_refused():
    from qiskit.primitives import BackendSamplerV2

    with pytest.raises(DeviceError, match=r"#15694.*device=sampler.backend"):
        make_device(BackendSamplerV2(backend=faulty()))
    with pytest.raises(TypeError, match=r"of type int; it must be .*BackendV2.*V2 sampler"):
        make_device(3)


def test_any_readout_can_be_checked():
    good = Readout(np.full((2, 4), 0.25), np.full((2, 4), 25), 100, "little", "a")
    request = Request(2, (2,), 100)
    assert check_readout(good, "theirs", request, "a") is not None
    one = check_readout(Readout(np.full((1, 4), 0.25), None, None, "little", "a"), "theirs", Request(2, (), None))
    assert one.probabilities.shape == (4,)
    nan, total = np.full((2, 4), np.nan), np.full((2, 4), 0.3)
    for readout, message in (
        (Readout(good.probabilities, good.counts, 100, "little", "b"), "the read-out of job b"),
        (Readout(good.probabilities, good.counts, 99, "little", "a"), "99 shots where 100"),
        (Readout(good.probabilities[:, :2], None, 100, "little", "a"), "2 outcomes where 2 qubits have 4"),
        (Readout(good.probabilities[:1], None, 100, "little", "a"), "1 circuits where 2"),
        (Readout(nan, None, 100, "little", "a"), "negative, infinite or NaN"),
        (Readout(total, None, 100, "little", "a"), "sum to 1.2"),
        (Readout(good.probabilities, good.counts - 1, 100, "little", "a"), "96 shots where 100"),
    ):
        with pytest.raises(DeviceError, match=message):
            check_readout(readout, "theirs", request, "a")


def test_a_simulator_that_is_wrong_is_found_too():
    from dualflow.quantum.devices.emulator import EmulatorDevice

    class Wrong(EmulatorDevice):
        name = "wrong"

        def _ideal(self, circuit, values):
            return super()._ideal(circuit, values) * self.factor

    device = Wrong()
    for device.factor, message in ((1.01, "sum to 1.01"), (np.nan, "NaN")):
        with pytest.raises(DeviceError, match=message):
            device.submit(CIRCUIT, THETA)
    device.factor = 1.0
    device.submit(CIRCUIT, THETA)
