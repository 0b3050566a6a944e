"""The memory of processes and full replays is computed before a run starts, and compared with what is free."""

import json
from typing import Any

import numpy as np
import pytest

from agents.spaces import make_unroll_layout
from machine.capacity import bytes_of_processes, check_memory
from option_flags import Config
from options.presets import FRESH_ALONE
from options.rules import UsageError
from tests.catch import make_catch
from training.make_replays import make_storage
from training.run import memory_of_replays
from wrappers.atari import make_atari

GIB = 2**30


def config_of(capacity: int, **flags: Any) -> Config:
    replays = [{"type": "queue", "capacity": 1, "sample_ratio": 0.5}]
    replays += [{"type": "standard", "capacity": capacity, "sample_ratio": 0.25} for _ in range(2)]
    return Config().replace_flags(batch_size=8, replay_parameters=json.dumps(replays), **flags)


def test_the_memory_of_replays_is_what_they_hold_when_they_are_full() -> None:
    config = config_of(40, env="BreakoutNoFrameskip-v4")
    layout = make_unroll_layout(config, make_atari)
    storages = [make_storage(config.replay, entry.capacity, layout) for entry in config.replay.replays[1:]]
    for storage in storages:
        for place in range(storage.capacity):
            storage.put(place, np.zeros(layout.nbytes, np.uint8))
    held = sum(storage.state_dict()["rows"].nbytes for storage in storages)
    needed, lines = memory_of_replays(config, layout)
    assert needed == held + 4 * layout.nbytes
    assert lines == ["replays: 84 unrolls, 25.0 MiB"]


def test_compressed_pictures_need_a_small_part_and_numbers_all() -> None:
    layout = make_unroll_layout(config_of(2), make_atari)
    (raw, _), (needed, lines) = (
        memory_of_replays(config_of(100_000, use_replay_compression=compressed), layout) for compressed in (False, True)
    )
    assert raw / 30 < needed < raw / 15
    assert lines == [f"replays: 200,004 unrolls, about {needed / GIB:.1f} GiB compressed"]


def test_queues_alone_need_no_header_line() -> None:
    config = Config().replace_flags(use_replay_compression=True, replay_parameters=FRESH_ALONE)
    layout = make_unroll_layout(config, make_catch)
    assert memory_of_replays(config, layout) == (4 * layout.nbytes, [])


def test_the_circular_buffer_of_each_queue_counts() -> None:
    """Two queues of 2 unrolls, and a buffer of 3 shares of 2 beside each; nothing is kept for a single use."""
    queues = json.dumps([{"type": "queue", "capacity": 1, "sample_ratio": 0.5}] * 2)
    config = Config().replace_flags(replay_parameters=queues, loss="impact", impact_batches=3)
    layout = make_unroll_layout(config, make_catch)
    for uses, held in ((2, 4 + 2 * 3 * 2), (1, 4)):
        assert memory_of_replays(config.replace_flags(impact_uses=uses), layout)[0] == held * layout.nbytes


def test_what_does_not_fit_into_the_free_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("machine.capacity.usable_memory", lambda: 2 * GIB)
    workers = bytes_of_processes(4, games_each=15, unroll_bytes=0)
    assert workers == 800 << 20
    assert bytes_of_processes(4, 15, 100_000, inference_processes=2) > workers + 8 * (40 << 20)
    check_memory(workers, GIB)
    with pytest.raises(UsageError) as refused:
        check_memory(workers, 2 * GIB)
    assert str(refused.value) == (
        "the processes of this run need 0.8 GiB of memory and its full replays 2.0 GiB, more than the 1.8 GiB that are "
        "free; a smaller --batch_size, --r_f_steps or capacity in --replay_parameters, or --use_replay_compression, "
        "would be right."
    )
    with pytest.raises(
        UsageError, match="; a smaller --worker_count .on a node --node_workers., --envs_per_worker or --inference_proc"
    ):
        check_memory(3 * workers)
    with pytest.raises(UsageError, match=r"more than the 0\.9 GiB that are free"):
        check_memory(workers, GIB // 2, learners=2)
