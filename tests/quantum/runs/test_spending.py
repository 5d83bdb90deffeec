"""Budgets, splits, retries and waits of a laboratory on a fake cloud; and that no token is written to any file."""

import io
import itertools
import logging
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import dualflow
from dualflow import Checkpoint, DeviceError, ProblemError, Status
from dualflow.cli import app
from dualflow.core.runtime import clock
from dualflow.quantum.circuits import TreeCircuit
from dualflow.quantum.devices import Limits, Price, Readout, make_device
from dualflow.quantum.devices.emulator import EmulatorDevice
from dualflow.quantum.runs import sending
from dualflow.quantum.runs.journal import read_journal
from dualflow.quantum.runs.laboratory import Account, Laboratory
from dualflow.quantum.runs.spending import Budget
from dualflow.testing.cloud import FakeCloud, FakeCloudJob, Faults

X = np.random.default_rng(0).normal(size=(6, 2))
Y = np.where(np.arange(6) % 2 == 0, 1.0, -1.0)
THETA = np.random.default_rng(1).normal(size=(7, 3))


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(sending, "FIRST_PAUSE_S", 0.0005)


def posed():
    return dualflow.problems.svc(dualflow.Gram(X, gamma=0.7), Y, 5.0, loss="squared_hinge")


def begun():
    return Account.opened(np.random.default_rng(0))


def laboratory(folder, faults=None, limits=None, journal=True, **more):
    cloud = FakeCloud(folder / "cloud.db", faults, limits=limits)
    return Laboratory(cloud, "flow", journal=folder / "jobs.db" if journal else None, **more)


# --- budgets ---------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(
    budget=st.integers(1, 1500),
    batches=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 300)), min_size=1, max_size=4),
    circuits=st.sampled_from([None, 2]),
    most=st.sampled_from([None, 60, 100]),
    restarts=st.sets(st.integers(0, 3)),
    faults=st.sampled_from([Faults(), Faults(3, 2, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1)]),
    journal=st.booleans(),
)
def test_a_budget_is_never_exceeded_by_a_shot(budget, batches, circuits, most, restarts, faults, journal):
    with TemporaryDirectory() as name:
        folder, limits = Path(name), Limits(circuits, most)

        def opened():
            return laboratory(folder, faults, limits, journal, budget=Budget(max_shots=budget))

        lab, account = opened(), begun()
        for k, (rows, shots) in enumerate(batches):
            if k in restarts and journal:
                lab = opened()  # another process: lost jobs of the last one are in the journal only
            for _ in range(3):
                try:
                    found, account = lab.measure(account, TreeCircuit(2), THETA[:rows], shots)
                except DeviceError as error:
                    if "max_shots" in str(error):
                        before = lab.journal.spent().shots if journal else None
                        assert before is None or before + 1 > budget - rows * shots
                        break
                else:
                    assert found.shape == (rows, 4)
                    break
            assert lab.device.paid()["shots"] <= budget
            assert not journal or lab.journal.spent().shots <= budget


@pytest.mark.parametrize("journal", [True, False])
def test_a_run_ends_at_its_budget_and_a_larger_one_goes_on(tmp_path, journal):
    cloud, problem = FakeCloud(tmp_path / "cloud.db"), posed()
    options = {"shots": 100, "steps": 6, "random_state": 1}
    whole = dualflow.solve(problem, "variational-flow", device="emulator", **options)
    files = {"checkpoint": Checkpoint(tmp_path / "run.npz", interval_s=0)}
    files |= {"journal": tmp_path / "jobs.db"} if journal else {}
    for budget, spent in ((350, 300), (399, 300), (400, 400), (None, 700)):
        run = dualflow.solve(problem, "variational-flow", device=cloud, max_shots=budget, **options, **files)
        assert run.cost.shots == cloud.paid()["shots"] == spent
        if budget is not None:
            assert run.status is run.raw_status is Status.BUDGET_SPENT
            assert "budget of the run does not hold" in run.status.text
            assert f"max_shots={budget} does not hold the next batch, which takes 100" in run.provenance["device_error"]
            assert f"{spent} are spent and {budget - spent} are left" in run.provenance["device_error"]
            assert ("Without a journal only the jobs of this process" in run.provenance["device_error"]) is not journal
    np.testing.assert_array_equal(run.raw_alpha, whole.raw_alpha)


@pytest.mark.parametrize(
    ("budget", "paid"),
    [
        ({"max_cost": 0.35}, 3),
        ({"max_cost": 0.3}, 3),  # three times 0.1 is a little more than 0.3
        ({"max_cost": 0.29}, 2),
        ({"max_qpu_seconds": 4.4}, 4),  # 1.1 s a job
        ({"max_qpu_seconds": 4.39}, 3),
        ({"max_cost": 0.3, "max_shots": 250}, 2),
    ],
)
def test_seconds_and_money_are_budgets_too(tmp_path, budget, paid):
    for _ in range(3):  # whatever has been sent counts, in the processes after it too
        lab, account = laboratory(tmp_path, budget=Budget(**budget)), begun()
        for _ in range(paid):
            _, account = lab.measure(account, TreeCircuit(2), THETA[0], 100)
        with pytest.raises(DeviceError, match=r"(max_cost|max_qpu_seconds|max_shots)=.* does not hold"):
            lab.measure(account, TreeCircuit(2), THETA[0], 100)
    assert lab.device.paid()["jobs"] == paid
    assert account.cost == pytest.approx(0.1 * paid)
    assert account.qpu_seconds == pytest.approx(1.1 * paid)


def test_every_job_that_may_have_been_sent_counts(tmp_path):
    broken = Faults(failing=1.0)
    with pytest.raises(DeviceError, match="is failed"):
        laboratory(tmp_path, broken, budget=Budget(max_shots=150)).measure(begun(), TreeCircuit(2), THETA[0], 100)
    with pytest.raises(DeviceError, match="100 are spent and 50 are left"):
        laboratory(tmp_path, budget=Budget(max_shots=150)).measure(begun(), TreeCircuit(2), THETA[0], 100)
    # A job that certainly was not sent does not count.
    (other := tmp_path / "other").mkdir()
    with pytest.raises(DeviceError, match="cannot be reached"):
        laboratory(other, Faults(unreachable=1.0), budget=Budget(max_shots=100)).measure(
            begun(), TreeCircuit(2), THETA[0], 100
        )
    laboratory(other, budget=Budget(max_shots=100)).measure(begun(), TreeCircuit(2), THETA[0], 100)


def test_a_batch_beyond_the_budget_is_not_sent_in_part(tmp_path):
    lab = laboratory(tmp_path, limits=Limits(circuits=2), budget=Budget(max_shots=650))
    with pytest.raises(DeviceError, match="which takes 700: 0 are spent and 650 are left"):
        lab.measure(begun(), TreeCircuit(2), THETA, 100)
    assert lab.device.paid()["jobs"] == 0
    assert read_journal(tmp_path / "jobs.db") == []


def test_a_budget_that_cannot_be_counted_is_refused(tmp_path):
    class Silent(FakeCloud):
        def price(self, circuit, circuits, shots):
            return Price()

    lab = Laboratory(Silent(tmp_path / "cloud.db"), "flow", budget=Budget(max_cost=1.0))
    with pytest.raises(DeviceError, match=r"max_cost=1 cannot be kept: .* max_shots"):
        lab.measure(begun(), TreeCircuit(2), THETA, 100)
    for name, value in (("max_shots", 0), ("max_shots", 1.5), ("max_cost", -1), ("max_qpu_seconds", float("nan"))):
        with pytest.raises(ProblemError, match=name):
            dualflow.solve(posed(), "variational-flow", **{name: value})


# --- splits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits", [Limits(3), Limits(None, 400), Limits(2, 300), Limits(1, 1000), Limits(100, 10**6), Limits(4, 600, 700)]
)
@pytest.mark.parametrize("single", [True, False])
def test_a_batch_is_split_at_the_devices_limits_and_joined(tmp_path, limits, single):
    theta = THETA[0] if single else THETA
    lab = laboratory(tmp_path, limits=limits)
    found, account = lab.measure(begun(), TreeCircuit(2), theta, 1000)
    exact = TreeCircuit(2).distribution(theta)
    assert found.shape == exact.shape
    assert np.abs(found - exact).max() < 5 * np.sqrt(0.25 / 1000)
    np.testing.assert_array_equal(found * 1000, np.rint(found * 1000))
    rows = 1 if single else 7
    assert (account.circuits, account.shots) == (rows, rows * 1000)
    records = read_journal(tmp_path / "jobs.db")
    pieces = len(limits.parts(rows, 1000))
    assert all(record.circuits <= (limits.circuits or rows) for record in records)
    assert all(record.shots <= (limits.shots or 1000) for record in records)
    assert all(record.circuits * record.shots <= (limits.executions or 7000) for record in records)
    assert len(records) == pieces == len(set(lab.device.paid()["tags"]))
    assert lab.device.paid()["shots"] == rows * 1000
    assert len({record.seed for record in records}) == pieces
    again, _ = laboratory(tmp_path, Faults(unreachable=1.0), limits).measure(begun(), TreeCircuit(2), theta, 1000)
    np.testing.assert_array_equal(again, found)


def test_exact_distributions_are_split_too(monkeypatch):
    device = EmulatorDevice()
    device.limits = Limits(circuits=2, shots=10)
    found, _ = Laboratory(device, "flow").measure(begun(), TreeCircuit(2), THETA, None)
    np.testing.assert_array_equal(found, TreeCircuit(2).distribution(THETA))


# --- retries and waits -----------------------------------------------------------------------------


def test_temporary_errors_are_retried_after_growing_pauses(tmp_path, monkeypatch):
    pauses = []
    monkeypatch.setattr(sending, "_sleep", pauses.append)
    monkeypatch.setattr(sending, "FIRST_PAUSE_S", 1.0)
    lab = laboratory(tmp_path, Faults(unreachable=1.0))
    with pytest.raises(DeviceError, match="cannot be reached") as caught:
        lab.measure(begun(), TreeCircuit(2), THETA, 100)
    assert caught.value.transient
    assert len(pauses) == sending.MAX_ATTEMPTS - 1
    assert all(0.5 * 2**k <= pause <= 2**k for k, pause in enumerate(pauses))
    assert [record.state for record in read_journal(tmp_path / "jobs.db")] == ["not sent"] * sending.MAX_ATTEMPTS


def test_permanent_errors_are_not_retried(tmp_path, monkeypatch):
    sent = []

    class Refusing(FakeCloud):
        def _submit(self, circuit, values, shots, tag, seed):
            sent.append(tag)
            raise DeviceError("the plan does not allow it", transient=False, sent=False)

    lab = Laboratory(Refusing(tmp_path / "cloud.db"), "flow", journal=tmp_path / "jobs.db")
    with pytest.raises(DeviceError, match="the plan"):
        lab.measure(begun(), TreeCircuit(2), THETA, 100)
    assert len(sent) == 1


def test_a_lost_reply_is_not_paid_twice(tmp_path):
    for seed in range(30):
        (folder := tmp_path / str(seed)).mkdir()
        lab = laboratory(folder, Faults(seed, lost_reply=0.3, doubling=0.5))
        found, _ = lab.measure(begun(), TreeCircuit(2), THETA, 100)
        assert lab.device.paid()["circuits"] == 7
    np.testing.assert_array_equal(
        found, Laboratory(make_device("emulator"), "flow").measure(begun(), TreeCircuit(2), THETA, 100)[0]
    )


def test_a_job_of_unknown_state_stops_the_run_with_or_without_a_journal(tmp_path):
    for journal in (None, tmp_path / "jobs.db"):
        cloud = FakeCloud(tmp_path / "cloud.db", Faults(lost_reply=1.0), tags=False)
        with pytest.raises(DeviceError, match=r"whether job dualflow-.* was sent is not known.*resend=True") as caught:
            Laboratory(cloud, "flow", journal=journal).measure(begun(), TreeCircuit(2), THETA, 100)
        assert caught.value.sent is None
    assert cloud.paid()["jobs"] == 2


def test_a_job_is_polled_at_growing_intervals_until_the_deadline(tmp_path, monkeypatch):
    pauses = []
    monkeypatch.setattr(sending, "_sleep", pauses.append)
    monkeypatch.setattr(FakeCloudJob, "poll_s", 0.5)
    cloud = FakeCloud(tmp_path / "cloud.db", Faults(slow=40, seed=1))
    Laboratory(cloud, "flow").measure(begun(), TreeCircuit(2), THETA, 100)
    assert len(pauses) > 10
    assert pauses[0] == 0.5
    assert all(a <= b <= sending.MAX_POLL_S for a, b in itertools.pairwise(pauses))
    monkeypatch.undo()
    began = time.monotonic()
    cloud = FakeCloud(tmp_path / "cloud.db", Faults(slow=10**9))
    monkeypatch.setattr(FakeCloudJob, "poll_s", 0.05)
    files = {"journal": tmp_path / "jobs.db"}
    run = dualflow.solve(posed(), "variational-flow", device=cloud, shots=100, time_limit=0.5, **files)
    assert run.status is Status.TIME_LIMIT
    assert time.monotonic() - began < 10
    assert [record.state for record in read_journal(tmp_path / "jobs.db")] == ["sent"]
    with pytest.raises(clock.OutOfTime), clock.within(time.monotonic() - 1):
        sending.pause_before(1)


class Wrong(EmulatorDevice):
    """A device with changed read-outs."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def _submit(self, circuit, values, shots, tag, seed):
        job = super()._submit(circuit, values, shots, tag, seed)
        object.__setattr__(job, "readout", self.change(job.readout))
        return job


def readout(r, counts=None, shots=None, job_id=None):
    counts = r.counts if counts is None else counts
    return Readout(counts / r.shots, counts, shots or r.shots, "little", job_id or r.job_id)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: readout(r, 2 * r.counts), "200 shots where 100 were requested"),
        (lambda r: readout(r, r.counts[:3]), "3 circuits where 7 were sent"),
        (lambda r: readout(r, np.tile(r.counts, 2)), "8 outcomes where 2 qubits have 4"),
        (lambda r: readout(r, shots=50), "50 shots where 100 were requested"),
        (lambda r: readout(r, job_id="another"), "the read-out of job another"),
        (lambda r: readout(r, r.counts - [[1000, -1000, 0, 0]]), "negative"),
        (lambda r: Readout(r.probabilities, None, None, "little", r.job_id), "None shots"),
    ],
)
def test_a_read_out_of_another_size_is_refused(change, message):
    with pytest.raises(DeviceError, match=message):
        Laboratory(Wrong(change), "flow").measure(begun(), TreeCircuit(2), THETA, 100)


# --- tokens ----------------------------------------------------------------------------------------

TOKEN = "s3cr3t-t0ken-8c1f"


class WithToken(FakeCloud):
    """A device whose vendor's library holds a token."""

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.service = {"token": TOKEN}


def test_a_token_is_written_nowhere(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FAKE_CLOUD_TOKEN", TOKEN)
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    monkeypatch.setattr(logging.getLogger(), "level", logging.DEBUG)
    said = []
    try:
        for faults in (Faults(), Faults(failing=1.0), Faults(lost_reply=1.0), Faults(unreachable=1.0)):
            device = WithToken(tmp_path / "cloud.db", faults, tags=faults.lost_reply == 0)
            options = {"shots": 100, "steps": 3, "device": device, "max_shots": 10_000}
            files = {"journal": tmp_path / "jobs.db", "checkpoint": tmp_path / "run.npz"}
            for seed in (0, 1):
                try:
                    files["checkpoint"] = tmp_path / f"run{seed}.npz"
                    run = dualflow.solve(
                        posed(), "variational-flow", random_state=seed, trajectory=True, **options, **files
                    )
                except DeviceError as error:
                    said.append(f"{error!r} {error} {error.__cause__!r}")
                else:
                    said += [repr(run), str(run.provenance), str(run.cost), str(run.status.text)]
            said += [repr(device), device.name, repr(device.capabilities), repr(make_device(device))]
        model = dualflow.SVC(loss="squared_hinge", solver="variational-flow", solver_options=options, max_steps=2)
        said.append(repr(model))
        for words in (["list"], ["show", read_journal(tmp_path / "jobs.db")[0].tag]):
            said.append(CliRunner().invoke(app, ["jobs", words[0], str(tmp_path / "jobs.db"), *words[1:]]).output)
    finally:
        logging.getLogger().removeHandler(handler)
    said += [log.getvalue(), *capsys.readouterr()]
    assert len(said) > 20
    assert not [text for text in said if TOKEN in text]
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    assert {"jobs.db", "run0.npz"} <= {path.name for path in files}
    assert not [path.name for path in files if TOKEN.encode() in path.read_bytes()]
    assert (tmp_path / "jobs.db").stat().st_mode & 0o777 == 0o600


def test_a_simulated_service_takes_a_second_a_job_and_a_millisecond_a_shot(tmp_path):
    price = FakeCloud(tmp_path / "service", cost_per_shot=0.5).price(TreeCircuit(2), 3, 100)
    assert (price.qpu_seconds, price.cost) == pytest.approx((1.3, 150.0))
