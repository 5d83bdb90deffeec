"""Waiting for machines elsewhere: calls tried again where that may help, and looks at a job that grow rarer.

Every wait looks at the clock, so that Ctrl-C and time limits end it as they end anything else.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from ...core import clock
from ...exceptions import DeviceError
from ..devices import Device, Job, Readout

__all__ = ["TRIES", "again", "pause_before", "wait"]

#: Tries of a call that fails for the moment; seconds before the second, which double from try to try up to a minute.
#: Each is shortened by chance by up to a half, so that many runs that failed together do not try again together.
TRIES, FIRST_S, LONGEST_S = 6, 1.0, 60.0
#: Growth of the seconds between two looks at a job, up to half a minute unless its vendor's are more.
GROWTH, RAREST_S = 1.3, 30.0
#: Seconds between two looks at the clock.
LOOK_S = 0.1

T = TypeVar("T")


def again(call: Callable[[], T]) -> T:
    """What a call that may be repeated returns; it is, while it fails for the moment."""
    for attempt in range(1, TRIES):
        try:
            return call()
        except DeviceError as error:
            if not error.transient:
                raise
        pause_before(attempt)
    return call()


def pause_before(attempt: int) -> None:
    """The pause before try number ``attempt`` + 1."""
    _rest(min(FIRST_S * 2.0 ** (attempt - 1), LONGEST_S) * random.uniform(0.5, 1.0))


def wait(device: Device, job: Job) -> Readout:
    """The read-out of a job. One elsewhere is looked at now and then until it is done, or its own time is over."""
    if device.remote:
        pause, begun, most = job.poll_s, time.monotonic(), getattr(job, "timeout_s", None)
        while not again(job.done) and (most is None or time.monotonic() - begun <= most):
            _rest(pause)
            pause = max(job.poll_s, min(GROWTH * pause, RAREST_S))
    return again(job.result)


def _rest(seconds: float) -> None:
    until = time.monotonic() + seconds
    while True:
        clock.look()
        left = until - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(left, LOOK_S))
