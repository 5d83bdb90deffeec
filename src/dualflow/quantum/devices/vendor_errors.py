"""Turn errors of vendors' libraries into one sentence that says what to do, without the secrets they may contain."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from ...exceptions import DeviceError

#: Text that replaces a secret.
MASK = "***"
#: Names of environment variables whose values are removed from messages.
SECRET_NAMES = re.compile(r"TOKEN|SECRET|API_?KEY|PASSWORD|ACCESS_KEY", re.IGNORECASE)
#: Text that pattern like a secret, such as "token=…".
SECRET_TEXT = re.compile(
    r"""((?:token|api[-_]?key|apikey|authorization|secret|password)["']?\s*[:=]\s*["']?(?:bearer\s+|apikey\s+)?)"""
    r"""[^\s"',;)}]+""",
    re.IGNORECASE,
)
#: Shortest value of an environment variable that counts as a secret; shorter ones occur in ordinary words.
MIN_SECRET_CHARS = 6


@dataclass(frozen=True)
class KnownError:
    """A known error."""

    pattern: str  # regular expression of the error's text
    message: str  # the message that names the cause and the way out
    transient: bool = False  # whether the same call may succeed later
    sent: bool | None = False  # whether the job has reached the machine; None if it is not known


#: Known errors; the first one that matches is reported. The text matched is that of the full chain of errors, innermost
#: first, with the names of their types.
KNOWN_ERRORS = (
    KnownError(
        r"NameResolutionError|NewConnectionError|Failed to establish a new connection|gaierror|EndpointConnectionError"
        r"|Network is unreachable|No route to host",
        "there is no network, or the service is not reachable; check the connection and try again",
        transient=True,
    ),
    KnownError(
        r"AccountNotFoundError",
        "no IBM account is saved on this computer: run QiskitRuntimeService.save_account(token=…) once, or set "
        "QISKIT_IBM_TOKEN; device='ibm:fake_manila' needs none",
    ),
    KnownError(
        r"open plan",
        "IBM's open plan runs no sessions; use mode='batch' or mode='job'",
    ),
    KnownError(
        r"InvalidAccountError|IBMNotAuthorizedError",
        "IBM does not take the saved account: its token is wrong or has run out (without network the library says the "
        "same); save it again by QiskitRuntimeService.save_account(…, overwrite=True)",
    ),
    KnownError(
        r"NoRegionError",
        "no AWS region is set: set AWS_DEFAULT_REGION, for example to us-east-1, or run aws configure",
    ),
    KnownError(
        r"NoCredentialsError|PartialCredentialsError|UnrecognizedClientException|ExpiredToken",
        "AWS finds no valid credentials: run aws configure, or set AWS_PROFILE; device='braket:local' needs none",
    ),
    KnownError(
        r"IonQCredentialsError|(IonQAPIError|IonQClientError).*\b40[13]\b|\b40[13]\b.*IonQ",
        "IonQ does not accept the key: set IONQ_API_KEY to a key of your account",
    ),
    KnownError(
        r"ISA circuit|not supported by the target|does not match the target|target hardware definition",
        "the circuit is not in the machine's gates and couplings; do not compile it before, or set backend to the one "
        "that the sampler runs on",
    ),
    KnownError(
        r"QiskitBackendNotFoundError|No backend matches|not found in any instances",
        "there is no such machine for this account; dualflow devices --ask DEVICE shows whether a machine is available",
    ),
    KnownError(
        r"\b(400|402|404|409|422)\b.*(Client Error|Bad Request|for url)|ValidationException|AccessDenied",
        "the service refused it",
    ),
    KnownError(
        r"\b429\b|TooManyRequests|Throttl|rate limit|RetriableError|ServiceUnavailable|\b50[234]\b|temporarily",
        "the service is busy; try again later",
        transient=True,
    ),
    # The service may have received the job before the connection broke off.
    KnownError(
        r"ReadTimeout|ConnectionError|ConnectionReset|RemoteDisconnected|ConnectionAborted|ProtocolError|TimeoutError",
        "the connection broke off; whether the job was taken is not known",
        transient=True,
        sent=None,
    ),
)


def device_error(device: str, doing: str, error: BaseException, *, sent: bool | None = False) -> DeviceError:
    """Return a `DeviceError` for an error of a vendor's library.

    Parameters
    ----------
    device : str
    doing : str
        What failed, such as "refused circuit 'tree_q3'".
    error : exception
        The error; its causes are read too.
    sent : bool or None
        Whether the job has reached the machine, for errors that do not decide it.
    """
    message = f"{type(error).__name__}: {error}"
    chain = " | ".join(f"{type(e).__name__}: {e}" for e in reversed(_chain(error)))
    for known in KNOWN_ERRORS:
        if re.search(known.pattern, chain, re.IGNORECASE):
            reached = sent if sent else known.sent
            text = f"device {device!r} {doing}: {known.message} ({without_secrets(message)})"
            return DeviceError(text, transient=known.transient, sent=reached)
    return DeviceError(f"device {device!r} {doing} ({without_secrets(message)})", sent=sent)


def cause(error: BaseException) -> BaseException | None:
    """Return the error to raise a `DeviceError` from: None if a traceback of the error would show a secret."""
    shown = " | ".join(f"{e} {e!r}" for e in _chain(error))
    return error if without_secrets(shown) == shown else None


def without_secrets(text: str) -> str:
    """Return a text with secrets masked: values of environment variables, and what follows "token=" and the like."""
    for name, value in os.environ.items():
        if SECRET_NAMES.search(name) and len(value) >= MIN_SECRET_CHARS:
            text = text.replace(value, MASK)
    return SECRET_TEXT.sub(rf"\1{MASK}", text)


def _chain(error: BaseException) -> list[BaseException]:
    """Return the error and its causes, the error itself first."""
    found: list[BaseException] = []
    now: BaseException | None = error
    while now is not None and now not in found:
        found.append(now)
        now = now.__cause__ or now.__context__
    return found
