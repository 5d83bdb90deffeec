"""Sockets for tests of clusters."""

import socket

import pytest


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
