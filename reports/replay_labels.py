"""Short labels for replay settings."""

from collections.abc import Collection, Sequence

from options.replay_options import REPLAY_KEYS, ReplaySpec


def differing_keys(settings: Sequence[Sequence[ReplaySpec]]) -> set[str]:
    """The optional keys in which replays of the same type and position differ between the settings."""
    seen: dict[tuple[int, str, str], set[object]] = {}
    for replays in settings:
        for place, replay in enumerate(replays):
            for key in _optional_keys(replay.type):
                seen.setdefault((place, replay.type, key), set()).add(getattr(replay, key))
    return {key for (_, _, key), values in seen.items() if len(values) > 1}


def describe_replays(replays: Sequence[ReplaySpec], keys: Collection[str] = (), *, exact: bool = False) -> str:
    """`0.5 queue + 0.5 standard (1,000)`, with the given optional keys; a queue alone is just `queue`.

    Numbers have six digits, or with `exact` all of them.
    """
    words = " + ".join(_in_words(replay, keys, exact) for replay in replays)
    return words.removeprefix("1 ") if all(replay.type == "queue" for replay in replays) else words


def _in_words(replay: ReplaySpec, keys: Collection[str], exact: bool) -> str:
    facts = [] if replay.type == "queue" else [f"{replay.capacity:,}"]
    for key in _optional_keys(replay.type):
        if key in keys:
            value = getattr(replay, key)
            facts.append(f"{key} {_number(value, exact)}" if isinstance(value, float) else f"{key} {value}")
    return f"{_number(replay.sample_ratio, exact)} {replay.type}" + (f" ({', '.join(facts)})" if facts else "")


def _number(value: float, exact: bool) -> str:
    shortest = repr(float(value)).removesuffix(".0")
    return shortest if exact else f"{value:g}"


def _optional_keys(kind: str) -> list[str]:
    """Keys that a label does not always contain. The capacity of a queue matters little, so it is one of them."""
    always = {"type", "sample_ratio"} if kind == "queue" else {"type", "sample_ratio", "capacity"}
    return [key for key in REPLAY_KEYS[kind] if key not in always]
