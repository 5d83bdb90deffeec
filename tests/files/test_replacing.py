"""Replacing files: links, devices, folders, modes, owners."""

from __future__ import annotations

import os
import stat
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import dualflow
from dualflow import SVC, Gram, ProblemError, problems, solve
from dualflow.persistence import files
from dualflow.persistence.files import open_regular, replacing, replacing_text

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links, devices and modes are POSIX's")

X, Y = np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 2


def save_model(path):
    SVC(random_state=0).fit(X, Y).save(path)


def save_checkpoint(path):
    path.unlink(missing_ok=True) if path.is_file() and not path.is_symlink() else None
    solve(problems.svc(Gram(X), 2 * Y - 1), "smo", checkpoint=path, max_steps=2)


def save_text(path):
    with replacing_text(path) as file:
        file.write("a,b\r\n")


WRITERS = [save_model, save_text]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("found", [0o600, 0o640, 0o644, 0o666, 0o755])
def test_the_mode_of_a_file_is_kept(tmp_path, write, found):
    path = tmp_path / "file"
    path.touch()
    path.chmod(found)
    write(path)
    assert path.stat().st_size
    assert mode(path) == found


def test_a_private_checkpoint_stays_private(tmp_path):
    path, problem = tmp_path / "run", problems.svc(Gram(X), 2 * Y - 1)
    solve(problem, "smo", checkpoint=path, max_steps=2, random_state=0)
    path.chmod(0o600)
    solve(problem, "smo", checkpoint=path, max_steps=4, random_state=0)
    assert mode(path) == 0o600


@pytest.mark.parametrize("write", [*WRITERS, save_checkpoint])
def test_a_new_file_has_the_mode_of_the_umask(tmp_path, write):
    before = os.umask(0o027)
    try:
        write(tmp_path / "file")
    finally:
        os.umask(before)
    assert mode(tmp_path / "file") == 0o640


def test_only_the_owner_can_read_the_temporary_file_of_a_private_file(tmp_path):
    path = tmp_path / "file"
    path.touch(mode=0o600)
    with replacing(path) as file:
        (part,) = (p for p in tmp_path.iterdir() if p != path)
        assert mode(part) == 0o600
        file.write(b"x")
    assert mode(path) == 0o600


@pytest.mark.parametrize("write", [*WRITERS, save_checkpoint])
def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path, write):
    (tmp_path / "elsewhere").mkdir()
    target, link, chain = tmp_path / "elsewhere" / "target", tmp_path / "link", tmp_path / "chain"
    link.symlink_to("elsewhere/target")
    chain.symlink_to("link")
    for path in (chain, link):  # first a link to what is not there yet
        target.unlink(missing_ok=True)
        write(path)
        assert link.is_symlink()
        assert chain.is_symlink()
        assert target.is_file()
        assert not target.is_symlink()
        assert sorted(p.name for p in tmp_path.iterdir()) == ["chain", "elsewhere", "link"]
        assert [p.name for p in (tmp_path / "elsewhere").iterdir()] == ["target"]


def make_folder(path):
    path.mkdir()


def make_link_to_device(path):
    path.symlink_to("/dev/null")


def make_link_to_folder(path):
    path.symlink_to(path.parent)


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("make", [make_folder, os.mkfifo, make_link_to_device, make_link_to_folder])
def test_other_kinds_of_files_are_refused_and_unchanged(tmp_path, write, make):
    path = tmp_path / "thing"
    make(path)
    before = path.lstat()
    with pytest.raises(ProblemError, match=r"thing is a (directory|pipe|device), not a file"):
        write(path)
    assert path.lstat().st_mode == before.st_mode
    assert path.lstat().st_ino == before.st_ino
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert [p.name for p in tmp_path.iterdir()] == ["thing"]


def test_links_in_a_circle_are_an_error(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        save_text(tmp_path / "a")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_file_that_must_not_be_written_is_not(tmp_path):
    path = tmp_path / "file"
    path.write_text("mine")
    path.chmod(0o444)
    with pytest.raises(PermissionError):
        save_text(path)
    assert path.read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_is_kept_where_the_system_allows_it(tmp_path):
    path = tmp_path / "file"
    path.touch(mode=0o640)
    os.chown(path, 1234, 2345)
    save_text(path)
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 2345)
    assert mode(path) == 0o640


def test_another_group_gets_no_more_rights_than_all_others(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.touch()
    path.chmod(0o664)
    old = os.stat_result((*path.stat()[:5], path.stat().st_gid + 1, *path.stat()[6:]))
    monkeypatch.setattr(files, "target_of", lambda path: (path, old))

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refuse)
    save_text(path)
    assert mode(path) == 0o644


def test_a_name_as_long_as_the_system_allows(tmp_path):
    for name in ("x" * 255, "ä" * 127):
        save_text(tmp_path / name)
        assert (tmp_path / name).read_bytes() == b"a,b\r\n"


def test_reports_and_tables_are_replaced_as_models_are(tmp_path):
    front = dualflow.pareto_front(X, Y)
    comparison = dualflow.compare(X, Y, problems=("hinge",), solvers=("smo",), max_n=12, time_limit=5)
    for number, write in enumerate((front.to_csv, comparison.to_csv, comparison.to_html)):
        target, link = tmp_path / f"target{number}", tmp_path / f"link{number}"
        target.touch(mode=0o600)
        link.symlink_to(target.name)
        write(link)
        assert link.is_symlink()
        assert mode(target) == 0o600
        assert target.stat().st_size
        with pytest.raises(ProblemError, match="is a device"):
            write("/dev/null")


# --- reading ---------------------------------------------------------------------------------------


READERS = [
    dualflow.load,
    lambda path: solve(problems.svc(Gram(X), 2 * Y - 1), "smo", checkpoint=path),
]


@pytest.mark.parametrize("read", READERS)
def test_a_pipe_is_not_waited_for(tmp_path, read):
    os.mkfifo(tmp_path / "pipe")
    raised: list[BaseException] = []

    def run():
        try:
            read(tmp_path / "pipe")
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert isinstance(raised[0], ProblemError)
    assert "pipe" in str(raised[0])


@pytest.mark.parametrize("read", READERS)
def test_endless_files_are_not_read(read):
    with pytest.raises(ProblemError, match=r"/dev/zero is (not a file but )?a device"):
        read(Path("/dev/zero"))


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(1 << 40)
    with (
        pytest.raises(ProblemError, match="has 1099511627776 bytes, most=10 are allowed"),
        open_regular(tmp_path / "sparse", 10, "most"),
    ):
        pass
    for read in READERS:
        with pytest.raises(ProblemError, match="has 1099511627776 bytes"):
            read(tmp_path / "sparse")
