from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from run_files.replay_file import PIECE, read_tensor_file, write_tensor_file
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


@pytest.mark.parametrize("value", [b"alone", [b"one", 2]])
def test_bytes_outside_a_list_of_bytes_are_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(TypeError):
        write_tensor_file(tmp_path / "file", {"value": value})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("tensor", [torch.zeros(3), torch.zeros(4, 4, dtype=torch.uint8).T[:2]])
def test_tensors_that_are_not_contiguous_uint8_are_refused(tmp_path: Path, tensor: torch.Tensor) -> None:
    with pytest.raises(TypeError, match="uint8"):
        write_tensor_file(tmp_path / "file", {"rows": tensor})
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_file_that_is_cut_off_or_has_a_changed_bit_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_tensor_file(path, state())
    whole = path.read_bytes()
    for place in range(len(whole)):
        for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :]):
            path.write_bytes(damaged)
            with pytest.raises(OSError, match=f"^{path} is cut off, damaged, or not a replay file$"):
                read_tensor_file(path)


@pytest.mark.parametrize(
    "content",
    [b"\n", b"hello\nworld", b"[1, 2]\n", b"3\n", b"\x80\x81\n", b'{"rows": {"tensor": [9, 9]}}\n', b"\0" * 50]
    + [b'{"blobs": {"bytes": 9}}\n', b'{"blobs": {"bytes": -1}}\n', b'{"blobs": {"bytes": [1]}}\n'],
)
def test_a_foreign_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(OSError, match="is cut off, damaged, or not a replay file$"):
        read_tensor_file(tmp_path / "file")


@pytest.mark.parametrize("room", [0, 10, 2**16])
def test_a_full_disk_keeps_the_older_file(tmp_path: Path, room: int) -> None:
    path = tmp_path / "file"
    write_tensor_file(path, {"rows": numbers(4)})
    with files_limited_to(room), pytest.raises(OSError):
        write_tensor_file(path, {"rows": torch.zeros(2**17, dtype=torch.uint8)})
    assert torch.equal(read_tensor_file(path)["rows"], numbers(4))
    assert list(tmp_path.iterdir()) == [path]
