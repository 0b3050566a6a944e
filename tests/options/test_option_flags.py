"""Options, their rules and their error messages; the replays and their shares of a batch."""

import dataclasses
import json
import math
import pickle
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from option_flags import OPTIONS, TOPICS, Config, EnvironmentOptions, LossOptions, ReplayOptions, RunOptions
from options.replay_options import ReplaySpec, split_by_ratio
from options.rules import UsageError
from tests.options.other_values import OTHER_VALUES
from tests.options.words import one_line, parse, sentence_of

QUOTES = "write it in single quotes in a shell, without quotes in a flagfile"
DEFAULTS = Config().flags()


def replays(*entries: dict[str, Any]) -> str:
    return json.dumps(entries)


def queue(ratio: float = 1.0, capacity: Any = 1) -> dict[str, Any]:
    return {"type": "queue", "capacity": capacity, "sample_ratio": ratio}


def standard(ratio: float = 1.0, capacity: Any = 100) -> dict[str, Any]:
    return {"type": "standard", "capacity": capacity, "sample_ratio": ratio}


# --- Import -----------------------------------------------------------------------------------------------------------


def test_import_is_light() -> None:
    """A wrong flag is answered at once, and worker processes stay small."""
    program = (
        "import sys, option_flags, options.command_line, options.help_text;"
        "print(sorted({'torch', 'numpy', 'gymnasium', 'cv2'} & set(sys.modules)))"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


# --- Options ----------------------------------------------------------------------------------------------------------


def test_every_option_has_a_test_value_other_than_its_default() -> None:
    assert set(OTHER_VALUES) == set(OPTIONS)
    assert {name for name in OPTIONS if OTHER_VALUES[name] == DEFAULTS[name]} == set()


def test_option_names_are_unique_across_topics() -> None:
    names = [item.name for topic in TOPICS.values() for item in dataclasses.fields(topic)]
    assert len(names) == len(set(names))


def test_every_option_and_replay_key_has_a_help_sentence() -> None:
    for item in (*OPTIONS.values(), *dataclasses.fields(ReplaySpec)):
        assert re.fullmatch(r"[A-Z].{8,}\.", item.metadata["help"]), item.name


def test_defaults_as_designed() -> None:
    config = Config()
    assert parse([]) == config
    assert config.run.seed is None
    assert config.run.environment_max_steps == 6_000_000
    assert config.environment.resolution == (84, 84)
    assert config.replay.replays == (ReplaySpec("queue", 1, 1.0),)
    assert config.replay.shares == (8,)
    assert config.optimizer.lr == 1e-3
    assert config.loss.trace_lambda == 0.95


def test_configs_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().run.seed = 3  # type: ignore[misc]


def test_a_config_reaches_a_spawned_process() -> None:
    config = Config.from_flags(OTHER_VALUES)
    assert config.replay.shares == (3, 3)
    assert pickle.loads(pickle.dumps(config)) == config


def test_flags_and_from_flags_round_trip_through_json() -> None:
    config = Config.from_flags(OTHER_VALUES)
    assert config.flags() == OTHER_VALUES
    assert Config.from_flags(json.loads(json.dumps(config.flags()))) == config
    assert Config.from_flags(json.loads(json.dumps(DEFAULTS))) == Config()


def test_from_flags_refuses_unknown_names() -> None:
    with pytest.raises(UsageError, match=r"^--batchsize is not a known flag; did you mean --batch_size\?$"):
        Config.from_flags({"batchsize": 3})


def test_replace_flags_keeps_the_rest_and_validates() -> None:
    config = Config.from_flags(OTHER_VALUES).replace_flags(seed=None, lr=1)
    assert config.flags() == {**OTHER_VALUES, "seed": None, "lr": 1.0}
    assert type(config.optimizer.lr) is float
    with pytest.raises(UsageError, match=r"^--lr must"):
        config.replace_flags(lr=0)


def test_planned_updates_are_complete_ones() -> None:
    """tests/replay/test_mix.py compares the plan with the updates of real replays."""
    config = Config().replace_flags(batch_size=3, r_f_steps=5, environment_max_steps=46)
    assert (config.fresh_unrolls_per_update, config.agent_steps_per_update, config.planned_updates) == (3, 15, 3)
    assert config.replace_flags(environment_max_steps=1).planned_updates == 1


@pytest.mark.parametrize(
    ("parameters", "fresh"),
    [
        (replays(queue(0.25), standard(0.75)), 2),
        (replays(standard(0.25), standard(0.75)), 8),
        # Every unroll passes through both queues: three new ones give each queue its three.
        (replays(queue(0.375), queue(0.375), standard(0.25)), 3),
    ],
)
def test_fresh_unrolls_of_an_update(parameters: str, fresh: int) -> None:
    assert Config(replay=ReplayOptions(replay_parameters=parameters)).fresh_unrolls_per_update == fresh


# --- Rules ------------------------------------------------------------------------------------------------------------


BAD_VALUES: dict[type, list[object]] = {
    bool: [1, 0, "true", None, 1.0],
    int: [True, "1", math.nan, math.inf, -math.inf, -1, 2.0, [1]],
    float: [True, "1", None, math.nan, math.inf, -math.inf, -1, [1]],
    str: [1, "", "-", ["auto"]],
}


@pytest.mark.parametrize("kind", [bool, int, float, str])
def test_every_option_refuses_values_of_another_type_or_range(kind: type) -> None:
    for name, item in OPTIONS.items():
        rule = item.metadata["rule"]
        for value in BAD_VALUES[kind] if rule.kind is kind else []:
            if name == "load_model_url" and value == "-":  # any text may be a path
                continue
            with pytest.raises(UsageError, match=f"^--{name}") as caught:
                Config.from_flags({name: value})
            if kind is not str:
                assert str(caught.value) == f"--{name} must {rule.wanted}, not {json.dumps(value)}."
            one_line(caught.value)


def test_only_optional_options_may_be_unset() -> None:
    for name, item in OPTIONS.items():
        if item.default is None:
            assert Config.from_flags({name: None}).flags()[name] is None
        else:
            with pytest.raises(UsageError, match=f"^--{name} must .*, not null.$"):
                Config.from_flags({name: None})


def test_texts_refuse_unknown_words() -> None:
    texts = [name for name, item in OPTIONS.items() if item.metadata["rule"].kind is str]
    for name in [name for name in texts if name not in ("results_dir", "load_model_url")]:
        for value in ("no such thing", "auto\n"):
            with pytest.raises(UsageError, match=f"^--{name}") as caught:
                Config.from_flags({name: value})
            one_line(caught.value)


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("seed", [0, 2**31 - 1], [-1, 2**31]),
        ("slots_per_worker", [0, 8], [-1, 9]),
        ("worker_count", [0], [-1]),
        ("batch_size", [1], [0]),
        ("environment_max_steps", [1], [0]),
        ("noop_threshold", [0], [-1]),
        ("repeat_action_probability", [0, 1], [-0.01, 1.01]),
        ("training_fill_in_factor", [0, 1], [-0.01, 1.01]),
        ("gamma", [0, 1], [-0.01, 1.01]),
        ("trace_lambda", [0, 1], [-0.01, 1.5]),
        ("lr", [1e-9], [0, 10**400]),
        ("adam_beta1", [0, 0.999], [1, -0.1]),
        ("rmsprop_momentum", [0], [1]),
        ("gradient_clip_by_norm_threshold", [0, 40], [-0.5]),
        ("device", ["cpu", "mps", "cuda", "cuda:0"], ["gpu", "cuda:", "cuda:x", "CPU"]),
        (
            "frame_scale_resolution",
            ["1,1", "210,160"],
            ["84x84", "84", "84,0", "84,84,3", "84, 84", "-1,84", "\uff18,\uff18"],
        ),
        ("env", ["MsPacmanNoFrameskip-v4"], ["Ms Pacman", "--seed", "/Pong"]),
    ],
)
def test_limits(name: str, inside: list[Any], outside: list[Any]) -> None:
    for value in inside:
        assert Config.from_flags({name: value}).flags()[name] == value
    for value in outside:
        with pytest.raises(UsageError, match=f"^--{name} must "):
            Config.from_flags({name: value})


def test_resolution_is_height_then_width() -> None:
    assert EnvironmentOptions(frame_scale_resolution="96,72").resolution == (96, 72)


def test_dataclasses_made_in_python_are_checked_too() -> None:
    with pytest.raises(UsageError, match=r"^--seed must be a whole number between 0 and 2147483647, not -1\.$"):
        RunOptions(seed=-1)
    with pytest.raises(UsageError, match=r"^--batch_size must be a whole number of at least 1, not true\.$"):
        ReplayOptions(batch_size=True)


@pytest.mark.parametrize("name", ["rho_const", "c_const"])
def test_importance_weights_are_bounded_by_what_float32_can_hold(name: str) -> None:
    with pytest.raises(UsageError, match=rf"^--{name} must be a number above 0 and at most 100000, not 1e\+39\.$"):
        Config.from_flags({"rho_const": 100_000.0, name: 1e39})


def test_frames_in_colour_may_have_as_many_channels_as_one_observation_can() -> None:
    assert EnvironmentOptions(frames_stacked=64).frames_stacked == 64
    assert EnvironmentOptions(frames_stacked=42, grayscaling_frames=False).frames_stacked == 42
    with pytest.raises(UsageError, match=r"^--frames_stacked=43 is too many .*; at most 42 with --nograyscaling_fram"):
        EnvironmentOptions(frames_stacked=43, grayscaling_frames=False)


def test_rho_const_may_not_be_below_c_const() -> None:
    with pytest.raises(UsageError, match=r"^--rho_const must be at least --c_const, but 1\.0 is below 1\.5\.$"):
        LossOptions(c_const=1.5)
    assert LossOptions(rho_const=1.5, c_const=1.5).c_const == 1.5


def test_a_resumed_run_and_a_test_need_a_checkpoint() -> None:
    assert "--load_model_url" in sentence_of("--op_mode=train_w_load")
    assert "--load_model_url" in sentence_of("--op_mode=test")
    assert "--op_mode=train_w_load" in sentence_of("--load_model_url=results/run")


# --- Replays ----------------------------------------------------------------------------------------------------------

Q, S = '"type": "queue"', '"type": "standard"'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", f'must be valid JSON, not ""; {QUOTES}; at character 1: expecting value.'),
        ("'[]'", f"must be valid JSON, not \"'[]'\"; {QUOTES}; at character 1: expecting value."),
        (
            "[{]",
            f'must be valid JSON, not "[{{]"; {QUOTES}; at character 3: expecting property name enclosed in '
            "double quotes.",
        ),
        ("[", f'must be valid JSON, not "["; {QUOTES}; at character 2: expecting value.'),
        ("[]", "must be a JSON list of at least one replay, not []."),
        ("{}", "must be a JSON list of at least one replay, not {}."),
        ("null", "must be a JSON list of at least one replay, not null."),
        ("[" * 100_000, f'must be a JSON list of replays, not "{"[" * 56}....'),
        ("9" * 5000, f'must be a JSON list of replays, not "{"9" * 56}....'),
        ("[5]", ': entry 1 must be an object with the key "type", not 5.'),
        ('[{"capacity": 5}]', ': entry 1 must be an object with the key "type", not {"capacity": 5}.'),
        ('[{"type": "ring"}]', ': entry 1: type must be one of queue, standard, attentive, elite, not "ring".'),
        ('[{"type": ["queue"]}]', ': entry 1: type must be one of queue, standard, attentive, elite, not ["queue"].'),
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
        (f'[{{{Q}, "capacity": 1, "capacity": 2}}]', ' has the key "capacity" twice in one entry; give it once.'),
        (f'[{{{Q}, "capacity": 1, "sample_ratio": NaN}}]', "must hold finite numbers, not NaN."),
        (f'[{{{Q}, "capacity": 1, "sample_ratio": -Infinity}}]', "must hold finite numbers, not -Infinity."),
    ],
)
def test_replay_parameters_that_cannot_be_read(text: str, sentence: str) -> None:
    joint = "" if sentence.startswith((":", " ")) else " "
    assert sentence_of(f"--replay_parameters={text}") == f"--replay_parameters{joint}{sentence}"


@pytest.mark.parametrize("capacity", [0, 5.0, True, None, "5"])
def test_capacity_is_a_whole_number_above_zero(capacity: object) -> None:
    assert sentence_of("--replay_parameters", replays(queue(capacity=capacity))) == (
        f"--replay_parameters: entry 1: capacity must be a whole number of at least 1, not {json.dumps(capacity)}."
    )


@pytest.mark.parametrize("ratio", [0, 1.0000001, True, None, "1"])
def test_sample_ratio_is_above_zero_and_at_most_one(ratio: Any) -> None:
    assert sentence_of("--replay_parameters", replays(queue(ratio))) == (
        f"--replay_parameters: entry 1: sample_ratio must be a number above 0 and at most 1, not {json.dumps(ratio)}."
    )


def test_infinity_written_as_a_number_is_refused() -> None:
    text = replays(queue()).replace("1.0", "1e999")
    assert sentence_of("--replay_parameters", text).endswith("at most 1, not Infinity.")


OLDER = (
    '[{"type": "custom", "capacity": 1000, "sample_ratio": 0.5, "dist_function":"ln_norm", '
    '"sample_strategy":"elite_sampling", "lambda_batch_multiplier":6, "alfa_annealing_factor":2.0} ,'
    '{"type": "queue", "capacity": 1, "sample_ratio": 0.5}]'
)


def ranked(kind: str = "elite", **keys: Any) -> dict[str, Any]:
    return {"type": kind, "capacity": 100, "sample_ratio": 1.0, **keys}


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
    assert config.replay.shares == (4, 4)
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
        (ranked(dist_function="l2"), 'dist_function must be one of ln_norm, cos_dist, kl_div, not "l2".'),
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


@pytest.mark.parametrize("kind", ["attentive", "elite"])
def test_kl_div_does_not_go_with_an_lstm(kind: str) -> None:
    entries = replays(ranked(kind, dist_function="kl_div"))
    assert parse([f"--replay_parameters={entries}"]).replay.replays[0].dist_function == "kl_div"
    assert sentence_of("--use_lstm", f"--replay_parameters={entries}") == (
        "--replay_parameters: kl_div compares policies state by state, and with --use_lstm a policy depends on more "
        "than the state; ln_norm or cos_dist would be right."
    )
    assert parse(["--use_lstm", f"--replay_parameters={replays(ranked(kind))}"]).network.use_lstm


def test_inference_on_mps_is_refused() -> None:
    assert sentence_of("--inference=learner", "--device=mps") == (
        "--inference=learner needs cpu or cuda, not --device=mps; --inference=worker would be right."
    )


def test_batches_ahead_need_caching() -> None:
    assert ReplayOptions(cache_output_buffer_size=3).batches_ahead == 0
    assert ReplayOptions(caching=True).batches_ahead == 1
    assert ReplayOptions(caching=True, cache_output_buffer_size=3).batches_ahead == 3


def test_ratios_add_up_to_one_within_a_millionth() -> None:
    close = replays(queue(0.333333), standard(0.333333), standard(0.3333335))
    assert ReplayOptions(replay_parameters=close, batch_size=9).shares == (3, 3, 3)
    assert sentence_of("--replay_parameters", replays(queue(0.5), standard(0.499))) == (
        "--replay_parameters: the values of sample_ratio must add up to 1, not 0.999."
    )


def test_every_replay_needs_a_share() -> None:
    entries = replays(queue(0.99), standard(0.01))
    assert sentence_of("--replay_parameters", entries) == (
        "--batch_size=8 is too small for --replay_parameters: entry 2 would get no unroll of a batch; "
        "100 or more would be right."
    )
    assert ReplayOptions(replay_parameters=entries, batch_size=100).shares == (99, 1)


def test_the_capacity_of_a_queue_may_be_below_its_share() -> None:
    assert ReplayOptions(replay_parameters=replays(queue(0.5, 1), standard(0.5, 4))).shares == (4, 4)
    assert sentence_of("--replay_parameters", replays(queue(0.5, 1), standard(0.5, 3))) == (
        "--replay_parameters: entry 2 has a capacity of 3, but its share of a batch is 4; at least 4 would be right."
    )


def test_all_queues_have_the_same_share() -> None:
    assert ReplayOptions(replay_parameters=replays(queue(0.5), queue(0.5))).queue_shares == (4, 4)
    assert sentence_of("--replay_parameters", replays(queue(0.6), queue(0.4))) == (
        "--replay_parameters: every unroll passes once through every queue, so all queues need the same share "
        "of a batch, not 5 and 3 unrolls."
    )


@pytest.mark.parametrize(
    ("total", "ratios", "shares"),
    [
        (8, [1.0], (8,)),
        (3, [0.5, 0.5], (2, 1)),  # a tie: the earlier one
        (10, [0.35, 0.65], (4, 6)),  # a tie that binary fractions would decide by their rounding errors
        (10, [0.65, 0.35], (7, 3)),
        (100, [0.29, 0.71], (29, 71)),
        (7, [0.1, 0.6, 0.3], (1, 4, 2)),
        (1, [0.2, 0.2, 0.6], (0, 0, 1)),
    ],
)
def test_examples_of_largest_remainder(total: int, ratios: list[float], shares: tuple[int, ...]) -> None:
    assert split_by_ratio(total, ratios) == shares


WEIGHTS = st.lists(st.integers(1, 1000), min_size=1, max_size=8)


@given(total=st.integers(0, 5000), weights=WEIGHTS)
def test_shares_add_up_and_stay_within_one_of_their_quota(total: int, weights: list[int]) -> None:
    shares = split_by_ratio(total, [float(weight) for weight in weights])
    quotas = [Fraction(total * weight, sum(weights)) for weight in weights]
    assert sum(shares) == total
    assert all(math.floor(quota) <= share <= math.ceil(quota) for share, quota in zip(shares, quotas, strict=True))


@given(total=st.integers(0, 200), weights=WEIGHTS)
def test_shares_equal_those_of_handing_out_one_at_a_time(total: int, weights: list[int]) -> None:
    quotas = [Fraction(total * weight, sum(weights)) for weight in weights]
    slow = [int(quota) for quota in quotas]
    while sum(slow) < total:
        short = [quota - share for quota, share in zip(quotas, slow, strict=True)]
        slow[short.index(max(short))] += 1
    assert split_by_ratio(total, [float(weight) for weight in weights]) == tuple(slow)


@given(cents=st.lists(st.integers(1, 99), min_size=1, max_size=5), batch_size=st.integers(1, 300))
@settings(max_examples=50)
def test_the_batch_size_in_an_error_is_enough(cents: list[int], batch_size: int) -> None:
    entries = replays(*(standard(cent / sum(cents), capacity=1000) for cent in cents))
    try:
        options = ReplayOptions(replay_parameters=entries, batch_size=batch_size)
    except UsageError as error:
        words = str(error).split()
        enough = int(words[words.index("or") - 1])
        assert enough > batch_size
        options = ReplayOptions(replay_parameters=entries, batch_size=enough)
    assert min(options.shares) >= 1
    assert sum(options.shares) == options.batch_size
