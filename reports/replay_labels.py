"""Replays in words, as short as tells them apart."""

from collections.abc import Collection, Sequence

from options.replay_options import REPLAY_KEYS, ReplaySpec


def telling_keys(settings: Sequence[Sequence[ReplaySpec]]) -> set[str]:
    """The keys, of those not always said, in which replays of one type and one place differ between the settings."""
    seen: dict[tuple[int, str, str], set[object]] = {}
    for replays in settings:
        for place, replay in enumerate(replays):
            for key in _not_always_said(replay.type):
                seen.setdefault((place, replay.type, key), set()).add(getattr(replay, key))
    return {key for (_, _, key), values in seen.items() if len(values) > 1}


def replays_in_words(replays: Sequence[ReplaySpec], keys: Collection[str] = ()) -> str:
    """`0.5 queue + 0.5 standard (1,000)`, with these keys of those that have them; a queue alone is just that."""
    words = " + ".join(_in_words(replay, keys) for replay in replays)
    return words.removeprefix("1 ") if all(replay.type == "queue" for replay in replays) else words


def _in_words(replay: ReplaySpec, keys: Collection[str]) -> str:
    facts = [] if replay.type == "queue" else [f"{replay.capacity:,}"]
    for key in _not_always_said(replay.type):
        if key in keys:
            value = getattr(replay, key)
            facts.append(f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}")
    return f"{replay.sample_ratio:g} {replay.type}" + (f" ({', '.join(facts)})" if facts else "")


def _not_always_said(kind: str) -> list[str]:
    """A queue's capacity matters little, and is not said as the others' are."""
    always = {"type", "sample_ratio"} if kind == "queue" else {"type", "sample_ratio", "capacity"}
    return [key for key in REPLAY_KEYS[kind] if key not in always]
