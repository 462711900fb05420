"""Where the data and the socket lie, and which places are refused."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import EmbeddedError
from holdfast.server import Embedded
from holdfast.server.place import LONGEST_SOCKET_PATH, Place, Record, runtime_rooms

OTHER = 65534


def place_at(directory: Path) -> Place:
    place = Place(directory)
    place.prepare()
    return place


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def room() -> Iterator[Path]:
    """A short directory of our own."""
    directory = Path(tempfile.mkdtemp(prefix="hf-"))
    yield directory
    shutil.rmtree(directory)


# -- the data -------------------------------------------------------------------------------------


def test_the_data_directory_is_private_and_git_ignores_it(data: Path) -> None:
    embedded = Embedded.join(data)
    embedded.leave()
    assert mode(data) == 0o700
    assert (data / ".gitignore").read_text() == "*\n"


def test_a_gitignore_of_ones_own_stays(data: Path) -> None:
    data.mkdir(parents=True)
    (data / ".gitignore").write_text("*\n!notes\n")
    Embedded.join(data).leave()
    assert (data / ".gitignore").read_text() == "*\n!notes\n"


def test_a_path_with_a_file_in_the_way_is_an_error_with_advice(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for directory in (tmp_path / "file", tmp_path / "file" / ".holdfast"):
        with pytest.raises(EmbeddedError, match=r"cannot work in .*HOLDFAST_URL"):
            Embedded.join(directory)


def as_other_user(directory: Path) -> str:
    """What a process of another user is told that joins, in a child that gave up being root."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing"
        try:
            os.setuid(OTHER)
            Embedded.join(directory)
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        finally:
            os.write(write, said.encode())
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_directory_that_one_may_not_write_is_an_error_with_advice(room: Path) -> None:
    room.chmod(0o755)
    said = as_other_user(room / ".holdfast")
    assert said.startswith("EmbeddedError: the embedded server cannot work in")
    assert "Permission denied" in said
    assert "may write to" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_directory_of_another_user_is_refused(room: Path) -> None:
    """Even where we could write: our files would lock its owner out."""
    theirs = room / ".holdfast"
    theirs.mkdir()
    theirs.chmod(0o777)
    os.chown(theirs, OTHER, OTHER)
    with pytest.raises(EmbeddedError, match=f"belongs to user {OTHER}"):
        Embedded.join(theirs)
    os.chown(theirs, 0, 0)
    room.chmod(0o755)
    assert "belongs to user 0" in as_other_user(theirs)
    assert list(theirs.iterdir()) == []


def test_a_look_makes_nothing(data: Path) -> None:
    assert Embedded.find(data) is None
    data.mkdir(parents=True)
    assert Embedded.find(data) is None
    assert list(data.iterdir()) == []


# -- the socket -----------------------------------------------------------------------------------


def test_the_socket_lies_in_the_session_s_runtime_directory(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(room))
    assert runtime_rooms()[0] == room / "holdfast"


@pytest.mark.parametrize("wrong", ["open to others", "not there", "not ours", "unset"])
def test_a_runtime_directory_that_is_not_ours_alone_is_not_used(
    room: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    session = room / "session"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(session))
    if wrong != "not there":
        session.mkdir(mode=0o700)
    if wrong == "open to others":
        session.chmod(0o750)
    if wrong == "not ours":
        if os.geteuid() != 0:
            pytest.skip("only root can give a directory away")
        os.chown(session, OTHER, OTHER)
    if wrong == "unset":
        monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert runtime_rooms()[0] == Path(tempfile.gettempdir(), f"holdfast-{os.geteuid()}")


def test_the_room_for_sockets_is_made_for_us_alone(tmp_path: Path, room: Path) -> None:
    socket = place_at(tmp_path).choose_socket([room / "sockets"])
    assert socket.parent == room / "sockets"
    assert mode(socket.parent) == 0o700


def test_rooms_that_others_prepared_are_passed_over(tmp_path: Path, room: Path) -> None:
    """A symlink, a file or a directory that others may enter: any of them could be a trap in a shared place."""
    (room / "real").mkdir(mode=0o700)
    (room / "link").symlink_to(room / "real")
    (room / "file").write_text("")
    (room / "open").mkdir()
    (room / "open").chmod(0o755)
    place = place_at(tmp_path)
    bad = [room / "link", room / "file", room / "open"]
    assert place.choose_socket([*bad, room / "good"]).parent == room / "good"
    with pytest.raises(EmbeddedError, match="XDG_RUNTIME_DIR") as told:
        place.choose_socket(bad)
    assert "others may enter it (mode 755)" in str(told.value)
    assert str(told.value).count("not a directory") + str(told.value).count("File exists") == 2


def test_a_path_too_long_for_a_socket_is_passed_over_or_told(tmp_path: Path, room: Path) -> None:
    place = place_at(tmp_path)
    name = f"/{place.key()}.sock"
    fits = Path("/" + "x" * (LONGEST_SOCKET_PATH - len(name) - 1))
    long = Path(f"{fits}y")
    assert len(f"{fits}{name}") == LONGEST_SOCKET_PATH
    assert place.choose_socket([long, room]).parent == room
    with pytest.raises(EmbeddedError, match="1 bytes too long for a socket"):
        place.choose_socket([long])


def test_a_deep_project_and_a_deep_runtime_directory_still_get_a_server(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = tmp_path / ("x" * 120)
    session.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(session))
    embedded = Embedded.join(data / ("y" * 200))
    try:
        assert embedded.status().answers
        assert len(embedded.url) <= len("unix://") + LONGEST_SOCKET_PATH
    finally:
        embedded.leave()


def test_all_ways_to_a_directory_lead_to_one_socket(tmp_path: Path, room: Path) -> None:
    """Through a symlink, a relative path or another name after a move; but not from a copy."""
    home = tmp_path / "project"
    place = place_at(home)
    (tmp_path / "link").symlink_to(home)
    assert Place(tmp_path / "link").key() == place.key()
    assert Place(Path(os.path.relpath(home))).key() == place.key()
    shutil.copytree(home, tmp_path / "copy")
    assert Place(tmp_path / "copy").key() != place.key()
    key = place.key()
    home.rename(tmp_path / "moved")
    assert Place(tmp_path / "moved").key() == key


def test_the_last_socket_is_used_again_so_that_urls_stay_good(tmp_path: Path, room: Path) -> None:
    """A process with another environment restarts the server where its users look for it."""
    place = place_at(tmp_path)
    last = place.choose_socket([room / "first"])
    place.write_record(Record(str(last), "9.1.2"))
    assert place.choose_socket([room / "second"]) == last
    (room / "first").chmod(0o777)
    assert place.choose_socket([room / "second"]).parent == room / "second"


def test_a_copy_does_not_take_the_socket_of_its_original(tmp_path: Path, room: Path) -> None:
    original = place_at(tmp_path / "original")
    socket = original.choose_socket([room])
    original.write_record(Record(str(socket), "9.1.2"))
    shutil.copytree(original.directory, tmp_path / "copy")
    copy = Place(tmp_path / "copy")
    assert copy.recorded_socket() is None
    assert copy.choose_socket([room]) != socket


@pytest.mark.parametrize("text", ["", "{", "[]", '{"socket": 1}', '{"socket": "a", "version": "b", "more": 1}'])
def test_a_record_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    place = place_at(tmp_path)
    place.record.write_text(text)
    assert place.read_record() is None
