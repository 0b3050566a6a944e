import errno
import pickle
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from option_flags import Config
from options.rules import UsageError
from run_files.checkpoint import (
    DAMAGED,
    FORMAT_VERSION,
    InvalidCheckpointError,
    checkpoint_name,
    find_checkpoint,
    keep_newest,
    link,
    read_checkpoint,
    write_checkpoint,
)
from run_files.run_folder import BEST, CHECKPOINTS, write_atomically
from tests.full_disk import files_limited_to
from tests.run_files.some_checkpoint import some_content, some_learner

OPTIONS = Config().flags()


def content(updates: int = 3) -> dict[str, Any]:
    network = {"weight": torch.arange(600.0).reshape(20, 30) / 7}
    in_flight = {"snapshots": [], "unrolls": torch.zeros(0, 9, dtype=torch.uint8), "frames": b"\0\xff", "on": True}
    return some_content(updates, options=OPTIONS, learner=some_learner(network, updates), in_flight=in_flight)


def write(folder: Path, updates: int = 3) -> Path:
    path = folder / checkpoint_name(updates)
    write_checkpoint(path, content(updates))
    return path


def sentence(url: Path | str) -> str:
    """The error message for a checkpoint that cannot be used."""
    with pytest.raises(UsageError) as caught:
        find_checkpoint(str(url))
    text = str(caught.value)
    assert text.startswith("--load_model_url") and text.endswith(".") and "\n" not in text
    return text


# --- Written and read -------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    saved = read_checkpoint(write(tmp_path))
    weights = saved.content["learner"]["network"].pop("weight")
    unrolls = saved.content["in_flight"].pop("unrolls")
    expected = content()
    assert torch.equal(weights, expected["learner"]["network"].pop("weight"))
    assert torch.equal(unrolls, expected["in_flight"].pop("unrolls"))
    assert saved.content == {"format_version": FORMAT_VERSION, **expected}
    assert (saved.agent_steps, saved.updates) == (300, 3)
    assert saved.replay_path == tmp_path / "replays_0000000003.bin"


def test_a_resumed_run_does_not_inherit_the_mode_and_the_parent(tmp_path: Path) -> None:
    options = read_checkpoint(write(tmp_path)).options
    assert set(OPTIONS) - set(options) == {"op_mode", "load_model_url", "load_weights_only"}
    assert all(options[name] == OPTIONS[name] for name in options)


@pytest.mark.parametrize("room", [0, 1_000, 400_000])
def test_a_full_disk_keeps_the_older_checkpoint(tmp_path: Path, room: int) -> None:
    """It raises OSError, also if the disk fills up in the middle of the weights."""
    path = write(tmp_path)
    before = path.read_bytes()
    large = {**content(), "learner": {"network": torch.zeros(100_000)}}
    for updates in (3, 4):
        with files_limited_to(room), pytest.raises(OSError):
            write_checkpoint(tmp_path / checkpoint_name(updates), large)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# --- Found ------------------------------------------------------------------------------------------------------------


def test_a_run_folder_a_checkpoint_folder_and_a_file_can_be_given(tmp_path: Path) -> None:
    folder = tmp_path / CHECKPOINTS
    folder.mkdir()
    paths = [write(folder, updates) for updates in (9, 10, 1_000_000_000)]
    link(paths[0], folder / BEST)
    assert find_checkpoint(str(tmp_path)).path == paths[-1]
    assert find_checkpoint(str(folder)).path == paths[-1]
    assert find_checkpoint(str(paths[0])).updates == 9
    assert find_checkpoint(str(folder / BEST)).updates == 9


def test_in_a_checkpoint_s_own_folder_its_run_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run" / CHECKPOINTS
    folder.mkdir(parents=True)
    path = write(folder)
    monkeypatch.chdir(folder)
    for url in (path.name, f"./{path.name}", ".", ".."):
        assert find_checkpoint(url).run_folder.resolve() == tmp_path / "run", url


def test_a_best_checkpoint_without_numbered_ones_is_found(tmp_path: Path) -> None:
    write(tmp_path).rename(tmp_path / BEST)
    assert find_checkpoint(str(tmp_path)).path == tmp_path / BEST


@pytest.mark.parametrize("name", ["nowhere", "empty", "x" * 5_000])
def test_a_path_without_a_checkpoint_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty" / CHECKPOINTS).mkdir(parents=True)
    assert "a run folder or a checkpoint would be right" in sentence(tmp_path / name)


def test_a_folder_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated, because root can read every folder."""
    folder = tmp_path / CHECKPOINTS
    folder.mkdir()
    iterdir = Path.iterdir

    def forbidden(path: Path) -> Iterator[Path]:
        if path == folder:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", forbidden)
    for url in (tmp_path, folder):
        assert sentence(url).startswith(f"--load_model_url={url} cannot be read (Permission denied); ")


def test_a_checkpoint_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    newest = write(tmp_path)
    whole = newest.read_bytes()
    for length in sorted({*range(0, len(whole), 97), *range(40), *range(len(whole) - 40, len(whole))}):
        newest.write_bytes(whole[:length])
        assert sentence(tmp_path) == f"--load_model_url: {newest} {DAMAGED}."


def test_the_newest_usable_checkpoint_beside_a_damaged_one_is_named(tmp_path: Path) -> None:
    older = write(tmp_path)
    newest = older.with_name(checkpoint_name(10**6))
    for damaged in (newest, newest.with_name(checkpoint_name(10**6 - 1))):
        damaged.write_bytes(older.read_bytes()[:-1])
    assert (
        sentence(tmp_path)
        == f"--load_model_url: {newest} {DAMAGED}; --load_model_url={older}, beside it, would be right."
    )


@pytest.mark.slow
def test_a_checkpoint_with_a_damaged_byte_is_refused_or_reads_the_same(tmp_path: Path) -> None:
    """torch.load alone would accept wrong weights."""
    path = write(tmp_path)
    whole, refused = path.read_bytes(), list[str]()
    directory = whole.index(b"PK\x01\x02")  # the list of all entries, behind them
    saved = repr(read_checkpoint(path).content)
    for place in [*range(0, directory, 31), *range(directory, len(whole), 3)]:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        try:
            content = read_checkpoint(path).content
        except InvalidCheckpointError as error:
            refused.append(str(error))
        else:
            assert repr(content) == saved, "only bytes between the entries may differ"
    assert len(refused) > 100
    assert set(refused) == {"is cut off, damaged, or not a checkpoint of this program"}


def test_an_entry_marked_as_a_folder_is_refused(tmp_path: Path) -> None:
    """torch would read nothing for it, and return uninitialised memory as weights."""
    path = write(tmp_path)
    whole = path.read_bytes()
    entries = [at for at in range(len(whole)) if whole.startswith(b"PK\x01\x02", at)]
    assert len(entries) > 3
    for entry in entries:
        path.write_bytes(whole[: entry + 38] + bytes([whole[entry + 38] ^ 0x10]) + whole[entry + 39 :])
        with pytest.raises(InvalidCheckpointError):
            read_checkpoint(path)


def test_a_run_that_has_not_saved_yet_has_its_own_message(tmp_path: Path) -> None:
    (tmp_path / CHECKPOINTS).mkdir()
    (tmp_path / "config.json").touch()
    for url in (tmp_path, tmp_path / CHECKPOINTS):
        assert "is a run that has not saved anything yet" in sentence(url)


def foreign_files() -> Mapping[str, bytes]:
    return {
        "text": b"hello\n",
        "zeros": bytes(3_000),
        "picture": b"\x89PNG\r\n\x1a\n" + bytes(200),
        "pickle": pickle.dumps({"format_version": FORMAT_VERSION}),
        "code": pickle.dumps(print),
        "json": b'{"format_version": 1}',
    }


@pytest.mark.parametrize("name", foreign_files())
def test_a_foreign_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file.pt").write_bytes(foreign_files()[name])
    assert "not a checkpoint of this program" in sentence(tmp_path / "file.pt")


@pytest.mark.parametrize("value", [{"model": torch.zeros(3)}, [1, 2], torch.zeros(3), torch.nn.Linear(2, 2)])
def test_another_program_s_checkpoint_is_refused(tmp_path: Path, value: object) -> None:
    torch.save(value, tmp_path / "file.pt")
    assert "not a checkpoint of this program" in sentence(tmp_path / "file.pt")


def test_another_zip_file_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "file.pt", "w") as file:
        file.writestr("data.pkl", "hello")
    assert "not a checkpoint of this program" in sentence(tmp_path / "file.pt")


def test_another_format_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / checkpoint_name(4), {**content(4), "format_version": FORMAT_VERSION + 1})
    text = sentence(tmp_path)
    assert f"has the format {FORMAT_VERSION + 1}, but this version reads format {FORMAT_VERSION} only" in text


# --- Kept -------------------------------------------------------------------------------------------------------------


def test_the_newest_and_the_best_are_kept(tmp_path: Path) -> None:
    paths = [write(tmp_path, updates) for updates in (1, 2, 30, 400)]
    link(paths[0], tmp_path / BEST)
    (tmp_path / "replays_0000000001.bin").touch()
    keep_newest(tmp_path, 2)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("checkpoint_0000000030.pt", "checkpoint_0000000400.pt", BEST, "replays_0000000001.bin")
    }
    assert read_checkpoint(tmp_path / BEST).updates == 1


def test_copies_that_a_user_has_made_stay_and_do_not_count_as_the_newest(tmp_path: Path) -> None:
    paths = [write(tmp_path, updates) for updates in (1, 2)]
    copies = [tmp_path / name for name in ("checkpoint_good.pt", "checkpoint_0000000001_copy.pt", "checkpoint_9.pt")]
    for copy in copies:
        shutil.copyfile(paths[0], copy)
    assert find_checkpoint(str(tmp_path)).path == paths[1]
    keep_newest(tmp_path, 1)
    assert set(tmp_path.iterdir()) == {paths[1], *copies}


def test_temporary_files_of_killed_writers_are_removed_and_those_of_running_ones_stay(tmp_path: Path) -> None:
    (tmp_path / f".{checkpoint_name(2)}.0123456789ab.tmp").write_bytes(b"half")
    (tmp_path / ".another-program.tmp").write_bytes(b"its own")

    def write_and_tidy(file: Any) -> None:
        file.write(b"first half, ")
        keep_newest(tmp_path, 3)
        file.write(b"second half")

    write_atomically(tmp_path / "file", write_and_tidy)
    assert (tmp_path / "file").read_bytes() == b"first half, second half"
    assert {path.name for path in tmp_path.iterdir()} == {"file", ".another-program.tmp"}


def test_a_link_replaces_the_one_before(tmp_path: Path) -> None:
    first, second = write(tmp_path, 1), write(tmp_path, 2)
    link(first, tmp_path / BEST)
    link(second, tmp_path / BEST)
    first.unlink()
    second.unlink()
    assert read_checkpoint(tmp_path / BEST).updates == 2
    assert len(list(tmp_path.iterdir())) == 1


def test_without_hard_links_a_copy_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError("this file system has no links")

    source = write(tmp_path)
    synced: list[int] = []
    monkeypatch.setattr("os.link", no_links)
    monkeypatch.setattr("os.fsync", synced.append)
    link(source, tmp_path / BEST)
    assert read_checkpoint(tmp_path / BEST).updates == 3
    assert len(synced) == 2, "the copy and its folder"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_link_to_a_symbolic_link_is_the_file_itself(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    write(tmp_path / "kept").rename(tmp_path / "kept" / BEST)
    (tmp_path / BEST).symlink_to(Path("kept") / BEST)
    link(tmp_path / BEST, tmp_path / "run" / "checkpoints" / BEST)
    assert read_checkpoint(tmp_path / "run" / "checkpoints" / BEST).updates == 3
