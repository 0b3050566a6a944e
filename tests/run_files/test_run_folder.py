import errno
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import pytest

from option_flags import Config
from options.rules import UsageError
from run_files.run_folder import create_run_folder, write_atomically, write_json

NOW = 1_700_000_000.9


def test_folder_is_named_after_environment_and_whole_second(tmp_path: Path) -> None:
    folder = create_run_folder(tmp_path / "not" / "there yet", "PongNoFrameskip-v4", NOW)
    assert folder == tmp_path / "not" / "there yet" / "PongNoFrameskip-v4_1700000000"
    assert folder.is_dir()


def test_the_name_of_a_run_comes_first(tmp_path: Path) -> None:
    assert create_run_folder(tmp_path, "Pong", NOW, "first-try").name == "first-try_Pong_1700000000"
    for name in ("a/b", "-a", "..", ".a", "1", "a b", "ä", ""):
        with pytest.raises(UsageError, match="^--run_name must be a name"):
            Config.from_flags({"run_name": name})
    for tags in ("a,,b", "a, b", ",a", "a/b", ""):
        with pytest.raises(UsageError, match="^--tags must be words"):
            Config.from_flags({"tags": tags})


def test_slash_in_an_environment_id_makes_no_deeper_folder(tmp_path: Path) -> None:
    folder = create_run_folder(tmp_path, "ALE/Pong-v5", NOW)
    assert folder == tmp_path / "ALE-Pong-v5_1700000000"


def test_runs_of_one_second_are_numbered_and_keep_their_files(tmp_path: Path) -> None:
    first = create_run_folder(tmp_path, "Pong", NOW)
    (first / "checkpoint").write_text("first")
    second = create_run_folder(tmp_path, "Pong", NOW)
    third = create_run_folder(tmp_path, "Pong", NOW)
    assert [second.name, third.name] == ["Pong_1700000000_2", "Pong_1700000000_3"]
    assert (first / "checkpoint").read_text() == "first"
    assert list(second.iterdir()) == []


def test_runs_started_together_never_share_a_folder(tmp_path: Path) -> None:
    runs = 8
    together = threading.Barrier(runs)

    def start(_: int) -> Path:
        together.wait(timeout=30)
        return create_run_folder(tmp_path, "Pong", NOW)

    with ThreadPoolExecutor(runs) as threads:
        folders = list(threads.map(start, range(runs)))
    assert len(set(folders)) == runs
    assert set(folders) == set(tmp_path.iterdir())


def test_a_name_taken_by_a_file_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "Pong_1700000000").write_text("no folder")
    assert create_run_folder(tmp_path, "Pong", NOW).name == "Pong_1700000000_2"


@pytest.mark.parametrize("inside", ["", "deeper"])
def test_a_results_folder_that_is_a_file_raises_os_error(tmp_path: Path, inside: str) -> None:
    (tmp_path / "results").write_text("a file")
    with pytest.raises((FileExistsError, NotADirectoryError)):
        create_run_folder(tmp_path / "results" / inside, "Pong", NOW)


def test_error_other_than_a_taken_name_is_not_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_mkdir = Path.mkdir

    def mkdir(self: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        if self.name.startswith("Pong"):
            raise PermissionError(errno.EACCES, "not yours", str(self))
        real_mkdir(self, mode, parents, exist_ok)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with pytest.raises(PermissionError):
        create_run_folder(tmp_path, "Pong", NOW)


def test_written_file_is_the_bytes_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    assert path.read_bytes() == b"old"
    write_atomically(path, lambda file: file.write(b"new"))
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_relative_path_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_atomically(Path("file"), b"here")
    assert (tmp_path / "file").read_bytes() == b"here"


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "disk full"), ValueError("bad value"), KeyboardInterrupt()])
def test_an_error_while_writing_keeps_the_old_file_and_leaves_no_other(tmp_path: Path, failure: BaseException) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old and whole")

    def write(file: BinaryIO) -> None:
        file.write(b"half of the new")
        file.flush()
        assert path.read_bytes() == b"old and whole"
        raise failure

    with pytest.raises(type(failure)) as caught:
        write_atomically(path, write)
    assert caught.value is failure
    assert path.read_bytes() == b"old and whole"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_failing_disk_keeps_the_old_file_and_leaves_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old and whole")

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "broken disk")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="broken disk"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old and whole"
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_is_synced_before_the_rename_and_the_folder_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    real_fsync, real_replace = os.fsync, os.replace
    folder_inode = tmp_path.stat().st_ino

    def fsync(descriptor: int) -> None:
        steps.append("sync folder" if os.fstat(descriptor).st_ino == folder_inode else "sync file")
        real_fsync(descriptor)

    def replace(source: Path, target: Path) -> None:
        assert source.read_bytes() == b"bytes"
        steps.append("rename")
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    write_atomically(tmp_path / "file", b"bytes")
    assert steps == ["sync file", "rename", "sync folder"]


def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "ordinary").write_bytes(b"")
    write_atomically(tmp_path / "atomic", b"")
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


def test_threads_writing_one_file_leave_it_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = [bytes([65 + writer]) * 200_000 for writer in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda content: write_atomically(path, content), contents))
    assert path.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [path]


def test_json_keeps_the_order_of_keys(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    write_json(path, {"b": 1, "a": [1.5, None, "ü"]})
    assert path.read_text(encoding="utf-8") == '{\n  "b": 1,\n  "a": [\n    1.5,\n    null,\n    "ü"\n  ]\n}\n'


@pytest.mark.parametrize(("value", "error"), [(float("nan"), ValueError), (float("inf"), ValueError), ({1}, TypeError)])
def test_a_value_that_is_not_json_keeps_the_old_file(tmp_path: Path, value: object, error: type[Exception]) -> None:
    path = tmp_path / "config.json"
    write_json(path, {"old": 1})
    with pytest.raises(error):
        write_json(path, {"new": value})
    assert json.loads(path.read_text()) == {"old": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_file_names_that_are_not_utf_8_are_written_and_read(tmp_path: Path) -> None:
    name = os.fsdecode(b"runs\xff")
    write_json(tmp_path / "file.json", {"checkpoint": name})
    assert json.loads((tmp_path / "file.json").read_text(encoding="utf-8")) == {"checkpoint": name}
