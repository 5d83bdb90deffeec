"""Checkpoints of sampled runs from before answers were means: such a run continues and gives the same answer."""

import io
import json

import numpy as np
import pytest
from sklearn.datasets import make_moons

from dualflow import Checkpoint, Gram, ProblemError, problems, solve

#: By solver: the fields that such checkpoints lack, and the options of a short run.
NEW = {
    "variational-flow": (("mean", "mean_shots"), {"steps": 10}),
    "variational-lotka-volterra": (("mean", "mean_shots"), {"steps": 10}),
    "hamiltonian-dilation": (("mean", "averaged"), {}),
    "hamiltonian-schrodingerisation": (("seen",), {"windows": 8}),
    "hamiltonian-lchs": (("seen",), {"windows": 8}),
}


def run(name, **more):
    X, y = make_moons(8, noise=0.2, random_state=0)
    gram = Gram(X, kernel="rbf", gamma=1.0)
    problem = problems.svdd(gram)
    if name == "variational-lotka-volterra":
        problem = problems.svc(gram, np.where(y > 0, 1.0, -1.0), C=1.0)
    given = {"device": "emulator", "shots": 500, "tol": 1e-12, "random_state": 3, "refine": False} | NEW[name][1]
    return problem, solve(problem, name, **given, **more)


def rewritten(path, change):
    """Change the header and arrays of a file."""
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(arrays["header"].tobytes())
    change(header, arrays)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    content = io.BytesIO()
    np.savez(content, **arrays)
    path.write_bytes(content.getvalue())


@pytest.mark.parametrize("name", NEW)
def test_a_run_saved_before_answers_were_means_continues(name, tmp_path):
    saving = Checkpoint(tmp_path / "run.npz", interval_s=0.0)
    problem, whole = run(name)
    assert run(name, max_steps=3, checkpoint=saving)[1].status.name == "STEP_LIMIT"

    def older(header, arrays):
        for field in NEW[name][0]:
            del header["state"][field]
            arrays.pop(f"state:{field}", None)

    rewritten(saving.path, older)
    _, resumed = run(name, checkpoint=saving)
    assert resumed.cost.shots == whole.cost.shots
    if "seen" in NEW[name][0]:  # one window is prepared with another prior
        f, best = (problem.objective(problem.project(found.raw_alpha)) for found in (resumed, whole))
        assert f == pytest.approx(best, rel=0.02)
    else:
        assert np.array_equal(resumed.raw_alpha, whole.raw_alpha)


def test_a_state_without_a_needed_field_is_refused(tmp_path):
    saving = Checkpoint(tmp_path / "run.npz", interval_s=0.0)
    run("variational-flow", max_steps=3, checkpoint=saving)
    rewritten(saving.path, lambda header, arrays: header["state"].pop("theta"))
    with pytest.raises(ProblemError, match="is not a dualflow checkpoint or is damaged: its state is not of"):
        run("variational-flow", checkpoint=saving)
