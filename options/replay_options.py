"""The entries of --replay_parameters: what each key accepts, and how the JSON is read."""

import difflib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass, fields
from fractions import Fraction
from typing import Any

from options.rules import Rule, UsageError, above, one_of, option, shown, whole


@dataclass(frozen=True)
class ReplaySpec:
    """One entry of --replay_parameters; parse_replays checks each key by its rule."""

    type: str = option(MISSING, one_of("queue", "standard", "attentive", "elite"), "How it picks unrolls.")
    capacity: int = option(MISSING, whole(1), "Unrolls that it holds.")
    sample_ratio: float = option(MISSING, above(0, 1), "Its part of every batch.")
    dist_function: str = option("ln_norm", one_of("ln_norm", "cos_dist", "kl_div"), "What near means.")
    p: float = option(2.0, Rule(float, "lie between 1 and 64", lambda v: 1 <= v <= 64), "Exponent of ln_norm.")
    lambda_batch_multiplier: float = option(1.0, Rule(float, "lie between 1 and 1000", lambda v: 1 <= v <= 1000), "λ.")
    alfa_annealing_factor: float = option(1.0, above(0), "Part of the planned updates over which λ falls to 1.")
    ranked_states: int = option(5, whole(1), "States of a candidate that its distance is the mean of.")
    elite_sampling_strategy: str = option(
        "lowest_least_sampled",
        one_of("lowest", "stratified", "lowest_least_sampled", "stratified_least_sampled"),
        "Which of the candidates are taken.",
    )
    insert_strategy: str = option(
        "oldest", one_of("oldest", "elite_insertion"), "What a new unroll takes the place of."
    )
    elite_batch_size: int = option(20, whole(1), "Unrolls that elite insertion looks at.")

    @property
    def ranks(self) -> bool:
        """Whether it compares candidates, where it has more of them than it gives."""
        return self.type in ("attentive", "elite")

    def most_candidates(self, share: int) -> int:
        """How many unrolls are compared at most where so many are given."""
        return min(self.capacity, int(self.lambda_batch_multiplier * share))

    def no_choice(self, share: int) -> str:
        """Why it never compares more unrolls than it gives, and what would change that; empty where it does."""
        if not self.ranks or self.most_candidates(share) > share:
            return ""
        if self.capacity <= share:
            return f"a capacity of {self.capacity} for a share of {share}; a larger one, such as 1000, would be right"
        multiplier = f"a lambda_batch_multiplier of {self.lambda_batch_multiplier:g}"
        return f"{multiplier} for a share of {share}; a larger one, such as 6, would be right"


# Every type names its own keys; a key that only some types take is one more ReplaySpec field, with a default.
_COMMON_KEYS = ("capacity", "sample_ratio", "type")


_RANKED_KEYS = ("alfa_annealing_factor", "dist_function", "lambda_batch_multiplier", "p", "ranked_states")


REPLAY_KEYS: dict[str, tuple[str, ...]] = {
    "queue": _COMMON_KEYS,
    "standard": _COMMON_KEYS,
    "attentive": (*_COMMON_KEYS, *_RANKED_KEYS),
    "elite": (*_COMMON_KEYS, *_RANKED_KEYS, "elite_batch_size", "elite_sampling_strategy", "insert_strategy"),
}


# The older form {"type": "custom", "sample_strategy": ...}, and what its values are called now.
CUSTOM_TYPES = {"attentive_sampling": "attentive", "elite_sampling": "elite"}


NUMBERED_STRATEGIES = {
    "strategy1": "lowest",
    "strategy2": "stratified",
    "strategy3": "lowest_least_sampled",
    "strategy4": "stratified_least_sampled",
}


def once_each(subject: str) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    """For `json.loads`, which would silently take the last of two values for one key."""

    def entry_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entry: dict[str, Any] = {}
        for key, value in pairs:
            if key in entry:
                raise UsageError(f"{subject} has the key {shown(key)} twice in one entry; give it once.")
            entry[key] = value
        return entry

    return entry_of


def parse_replays(text: str) -> tuple[ReplaySpec, ...]:
    """Reads --replay_parameters key by key; a UsageError says which entry and which key is wrong."""
    flag = "--replay_parameters"

    def no_constant(name: str) -> None:
        raise UsageError(f"{flag} must hold finite numbers, not {name}.")

    try:
        entries = json.loads(text, object_pairs_hook=once_each(flag), parse_constant=no_constant)
    except json.JSONDecodeError as error:
        hint = "in a shell it stands in single quotes, in a flagfile in none"
        raise UsageError(
            f"{flag} must be valid JSON, not {shown(text)}; {hint}; at character {error.pos + 1}: {error.msg.lower()}."
        ) from None
    except (ValueError, RecursionError):  # a number of thousands of digits, or brackets thousands deep
        raise UsageError(f"{flag} must be a JSON list of replays, not {shown(text)}.") from None
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
    entry = _in_present_words(subject, entry)
    declared = {item.name: item for item in fields(ReplaySpec)}
    kind = declared["type"].metadata["rule"].checked(f"{subject}: type", entry["type"])
    allowed = REPLAY_KEYS[kind]
    for key in entry:
        if key not in allowed:
            unknown = f"{subject} has the unknown key {shown(key)}" + did_you_mean(key, allowed, quote='"')
            raise UsageError(f"{unknown} The keys of {kind} are {', '.join(allowed)}.")
    for key in allowed:
        if key not in entry and declared[key].default is MISSING:
            raise UsageError(f'{subject} lacks the key "{key}"; the keys of {kind} are {", ".join(allowed)}.')
    replay = ReplaySpec(**{k: declared[k].metadata["rule"].checked(f"{subject}: {k}", v) for k, v in entry.items()})
    if replay.insert_strategy == "elite_insertion" and replay.lambda_batch_multiplier == 1:
        raise UsageError(
            f"{subject}: elite_insertion goes by the distances that ranking finds, and nothing is ranked with a "
            "lambda_batch_multiplier of 1; a larger one, such as 6, would be right."
        )
    return replay


def _in_present_words(subject: str, entry: dict[str, Any]) -> dict[str, Any]:
    """An entry as it was written for the earlier platform, in the words of today."""
    words = dict(entry)
    if words["type"] == "custom":
        strategy = words.pop("sample_strategy", None)
        if not isinstance(strategy, str) or strategy not in CUSTOM_TYPES:
            names = " or ".join(CUSTOM_TYPES)
            raise UsageError(f'{subject}: a custom replay needs "sample_strategy" {names}, not {shown(strategy)}.')
        words["type"] = CUSTOM_TYPES[strategy]
        if strategy == "attentive_sampling":
            words.pop("elite_sampling_strategy", None)  # given, and ignored, there
    numbered = words.get("elite_sampling_strategy")
    if isinstance(numbered, str) and numbered in NUMBERED_STRATEGIES:
        words["elite_sampling_strategy"] = NUMBERED_STRATEGIES[numbered]
    return words


def split_by_ratio(total: int, ratios: Sequence[float]) -> tuple[int, ...]:
    """Whole parts of `total` by the method of the largest remainder; of equal remainders the earlier part rounds up."""
    # Decimal fractions as they were written: in binary floating point, ties would be decided by rounding errors.
    exact = [Fraction(str(ratio)) for ratio in ratios]
    quotas = [total * ratio / sum(exact) for ratio in exact]
    parts = [math.floor(quota) for quota in quotas]
    by_remainder = sorted(range(len(parts)), key=lambda i: parts[i] - quotas[i])
    for i in by_remainder[: total - sum(parts)]:
        parts[i] += 1
    return tuple(parts)


def did_you_mean(name: str, names: Iterable[str], dashes: str = "", quote: str = "") -> str:
    """The end of a sentence: asks for the closest name, or just stops where none is close."""
    matches = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {quote}{dashes}{matches[0]}{quote}?" if matches else "."
