import lz4.block  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.row_layout import Rows
from replay.storage import UnrollCodec
from replay.unroll_layout import UnrollLayout

SPECS = st.builds(
    UnrollLayout,
    unroll_length=st.integers(1, 6),
    frame_stack=st.integers(1, 5),
    frame_shape=st.tuples(st.sampled_from([1, 3]), st.integers(1, 40), st.integers(1, 40)),
    action_sizes=st.tuples(st.integers(1, 18)),
    lstm_size=st.integers(0, 5),
)
WITHOUT_PICTURES = st.builds(
    UnrollLayout,
    unroll_length=st.integers(1, 6),
    frame_stack=st.just(0),
    frame_shape=st.just((0, 0, 0)),
    action_sizes=st.tuples(st.integers(1, 18)),
    vector_size=st.integers(1, 9),
)
LEVELS = st.integers(0, 12)
ATARI = UnrollLayout(unroll_length=20, frame_stack=4, frame_shape=(1, 84, 84), action_sizes=(6,))


def noise(layout: UnrollLayout, seed: int) -> Rows:
    return np.random.default_rng(seed).integers(0, 256, layout.nbytes, np.uint8)


def game_like(layout: UnrollLayout, seed: int) -> Rows:
    """A constant background with a moving spot; noise in all other fields."""
    rng = np.random.default_rng(seed)
    row = noise(layout, seed)
    frames = layout.array(row, "frames")
    frames[:] = rng.integers(0, 256, layout.frame_shape, np.uint8)
    height, width = layout.frame_shape[-2:]
    for t, frame in enumerate(frames):
        frame[..., t % height, 2 * t % width] = 255
    return row


def back(codec: UnrollCodec, row: Rows) -> Rows:
    """Encoded and decoded, into the middle of three rows; the others must not change."""
    out = np.full((3, len(row)), 0xE7, np.uint8)
    codec.decode(codec.encode(row), out[1])
    assert (out[[0, 2]] == 0xE7).all()
    decoded: Rows = out[1]
    return decoded


@settings(deadline=None)
@given(SPECS, LEVELS, st.integers(0, 1000), st.booleans())
def test_decoding_inverts_encoding(layout: UnrollLayout, level: int, seed: int, game: bool) -> None:
    codec = UnrollCodec(layout, level)
    for row in ((game_like if game else noise)(layout, seed + more) for more in range(2)):
        before = row.copy()
        np.testing.assert_array_equal(back(codec, row), before)
        np.testing.assert_array_equal(row, before)


@settings(deadline=None)
@given(WITHOUT_PICTURES, LEVELS, st.integers(0, 1000))
@pytest.mark.slow
def test_observations_need_no_pictures(layout: UnrollLayout, level: int, seed: int) -> None:
    row = noise(layout, seed)
    np.testing.assert_array_equal(back(UnrollCodec(layout, level), row), row)


def test_a_blob_does_not_depend_on_earlier_rows() -> None:
    first, second = game_like(ATARI, 1), game_like(ATARI, 2)
    codec = UnrollCodec(ATARI, 0)
    alone = codec.encode(second)
    codec.encode(first)
    assert codec.encode(second) == alone
    np.testing.assert_array_equal(back(codec, first), first)


def test_every_level_decodes_the_blobs_of_every_other() -> None:
    """A run may be resumed with another level."""
    row = game_like(ATARI, 3)
    for level in (0, 1, 12):
        out = np.zeros_like(row)
        UnrollCodec(ATARI, 0).decode(UnrollCodec(ATARI, level).encode(row), out)
        np.testing.assert_array_equal(out, row)


@pytest.mark.parametrize("frame_shape", [(1, 84, 84), (3, 210, 160)])
def test_frames_that_repeat_are_stored_once(frame_shape: tuple[int, ...]) -> None:
    """Even if one frame is larger than the window of lz4. The background is noise, which does not compress."""
    layout = UnrollLayout(unroll_length=20, frame_stack=4, frame_shape=frame_shape, action_sizes=(6,))
    row = game_like(layout, 4)
    rest = layout.nbytes - layout.by_name["frames"].nbytes
    still = int(np.prod(frame_shape))
    assert len(UnrollCodec(layout, 0).encode(row)) < still + rest + layout.nbytes / 100


def test_higher_levels_are_smaller() -> None:
    row = game_like(ATARI, 5)
    frames = ATARI.array(row, "frames")
    frames[:] = (np.add.outer(np.arange(84), np.arange(84)) // 5).astype(np.uint8)
    for t, frame in enumerate(frames):
        frame[0, t : t + 9, 3 * t : 3 * t + 5] = 200
    sizes = [len(UnrollCodec(ATARI, level).encode(row)) for level in (0, 9, 12)]
    assert sizes[2] <= sizes[1] < sizes[0] < ATARI.nbytes / 20


ONE_BYTE = lz4.block.compress(b"x", store_size=False)


@pytest.mark.parametrize("blob", [b"", b"nonsense", UnrollCodec(ATARI, 0).encode(noise(ATARI, 6))[:-100], ONE_BYTE])
def test_a_damaged_blob_is_an_error(blob: bytes) -> None:
    with pytest.raises((lz4.block.LZ4BlockError, ValueError)):
        UnrollCodec(ATARI, 0).decode(blob, np.zeros(ATARI.nbytes, np.uint8))
