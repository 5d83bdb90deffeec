"""`python -m dualflow` is the command."""

import subprocess
import sys

import dualflow


def test_the_module_runs_the_command():
    done = subprocess.run([sys.executable, "-m", "dualflow", "--version"], capture_output=True, text=True, check=True)
    assert dualflow.__version__ in done.stdout
