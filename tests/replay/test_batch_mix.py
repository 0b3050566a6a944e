import json
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from option_flags import Config, ReplayOptions
from options.learning_options import ONCE, BatchUses
from replay.mix import BatchMix, MixAhead, Replay
from tests.replay.any_replay import make_replay
from tests.replay.numbered_rows import LAYOUT, numbers, row, through_a_tensor_file


class Entry(NamedTuple):
    type: str
    capacity: int
    share: int


def options_of(entries: list[Entry], warmup_factor: float) -> ReplayOptions:
    batch_size = sum(entry.share for entry in entries)
    ranked = {"lambda_batch_multiplier": 2.5, "insert_strategy": "elite_insertion"}
    own: dict[str, dict[str, Any]] = {"elite": ranked, "attentive": {"lambda_batch_multiplier": 1.5}}
    parameters = [
        {"type": e.type, "capacity": e.capacity, "sample_ratio": e.share / batch_size, **own.get(e.type, {})}
        for e in entries
    ]
    options = ReplayOptions(
        batch_size=batch_size, replay_parameters=json.dumps(parameters), training_fill_in_factor=warmup_factor
    )
    assert options.shares == tuple(entry.share for entry in entries)
    return options


def replays_of(options: ReplayOptions, seed: int = 0, batch_uses: BatchUses = ONCE) -> list[Replay]:
    children = np.random.SeedSequence(seed).spawn(len(options.replays))
    return [
        make_replay(entry, share, np.random.default_rng(child), warmup_unrolls=warmup, batch_uses=batch_uses)
        for entry, share, warmup, child in zip(
            options.replays, options.shares, options.warmup_unrolls, children, strict=True
        )
    ]


def mix_of(entries: list[Entry], warmup_factor: float = 0.0, seed: int = 0) -> BatchMix:
    return BatchMix(replays_of(options_of(entries, warmup_factor), seed), LAYOUT)


KINDS = st.sampled_from(["standard", "attentive", "elite"])


@st.composite
def configurations(draw: st.DrawFn) -> list[Entry]:
    """All replays that the options allow: all queues have the same share, other replays can hold their share."""
    queue_share = draw(st.integers(1, 5))
    queues = [Entry("queue", capacity, queue_share) for capacity in draw(st.lists(st.integers(1, 12), max_size=2))]
    others = [
        Entry(kind, share + more, share)
        for kind, share, more in draw(st.lists(st.tuples(KINDS, st.integers(1, 4), st.integers(0, 15)), max_size=3))
    ]
    entries = [*queues, *others] or [Entry("queue", draw(st.integers(1, 12)), queue_share)]
    return draw(st.permutations(entries))


WARMUP_FACTOR = st.sampled_from([0.0, 0.1, 0.5, 1.0])
SEEDS = st.integers(0, 2**31 - 1)


@settings(deadline=None)
@given(configurations(), WARMUP_FACTOR, SEEDS)
@pytest.mark.slow
def test_every_batch_has_the_exact_shares_and_there_is_no_deadlock(
    entries: list[Entry], warmup_factor: float, seed: int
) -> None:
    """The training loop with workers of random speed, compared with what each replay has to hold."""
    mix = mix_of(entries, warmup_factor)
    rng = np.random.default_rng(seed)
    batch_size = sum(entry.share for entry in entries)
    added, updates, opened_at = 0, 0, None
    while updates < 6:
        assert mix.unrolls_accepted() > 0 or mix.ready(), "workers and learner wait for each other"
        for _ in range(int(rng.integers(0 if mix.ready() else 1, mix.unrolls_accepted() + 1))):
            if opened_at is None and not mix.is_warming_up:
                opened_at = added
            mix.add(row(added))
            added += 1
        if not mix.ready():
            continue
        batch = mix.mix(updates)
        start = 0
        for entry in entries:
            part = numbers(batch.rows.numpy()[start : start + entry.share])
            assert batch.fresh[start : start + entry.share].tolist() == [entry.type == "queue"] * entry.share
            start += entry.share
            if entry.type == "queue":
                assert opened_at is not None
                first = opened_at + updates * entry.share
                assert part == list(range(first, first + entry.share))
            else:
                assert len(set(part)) == entry.share
                oldest = 0 if entry.type == "elite" else max(0, added - entry.capacity)
                assert all(oldest <= number < added for number in part)
        assert len(batch.draws) == len(entries)
        assert start == batch_size == len(batch.rows) == len(batch.fresh)
        updates += 1


@settings(deadline=None)
@given(configurations(), WARMUP_FACTOR)
def test_a_batch_is_ready_after_all_accepted_unrolls(entries: list[Entry], warmup_factor: float) -> None:
    mix = mix_of(entries, warmup_factor)
    added = 0
    for updates in range(4):
        while mix.unrolls_accepted():
            for _ in range(mix.unrolls_accepted()):
                mix.add(row(added))
                added += 1
        assert mix.ready()
        mix.mix(updates)


@settings(deadline=None, max_examples=10)
@given(configurations(), WARMUP_FACTOR, SEEDS, st.integers(0, 40))
def test_a_loaded_mix_continues(entries: list[Entry], warmup_factor: float, seed: int, steps: int) -> None:
    saved, loaded = mix_of(entries, warmup_factor, seed=1), mix_of(entries, warmup_factor, seed=2)

    def play(*mixes: BatchMix, first: int, steps: int, rng: np.random.Generator) -> list[list[int]]:
        batches = []
        for number in range(first, first + steps):
            if mixes[0].ready() and (mixes[0].unrolls_accepted() == 0 or rng.random() < 0.5):
                drawn = [numbers(mix.mix(0).rows.numpy()) for mix in mixes]
                assert all(part == drawn[0] for part in drawn)
                batches.append(drawn[0])
            for mix in mixes:
                mix.add(row(number))
            assert len({(mix.unrolls_accepted(), mix.ready(), mix.is_warming_up) for mix in mixes}) == 1
        return batches

    rng = np.random.default_rng(seed)
    play(saved, first=0, steps=steps, rng=rng)
    with TemporaryDirectory() as folder:
        state = through_a_tensor_file(saved.state_dict(), Path(folder) / "replays.bin")
    loaded.load_state_dict(state)
    assert play(saved, loaded, first=steps, steps=80, rng=rng)


def test_the_queue_accepts_unrolls_after_the_warm_up() -> None:
    mix = mix_of([Entry("queue", 4, 2), Entry("standard", 10, 2), Entry("standard", 6, 3)], warmup_factor=0.5)
    queue = mix.replays[0]
    for number in range(5):
        assert mix.is_warming_up and not mix.ready()
        assert (len(queue), mix.unrolls_accepted()) == (0, 5 - number)
        mix.add(row(number))
    assert not mix.is_warming_up and not mix.ready()
    assert (len(queue), mix.unrolls_accepted(), [len(other) for other in mix.replays[1:]]) == (0, 4, [5, 5])
    mix.add(row(5))
    assert not mix.ready()
    mix.add(row(6))
    assert mix.ready() and mix.unrolls_accepted() == 2
    assert numbers(mix.mix(0).rows.numpy())[:2] == [5, 6]
    assert not mix.ready() and mix.unrolls_accepted() == 4


@pytest.mark.parametrize(
    ("warmup_factor", "capacity", "share", "held"),
    [(0.0, 50, 4, 4), (0.1, 50, 2, 5), (0.1, 50, 8, 8), (1.0, 7, 2, 7), (0.29, 100, 2, 29), (0.25, 10, 1, 3)],
)
def test_warm_up_needs_the_share_or_a_part_of_the_capacity(
    warmup_factor: float, capacity: int, share: int, held: int
) -> None:
    mix = mix_of([Entry("queue", 1, 1), Entry("standard", capacity, share)], warmup_factor)
    added = 0
    while mix.is_warming_up:
        mix.add(row(added))
        added += 1
    assert added == held


@pytest.mark.parametrize(("warmup_factor", "first"), [(0.0, 5), (0.2, 5), (1.0, 20)])
def test_without_a_queue_one_update_follows_every_batch_of_new_unrolls(warmup_factor: float, first: int) -> None:
    mix = mix_of([Entry("standard", 20, 3), Entry("standard", 9, 2)], warmup_factor)
    updated_at = []
    for added in range(1, 41):
        assert mix.unrolls_accepted() > 0
        mix.add(row(added))
        if mix.ready():
            assert mix.unrolls_accepted() == 0
            batch = mix.mix(0)
            assert not batch.fresh.any()
            updated_at.append(added)
    assert updated_at == list(range(first, 41, 5))


def test_the_fullest_queue_limits_the_accepted_unrolls() -> None:
    mix = mix_of([Entry("queue", 7, 2), Entry("queue", 3, 2)])
    for number in range(3):
        assert mix.unrolls_accepted() == 3 - number
        mix.add(row(number))
    assert mix.unrolls_accepted() == 0
    assert numbers(mix.mix(0).rows.numpy()) == [0, 1, 0, 1]
    assert mix.unrolls_accepted() == 2


def test_each_replay_has_its_own_random_stream() -> None:
    entries = [Entry("standard", 40, 6), Entry("standard", 40, 6)]
    batches = []
    for seed in (0, 0, 1):
        mix = mix_of(entries, warmup_factor=1.0, seed=seed)
        for number in range(40):
            mix.add(row(number))
        batches.append(numbers(mix.mix(0).rows.numpy()))
    assert batches[0] == batches[1] != batches[2]
    assert batches[0][:6] != batches[0][6:]


@pytest.mark.parametrize("ahead", [0, 1, 3])
@pytest.mark.parametrize(
    "loss",
    [{}, {"loss": "impact"}, {"loss": "impact", "impact_batches": 3, "impact_uses": 5}],
    ids=["once", "ring", "long_ring"],
)
@pytest.mark.parametrize(
    "parameters",
    [
        [{"type": "queue", "capacity": 20, "sample_ratio": 1}],
        [{"type": kind, "capacity": 99, "sample_ratio": 0.5} for kind in ("queue", "standard")],
        [{"type": "standard", "capacity": capacity, "sample_ratio": 0.5} for capacity in (40, 99)],
    ],
)
def test_a_run_makes_the_planned_number_of_updates(
    parameters: list[dict[str, object]], loss: dict[str, Any], ahead: int
) -> None:
    for unrolls, needed_only in product((8, 29, 30, 31, 100, 101), (False, True)):
        config, updates = updates_of_a_run(parameters, unrolls, needed_only, ahead, loss)
        assert max(1, updates) == config.planned_updates, f"{unrolls} unrolls"


def updates_of_a_run(
    parameters: list[dict[str, object]], unrolls: int, needed_only: bool, ahead: int, loss: dict[str, Any]
) -> tuple[Config, int]:
    """The training loop without learning; with `needed_only` it takes no unroll before the mix needs it."""
    config = Config().replace_flags(
        replay_parameters=json.dumps(parameters),
        training_fill_in_factor=0.29,
        r_f_steps=5,
        environment_max_steps=5 * unrolls - 2,
        caching=ahead > 0,
        cache_output_buffer_size=max(1, ahead),
        **loss,
    )
    plain = BatchMix(replays_of(config.replay, batch_uses=config.batch_uses), LAYOUT)
    mix = MixAhead(plain, ahead, lambda: updates, lambda rows: None) if ahead else plain
    left, updates = unrolls, 0
    while left or mix.ready():
        for _ in range(min(left, mix.unrolls_needed() if needed_only else mix.unrolls_accepted())):
            mix.add(row(left))
            left -= 1
        if mix.ready():
            mix.mix(updates)
            updates += 1
    mix.close()
    return config, updates
