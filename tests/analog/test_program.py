"""ngspice as a separate process that is missing, hangs, fails or writes garbage; here it is a script."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import dualflow
from dualflow import DualflowError, Gram, SolverUnavailable, Status, list_solvers, problems, solve
from dualflow.analog import build, simulate
from tests.combinations import covering

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the programs of these tests are shell scripts")

#: A script that answers every circuit immediately with a final state at `ALPHA`, in the requested columns.
ANSWERS = """\
#!{python} -SE
import re
text = open("circuit.cir").read()
columns = re.search(r"wrdata waveforms.txt (.*)", text)[1].split()
ends = float(re.search(r"[.]tran \\S+ (\\S+)", text)[1])
alpha = {alpha}
volts = [5 * alpha[int(c[3:-1]) - 1] if c[2] in "ax" else 0.25 for c in columns]
with open("waveforms.txt", "w") as out:
    for t in (0.0, ends):
        print(t, *volts, file=out)
"""


@pytest.fixture
def problem():
    return problems.svdd(Gram([[1.0], [2.0], [4.0]], "linear"))


@pytest.fixture
def ngspice(tmp_path, monkeypatch):
    """Replace ngspice by a script; return the folder of the runs' files."""
    programs, files = tmp_path / "bin", tmp_path / "files"
    programs.mkdir()
    files.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(files))

    def put(script):
        path = programs / "ngspice"
        path.write_text(script if script.startswith("#!") else f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
        return files

    return put


def answering(*alpha):
    return ANSWERS.format(python=sys.executable, alpha=alpha)


def gone(pid):
    """Return whether no process has that number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_missing_ngspice_is_reported_with_the_install_command(problem, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    (row,) = (info for info in list_solvers() if info.name == "analog-flow")
    assert row.install == "apt install ngspice"
    message = "solver 'analog-flow' needs ngspice, which is not installed: apt install ngspice"
    with pytest.raises(SolverUnavailable, match=message):
        solve(problem, "analog-flow")
    with pytest.raises(SolverUnavailable, match="ngspice is not installed: apt install ngspice"):
        simulate(build(problem), 1e-3)
    (row,) = dualflow.compare(problem, solvers=["analog-flow"], controls=False).rows
    assert (row.status, row.reason) == ("NOT INSTALLED", message)
    assert build(problem).netlist(1.0)


def test_an_answer_is_read_certified_and_its_files_are_removed(problem, ngspice):
    files = ngspice(answering(0.5, 0.0, 0.5))
    found = solve(problem, "analog-flow", trajectory=True)
    assert found.status is Status.OPTIMAL
    np.testing.assert_allclose(found.raw_alpha, [0.5, 0.0, 0.5])
    assert found.certificate.relative_gap <= 1e-12
    assert found.cost.steps == 1
    assert found.trajectory.t[-1] == pytest.approx(18)  # 100 time constants; of points less their mean S is 2(5/3)²
    assert list(files.iterdir()) == []
    counts = {name: found.provenance[name] for name in ("resistors", "amplifiers", "cells")}
    circuit = build(problem.centred())  # as the driver poses it
    assert counts == {"resistors": circuit.resistors, "amplifiers": circuit.amplifiers, "cells": circuit.cells}


def test_a_wrong_answer_is_no_optimum_and_rests(problem, ngspice):
    ngspice(answering(0.2, 0.6, 0.2))
    found = solve(problem, "analog-flow")
    assert found.status is Status.FINISHED
    assert found.cost.steps == 2
    assert found.certificate.relative_gap > 0.1


def test_what_is_infeasible_is_shown_as_it_was_read(problem, ngspice):
    ngspice(answering(0.6, -0.1, 0.7))
    found = solve(problem, "analog-flow", max_steps=1)
    np.testing.assert_allclose(found.raw_alpha, [0.6, -0.1, 0.7])
    assert found.certificate.alpha.min() >= 0
    assert found.raw_certificate.infeasibility == pytest.approx(0.2)


def test_steps_have_the_requested_length(problem, ngspice):
    ngspice(answering(0.2, 0.6, 0.2))
    found = solve(problem, "analog-flow", time_step=0.25, growth=2.0, t_end=1.5, trajectory=True)
    np.testing.assert_allclose(found.trajectory.t, [0.0, 0.25, 0.75, 1.5])
    assert found.status is Status.FINISHED


def test_the_time_limit_ends_it(problem, ngspice, tmp_path):
    files = ngspice(f"echo $$ > {tmp_path}/pid; exec sleep 60")
    begun = time.monotonic()
    found = solve(problem, "analog-flow", time_limit=1.0)
    assert time.monotonic() - begun < 30
    assert found.status is Status.TIME_LIMIT
    assert found.cost.steps == 0
    np.testing.assert_allclose(found.raw_alpha, np.full(3, 1 / 3))
    assert gone(int((tmp_path / "pid").read_text()))
    assert list(files.iterdir()) == []


@pytest.mark.parametrize(("delay", "threads"), covering([0.0, 0.3], [0, 1], together=1))
def test_ctrl_c_ends_it(problem, ngspice, tmp_path, monkeypatch, delay, threads):
    class Slow(subprocess.Popen):
        def __init__(self, *given, **more):
            super().__init__(*given, **more)
            time.sleep(delay)  # the process has started, and its name is not assigned yet

    monkeypatch.setattr(subprocess, "Popen", Slow)
    files = ngspice(f"echo $$ > {tmp_path}/pid; kill -INT $PPID; exec sleep 60")
    over = threading.Event()
    for _ in range(
        threads
    ):  # the system may deliver the signal to one of them while the main thread starts the process
        threading.Thread(target=over.wait, daemon=True).start()
    with pytest.raises(KeyboardInterrupt) as raised:
        solve(problem, "analog-flow")
    over.set()
    assert raised.value.solution.status is Status.INTERRUPTED
    assert gone(int((tmp_path / "pid").read_text()))
    assert list(files.iterdir()) == []


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'Timestep too small; cause unrecorded.'; exit 0", "came to no state of .*: Timestep too small"),
        ("echo boom >&2; exit 3", r"boom; \(ended with code 3\)"),
        ("kill -SEGV $$", r"ended with code -11"),
        ("exit 0", "it gave no message"),
        ("head -c 3000 /dev/urandom > waveforms.txt", "came to no state"),
        ("echo '0 1 2' > waveforms.txt", "came to no state"),
        ("echo '0 1 1 1 1 1 nan 0' > waveforms.txt", "came to no state"),
        ("echo '0 1 1 1 1 1 inf 0' > waveforms.txt", "came to no state"),
        ("printf '0 1 1 1 1 1 1 0\\n1 2' > waveforms.txt", "came to no state"),
        ("printf '1 1 1 1 1 1 1 0\\n0 1 1 1 1 1 1 0\\n' > waveforms.txt", "came to no state"),
        ("printf '0 1 1 1 1 1 1 0\\n1e-5 1 1 1 1 1 1 0\\n' > waveforms.txt", "came to 1e-05 s of 0.01 s"),
        ("mkdir waveforms.txt", "could not be run"),
    ],
)
def test_malformed_output_is_an_error_with_the_last_lines(problem, ngspice, script, message):
    files = ngspice(script)
    with pytest.raises(DualflowError, match=message):
        solve(problem, "analog-flow")
    assert list(files.iterdir()) == []


def test_a_failure_is_a_row_of_a_comparison(problem, ngspice):
    ngspice("echo singular; exit 1")
    (row,) = dualflow.compare(problem, solvers=["analog-flow"], controls=False).rows
    assert row.status == "FAILED"
    assert "singular" in row.reason


def test_a_missing_folder_for_files_is_reported(problem, ngspice, monkeypatch, tmp_path):
    ngspice(answering(0.5, 0.0, 0.5))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "bin" / "ngspice"))
    with pytest.raises(DualflowError, match=r"ngspice could not be run: .*Not a directory"):
        solve(problem, "analog-flow")


def test_the_users_settings_of_ngspice_are_not_read(problem, ngspice, tmp_path):
    ngspice(f"""printf '%s ' "$@" > {tmp_path}/arguments; exit 1""")
    with pytest.raises(DualflowError):
        simulate(build(problem), 1e-3)
    assert (tmp_path / "arguments").read_text().split() == ["-n", "-b", "circuit.cir"]


def test_comparisons_show_the_control(problem, ngspice):
    ngspice(answering(0.5, 0.0, 0.5))
    for solver in ("analog-flow", dualflow.AnalogFlow(cells="translinear")):
        control, own = sorted(dualflow.compare(problem, solvers=[solver]).rows, key=lambda row: row.device is None)
        assert (own.role, own.variant) == ("classical", "")
        assert (control.role, control.variant, control.rank) == ("control", "control: shuffled, exact", None)
        assert control.solution.provenance["options"]["control"] == "shuffled"
        assert own.solution.provenance["options"]["control"] is None
    controlled = dualflow.AnalogFlow(control="shuffled")
    assert len(dualflow.compare(problem, solvers=[controlled]).rows) == 1
    assert len(dualflow.compare(problem, solvers=["analog-flow"], controls=False).rows) == 1


def test_too_many_variables_are_refused(ngspice):
    ngspice(answering(1.0))
    with pytest.raises(dualflow.SolverMismatch, match="at most 64 variables"):
        solve(problems.svdd(Gram(np.arange(65.0)[:, None])), "analog-flow")
