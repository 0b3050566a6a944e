"""Rounds as a node would send them, for tests."""

import numpy as np

from cluster.round_format import pack_round
from replay.row_layout import Rows
from replay.storage import UnrollCodec
from replay.unroll_layout import UnrollLayout

LAYOUT = UnrollLayout(unroll_length=5, frame_stack=1, frame_shape=(1, 6, 6), action_count=3)


def unrolls(count: int, version: int, seed: int = 0, layout: UnrollLayout = LAYOUT) -> Rows:
    """Random rows `[count, nbytes]` of the given weight version, from the environments 0, 1, 2, …"""
    rng = np.random.default_rng(seed)
    rows: Rows = rng.integers(0, 256, (count, layout.nbytes), np.uint8)
    layout.array(rows, "weight_version")[:] = version
    layout.array(rows, "environment_id")[:] = np.arange(count)
    return rows


def packed(rows: Rows, player: int = 0, sequence: int = 0, layout: UnrollLayout = LAYOUT) -> bytes:
    codec = UnrollCodec(layout, 0)
    versions = [int(version) for version in layout.array(rows, "weight_version")]
    return pack_round(layout.fingerprint, player, sequence, versions, [codec.encode(row) for row in rows])


def described(
    number: int = 0, name: str = "a", seat: int = 1, workers: int = 2, link: int = 0, **counters: int
) -> dict[str, object]:
    """A node as the gateway describes it."""
    return {
        "link": link,
        **{"number": number, "name": name, "seat": seat, "workers": workers, "capacity": 2 * workers, "restarts": 0},
        **{"alive": True, "received_bytes": 0, "sent_bytes": 0, "round_trip_ms": 1.0, "publish_ms": 2.0},
        **counters,
    }
