"""Devices that refuse, fail, cancel, time out, die or are noise-dominated: what a run keeps and how it continues."""

import dataclasses
import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import make_moons

import dualflow
from dualflow import Checkpoint, DeviceError, ProblemError, SolverMismatch, Status, VariationalFlow
from dualflow.quantum.devices import Capabilities, Job, Noise
from dualflow.quantum.devices.aer import AerDevice
from dualflow.quantum.devices.emulator import EmulatorDevice
from dualflow.quantum.runs.journal import read_journal
from dualflow.quantum.runs.laboratory import is_distinct_from_uniform, is_uniform
from dualflow.quantum.solvers.ansatz import ANSAETZE

OPTIONS = {"shots": 300, "steps": 6}


def moons(n=12, C=10.0):
    X, y = make_moons(n, noise=0.15, random_state=0)
    return dualflow.problems.svc(dualflow.Gram(X, gamma=1.0), 2 * y - 1, C, loss="squared_hinge")


class RemoteJob(Job):
    """A job of `Remote`: its read-out, and the fault that prevents its delivery."""

    poll_s, timeout_s = 0.0, 0.0

    def __init__(self, inner, trouble):
        self.inner, self.trouble = inner, trouble
        self.job_id, self.tag = inner.job_id, inner.tag

    def done(self):
        return self.trouble not in ("times out", "times out again and again")

    def status(self):
        return {"fails": "failed", "is cancelled": "cancelled"}.get(self.trouble) or super().status()

    def result(self):
        if not self.done():
            # At the next request it is ready.
            self.trouble = None if self.trouble == "times out" else self.trouble
            raise DeviceError(f"job {self.job_id} was not done after 60 s")
        if self.trouble == "kills us":
            self.trouble = None
            raise SystemExit("the process was killed while it waited")
        if self.trouble in ("fails", "is cancelled"):
            raise DeviceError(f"job {self.job_id} {self.trouble}")
        return self.inner.result()


class Remote(EmulatorDevice):
    """A remote device: it keeps its jobs when this process dies, and job number ``on`` has a fault.

    ``ran`` counts the circuits it really ran.
    """

    name, remote, emulated = "remote", True, False
    configuration = {}  # noqa: RUF012 - in whatever trouble, it is the same machine

    def __init__(self, trouble=None, on=3):
        super().__init__()
        self.trouble, self.on, self.ran, self.sent, self.kept = trouble, on, 0, 0, {}

    def _submit(self, circuit, values, shots, tag, seed):
        self.sent += 1
        now = self.trouble if self.sent == self.on else None
        if now == "is lost":
            raise DeviceError("the device cannot be reached")
        self.ran += len(np.atleast_2d(values))
        job = RemoteJob(super()._submit(circuit, values, shots, "", seed), now)  # the same id, whatever the tag
        self.kept[job.job_id] = job
        return job

    def fetch(self, job_id):
        if job_id not in self.kept:
            raise DeviceError(f"device 'remote' does not know job {job_id!r}")
        return self.kept[job_id]


def run(device, tmp_path=None, journaled=True, **options):
    """A recorded run, with a checkpoint after every step and a journal if there is a folder for them."""
    files = {}
    if tmp_path is not None:
        files["checkpoint"] = Checkpoint(tmp_path / "run.npz", interval_s=0)
        if journaled:
            files["journal"] = tmp_path / "jobs.db"
    return dualflow.solve(
        moons(), "variational-flow", device=device, random_state=1, trajectory=True, **(OPTIONS | files | options)
    )


def same_run(ours, theirs):
    np.testing.assert_array_equal(ours.raw_alpha, theirs.raw_alpha)
    for f in dataclasses.fields(ours.trajectory):
        np.testing.assert_array_equal(getattr(ours.trajectory, f.name), getattr(theirs.trajectory, f.name))
    assert ours.raw_status is theirs.raw_status
    assert (ours.cost.circuits, ours.cost.shots) == (theirs.cost.circuits, theirs.cost.shots)
    assert ours.provenance["job_ids"] == theirs.provenance["job_ids"]


TROUBLES = {"is lost": "cannot be reached", "fails": "fails", "is cancelled": "cancelled", "times out": "after 60 s"}


@pytest.mark.parametrize("journal", [True, False], ids=["journal", "no journal"])
@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_run_in_trouble_is_kept_and_goes_on_to_the_same_bits(tmp_path, trouble, journal):
    undisturbed = Remote()
    whole = run(undisturbed)
    device = Remote(trouble)
    kept = run(device, tmp_path, journal)
    assert kept.status is kept.raw_status is Status.DEVICE_FAILED
    assert TROUBLES[trouble] in kept.provenance["device_error"]
    assert kept.cost.steps == 1  # job 3 was the second step's
    np.testing.assert_array_equal(kept.raw_alpha, whole.trajectory.alpha[1])
    assert kept.raw_certificate.relative_gap is not None
    rest = run(device, tmp_path, journal)
    same_run(rest, whole)
    assert "device_error" not in rest.provenance
    # A job that only took long is continued if it is in the journal; other jobs run again.
    again = {"is lost": 0, "times out": 0 if journal else 1}.get(trouble, 1)
    assert device.ran == undisturbed.ran + again
    if journal:
        records = read_journal(tmp_path / "jobs.db")
        failed = [record for record in records if record.state != "done"]
        assert len(failed) == len(records) - undisturbed.sent == (trouble != "times out")
        state = "not sent" if trouble == "is lost" else "failed"
        assert all(record.state == state and TROUBLES[trouble] in record.note for record in failed)


def test_a_process_killed_while_it_waits_finds_its_job_again(tmp_path):
    undisturbed = Remote()
    whole = run(undisturbed)
    device = Remote("kills us")
    with pytest.raises(SystemExit):
        run(device, tmp_path)
    assert [record.state for record in read_journal(tmp_path / "jobs.db")] == ["done", "done", "sent"]
    same_run(run(device, tmp_path), whole)
    assert (device.ran, device.sent) == (undisturbed.ran, undisturbed.sent)


def test_a_journal_alone_gives_every_job_back(tmp_path):
    device, file = Remote(), tmp_path / "jobs.db"
    whole = run(device, journal=file)
    ran, records = device.ran, read_journal(file)
    same_run(run(device, journal=file), whole)
    # The device of another process has none of these jobs: the results are in the file.
    same_run(run(Remote("is lost", on=1), journal=file), whole)
    assert device.ran == ran
    assert read_journal(file) == records
    # A run with another seed has no jobs in the journal.
    dualflow.solve(moons(), "variational-flow", device=device, random_state=2, journal=file, **OPTIONS)
    assert device.ran == 2 * ran
    assert read_journal(file)[: len(records)] == records


def test_jobs_the_device_has_lost_are_sent_again_with_resend(tmp_path):
    device = Remote("times out")
    run(device, tmp_path)
    whole, forgetful = run(Remote()), Remote()
    stopped = run(forgetful, tmp_path)
    assert stopped.status is Status.DEVICE_FAILED
    assert "does not know job" in stopped.provenance["device_error"]
    assert "resend=True" in stopped.provenance["device_error"]
    assert forgetful.sent == 0
    same_run(run(forgetful, tmp_path, resend=True), whole)
    assert forgetful.ran == 7 - 2  # of seven jobs two are in the checkpoint


def test_a_job_without_end_is_not_paid_twice(tmp_path):
    device = Remote("times out again and again")
    for _ in range(3):
        assert run(device, tmp_path).status is Status.DEVICE_FAILED
        assert device.sent == 3
    device.kept[read_journal(tmp_path / "jobs.db")[-1].job_id].trouble = None
    same_run(run(device, tmp_path), run(Remote()))
    assert device.sent == 7


def test_a_job_that_fails_again_ends_the_run_again(tmp_path):
    run(Remote("fails"), tmp_path)
    second = Remote("fails", on=1)
    assert run(second, tmp_path).status is Status.DEVICE_FAILED
    assert run(second, tmp_path).status is Status.FINISHED


def test_an_error_at_the_start_is_raised(tmp_path):
    with pytest.raises(DeviceError, match="cannot be reached"):
        run(Remote("is lost", on=1), tmp_path)
    with pytest.raises(DeviceError, match=r"job .* fails"):
        run(Remote("fails", on=1), tmp_path)
    lost, failed = read_journal(tmp_path / "jobs.db")
    assert (lost.state, failed.state) == ("not sent", "failed")
    assert "fails" in failed.note
    assert not (tmp_path / "run.npz").exists()


@pytest.mark.parametrize("ansatz", ANSAETZE)
@pytest.mark.parametrize("shots", [200, None])
def test_resuming_runs_no_circuit_twice(tmp_path, ansatz, shots):
    solver = VariationalFlow(Remote(), shots, ansatz=ansatz, steps=6)
    whole = dualflow.solve(moons(), solver, max_steps=6)
    device = Remote()
    solver = dataclasses.replace(solver, device=device)
    for steps in (2, 4, 6):
        part = dualflow.solve(moons(), solver, max_steps=steps, checkpoint=tmp_path / "run.npz")
        assert device.ran == part.cost.circuits
    np.testing.assert_array_equal(part.raw_alpha, whole.raw_alpha)
    assert (part.cost.circuits, part.cost.shots) == (whole.cost.circuits, whole.cost.shots)


def test_an_estimator_says_that_its_device_failed():
    X, y = make_moons(12, noise=0.15, random_state=0)
    options = {"device": Remote("fails"), **OPTIONS}
    with pytest.warns(UserWarning, match="device failed, or lost its job"):
        model = dualflow.SVC(
            C=10.0, gamma=1.0, loss="squared_hinge", solver="variational-flow", solver_options=options
        ).fit(X, y)
    assert model.solution_.status is Status.DEVICE_FAILED
    assert np.isfinite(model.decision_function(X)).all()


# --- noise -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::dualflow.FidelityWarning")
@pytest.mark.parametrize("ansatz", ANSAETZE)
@pytest.mark.parametrize("device", ["null", AerDevice(Noise(0.7, 0.0))], ids=["null", "depolarised"])
def test_a_uniform_state_is_noise_dominated(device, ansatz):
    solver = VariationalFlow(device, 1000, ansatz=ansatz, steps=10)
    solution = dualflow.solve(moons(16), solver)
    assert solution.raw_status is solution.status is Status.NOISE_DOMINATED
    refined = dualflow.solve(moons(16), solver, refine=True)
    assert (refined.raw_status, refined.status) == (Status.NOISE_DOMINATED, Status.OPTIMAL)


@pytest.mark.parametrize("device", ["classical-sampler", "aer:noisy"])
def test_usual_noise_is_not_noise_dominated(device):
    for seed in range(5):
        solution = dualflow.solve(moons(16), "variational-flow", device=device, random_state=seed, **OPTIONS)
        assert solution.raw_status is Status.FINISHED


def test_a_uniform_optimum_is_not_noise_dominated():
    problem = dualflow.problems.svdd(dualflow.Gram(np.eye(8), gamma=1.0))
    solution = dualflow.solve(problem, "variational-flow", device="classical-sampler", shots=500, steps=10)
    assert is_uniform(solution.raw_alpha, 500)
    assert solution.raw_status is Status.FINISHED


def test_exact_uniform_distributions_are_noise_dominated_too():
    solution = dualflow.solve(moons(16), "variational-flow", device="null", ansatz="hardware-efficient", max_steps=5)
    assert solution.raw_status is Status.NOISE_DOMINATED


@pytest.mark.parametrize("draws", [4000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_rates_of_the_uniformity_test(draws):
    rng = np.random.default_rng(0)
    uniform = rng.multinomial(500, np.full(16, 1 / 16), draws) / 500
    alarms = sum(not is_uniform(row, 500) for row in uniform)
    assert abs(alarms - 1e-3 * draws) < 5 * np.sqrt(1e-3 * draws)
    tilted = np.linspace(0.5, 1.5, 16) / 16
    is_distinct = [is_distinct_from_uniform(tilted, shots) for shots in (100, 500, 2000)]
    assert is_distinct == [False, False, True]
    # With 500 shots the share that passes is the predicted one: Pearson's statistic follows the noncentral χ².
    passed = sum(is_uniform(row, 500) for row in rng.multinomial(500, tilted, draws) / 500) / draws
    assert 0.01 < passed < 0.5
    assert not any(is_uniform(row, 2000) for row in rng.multinomial(2000, tilted, draws) / 2000)


# --- the quantum row of hostile inputs -----------------------------------------------------------


@pytest.mark.parametrize(
    ("ansatz", "said"),
    [
        ("tree", "12 variables padded with 4 leaves of probability 0 to 16"),
        ("hardware-efficient", "4 of 16 outcomes shared: outcome i counts for variable i mod 12"),
    ],
)
def test_padding_is_reported(ansatz, said):
    solution = dualflow.solve(moons(12), "variational-flow", device="emulator", ansatz=ansatz, max_steps=2)
    assert solution.provenance["padding"] == said
    assert solution.provenance["padded_size"] == 16
    assert solution.raw_alpha.shape == (12,)
    assert solution.raw_alpha.sum() == pytest.approx(1.0)


def test_too_many_points_name_the_number_and_a_suitable_solver():
    with pytest.raises(SolverMismatch, match="at most 65536 variables, the problem has 65537; try 'working-set'"):
        dualflow.solve(moons(65537), "variational-flow", device="emulator")
    with pytest.raises(SolverMismatch, match=r"at most 1600 angles, and 2000 variables need .*'working-set'"):
        dualflow.solve(moons(2000), "variational-flow", device="emulator", ansatz="hardware-efficient")


@pytest.mark.parametrize("shots", [0, -100])
@pytest.mark.parametrize("device", ["emulator", "aer:noisy", "backend:generic"])
def test_shots_that_are_none(device, shots):
    with pytest.raises(ProblemError, match=f"shots={shots} must be an integer ≥ 1"):
        dualflow.solve(moons(), "variational-flow", device=device, shots=shots)


# --- a comparison ------------------------------------------------------------------------------


def test_a_comparison_shows_noisy_failed_and_noise_dominated_rows(tmp_path):
    X, y = make_moons(16, noise=0.15, random_state=0)
    failing = VariationalFlow(Remote("fails", on=5), 200, steps=6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        comparison = dualflow.compare(
            X,
            y,
            "squared_hinge",
            ["working-set", "variational-flow", failing],
            max_n=16,
            C=10.0,
            shots=200,
            time_limit=60,
            devices=["aer:noisy", "backend:generic"],
        )
    rows = {(row.device, row.role, row.status): row for row in comparison.rows}
    noisy, generic = rows["aer:noisy", "quantum", "FINISHED"], rows["backend:generic", "quantum", "FINISHED"]
    assert noisy.shots == generic.shots == 41 * 200
    assert generic.depth > noisy.depth
    failed = rows["remote", "quantum", "DEVICE_FAILED"]
    assert "fails" in failed.note
    uniform = rows["null", "control", "NOISE_DOMINATED"]
    assert uniform.rank is None
    text = comparison.table()
    assert "dominated" in text
    assert re.search(r"failed \[\d\]", text)
    assert "device" in text
    comparison.to_html(tmp_path / "report.html")
    assert "device failed" in (tmp_path / "report.html").read_text()


def test_remote_is_a_device():
    assert Remote().capabilities == Capabilities(exact=True, sampled=True, noisy=False, qubits=24)
