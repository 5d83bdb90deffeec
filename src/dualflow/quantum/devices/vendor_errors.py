"""What vendors' libraries raise, in one sentence that says what to do; and without the secrets they may quote."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from ...exceptions import DeviceError

__all__ = ["cause", "device_error", "without_secrets"]

HIDDEN = "***"
#: Names of environment variables whose values are never repeated, and what looks like a secret in a text.
SECRET_NAMES = re.compile(r"TOKEN|SECRET|API_?KEY|PASSWORD|ACCESS_KEY", re.IGNORECASE)
SECRET_TEXT = re.compile(
    r"""((?:token|api[-_]?key|apikey|authorization|secret|password)["']?\s*[:=]\s*["']?(?:bearer\s+|apikey\s+)?)"""
    r"""[^\s"',;)}]+""",
    re.IGNORECASE,
)
#: Shortest value of such a variable that is one.
SHORTEST = 6


@dataclass(frozen=True)
class Known:
    """A trouble that is known: how it looks, what to say, and what it means for another try."""

    looks: str
    says: str
    transient: bool = False
    sent: bool | None = False


#: The first that fits is said. A text is looked at with the names of the errors that led to it, innermost first.
KNOWN = (
    Known(
        r"NameResolutionError|NewConnectionError|Failed to establish a new connection|gaierror|EndpointConnectionError"
        r"|Network is unreachable|No route to host",
        "there is no network, or the service is not there; look at the connection and try again",
        transient=True,
    ),
    Known(
        r"AccountNotFoundError",
        "no IBM account is saved on this computer: run QiskitRuntimeService.save_account(token=…) once, or set "
        "QISKIT_IBM_TOKEN; device='ibm:fake_manila' needs none",
    ),
    Known(
        r"open plan",
        "IBM's open plan runs no sessions; use mode='batch' or mode='job'",
    ),
    Known(
        r"InvalidAccountError|IBMNotAuthorizedError",
        "IBM does not take the saved account: its token is wrong or has run out (without network the library says the "
        "same); save it again by QiskitRuntimeService.save_account(…, overwrite=True)",
    ),
    Known(
        r"NoRegionError",
        "no AWS region is set: set AWS_DEFAULT_REGION, for example to us-east-1, or run aws configure",
    ),
    Known(
        r"NoCredentialsError|PartialCredentialsError|UnrecognizedClientException|ExpiredToken",
        "AWS finds no valid credentials: run aws configure, or set AWS_PROFILE; device='braket:local' needs none",
    ),
    Known(
        r"IonQCredentialsError|(IonQAPIError|IonQClientError).*\b40[13]\b|\b40[13]\b.*IonQ",
        "IonQ does not know you: set IONQ_API_KEY to a key of your account",
    ),
    Known(
        r"ISA circuit|not supported by the target|does not match the target|target hardware definition",
        "the circuit is not in the machine's gates and couplings; leave the compiling to this device, or give it the "
        "backend that the sampler runs on",
    ),
    Known(
        r"QiskitBackendNotFoundError|No backend matches|not found in any instances",
        "there is no such machine for this account; dualflow devices --ask lists what it can say",
    ),
    Known(
        r"\b(400|402|404|409|422)\b.*(Client Error|Bad Request|for url)|ValidationException|AccessDenied",
        "the service refused it",
    ),
    Known(
        r"\b429\b|TooManyRequests|Throttl|rate limit|RetriableError|ServiceUnavailable|\b50[234]\b|temporarily",
        "the service is busy; the same may work a little later",
        transient=True,
    ),
    # Whatever was under way may have arrived.
    Known(
        r"ReadTimeout|ConnectionError|ConnectionReset|RemoteDisconnected|ConnectionAborted|ProtocolError|TimeoutError",
        "the connection broke off; whether the job was taken is not known",
        transient=True,
        sent=None,
    ),
)


def device_error(device: str, doing: str, error: BaseException, *, sent: bool | None = False) -> DeviceError:
    """A `DeviceError` for what a vendor's library raised.

    Parameters
    ----------
    device : str
    doing : str
        What failed, such as "refused circuit 'tree_q3'".
    error : exception
        Those that led to it are read too.
    sent : bool or None
        Whether the job has reached the machine, where the trouble itself does not say.
    """
    said = f"{type(error).__name__}: {error}"
    chain = " | ".join(f"{type(e).__name__}: {e}" for e in reversed(_chain(error)))
    for known in KNOWN:
        if re.search(known.looks, chain, re.IGNORECASE):
            fact = sent if sent else known.sent
            text = f"device {device!r} {doing}: {known.says} ({without_secrets(said)})"
            return DeviceError(text, transient=known.transient, sent=fact)
    return DeviceError(f"device {device!r} {doing} ({without_secrets(said)})", sent=sent)


def cause(error: BaseException) -> BaseException | None:
    """What a `DeviceError` is raised from: the error, or None where a traceback of it would show a secret."""
    shown = " | ".join(f"{e} {e!r}" for e in _chain(error))
    return error if without_secrets(shown) == shown else None


def without_secrets(text: str) -> str:
    """A text with what looks like a secret hidden: values of variables named so, and what follows "token=" and such."""
    for name, value in os.environ.items():
        if SECRET_NAMES.search(name) and len(value) >= SHORTEST:
            text = text.replace(value, HIDDEN)
    return SECRET_TEXT.sub(rf"\1{HIDDEN}", text)


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what led to it, the last first."""
    found: list[BaseException] = []
    now: BaseException | None = error
    while now is not None and now not in found:
        found.append(now)
        now = now.__cause__ or now.__context__
    return found
