"""The suite reaches no network."""

import socket

import pytest


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_no_test_reaches_the_network(family, kind):
    address = ("127.0.0.1" if family == socket.AF_INET else "::1", 9)
    with socket.socket(family, kind) as plug:
        for reach in (plug.connect, plug.connect_ex, lambda where: plug.sendto(b"", where)):
            with pytest.raises(AssertionError, match="reached for the network"):
                reach(address)


def test_sockets_of_the_file_system_are_open():
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        ours.sendall(b"x")
        assert theirs.recv(1) == b"x"
