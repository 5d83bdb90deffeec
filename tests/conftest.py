"""One BLAS thread for the whole suite, no network, and no skip without a reason."""

import gc
import os
import socket
import sys

# Before numpy is imported: the problems here are small, and threads that spin on a busy machine cost 100 ×.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
# Without bytecode both workers compile all tests anew, and each process that a test starts compiles the package.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

import pytest  # noqa: E402 - after the environment is set

_UNEXPLAINED = pytest.StashKey[list[str]]()


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only sockets of this machine's own file system, which process pools talk through."""

    def local_only(real):
        def call(self, *arguments):
            if self.family != socket.AF_UNIX:
                raise AssertionError(f"a test reached for the network: {arguments[-1]}")
            return real(self, *arguments)

        return call

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, local_only(getattr(socket.socket, name)))


@pytest.fixture(scope="module")
def own_sockets():
    """Allow the processes of a cluster to use this machine's loopback network, 127.0.0.1, only.

    To find an address of this machine, dask connects a datagram socket, by which nothing is sent."""
    patch = pytest.MonkeyPatch()

    def loopback(real):
        def call(self, *arguments):
            outside = self.family != socket.AF_UNIX and arguments[-1][0] != "127.0.0.1"
            if outside and self.type != socket.SOCK_DGRAM:
                raise AssertionError(f"a test reached for the network: {arguments[-1]}")
            return real(self, *arguments)

        return call

    for name in ("connect", "connect_ex"):
        patch.setattr(socket.socket, name, loopback(getattr(socket.socket, name)))
    yield
    patch.undo()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_UNEXPLAINED] = []


def pytest_collection_finish(session: pytest.Session) -> None:
    """Take what was collected, millions of objects, out of every later collection of garbage."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    report = (yield).get_result()
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped").strip(": ")
        if reason in ("", "unconditional skip", "<Skipped instance>"):
            item.config.stash[_UNEXPLAINED].append(item.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    unexplained = session.config.stash[_UNEXPLAINED]
    if unexplained:
        print("\nskipped without a reason: " + ", ".join(unexplained))
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
