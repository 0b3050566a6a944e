"""The entries of --replay_parameters: their keys, their defaults and their error messages."""

import json
import math
from typing import Any

import pytest

from option_flags import ReplayOptions
from options.replay_options import ReplaySpec
from tests.options.replay_entries import queue, ranked, replays
from tests.options.words import parse, sentence_of

VALID = "must be valid JSON, in single quotes in a shell, without quotes in a flagfile, not"
Q, S = '"type": "queue"', '"type": "standard"'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", f'{VALID} "": Expecting value: line 1 column 1 (char 0).'),
        ("'[]'", f"{VALID} \"'[]'\": Expecting value: line 1 column 1 (char 0)."),
        (
            "[{]",
            f'{VALID} "[{{]": Expecting property name enclosed in double quotes: line 1 column 3 (char 2).',
        ),
        ("[]", "must be a JSON list of at least one replay, not []."),
        ("{}", "must be a JSON list of at least one replay, not {}."),
        ("null", "must be a JSON list of at least one replay, not null."),
        ("[5]", ': entry 1 must be an object with the key "type", not 5.'),
        ('[{"capacity": 5}]', ': entry 1 must be an object with the key "type", not {"capacity": 5}.'),
        (
            '[{"type": "ring"}]',
            ': entry 1: type must be one of queue, standard, attentive, elite, demonstrations, not "ring".',
        ),
        (
            '[{"type": ["queue"]}]',
            ': entry 1: type must be one of queue, standard, attentive, elite, demonstrations, not ["queue"].',
        ),
        (f"[{{{Q}}}]", ': entry 1 lacks the key "capacity"; the keys of queue are capacity, sample_ratio, type.'),
        (
            f'[{{{Q}, "capacity": 1, "sample_ratio": 0.5}}, {{{S}, "capcity": 1, "sample_ratio": 0.5}}]',
            ': entry 2 has the unknown key "capcity"; did you mean "capacity"? '
            "The keys of standard are capacity, sample_ratio, type.",
        ),
        (
            f'[{{{Q}, "capacity": 1, "sample_ratio": 1, "zzz": 1}}]',
            ': entry 1 has the unknown key "zzz". The keys of queue are capacity, sample_ratio, type.',
        ),
    ],
)
def test_replay_parameters_that_cannot_be_read(text: str, sentence: str) -> None:
    joint = "" if sentence.startswith((":", " ")) else " "
    assert sentence_of(f"--replay_parameters={text}") == f"--replay_parameters{joint}{sentence}"


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5000])
def test_json_that_python_refuses_is_one_sentence(text: str) -> None:
    assert sentence_of(f"--replay_parameters={text}").startswith(f"--replay_parameters {VALID} ")


@pytest.mark.parametrize("capacity", [0, 5.0, True, None, "5"])
def test_capacity_is_a_whole_number_above_zero(capacity: object) -> None:
    assert sentence_of("--replay_parameters", replays(queue(capacity=capacity))) == (
        f"--replay_parameters: entry 1: capacity must be a whole number of at least 1, not {json.dumps(capacity)}."
    )


@pytest.mark.parametrize("ratio", [0, 1.0000001, True, None, "1", math.nan, -math.inf])
def test_sample_ratio_is_above_zero_and_at_most_one(ratio: Any) -> None:
    assert sentence_of("--replay_parameters", replays(queue(ratio))) == (
        f"--replay_parameters: entry 1: sample_ratio must be a number above 0 and at most 1, not {json.dumps(ratio)}."
    )


OLDER = (
    '[{"type": "custom", "capacity": 1000, "sample_ratio": 0.5, "dist_function":"ln_norm", '
    '"sample_strategy":"elite_sampling", "lambda_batch_multiplier":6, "alfa_annealing_factor":2.0} ,'
    '{"type": "queue", "capacity": 1, "sample_ratio": 0.5}]'
)


def test_the_older_form_means_attentive_or_elite() -> None:
    assert ReplayOptions(replay_parameters=OLDER).replays == (
        ReplaySpec("elite", 1000, 0.5, "ln_norm", lambda_batch_multiplier=6.0, alfa_annealing_factor=2.0),
        ReplaySpec("queue", 1, 0.5),
    )
    attentive = OLDER.replace("elite_sampling", "attentive_sampling")
    expected = ReplaySpec("attentive", 1000, 0.5, lambda_batch_multiplier=6.0, alfa_annealing_factor=2.0)
    assert ReplayOptions(replay_parameters=attentive).replays[0] == expected
    # The older form allows a strategy here, without effect.
    with_strategy = attentive.replace('"dist_function"', '"elite_sampling_strategy": "strategy3", "dist_function"')
    assert ReplayOptions(replay_parameters=with_strategy).replays[0] == expected


def test_the_older_command_is_read_unchanged() -> None:
    words = ["--op_mode=train", "--env=PongNoFrameskip-v4", "--environment_max_steps=1000000"]
    config = parse([*words, f"--replay_parameters={OLDER}"])
    assert config.replay.shares == (2, 2)
    assert config.replay.replay_parameters == OLDER
    assert config.replay.ranks_by_features


@pytest.mark.parametrize(
    ("number", "name"),
    list(enumerate(["lowest", "stratified", "lowest_least_sampled", "stratified_least_sampled"], start=1)),
)
@pytest.mark.parametrize("older", [False, True])
def test_strategies_by_name_and_by_number(number: int, name: str, older: bool) -> None:
    kind = {"type": "custom", "sample_strategy": "elite_sampling"} if older else {}
    for word in (name, f"strategy{number}"):
        entries = replays(ranked(**{**kind, "elite_sampling_strategy": word}))
        assert ReplayOptions(replay_parameters=entries).replays[0].elite_sampling_strategy == name


def test_defaults_of_ranked_replays() -> None:
    elite, attentive = ReplayOptions(
        replay_parameters=replays(ranked(sample_ratio=0.5), ranked("attentive", sample_ratio=0.5))
    ).replays
    for replay in (elite, attentive):
        assert (replay.dist_function, replay.p) == ("ln_norm", 2.0)
        assert (replay.lambda_batch_multiplier, replay.alfa_annealing_factor) == (1.0, 1.0)
    assert (elite.elite_sampling_strategy, elite.insert_strategy) == ("lowest_least_sampled", "oldest")
    assert elite.elite_batch_size == 20


@pytest.mark.parametrize(
    ("kind", "distance", "stored"),
    [
        ("elite", "ln_norm", True),
        ("elite", "cos_dist", True),
        ("elite", "kl_div", False),
        ("elite", "random", False),
        ("attentive", "ln_norm", True),
        ("attentive", "kl_div", False),
    ],
)
def test_features_are_needed_by_distances_of_features(kind: str, distance: str, stored: bool) -> None:
    entries = replays(ranked(kind, dist_function=distance))
    assert ReplayOptions(replay_parameters=entries).ranks_by_features == stored


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (ranked(dist_function="l2"), 'dist_function must be one of ln_norm, cos_dist, kl_div, random, not "l2".'),
        (ranked(p=0), "p must be a number between 1 and 64, not 0."),
        (ranked(p="2"), 'p must be a number between 1 and 64, not "2".'),
        (ranked(lambda_batch_multiplier=0.5), "lambda_batch_multiplier must be a number between 1 and 1000, not 0.5."),
        (
            ranked(lambda_batch_multiplier=1001),
            "lambda_batch_multiplier must be a number between 1 and 1000, not 1001.",
        ),
        (
            ranked(lambda_batch_multiplier=True),
            "lambda_batch_multiplier must be a number between 1 and 1000, not true.",
        ),
        (ranked(alfa_annealing_factor=0), "alfa_annealing_factor must be a number above 0, not 0."),
        (ranked(ranked_states=0), "ranked_states must be a whole number of at least 1, not 0."),
        (ranked(ranked_states=2.5), "ranked_states must be a whole number of at least 1, not 2.5."),
        (
            ranked(elite_sampling_strategy="strategy5"),
            "elite_sampling_strategy must be one of lowest, stratified, lowest_least_sampled, "
            'stratified_least_sampled, not "strategy5".',
        ),
        (
            ranked(elite_sampling_strategy=["lowest"]),
            "elite_sampling_strategy must be one of lowest, stratified, lowest_least_sampled, "
            'stratified_least_sampled, not ["lowest"].',
        ),
        (ranked(insert_strategy="newest"), 'insert_strategy must be one of oldest, elite_insertion, not "newest".'),
        (
            ranked(elite_batch_size=0, lambda_batch_multiplier=6),
            "elite_batch_size must be a whole number of at least 1, not 0.",
        ),
    ],
)
def test_keys_of_ranked_replays_are_checked(entry: dict[str, Any], sentence: str) -> None:
    assert sentence_of("--replay_parameters", replays(entry)) == f"--replay_parameters: entry 1: {sentence}"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (ranked(lambda_batch_multiplyer=6), 'has the unknown key "lambda_batch_multiplyer"; did you mean'),
        (ranked(sample_strategy="elite_sampling"), 'has the unknown key "sample_strategy"'),
        (ranked("attentive", elite_batch_size=5), 'has the unknown key "elite_batch_size"'),
        (ranked("standard", p=2), 'has the unknown key "p"'),
        (ranked("custom"), ': a custom replay needs "sample_strategy" attentive_sampling or elite_sampling, not null.'),
        (
            ranked("custom", sample_strategy="elite"),
            ': a custom replay needs "sample_strategy" attentive_sampling or elite_sampling, not "elite".',
        ),
        (
            ranked("custom", sample_strategy=["elite_sampling"]),
            ': a custom replay needs "sample_strategy" attentive_sampling or elite_sampling, not ["elite_sampling"].',
        ),
        (
            ranked(insert_strategy="elite_insertion"),
            ": elite_insertion needs the distances that ranking computes, and nothing is ranked with a "
            "lambda_batch_multiplier of 1; a larger one, such as 6, would be right.",
        ),
    ],
)
def test_unknown_keys_are_one_sentence(entry: dict[str, Any], words: str) -> None:
    joint = "" if words.startswith(":") else " "
    assert sentence_of("--replay_parameters", replays(entry)).startswith(f"--replay_parameters: entry 1{joint}{words}")
