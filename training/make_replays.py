"""The replays of `--replay_parameters`: storage, selection rule and eviction rule of each, and their mix."""

from collections.abc import Callable
from copy import deepcopy

import numpy as np
import torch

from agents.network import ActorCritic
from agents.ranking import NetworkRanking
from option_flags import ReplayOptions
from options.learning_options import ONCE, BatchUses
from options.replay_options import DEMONSTRATIONS, ReplaySpec
from replay.mix import BatchMix, Mix, MixAhead, Replay
from replay.newest_states import NewestStates
from replay.queue import QueueReplay
from replay.replay_buffer import STRATEGIES, DemonstrationReplay, Distance, Ranking, ReplayBuffer, ReplayRules
from replay.storage import CompressedStorage, RawStorage, Storage, UnrollCodec
from replay.unroll_layout import UnrollLayout
from training.run import Run
from workers.randomness import stream_of


def make_mix(run: Run) -> Mix:
    """The mix of all replays of a learner; with `--caching` it works in the background."""
    config, layout, learner = run.part, run.layout, run.learner
    ahead = config.replay.batches_ahead
    # A background thread ranks candidates by a copy of the network, because updates change the network meanwhile.
    network = deepcopy(learner.network) if ahead else learner.network
    seed = stream_of("replays", config.seed, run.resume.count)
    replays = make_replays(config.replay, layout, seed, network, run.resume.planned_updates, config.batch_uses)
    for replay in replays:
        if isinstance(replay, DemonstrationReplay):
            replay.fill(run.demonstrations)
    mix = BatchMix(replays, layout, pin_memory=learner.device.type == "cuda")
    if not ahead:
        return mix
    shares = zip(config.replay.replays, config.replay.shares, strict=True)
    ranked = [entry for entry, share in shares if entry.ranks and entry.most_candidates(share) > share]
    ranks = any(entry.dist_function != "random" for entry in ranked)

    def copy_learner() -> int:
        if ranks:
            network.load_state_dict(learner.network.state_dict())
        return learner.updates

    return MixAhead(mix, ahead, copy_learner, uploader(learner.device), learner.device)


def uploader(device: torch.device) -> Callable[[torch.Tensor], torch.Tensor | None]:
    """A function that copies a batch to a CUDA device while the device computes, and returns None for other devices."""
    if device.type != "cuda":
        return lambda rows: None
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def upload(rows: torch.Tensor) -> torch.Tensor | None:
        with torch.cuda.stream(stream):
            uploaded = rows.to(device, non_blocking=True)
        stream.synchronize()
        # Updates run on the default stream: torch must not reuse the memory before they have read it.
        uploaded.record_stream(torch.cuda.default_stream(device))
        return uploaded

    return upload


def make_replays(
    options: ReplayOptions,
    layout: UnrollLayout,
    seed: np.random.SeedSequence,
    network: ActorCritic,
    planned_updates: int,
    batch_uses: BatchUses = ONCE,
) -> list[Replay]:
    """One replay for each entry. `network` ranks the candidates; λ falls over a multiple of `planned_updates`."""
    replays: list[Replay] = []
    children = seed.spawn(len(options.replays))
    for entry, share, warmup_unrolls, child in zip(
        options.replays, options.shares, options.warmup_unrolls, children, strict=True
    ):
        if entry.type == "queue":
            replays.append(QueueReplay(entry.capacity, share, layout.nbytes, batch_uses.uses, batch_uses.first_uses))
            continue
        storage, rng = make_storage(options, entry.capacity, layout), np.random.default_rng(child)
        newest = NewestStates(layout) if entry.type == "attentive" else None
        distance = distance_of_unrolls(entry, network, layout, newest, rng)
        rules = replay_rules(entry, distance, newest, planned_updates)
        kind = DemonstrationReplay if entry.type == DEMONSTRATIONS else ReplayBuffer
        replays.append(kind(entry.type, storage, rules, share, warmup_unrolls, rng))
    return replays


def replay_rules(
    entry: ReplaySpec, distance: Distance, newest: NewestStates | None, planned_updates: int
) -> ReplayRules:
    """The rules of a replay that is no queue."""
    if entry.type in ("standard", DEMONSTRATIONS):
        return ReplayRules()
    strategy = STRATEGIES[entry.elite_sampling_strategy if entry.type == "elite" else "lowest"]
    return ReplayRules(
        Ranking(distance, strategy, entry.lambda_batch_multiplier, entry.alfa_annealing_factor * planned_updates),
        eviction_candidates=entry.elite_batch_size if entry.insert_strategy == "elite_insertion" else 0,
        newest=newest,
    )


def distance_of_unrolls(
    entry: ReplaySpec,
    network: ActorCritic,
    layout: UnrollLayout,
    newest: NewestStates | None,
    rng: np.random.Generator,
) -> Distance:
    """What a replay ranks by: how far the policy has drifted since an unroll, or how far the newest states are from it.

    Random numbers are a control that shows what a strategy does without any knowledge.
    """
    if entry.dist_function == "random":
        return lambda rows: rng.random(len(rows))
    ranking = NetworkRanking(network, layout, entry)
    return ranking.drift if newest is None else lambda rows: ranking.distance_to_newest(rows, newest.states())


def make_storage(options: ReplayOptions, capacity: int, layout: UnrollLayout) -> Storage:
    """The storage of a replay that is no queue."""
    if options.use_replay_compression:
        return CompressedStorage(capacity, UnrollCodec(layout, options.lz4_compression_level))
    return RawStorage(capacity, layout.nbytes)
