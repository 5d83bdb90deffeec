"""Vendors: errors without an account or a network, the requests that are sent, and that no secret is repeated.

Their clouds are stood in for by objects with the few methods that are used; what needs a vendor's library is skipped
where that is not installed.
"""

import importlib.util
import pickle
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import dualflow
from dualflow import DeviceError, ProblemError, SolverUnavailable
from dualflow.cli import app
from dualflow.quantum.circuits import TreeCircuit
from dualflow.quantum.devices import make_device
from dualflow.quantum.devices.braket import BraketDevice, counts_of_task
from dualflow.quantum.devices.compiled import CompiledDevice, VendorJob
from dualflow.quantum.devices.ibm import FakeIBMDevice, IBMDevice, IBMJob
from dualflow.quantum.devices.ionq import IonQDevice, IonQJob, send_once
from dualflow.quantum.devices.readouts import Request, counts_of_sampler
from dualflow.quantum.devices.vendor_errors import cause, device_error, without_secrets
from dualflow.quantum.devices.vendors import list_vendors

CIRCUIT = TreeCircuit(3)
THETA = np.random.default_rng(0).uniform(0.6, np.pi - 0.6, (2, 7))
SECRET = "s3cr3t-t0k3n-0123456789"
VARIABLES = (
    "QISKIT_IBM_TOKEN", "IONQ_API_KEY", "QISKIT_IONQ_API_TOKEN", "IONQ_API_TOKEN", "AWS_PROFILE", "AWS_ACCESS_KEY_ID",
    "AWS_DEFAULT_REGION", "AWS_REGION",
)  # fmt: skip


@pytest.fixture
def no_account(monkeypatch, tmp_path):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return tmp_path


def missing(package):
    return importlib.util.find_spec(package) is None


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("ibm:ibm_torino", "qiskit_ibm_runtime", "ibm"),
        ("ibm:fake_manila", "qiskit_ibm_runtime", "ibm"),
        ("braket:local", "qiskit_braket_provider", "braket"),
        ("ionq:simulator", "qiskit_ionq", "ionq"),
    ],
)
def test_a_missing_package_gives_the_pip_line(name, package, extra, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda what, *a: None if what == package else find(what, *a))
    with pytest.raises(SolverUnavailable, match=re.escape(f"pip install 'dualflow[{extra}]'")):
        make_device(name)


def test_extras_are_those_of_pyproject():
    import tomllib
    from pathlib import Path

    extras = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    extras = extras["optional-dependencies"]
    for cls in (IBMDevice, BraketDevice, IonQDevice):
        (line,) = extras[cls.extra]
        assert line.partition(">")[0].replace("-", "_") == cls.requires[-1]
    assert "all" not in extras


def test_vendors_are_imported_when_they_are_used():
    import subprocess

    code = (
        "import sys, dualflow.quantum.devices.ibm, dualflow.quantum.devices.braket, dualflow.quantum.devices.ionq; "
        "from dualflow.quantum.devices.vendors import list_vendors; list_vendors(); "
        "print([m for m in ('qiskit', 'qiskit_ibm_runtime', 'braket', 'boto3', 'qiskit_ionq') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_accounts_are_found_without_network_and_shown_without_secrets(no_account, monkeypatch):
    rows = {row.name: row for row in list_vendors()}
    assert set(rows) == {"ibm:fake_<backend>", "ibm:<backend>", "braket:<device>", "ionq:<backend>"}
    assert rows["ibm:fake_<backend>"].account == "none needed"
    for name, word in (
        ("ibm:<backend>", "save_account"),
        ("braket:<device>", "aws configure"),
        ("ionq:<backend>", "KEY"),
    ):
        assert rows[name].account.startswith("none: ")
        assert word in rows[name].account
    folder = no_account / ".qiskit"
    folder.mkdir()
    (folder / "qiskit-ibm.json").write_text(f'{{"default-ibm": {{"token": "{SECRET}"}}}}')
    (no_account / "credentials").write_text(f"[default]\naws_access_key_id={SECRET}\naws_secret_access_key={SECRET}\n")
    monkeypatch.setenv("IONQ_API_KEY", SECRET)
    accounts = [row.account for row in list_vendors()]
    assert "saved in ~/.qiskit/qiskit-ibm.json: default-ibm" in accounts
    assert "IONQ_API_KEY is set" in accounts
    assert any(text.startswith("keys in ~/.aws/credentials; no region: set AWS_DEFAULT_REGION") for text in accounts)
    (no_account / "config").write_text("[default]\nregion=eu-north-1\n")
    shown = CliRunner().invoke(app, ["devices"])
    assert shown.exit_code == 0
    assert "eu-north-1" in shown.stdout
    assert SECRET not in shown.stdout
    (folder / "qiskit-ibm.json").write_text("{")  # a damaged one is none
    assert IBMDevice.account().startswith("none: ")


def raised(name, text, of=None):
    error = type(name, (Exception,), {})(text)
    error.__cause__ = of
    return error


MESSAGES = [
    (raised("AccountNotFoundError", "Unable to find account."), "no IBM account is saved", False, False),
    (
        raised("InvalidAccountError", "Unable to retrieve instances.", raised("NewConnectionError", "failed")),
        "there is no network",
        True,
        False,
    ),
    (raised("InvalidAccountError", "Unable to retrieve instances."), "its token is wrong or has run out", False, False),
    (raised("NoRegionError", "You must specify a region."), "set AWS_DEFAULT_REGION", False, False),
    (raised("NoCredentialsError", "Unable to locate credentials"), "run aws configure", False, False),
    (raised("EndpointConnectionError", "Could not connect to the endpoint URL"), "there is no network", True, False),
    (
        raised("IBMRuntimeError", "You are not authorized to run a session when using the open plan."),
        "IBM's open plan runs no sessions; use mode='batch' or mode='job'",
        False,
        False,
    ),
    (
        raised("IBMInputValueError", "The instruction h on qubits (0,) is not supported by the target system."),
        "not in the machine's gates and couplings",
        False,
        False,
    ),
    (raised("RequestsApiError", "429 Client Error: Too Many Requests for url"), "the service is busy", True, False),
    (raised("RequestsApiError", "503 Server Error"), "the service is busy", True, False),
    (raised("RequestsApiError", "422 Client Error: Unprocessable for url"), "the service refused it", False, False),
    (raised("ReadTimeout", "read timed out"), "whether the job was taken is not known", True, None),
    (raised("IonQCredentialsError", "Credentials `token` may not be None!"), "set IONQ_API_KEY", False, False),
    (raised("Odd", "what is this"), "Odd: what is this", False, None),
]


@pytest.mark.parametrize(("error", "says", "transient", "sent"), MESSAGES)
def test_one_clear_sentence(error, says, transient, sent):
    found = device_error("ibm:x", "refused circuit 'c'", error, sent=None)
    assert str(found).startswith("device 'ibm:x' refused circuit 'c'")
    assert says in str(found)
    assert (found.transient, found.sent) == (transient, sent)
    assert device_error("ibm:x", "lost job 'j'", error, sent=True).sent is True


def test_secrets_are_not_repeated(monkeypatch):
    monkeypatch.setenv("QISKIT_IBM_TOKEN", SECRET)
    error = raised("Refused", f"POST with {SECRET} and apikey=hush-hush-1, Authorization: Bearer abc.def")
    found = device_error("ibm:x", "refused", error)
    for secret in (SECRET, "hush-hush-1", "abc.def"):
        assert secret not in str(found)
    assert cause(error) is None
    plain = raised("Refused", "no")
    assert cause(plain) is plain
    assert without_secrets("token_count of 3 qubits") == "token_count of 3 qubits"


class Service:
    """The part of IBM's service that dualflow uses."""

    def __init__(self, *jobs):
        self.known = {job.job_id(): job for job in jobs}

    def job(self, job_id):
        return self.known[job_id]

    def jobs(self, job_tags, limit):
        return [job for job in self.known.values() if job_tags[0] in job.tags][:limit]


class CloudJob:
    def __init__(self, job_id, inner=None, tags=(), state="DONE", error=None):
        self.id, self.inner, self.tags, self.state, self.error = job_id, inner, tags, state, error
        self.cancelled = False

    def job_id(self):
        return self.id

    def status(self):
        return self.state

    def cancel(self):
        self.cancelled, self.state = True, "CANCELLED"

    def result(self):
        if self.error:
            raise self.error
        return self.inner.result()


def ibm(service, backend=None):
    """An IBM device with a fake service and backend."""
    from qiskit.providers.fake_provider import GenericBackendV2

    device = IBMDevice.__new__(IBMDevice)
    CompiledDevice.__init__(device)
    device.requested, device.name, device.mode = "ibm_x", "ibm:ibm_x", "job"
    device.dynamical_decoupling = device.max_execution_time_s = None
    device.twirling = False
    device.__dict__ |= {"_service": service, "backend": backend or GenericBackendV2(3, noise_info=True, seed=1)}
    return device


def sampled(values, shots=100):
    from qiskit.primitives import StatevectorSampler

    circuit = CIRCUIT.build().measure_all(inplace=False)
    return StatevectorSampler(seed=1).run([(circuit, CIRCUIT.gate_parameters(values), shots)])


def test_a_job_of_another_process_is_fetched_by_id_and_found_by_tag():
    inner = sampled(THETA)
    device = ibm(
        Service(CloudJob("a", inner, ["df-1"]), CloudJob("b", inner, ["df-2"]), CloudJob("c", inner, ["df-2"]))
    )
    job = device.fetch("a")
    assert isinstance(job, IBMJob)
    assert (job.status(), job.poll_s >= 0.5) == ("done", True)
    assert job.result().counts.sum(axis=1).tolist() == [100, 100]
    assert device.fetch("a") is job
    assert device.lookup("df-1") == "a"
    assert device.lookup("df-0") is None
    with pytest.raises(DeviceError, match="several jobs are tagged 'df-2'"):
        device.lookup("df-2")
    with pytest.raises(DeviceError, match="does not know job 'd'"):
        device.fetch("d")
    device._service.known["e"] = CloudJob("f", inner)
    with pytest.raises(DeviceError, match="requested job e, got f"):
        device.fetch("e")


def test_states_of_a_remote_job(monkeypatch):
    monkeypatch.setattr(IBMJob, "poll_s", 0.001)
    queued = CloudJob("a", state="QUEUED")
    job = IBMJob("ibm:x", queued, "a", counts_of_sampler, timeout_s=0.01)
    assert (job.status(), job.done()) == ("queued", False)
    with pytest.raises(DeviceError, match=r"not done after timeout_s=0.01.*was not cancelled"):
        job.result()
    job.cancel()
    assert queued.cancelled
    with pytest.raises(DeviceError, match="was cancelled") as caught:
        job.result()
    assert caught.value.sent
    queued.cancelled = False
    job.cancel()  # what has ended is left alone
    assert not queued.cancelled
    failed = IBMJob("ibm:x", CloudJob("a", state="ERROR", error=raised("RuntimeJobFailureError", "E1")), "a", None)
    with pytest.raises(DeviceError, match=r"job a failed .*E1"):
        failed.result()
    assert failed.status() == "failed"


def test_price_of_an_ibm_job_is_its_own_formula():
    device = ibm(Service())
    few, many = (device.price(CIRCUIT, k, 1000).qpu_seconds for k in (1, 10))
    shot = (many - few) / 9000
    assert few - 1000 * shot == pytest.approx(2.0)
    assert 250e-6 < shot < 260e-6
    assert device.price(CIRCUIT, 1, 1000).cost is None


def test_an_estimate_for_a_fake_ibm_machine_has_the_price_of_the_real_one():
    """Time by IBM's formula, and no cost, because IBM publishes none: a cost of 0 beside that time would mislead."""
    pytest.importorskip("qiskit_ibm_runtime", reason="pip install 'dualflow[ibm]'")
    said = dualflow.estimate(problem(), "variational-flow", "ibm:fake_manila", shots=1000)
    assert 41 * (2 + 1000 * 250e-6) < said.qpu_seconds < 41 * (2 + 1000 * 300e-6)
    assert said.cost is None
    assert said.money == "not public"
    assert "USD" not in str(said)
    assert "of the real machine, this stand-in costs nothing: 2 s a job" in str(said)


def test_a_device_that_is_pickled_leaves_its_service_behind():
    device = ibm(SimpleNamespace(token=SECRET))
    text = pickle.dumps(device)
    assert SECRET.encode() not in text
    assert "_service" not in pickle.loads(text).__dict__
    assert SECRET not in repr(device)


@pytest.mark.parametrize(
    ("options", "word"),
    [({"mode": "sessions"}, "mode"), ({"dynamical_decoupling": "YY"}, "dynamical_decoupling"),
     ({"max_execution_time_s": 0}, "max_execution_time_s")],
)  # fmt: skip
def test_bad_options_of_ibm(options, word):
    with pytest.raises(ProblemError, match=word):
        IBMDevice("ibm_x", **options)


def test_options_that_ibm_is_given():
    device = ibm(Service())
    assert device._options("df-1", 3, 100) == {"environment": {"job_tags": ["df-1"]}}
    device.dynamical_decoupling, device.twirling, device.max_execution_time_s = "XY4", True, 60
    options = device._options("", 3, 10_000)
    assert options["dynamical_decoupling"] == {"enable": True, "sequence_type": "XY4"}
    sizes = {"num_randomizations": 25, "shots_per_randomization": 400}  # IBM's 32 draws would be billed as 10 016 shots
    assert options["twirling"] == {"enable_gates": True, "enable_measure": True, **sizes}
    with pytest.raises(DeviceError, match="shots=1009 has no such divisor; take for example shots=1025") as found:
        device._options("", 3, 1009)
    assert found.value.sent is False
    assert options["max_execution_time"] == 60
    if not missing("qiskit_ibm_runtime"):
        from qiskit_ibm_runtime.options_models.sampler import SamplerOptions

        SamplerOptions(**options)  # the library takes them


def braket(**service):
    device = BraketDevice.__new__(BraketDevice)
    CompiledDevice.__init__(device)
    device.requested, device.name = "x", "braket:x"
    service = {"deviceCost": SimpleNamespace(price=0.00035, unit="shot"), **service}
    machine = SimpleNamespace(properties=SimpleNamespace(service=SimpleNamespace(**service)))
    device.__dict__["backend"] = SimpleNamespace(_device=machine)
    return device, machine


def test_price_and_lookup_of_braket():
    device, machine = braket()
    assert device.price(CIRCUIT, 15, 1000).cost == pytest.approx(0.3 + 15 * 0.35)
    assert device.price(CIRCUIT, 15, 1000).qpu_seconds is None
    assert braket(deviceCost=None)[0].price(CIRCUIT, 1, 1).cost is None
    found = ["arn:a"]
    client = SimpleNamespace(
        get_resources=lambda TagFilters: {"ResourceTagMappingList": [{"ResourceARN": arn} for arn in found]}
    )
    machine.aws_session = SimpleNamespace(boto_session=SimpleNamespace(client=lambda name: client))
    assert device.lookup("df-1") == "arn:a"
    found.clear()
    with pytest.raises(DeviceError, match="0 tasks tagged 'df-1'") as caught:
        device.lookup("df-1")
    assert caught.value.sent is None


def test_counts_of_a_braket_task():
    def row(outcomes):
        return SimpleNamespace(measurements=(np.array(outcomes)[:, None] >> np.arange(3)) & 1)

    counts, shots = counts_of_task(SimpleNamespace(entries=[[row([1, 1, 4]), row([0, 7, 7])]]), "x", "a", None)
    assert shots == 3
    assert (counts[0, 1], counts[0, 4], counts[1, 7]) == (2, 1, 2)
    single, _ = counts_of_task(row([6, 6]), "x", "a", None)
    assert single[0, 6] == 2
    for bad, message in (
        (SimpleNamespace(entries=[]), "0 programs, 1 was sent"),
        (SimpleNamespace(entries=[[row([1]), row([1, 2])]]), "unlike shots or widths"),
    ):
        with pytest.raises(DeviceError, match=message):
            counts_of_task(bad, "x", "a", None)
    lost = VendorJob("x", SimpleNamespace(state=lambda: "FAILED", result=lambda: None), "a", counts_of_task)
    with pytest.raises(DeviceError, match="failed, without a result"):
        lost.result()
    short = SimpleNamespace(state=lambda: "COMPLETED", result=lambda: SimpleNamespace(entries=[[row([1, 2])]]))
    with pytest.raises(DeviceError, match="2 shots where 3 were requested"):
        VendorJob("x", short, "a", counts_of_task, request=Request(3, (1,), 3)).result()


def test_ionq_sends_once_and_needs_a_key(no_account):
    class Client:
        tries = 0

        def submit_job(self):
            for _ in range(5):
                self.tries += 1

    def once(self):
        self.tries += 1

    Client.submit_job.__wrapped__ = once
    client = Client()
    send_once(client)
    client.submit_job()
    assert client.tries == 1
    assert IonQJob.poll_s >= 5.0
    pytest.importorskip("qiskit_ionq", reason="pip install 'dualflow[ionq]'")
    with pytest.raises(DeviceError, match="there is no account: set IONQ_API_KEY"):
        make_device("ionq:simulator")


def problem():
    X = np.random.default_rng(0).normal(size=(8, 2))
    return dualflow.problems.svdd(dualflow.Gram(X, gamma=0.5))


def test_a_fake_ibm_machine_runs_a_solver():
    pytest.importorskip("qiskit_ibm_runtime", reason="pip install 'dualflow[ibm]'")
    options = {"shots": 4_000, "steps": 20, "random_state": 0, "mitigation": "confusion"}
    device = make_device("ibm:fake_manila")
    assert isinstance(device, FakeIBMDevice)
    assert not device.remote
    found = dualflow.solve(problem(), "variational-flow", device=device, **options)
    again = dualflow.solve(problem(), "variational-flow", device="ibm:fake_manila", **options)
    np.testing.assert_array_equal(found.raw_alpha, again.raw_alpha)
    null = dualflow.solve(problem(), "variational-flow", device="null", **(options | {"mitigation": None}))
    best = dualflow.solve(problem(), "working-set", tol=1e-10).certificate.objective
    excess = found.raw_certificate.objective - best
    assert excess < (null.raw_certificate.objective - best) / 5
    checked = FakeIBMDevice("fake_manila", check_bit_order=True, dynamical_decoupling="XY4")
    assert checked.submit(CIRCUIT, THETA, 100, tag="df-1").result().counts.sum() == 200
    twirled = FakeIBMDevice("fake_manila", twirling=True)
    assert twirled.submit(CIRCUIT, THETA, 1000).result().counts.sum() == 2000
    with pytest.raises(DeviceError, match="did you mean 'fake_manila'"):
        make_device("ibm:fake_manilla")
    with pytest.raises(DeviceError, match="has 5 qubits"):
        device.submit(TreeCircuit(6), np.zeros(63), 10)


def test_a_fake_machine_gives_the_counts_of_its_local_mode():
    pytest.importorskip("qiskit_ibm_runtime", reason="pip install 'dualflow[ibm]'")

    class Whole(FakeIBMDevice):
        def _runs_on(self, circuit):
            return self._mode

    for options in ({}, {"twirling": True}):
        devices = [kind("fake_lagos", optimization_level=3, **options) for kind in (FakeIBMDevice, Whole)]
        ours, theirs = (device.submit(CIRCUIT, THETA, 1000, seed=3).result().counts for device in devices)
        np.testing.assert_array_equal(ours, theirs)


def test_without_an_ibm_account(no_account, monkeypatch):
    pytest.importorskip("qiskit_ibm_runtime", reason="pip install 'dualflow[ibm]'")
    accounts = "qiskit_ibm_runtime.accounts.management._DEFAULT_ACCOUNT_CONFIG_JSON_FILE"
    monkeypatch.setattr(accounts, str(no_account / "none.json"))
    with pytest.raises(DeviceError, match="no IBM account is saved"):
        make_device("ibm:ibm_torino")


def test_brakets_local_simulator():
    pytest.importorskip("qiskit_braket_provider", reason="pip install 'dualflow[braket]'")
    np.random.seed(0)  # noqa: NPY002 - all that seeds that simulator
    device = make_device("braket:local")
    device.check_bit_order = True
    counts = device.submit(CIRCUIT, THETA, 4_000).result().counts
    for row, mean in zip(counts, 4_000 * CIRCUIT.distribution(THETA), strict=True):
        assert ((row - mean) ** 2 / mean).sum() < 7 + 5 * np.sqrt(14)
    assert device.submit(CIRCUIT, THETA[0], 10).result().counts.shape == (8,)
    found = dualflow.solve(problem(), "variational-flow", device=device, shots=2_000, steps=3)
    assert found.provenance["device"] == "braket:local"


def test_without_an_aws_region(no_account, monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")  # else Amazon's library asks the network who it is
    pytest.importorskip("qiskit_braket_provider", reason="pip install 'dualflow[braket]'")
    with pytest.raises(DeviceError, match="no AWS region is set"):
        make_device("braket:Forte 1")


def test_asking_a_machine():
    runner = CliRunner()
    shown = runner.invoke(app, ["devices", "--ask", "backend:generic"])
    assert shown.exit_code == 0
    assert "none is known" in shown.stdout
    refused = runner.invoke(app, ["devices", "--ask", "ibm:nothing:here"])
    assert refused.exit_code == 2
