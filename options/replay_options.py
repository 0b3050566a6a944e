"""The options of batches and replays; the keys of --replay_parameters by type of replay, and the reader of its JSON."""

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Any

from options.rules import (
    PATH,
    Need,
    Options,
    Rule,
    UsageError,
    above,
    between,
    did_you_mean,
    flag_given,
    one_of,
    option,
    shown,
    switch,
    whole,
)

SAMPLING_STRATEGIES = ("lowest", "stratified", "lowest_least_sampled", "stratified_least_sampled")
A_QUEUE = Need("a queue", lambda config: config.replay.queue_shares)
A_REPLAY = Need("a replay besides queues", lambda c: len(c.replay.queue_shares) < len(c.replay.replays))
DEMONSTRATIONS = "demonstrations"  # the type of a replay, and its option


@dataclass(frozen=True)
class ReplaySpec:
    """One entry of --replay_parameters. parse_replays checks each key by its rule."""

    type: str = option(
        MISSING, one_of("queue", "standard", "attentive", "elite", DEMONSTRATIONS), "Type of the replay."
    )
    capacity: int = option(
        MISSING, whole(1), "Number of unrolls that the replay holds; a queue holds at least its share of a batch."
    )
    sample_ratio: float = option(
        MISSING, above(0, 1), "Share of every batch, rounded to whole unrolls; the ratios of all replays add up to 1."
    )
    dist_function: str = option(
        "ln_norm",
        one_of("ln_norm", "cos_dist", "kl_div", "random"),
        "Distance between two states: of their features (ln_norm, cos_dist), of their policies (kl_div), or a random "
        "number, as a control for experiments.",
    )
    p: float = option(2.0, between(1, 64), "The p of the p-norm of ln_norm; 2 is the Euclidean distance.")
    lambda_batch_multiplier: float = option(
        1.0,
        between(1, 1000),
        "Candidates per unroll of the share (λ): the replay draws this many and selects from them.",
    )
    alfa_annealing_factor: float = option(
        1.0, above(0), "Fraction of the planned updates over which λ falls to 1; it may be above 1."
    )
    ranked_states: int = option(5, whole(1), "States per candidate; the candidate's distance is their mean.")
    elite_sampling_strategy: str = option(
        "lowest_least_sampled",
        one_of(*SAMPLING_STRATEGIES),
        "Rule that selects from the candidates.",
    )
    insert_strategy: str = option(
        "oldest",
        one_of("oldest", "elite_insertion"),
        "Unroll that a new one replaces: the oldest, or one with a large distance.",
    )
    elite_batch_size: int = option(20, whole(1), "Number of unrolls from which elite_insertion chooses one to replace.")

    @property
    def ranks(self) -> bool:
        """Whether the replay compares candidates. It does so only while it has more of them than its share."""
        return self.type in ("attentive", "elite")

    @property
    def ranks_by_features(self) -> bool:
        return self.ranks and self.dist_function in ("ln_norm", "cos_dist")

    def warmup_unrolls(self, share: int, fill_in_factor: float) -> int:
        """Number of unrolls of the run in the replay before learning starts; a queue, and demonstrations, need none."""
        if self.type in ("queue", DEMONSTRATIONS):
            return 0
        factor = Fraction(str(fill_in_factor))  # exact: in binary, 0.29 × 100 is 28.999…
        return max(share, math.ceil(factor * self.capacity))

    def most_candidates(self, share: int) -> int:
        """The largest number of candidates that are compared for a share of this many unrolls."""
        return min(self.capacity, int(self.lambda_batch_multiplier * share))

    def why_never_ranked(self, share: int) -> str:
        """Why a ranking replay never has more candidates than its share, and what would change that; else empty."""
        most = self.most_candidates(share)
        if not self.ranks or most > share:
            return ""
        return (
            f"{most} candidates for a share of {share}; a larger lambda_batch_multiplier, such as 6, or a larger "
            "capacity would be right"
        )


# The keys of each type. A key that only some types have is a ReplaySpec field with a default.
_COMMON_KEYS = ("capacity", "sample_ratio", "type")
_RANKED_KEYS = ("alfa_annealing_factor", "dist_function", "lambda_batch_multiplier", "p", "ranked_states")
REPLAY_KEYS: dict[str, tuple[str, ...]] = {
    "queue": _COMMON_KEYS,
    "standard": _COMMON_KEYS,
    DEMONSTRATIONS: _COMMON_KEYS,
    "attentive": (*_COMMON_KEYS, *_RANKED_KEYS),
    "elite": (*_COMMON_KEYS, *_RANKED_KEYS, "elite_batch_size", "elite_sampling_strategy", "insert_strategy"),
}

# The older form {"type": "custom", "sample_strategy": ...} is accepted too. These are the current names of its values.
CUSTOM_TYPES = {"attentive_sampling": "attentive", "elite_sampling": "elite"}
NUMBERED_STRATEGIES = {f"strategy{number}": name for number, name in enumerate(SAMPLING_STRATEGIES, start=1)}


def parse_replays(text: str) -> tuple[ReplaySpec, ...]:
    """Read --replay_parameters key by key. A UsageError names the entry and the key that are wrong."""
    flag = "--replay_parameters"
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{flag} must be valid JSON, in single quotes in a shell, without quotes in a flagfile, not {shown(text)}: "
            f"{error}."
        ) from None
    if not isinstance(entries, list) or not entries:
        raise UsageError(f"{flag} must be a JSON list of at least one replay, not {shown(entries)}.")
    replays = tuple(_replay(f"{flag}: entry {number}", entry) for number, entry in enumerate(entries, start=1))
    total = math.fsum(replay.sample_ratio for replay in replays)
    if abs(total - 1) > 1e-6:
        raise UsageError(f"{flag}: the values of sample_ratio must add up to 1, not {total:.9g}.")
    return replays


def _replay(subject: str, entry: object) -> ReplaySpec:
    if not isinstance(entry, dict) or "type" not in entry:
        raise UsageError(f'{subject} must be an object with the key "type", not {shown(entry)}.')
    entry = _with_current_names(subject, entry)
    declared = {item.name: item for item in fields(ReplaySpec)}
    kind = declared["type"].metadata["rule"].checked(f"{subject}: type", entry["type"])
    allowed = REPLAY_KEYS[kind]
    for key in entry:
        if key not in allowed:
            unknown = f"{subject} has the unknown key {shown(key)}" + did_you_mean(key, allowed)
            raise UsageError(f"{unknown} The keys of {kind} are {', '.join(allowed)}.")
    for key in allowed:
        if key not in entry and declared[key].default is MISSING:
            raise UsageError(f'{subject} lacks the key "{key}"; the keys of {kind} are {", ".join(allowed)}.')
    replay = ReplaySpec(**{k: declared[k].metadata["rule"].checked(f"{subject}: {k}", v) for k, v in entry.items()})
    if replay.insert_strategy == "elite_insertion" and replay.lambda_batch_multiplier == 1:
        raise UsageError(
            f"{subject}: elite_insertion needs the distances that ranking computes, and nothing is ranked with a "
            "lambda_batch_multiplier of 1; a larger one, such as 6, would be right."
        )
    return replay


def _with_current_names(subject: str, entry: dict[str, Any]) -> dict[str, Any]:
    """The entry, with older names of types and strategies replaced by the current ones."""
    renamed = dict(entry)
    if renamed["type"] == "custom":
        strategy = renamed.pop("sample_strategy", None)
        if not isinstance(strategy, str) or strategy not in CUSTOM_TYPES:
            names = " or ".join(CUSTOM_TYPES)
            raise UsageError(f'{subject}: a custom replay needs "sample_strategy" {names}, not {shown(strategy)}.')
        renamed["type"] = CUSTOM_TYPES[strategy]
        if strategy == "attentive_sampling":
            renamed.pop("elite_sampling_strategy", None)  # the older form allows it here, without effect
    strategy = renamed.get("elite_sampling_strategy")
    if isinstance(strategy, str):
        renamed["elite_sampling_strategy"] = NUMBERED_STRATEGIES.get(strategy, strategy)
    return renamed


def split_by_ratio(total: int, ratios: Sequence[float]) -> tuple[int, ...]:
    """Split `total` into whole parts by the largest remainder method; at ties the earlier part rounds up."""
    # Exact decimal fractions: in binary floating point, rounding errors would decide ties.
    exact = [Fraction(str(ratio)) for ratio in ratios]
    quotas = [total * ratio / sum(exact) for ratio in exact]
    parts = [math.floor(quota) for quota in quotas]
    by_remainder = sorted(range(len(parts)), key=lambda i: parts[i] - quotas[i])
    for i in by_remainder[: total - sum(parts)]:
        parts[i] += 1
    return tuple(parts)


def divisible_batch(more_than: int, ratios: Sequence[float], learners: int) -> int:
    """The next larger batch of which each replay's share can be divided evenly between the learners."""
    sizes = itertools.count(more_than + 1)
    return next(n for n in sizes if all(share and share % learners == 0 for share in split_by_ratio(n, ratios)))


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(Options):
    topic = "Batches and replays"

    batch_size: int = option(4, whole(1), "Unrolls in one batch.")
    r_f_steps: int = option(40, whole(1), "Agent steps in one unroll.", aliases=("unroll_length", "num_steps"))
    replay_parameters: str = option(
        '[{"type": "queue", "capacity": 1, "sample_ratio": 0.5},'
        ' {"type": "standard", "capacity": 500, "sample_ratio": 0.5}]',
        Rule(str, "be a JSON list, as one string"),
        "JSON list of the replays that fill a batch. Keys of an entry: type (queue, standard, attentive, elite or "
        "demonstrations), capacity (unrolls), sample_ratio (share of the batch, rounded to whole unrolls; the ratios "
        "add up to 1), and the keys of its type, see docs/options.md.",
    )
    training_fill_in_factor: float = option(
        0.1,
        between(0, 1),
        "Warm-up: fraction of every replay (queues excepted) that is filled before learning starts.",
        A_REPLAY,
    )
    use_replay_compression: bool = switch(
        False,
        "Compress unrolls in replays (queues excepted) with lz4: many more fit, at little cost in speed.",
        A_REPLAY,
    )
    lz4_compression_level: int = option(
        0,
        whole(0, 12),
        "Compression level of lz4, in replays and on the way from nodes of a cluster. 0 is fastest; 1 to 12 compress "
        "better and take longer.",
        Need("--use_replay_compression or --cluster", lambda c: c.replay.use_replay_compression or c.cluster.cluster),
    )
    demonstrations: str | None = option(
        None,
        PATH,
        "Folder of recorded games: training learns from them, and tests and --op_mode=play write theirs there. Or a "
        "data set of Minari, minari:NAME, to train from.",
        Need("--pretrain_updates or their replay", lambda c: c.replay.pretrain_updates or c.replay.keeps_games),
    )
    pretrain_updates: int = option(
        1000, whole(0), "Updates with recorded games alone, before a new run plays.", flag_given("demonstrations")
    )
    caching: bool = switch(False, "Prepare batches in the background, before the learner needs them.")
    cache_output_buffer_size: int = option(
        1, whole(1, 64), "With --caching: number of batches prepared ahead.", flag_given("caching")
    )

    @cached_property
    def replays(self) -> tuple[ReplaySpec, ...]:
        return parse_replays(self.replay_parameters)

    @cached_property
    def shares(self) -> tuple[int, ...]:
        """Number of unrolls per batch from each replay; they add up to batch_size."""
        return split_by_ratio(self.batch_size, [replay.sample_ratio for replay in self.replays])

    @property
    def warmup_unrolls(self) -> tuple[int, ...]:
        """Number of unrolls in each replay before learning starts."""
        factor = self.training_fill_in_factor
        return tuple(r.warmup_unrolls(share, factor) for r, share in zip(self.replays, self.shares, strict=True))

    @property
    def batches_ahead(self) -> int:
        return self.cache_output_buffer_size if self.caching else 0

    @property
    def ranks_by_features(self) -> bool:
        """Whether any replay compares states by their features."""
        return any(replay.ranks_by_features for replay in self.replays)

    @property
    def queue_shares(self) -> tuple[int, ...]:
        return tuple(s for replay, s in zip(self.replays, self.shares, strict=True) if replay.type == "queue")

    @property
    def keeps_games(self) -> bool:
        """Whether recorded games have a share of each batch."""
        return any(replay.type == DEMONSTRATIONS for replay in self.replays)

    def _check_together(self) -> None:
        if self.keeps_games and self.demonstrations is None:
            raise UsageError("--replay_parameters: a replay of demonstrations needs --demonstrations, their folder.")
        for entry, (replay, share) in enumerate(zip(self.replays, self.shares, strict=True), start=1):
            if share == 0:
                enough = math.ceil(1 / min(Fraction(str(r.sample_ratio)) for r in self.replays))
                raise UsageError(
                    f"--batch_size={self.batch_size} is too small for --replay_parameters: entry {entry} would get no "
                    f"unroll of a batch; {enough} or more would be right."
                )
            if replay.type != "queue" and replay.capacity < share:
                raise UsageError(
                    f"--replay_parameters: entry {entry} has a capacity of {replay.capacity}, but its share of a batch "
                    f"is {share}; at least {share} would be right."
                )
        if len(set(self.queue_shares)) > 1:
            raise UsageError(
                "--replay_parameters: every unroll passes once through every queue, so all queues need the same share "
                f"of a batch, not {' and '.join(map(str, self.queue_shares))} unrolls."
            )
