import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from run_files.replay_file import PIECE, DamagedFileError, WriteCancelledError, read_tensor_file, write_tensor_file
from tests.full_disk import files_limited_to


def numbers(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8))


def state() -> dict[str, Any]:
    return {
        "replays": [{"rows": numbers(3, 5), "added": 7}, {"rows": numbers(0, 5), "rng": '{"big": 1}'}],
        "nothing": None,
        "numbers": [1, 2.5, True],
        "deep": {"cube": numbers(2, 3, 4), "line\nbreak": "ü"},
        "blobs": [b"one", b"", b"three\n"],
        "none": [],
    }


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    path, written = tmp_path / "file", state()
    size = write_tensor_file(path, written)
    assert size == path.stat().st_size
    read = read_tensor_file(path)
    assert torch.equal(read["replays"][0].pop("rows"), written["replays"][0].pop("rows"))
    assert read["replays"][1].pop("rows").shape == written["replays"][1].pop("rows").shape == (0, 5)
    assert torch.equal(read["deep"].pop("cube"), written["deep"].pop("cube"))
    assert read == written
    assert list(tmp_path.iterdir()) == [path]


def test_changing_a_tensor_that_was_read_does_not_change_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_tensor_file(path, {"rows": numbers(4)})
    read_tensor_file(path)["rows"].zero_()
    assert torch.equal(read_tensor_file(path)["rows"], numbers(4))


def test_a_view_of_a_larger_tensor_is_written_as_the_view(tmp_path: Path) -> None:
    rows = numbers(10, 6)
    write_tensor_file(tmp_path / "file", {"rows": rows[:4]})
    assert torch.equal(read_tensor_file(tmp_path / "file")["rows"], rows[:4])


def test_byte_strings_of_all_sizes_are_read_as_views_of_the_file(tmp_path: Path) -> None:
    sizes = [0, 1, PIECE - 1, 3, PIECE, 2 * PIECE + 5, 7, 0]
    blobs = [bytes([65 + place]) * size for place, size in enumerate(sizes)]
    size = write_tensor_file(tmp_path / "file", {"blobs": blobs, "after": numbers(9)})
    assert size == (tmp_path / "file").stat().st_size
    read = read_tensor_file(tmp_path / "file")
    assert read["blobs"] == blobs
    assert all(isinstance(blob, memoryview) for blob in read["blobs"])
    assert torch.equal(read["after"], numbers(9))


def test_many_small_byte_strings_are_written_together(tmp_path: Path) -> None:
    checks = 0

    def never() -> bool:
        nonlocal checks
        checks += 1
        return False

    write_tensor_file(tmp_path / "file", {"blobs": [b"x" * 100] * 10_000}, never)
    assert checks == 1


@pytest.mark.parametrize("value", [b"alone", [b"one", 2]])
def test_bytes_outside_a_list_of_bytes_are_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(TypeError):
        write_tensor_file(tmp_path / "file", {"value": value})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("lengths", [[3, 5], [9, -1], [2**62, 2**62], [-3, 3]])
def test_lengths_that_do_not_fit_the_file_are_reported_as_damage(tmp_path: Path, lengths: list[int]) -> None:
    content = b'{"blobs": {"bytes": 2}}\n' + np.array(lengths, np.int64).tobytes() + b"12345678"
    (tmp_path / "file").write_bytes(content[:-1])
    with pytest.raises(DamagedFileError, match="cut off"):
        read_tensor_file(tmp_path / "file")


@pytest.mark.parametrize("tensor", [torch.zeros(3), torch.zeros(4, 4, dtype=torch.uint8).T[:2]])
def test_tensors_that_are_not_contiguous_uint8_are_refused(tmp_path: Path, tensor: torch.Tensor) -> None:
    with pytest.raises(TypeError, match="uint8"):
        write_tensor_file(tmp_path / "file", {"rows": tensor})
    assert not list(tmp_path.iterdir())


def test_a_file_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_tensor_file(path, state())
    whole = path.read_bytes()
    for kept in range(len(whole)):
        path.write_bytes(whole[:kept])
        with pytest.raises(DamagedFileError, match=str(path)):
            read_tensor_file(path)


@pytest.mark.parametrize(
    "content",
    [b"\n", b"hello\nworld", b"[1, 2]\n", b"3\n", b"\x80\x81\n", b'{"rows": {"tensor": [9, 9]}}\n', b"\0" * 50]
    + [b'{"blobs": {"bytes": 9}}\n', b'{"blobs": {"bytes": -1}}\n', b'{"blobs": {"bytes": [1]}}\n'],
)
def test_a_foreign_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(DamagedFileError):
        read_tensor_file(tmp_path / "file")


@pytest.mark.parametrize("pieces", [0, 1, 2])
def test_cancelling_keeps_the_older_file_and_leaves_no_other(tmp_path: Path, pieces: int) -> None:
    path = tmp_path / "file"
    write_tensor_file(path, {"rows": numbers(4)})
    checks = 0

    def cancelled() -> bool:
        nonlocal checks
        checks += 1
        return checks > pieces

    with pytest.raises(WriteCancelledError):
        write_tensor_file(path, {"rows": torch.zeros(2 * PIECE + 1, dtype=torch.uint8)}, cancelled)
    assert checks == pieces + 1
    assert torch.equal(read_tensor_file(path)["rows"], numbers(4))
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_is_synced_after_each_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the last sync could take minutes, and could not be cancelled."""
    sizes, real = [0], os.fsync

    def fsync(descriptor: int) -> None:
        sizes.append(max(sizes[-1], os.fstat(descriptor).st_size))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_tensor_file(tmp_path / "file", {"rows": torch.zeros(3 * PIECE, dtype=torch.uint8)})
    assert max(np.diff(sizes)) <= PIECE + len(json.dumps({"rows": {"tensor": [3 * PIECE]}})) + 1


@pytest.mark.parametrize("room", [0, 10, 2**16])
def test_a_full_disk_keeps_the_older_file(tmp_path: Path, room: int) -> None:
    path = tmp_path / "file"
    write_tensor_file(path, {"rows": numbers(4)})
    with files_limited_to(room), pytest.raises(OSError):
        write_tensor_file(path, {"rows": torch.zeros(2**17, dtype=torch.uint8)})
    assert torch.equal(read_tensor_file(path)["rows"], numbers(4))
    assert list(tmp_path.iterdir()) == [path]
