import json
from typing import Any

import numpy as np
import pytest

from agents.spaces import make_unroll_layout
from machine.capacity import check_processes
from option_flags import Config
from options.rules import UsageError
from replay.storage import BLOB_OVERHEAD, UnrollCodec
from tests.catch import make_catch
from training import memory_budget as memory
from training.make_replays import make_storage
from training.memory_budget import plan_memory, played_at_random
from wrappers.atari import make_atari

GIB = 2**30


def config_of(capacity: int, **flags: Any) -> Config:
    replays = [{"type": "queue", "capacity": 1, "sample_ratio": 0.5}]
    replays += [{"type": "standard", "capacity": capacity, "sample_ratio": 0.25} for _ in range(2)]
    return Config().replace_flags(batch_size=8, replay_parameters=json.dumps(replays), **flags)


@pytest.mark.parametrize("compressed", [False, True])
def test_the_planned_memory_is_that_of_full_replays(compressed: bool) -> None:
    """Raw: exactly. Compressed: more than full replays of random play need, but less than three times as much."""
    config = config_of(40, use_replay_compression=compressed, env="BreakoutNoFrameskip-v4")
    layout = make_unroll_layout(config, make_atari)
    plan = plan_memory(config, layout, make_atari, 12)
    storages = [make_storage(config.replay, entry.capacity, layout) for entry in config.replay.replays[1:]]
    rows = played_at_random(config, layout, make_atari)
    for number in range(80):
        for storage in storages:
            storage.put(number % storage.capacity, rows[number % len(rows)])
    held = 0
    for storage in storages:
        kept = storage.state_dict()
        held += kept["rows"].nbytes if "rows" in kept else sum(len(blob) + BLOB_OVERHEAD for blob in kept["blobs"])
    assert plan.needed - plan.in_replays == (12 + 2 * 8) * layout.nbytes
    if compressed:
        assert 1.0 < (plan.in_replays - 4 * layout.nbytes) / held < 3.0
        assert held < 80 * (12 * 1024 + BLOB_OVERHEAD)
    else:
        assert plan.in_replays == held + 4 * layout.nbytes


def test_the_sampled_unrolls_are_of_the_given_environment() -> None:
    config = config_of(40, r_f_steps=7, frames_stacked=3)
    layout = make_unroll_layout(config, make_catch)
    frames = layout.array(played_at_random(config, layout, make_catch), "frames")
    assert frames.shape == (-(-300 // 7), 10, 1, 36, 36)
    assert set(np.unique(frames)) == {0, 128, 255}
    np.testing.assert_array_equal(frames[1:, 2], frames[:-1, 9])  # each unroll continues the one before


def test_queues_alone_need_no_sample_and_no_header_line() -> None:
    config = Config().replace_flags(use_replay_compression=True)
    layout = make_unroll_layout(config, make_catch)

    def unplayable(*_: Any) -> Any:
        raise AssertionError

    plan = plan_memory(config, layout, unplayable, 5)
    assert (plan.in_replays, plan.needed) == (8 * layout.nbytes, 29 * layout.nbytes)
    assert plan.described() == []


def test_the_circular_buffer_of_each_queue_counts() -> None:
    """Two queues of 4 unrolls, and a buffer of 3 shares of 4 beside each; nothing is kept for a single use."""
    queues = json.dumps([{"type": "queue", "capacity": 1, "sample_ratio": 0.5}] * 2)
    config = Config().replace_flags(replay_parameters=queues, loss="impact", impact_batches=3)
    layout = make_unroll_layout(config, make_catch)
    for uses, held in ((2, 8 + 2 * 3 * 4), (1, 8)):
        plan = plan_memory(config.replace_flags(impact_uses=uses), layout, make_catch, 5)
        assert plan.in_replays == held * layout.nbytes


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ({}, "replays: 200,004 unrolls, 31.8 GiB"),
        ({"use_replay_compression": True}, "replays: 200,004 unrolls, about 1.2 GiB compressed"),
    ],
)
def test_the_header_line_of_the_plan(monkeypatch: pytest.MonkeyPatch, flags: dict[str, Any], line: str) -> None:
    monkeypatch.setattr(UnrollCodec, "encode", lambda codec, row: b"x" * 4096)
    config = config_of(100_000, **flags)
    plan = plan_memory(config, make_unroll_layout(config, make_atari), make_atari, 4)
    assert plan.described() == [line]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            {},
            [
                "200,004 unrolls, and those in the workers' slots and in batches, need 31.8 GiB",
                "less than 4,528, or --use_replay_compression, would",
            ],
        ),
        ({"use_replay_compression": True}, ["200,004 unrolls", "need 1.2 GiB", "0.8 GiB"]),
    ],
)
def test_replays_larger_than_the_memory_are_refused_with_their_sizes(
    monkeypatch: pytest.MonkeyPatch, flags: dict[str, Any], words: list[str]
) -> None:
    monkeypatch.setattr(memory, "usable_memory", lambda: GIB)
    monkeypatch.setattr(UnrollCodec, "encode", lambda codec, row: b"x" * 4096)
    config = config_of(100_000, **flags)
    plan = plan_memory(config, make_unroll_layout(config, make_atari), make_atari, 4)
    with pytest.raises(UsageError) as refused:
        plan.check(1, games_each=15)
    sentence = str(refused.value)
    assert sentence.startswith("--replay_parameters") and sentence.endswith("would be right.")
    for part in words:
        assert part in sentence, sentence
    monkeypatch.setattr(memory, "usable_memory", lambda: 100 * GIB)
    plan.check(1, games_each=15)


def test_replays_may_not_take_all_memory_that_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config()
    plan = plan_memory(config, make_unroll_layout(config, make_catch), make_catch, unrolls_in_slots=500)
    monkeypatch.setattr(memory, "usable_memory", lambda: int(plan.needed / 0.95))
    with pytest.raises(UsageError):
        plan.check(0, games_each=15)
    monkeypatch.setattr(memory, "usable_memory", lambda: int(plan.needed / 0.85))
    plan.check(0, games_each=15)


def test_the_memory_of_workers_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "usable_memory", lambda: GIB)
    assert check_processes(4, games_each=15, free=GIB) == 800 << 20
    with pytest.raises(UsageError) as refused:
        check_processes(5, games_each=15, free=GIB)
    assert str(refused.value) == (
        "--worker_count=5 needs 5 × 0.2 GiB, more than the 0.9 GiB of memory that is free; "
        "--worker_count=4 or fewer, or a smaller --envs_per_worker would be right."
    )
    check_processes(1, games_each=375, free=GIB)
    with pytest.raises(UsageError, match="GiB of memory that is free; a smaller --envs_per_worker would be right"):
        check_processes(1, games_each=500, free=GIB)
    config = config_of(2_000)
    plan = plan_memory(config, make_unroll_layout(config, make_atari), make_atari, 4)
    plan.check(0, games_each=15)
    with pytest.raises(UsageError, match="beside the workers; capacities"):
        plan.check(3, games_each=15)


def test_other_flags_are_proposed_if_no_capacity_would_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "usable_memory", lambda: GIB)
    config = config_of(100)
    plan = plan_memory(config, make_unroll_layout(config, make_atari), make_atari, unrolls_in_slots=20_000)
    with pytest.raises(
        UsageError, match="; a smaller --batch_size, --r_f_steps, --worker_count or --envs_per_worker would"
    ):
        plan.check(1, games_each=15)
