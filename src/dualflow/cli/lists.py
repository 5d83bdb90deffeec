"""`dualflow solvers`, `dualflow devices`: what there is, as the catalogues say."""

from __future__ import annotations

from .output import clear_errors, print_table

__all__ = ["devices", "solvers"]


def solvers() -> None:
    """List all solvers: what each can solve, and whether it is installed."""
    with clear_errors():
        from ..registry import list_solvers

        rows = [
            (
                info.name,
                ", ".join(info.kinds),
                info.accuracy,
                info.maturity,
                "" if info.max_n is None else str(info.max_n),
                "yes" if info.install is None else info.install,
            )
            for info in list_solvers()
        ]
        print_table(("solver", "problem kinds", "accuracy", "maturity", "max n", "installed"), rows)


def devices() -> None:
    """List the devices circuits can run on, and whether each is installed."""
    with clear_errors():
        from ..quantum.devices import list_devices

        rows = [
            (
                info.name,
                ", ".join(word for word in ("exact", "sampled", "noisy") if getattr(info, word)),
                "yes" if info.control else "no",
                "" if info.qubits is None else str(info.qubits),
                info.summary,
                info.install or "yes",
            )
            for info in list_devices()
        ]
        print_table(("device", "gives", "control", "qubits", "what it is", "installed"), rows)
