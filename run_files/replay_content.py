"""What a replay file holds, declared once, and how saved replays must fit the replays of a run."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from lz4.block import LZ4BlockError  # type: ignore[import-untyped]

from option_flags import ReplayOptions
from options.batch_uses import ONCE, BatchUses
from options.replay_options import ReplaySpec
from replay.row_layout import Rows
from replay.storage import UnrollCodec
from replay.unroll_layout import UnrollLayout
from run_files.unroll_content import check_rows, unrolls
from run_files.value_rules import (
    ANY_NUMBER,
    GENERATOR_TEXT,
    LIST,
    TABLE,
    TEXT,
    Check,
    ContentError,
    list_of,
    nothing_or,
    number,
    table,
    tensor,
    tuple_of,
    whole,
)

_REPLAY_FILE = table(
    {"unroll": TEXT, "mix": table({"new": whole(), "replays": list_of(TABLE), "prepared": LIST})},
    {"agent_steps": whole()},
)
# Distances in a draw are None where nothing was ranked.
_DRAWN = tuple_of(ANY_NUMBER, ANY_NUMBER, nothing_or(ANY_NUMBER), nothing_or(ANY_NUMBER))
_DRAW = tuple_of(_DRAWN, ANY_NUMBER, number(0))


def check_replay_file(content: Any) -> None:
    """Refuse a content that no run writes, whatever its replays are."""
    _REPLAY_FILE(content, "")


def check_replays(
    content: Mapping[str, Any],
    options: ReplayOptions,
    layout: UnrollLayout,
    with_queues: bool,
    batch_uses: BatchUses = ONCE,
) -> None:
    """Refuse replays that differ from those of `options`. Queues and prepared batches are checked `with_queues` only,
    because other runs do not load them."""
    mix = content["mix"]
    list_of(TABLE, len(options.replays))(mix["replays"], "mix.replays")
    for index, (saved, entry, share) in enumerate(zip(mix["replays"], options.replays, options.shares, strict=True)):
        place = f"mix.replays[{index}]"
        if entry.type == "queue":
            if with_queues:
                capacity = max(entry.capacity, share)
                if batch_uses == ONCE:
                    _check_queue(saved, capacity, layout, place)
                else:
                    _check_circular_queue(saved, capacity, share, layout, batch_uses, place)
        else:
            _check_replay(saved, entry, options, layout, place)
    if with_queues:
        batch = table(
            {
                "rows": tensor(torch.uint8, options.batch_size, layout.nbytes),
                "draws": list_of(_DRAW, len(options.replays)),
            }
        )
        list_of(batch)(mix["prepared"], "mix.prepared")
        for index, prepared in enumerate(mix["prepared"]):
            check_rows(prepared["rows"].numpy(), layout, f"mix.prepared[{index}].rows")


def _check_queue(saved: Any, capacity: int, layout: UnrollLayout, place: str) -> None:
    table({"storage": _raw_storage(capacity, layout), "added": whole(), "given": whole()})(saved, place)
    added, rows = saved["added"], len(saved["storage"]["rows"])
    whole(max(0, added - capacity), added)(saved["given"], f"{place}.given")
    whole(min(added, capacity), min(added, capacity))(rows, f"{place}.storage: the number of rows")


def _check_circular_queue(
    saved: Any, capacity: int, share: int, layout: UnrollLayout, batch_uses: BatchUses, place: str
) -> None:
    """The unrolls that wait for their first use, and those that are used again."""
    places, uses = batch_uses.slots, batch_uses.uses
    counters = list_of(whole(0, uses), places)
    ring = _raw_storage(places * share, layout)
    table({"waiting": TABLE, "ring": ring, "draws": whole(), "used": counters, "left": counters})(saved, place)
    _check_queue(saved["waiting"], capacity, layout, f"{place}.waiting")
    held = share * min(saved["draws"], places)
    whole(held, held)(len(saved["ring"]["rows"]), f"{place}.ring: the number of rows")
    for index, left in enumerate(saved["left"]):
        filled = index < saved["draws"]
        whole(0, uses - saved["used"][index] if filled else 0)(left, f"{place}.left[{index}]")


def _check_replay(saved: Any, entry: ReplaySpec, options: ReplayOptions, layout: UnrollLayout, place: str) -> None:
    """A standard, attentive or elite replay: its storage, and an entry of each record for each unroll in it."""
    storage = _compressed_storage if options.use_replay_compression else _raw_storage
    table({"added": whole(), "storage": storage(entry.capacity, layout)})(saved, place)
    held = min(saved["added"], entry.capacity)
    rows = saved["storage"]["blobs" if options.use_replay_compression else "rows"]
    whole(held, held)(len(rows), f"{place}.storage: the number of unrolls")
    required: dict[str, Check] = {
        "order": _array(np.int64, held, 0, saved["added"] - 1),
        "times_drawn": _array(np.int64, held, 0),
        "rng": GENERATOR_TEXT,
    }
    if entry.type == "attentive":
        required["newest"] = _newest_states(layout, least=min(1, held))
    table(required, {"remembered": _array(np.float64, held)})(saved, place)


def _raw_storage(capacity: int, layout: UnrollLayout) -> Check:
    return table({"capacity": whole(capacity, capacity), "rows": unrolls(layout, capacity)})


def _compressed_storage(capacity: int, layout: UnrollLayout) -> Check:
    codec, row = UnrollCodec(layout, level=0), np.empty(layout.nbytes, np.uint8)

    def blob(value: Any, place: str) -> None:
        _decode(codec, value, row, place)
        check_rows(row, layout, place)

    return table({"capacity": whole(capacity, capacity), "blobs": list_of(blob, most=capacity)})


def _decode(codec: UnrollCodec, blob: Any, row: Rows, place: str) -> None:
    try:
        codec.decode(blob, row)
    except (LZ4BlockError, ValueError, TypeError, MemoryError):
        raise ContentError(f"{place} must be a compressed unroll, and cannot be decompressed") from None


def _array(dtype: Any, count: int, low: int | None = None, high: int | None = None) -> Check:
    """The bytes of an array of `count` numbers within these limits, without NaN."""
    content = tensor(torch.uint8, count * np.dtype(dtype).itemsize)

    def check(value: Any, place: str) -> None:
        content(value, place)
        array = value.numpy().copy().view(dtype)
        wrong = (np.isnan(array)) | (False if low is None else array < low) | (False if high is None else array > high)
        if wrong.any():
            limits = "numbers" if low is None else f"numbers of at least {low}" if high is None else f"{low} to {high}"
            raise ContentError(f"{place} must hold {limits}, not {array[wrong][0]}")

    return check


def _newest_states(layout: UnrollLayout, least: int) -> Check:
    """The newest state of each environment; there is one as soon as the replay holds an unroll."""

    def check(value: Any, place: str) -> None:
        table({"environments": list_of(whole())}, {"count": whole()})(value, place)
        count = len(value["environments"])
        whole(max(least, len(set(value["environments"]))))(count, f"{place}.environments: their number")
        shape = (layout.frame_stack, *layout.frame_shape) if count else (None,)
        vectors = {"vectors": _array(np.float32, count * layout.vector_size)} if layout.vector_size and count else {}
        required = {"stacks": tensor(torch.uint8, count, *shape), **vectors}
        table(required, {"noted": list_of(whole(), count)})(value, place)

    return check
