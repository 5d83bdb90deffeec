"""`dualflow devices`: what circuits can run on, here and in the cloud."""

from __future__ import annotations

from typing import Annotated

import typer

from .output import clear_errors, print_table

__all__ = ["devices"]


def devices(
    ask: Annotated[
        str | None,
        typer.Option(metavar="DEVICE", help="Ask a machine what it holds and how long its queue is, over the network."),
    ] = None,
) -> None:
    """List the devices circuits can run on, whether each is installed, and which accounts are known."""
    with clear_errors():
        if ask is not None:
            from ..quantum.devices.vendors import ask as asked

            found = asked(ask)
            qubits = "" if found.qubits is None else str(found.qubits)
            print_table(
                ("device", "qubits", "a job holds at most", "queue"), [(found.name, qubits, found.holds, found.queue)]
            )
            return
        from ..quantum.devices import list_devices
        from ..quantum.devices.vendors import list_vendors

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
        print_table(
            ("machines", "vendor", "installed", "account", "a job holds at most"),
            [(info.name, info.vendor, info.install or "yes", info.account, info.holds) for info in list_vendors()],
        )
