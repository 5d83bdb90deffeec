"""`dualflow devices`: what circuits can run on, here and in the cloud."""

from __future__ import annotations

from typing import Annotated

import typer

from .output import Json, clear_errors, print_table, say_json

__all__ = ["devices"]


def devices(
    ask: Annotated[
        str | None,
        typer.Option(metavar="DEVICE", help="Ask a machine what it holds and how long its queue is, over the network."),
    ] = None,
    json: Json = False,
) -> None:
    """List the devices circuits can run on, whether each is installed, and which accounts are known."""
    with clear_errors():
        if ask is not None:
            from ..quantum.devices.vendors import ask as asked

            found = asked(ask)
            qubits = "" if found.qubits is None else str(found.qubits)
            answer = ("device", "qubits", "a job holds at most", "queue")
            print_table(answer, [(found.name, qubits, found.holds, found.queue)], json)
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
        headers = ("device", "gives", "control", "qubits", "what it is", "installed")
        machines = ("machines", "vendor", "installed", "account", "a job holds at most")
        vendors = [(info.name, info.vendor, info.install or "yes", info.account, info.holds) for info in list_vendors()]
        if json:
            parts = (("devices", headers, rows), ("machines", machines, vendors))
            say_json({name: [dict(zip(head, row, strict=True)) for row in table] for name, head, table in parts})
            return
        print_table(headers, rows)
        print_table(machines, vendors)
