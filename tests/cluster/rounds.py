"""Rounds as a node would send them, for tests."""

import numpy as np

from cluster.rounds import pack_round
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


def packed(rows: Rows, layout: UnrollLayout = LAYOUT) -> bytes:
    codec = UnrollCodec(layout, 0)
    return pack_round(layout.fingerprint, [codec.encode(row) for row in rows])


def figures(node: str = "a", restarts: int = 0, received_bytes: int = 0) -> dict[str, object]:
    """Of a node, as the gateway tells them."""
    counts = {"restarts": restarts, "received_bytes": received_bytes, "sent_bytes": 0}
    return {"node": node, **counts, "round_trip_ms": 1.0, "publish_ms": 2.0}
