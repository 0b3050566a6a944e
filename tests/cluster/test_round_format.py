"""Rounds as bytes: what is packed is unpacked, and what was damaged on its way is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.round_format import HEADER_BYTES, MalformedRoundError, longest_round, pack_round, unpack_round

LAYOUT = "0123456789abcdef"
UNROLLS = st.lists(st.tuples(st.binary(max_size=300), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=20)
NUMBERS = st.integers(0, 2**64 - 1)


@given(UNROLLS, NUMBERS, NUMBERS)
def test_what_is_packed_is_unpacked(unrolls: list[tuple[bytes, int]], player: int, sequence: int) -> None:
    blobs, versions = zip(*unrolls, strict=True)
    found = unpack_round(pack_round(LAYOUT, player, sequence, versions, blobs), LAYOUT)
    assert (found.player, found.sequence, found.versions) == (player, sequence, versions)
    assert [bytes(blob) for blob in found.blobs] == list(blobs)


@given(UNROLLS, st.data())
def test_one_wrong_byte_is_found(unrolls: list[tuple[bytes, int]], data: st.DataObject) -> None:
    blobs, versions = zip(*unrolls, strict=True)
    content = bytearray(pack_round(LAYOUT, 0, 0, versions, blobs))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(MalformedRoundError):
        unpack_round(bytes(content), LAYOUT)


@pytest.mark.parametrize("place", range(HEADER_BYTES))
def test_a_flipped_bit_of_any_byte_of_the_header_is_found(place: int) -> None:
    """A changed player or number of the round would count for another one."""
    content = bytearray(pack_round(LAYOUT, 5, 7, [1, 2], [b"abc", b"d"]))
    for bit in range(8):
        content[place] ^= 1 << bit
        with pytest.raises(MalformedRoundError):
            unpack_round(bytes(content), LAYOUT)
        content[place] ^= 1 << bit
    assert unpack_round(bytes(content), LAYOUT).player == 5


@given(UNROLLS, st.data())
def test_a_round_that_was_cut_off_is_refused(unrolls: list[tuple[bytes, int]], data: st.DataObject) -> None:
    blobs, versions = zip(*unrolls, strict=True)
    content = pack_round(LAYOUT, 0, 0, versions, blobs)
    with pytest.raises(MalformedRoundError):
        unpack_round(content[: data.draw(st.integers(0, len(content) - 1))], LAYOUT)


@given(st.binary(max_size=200))
def test_noise_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedRoundError):
        unpack_round(content, LAYOUT)


def test_another_layout_is_refused() -> None:
    with pytest.raises(MalformedRoundError, match="another layout"):
        unpack_round(pack_round("another layout!!", 0, 0, [1], [b"abc"]), LAYOUT)


def test_a_round_without_unrolls_is_refused() -> None:
    with pytest.raises(MalformedRoundError, match="0 unrolls"):
        unpack_round(pack_round(LAYOUT, 0, 0, [], []), LAYOUT)


def test_the_longest_round_has_room_for_unrolls_that_do_not_compress() -> None:
    incompressible = b"x" * (1000 + 1000 // 255 + 16)
    assert len(pack_round(LAYOUT, 0, 0, [0, 0], [incompressible] * 2)) == longest_round(2, 1000)
    assert longest_round(0, 1000) == HEADER_BYTES
