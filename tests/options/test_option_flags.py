"""Options of every topic, their combinations, and the configuration made from them."""

import dataclasses
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from option_flags import OPTIONS, TOPICS, Config, EnvironmentOptions, LossOptions, ReplayOptions
from options.presets import FRESH_ALONE
from options.replay_options import ReplaySpec
from options.rules import UsageError
from tests.options.other_values import OTHER_VALUES
from tests.options.replay_entries import queue, ranked, replays, standard
from tests.options.words import parse, sentence_of

DEFAULTS = Config().flags()


def test_import_is_light() -> None:
    """A wrong flag is answered at once, and worker processes stay small."""
    program = (
        "import sys, option_flags, options.command_line;"
        "print(sorted({'torch', 'numpy', 'gymnasium', 'cv2'} & set(sys.modules)))"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


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
    assert config.replay.replays == (ReplaySpec("queue", 1, 0.5), ReplaySpec("standard", 500, 0.5))
    assert config.replay.shares == (2, 2)
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
    """tests/replay/test_batch_mix.py compares the plan with the updates of real replays."""
    flags = {"batch_size": 3, "r_f_steps": 5, "environment_max_steps": 46, "replay_parameters": FRESH_ALONE}
    config = Config().replace_flags(**flags)
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
    replay = ReplayOptions(replay_parameters=parameters, batch_size=8)
    assert Config(replay=replay).fresh_unrolls_per_update == fresh


def test_resolution_is_height_then_width() -> None:
    assert EnvironmentOptions(frame_scale_resolution="96,72").resolution == (96, 72)


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


@pytest.mark.parametrize("words", [[], ["--op_mode=test"], ["--op_mode=train", "--load_model_url=results/run"]])
def test_weights_are_loaded_by_a_new_run_only(words: list[str]) -> None:
    assert sentence_of("--load_weights_only", *words).startswith("--load_weights_only needs --op_mode=train_w_load")


@pytest.mark.parametrize("kind", ["attentive", "elite"])
def test_kl_div_does_not_go_with_an_lstm(kind: str) -> None:
    entries = replays(ranked(kind, dist_function="kl_div"))
    assert parse([f"--replay_parameters={entries}"]).replay.replays[0].dist_function == "kl_div"
    assert sentence_of("--use_lstm", f"--replay_parameters={entries}") == (
        "--replay_parameters: kl_div compares policies state by state, and with --use_lstm a policy depends on more "
        "than the state; ln_norm or cos_dist would be right."
    )
    assert parse(["--use_lstm", f"--replay_parameters={replays(ranked(kind))}"]).network.use_lstm


def test_a_test_does_not_care_how_learners_share_a_batch() -> None:
    values = {"learners": 2, "batch_size": 3, "load_model_url": "run"}
    Config.from_flags({**values, "op_mode": "test"})
    with pytest.raises(UsageError, match="--learners=2 cannot divide"):
        Config.from_flags({**values, "op_mode": "train_w_load"})


def test_inference_on_mps_is_refused() -> None:
    assert sentence_of("--inference=learner", "--device=mps") == (
        "--inference=learner needs cpu or cuda, not --device=mps; --inference=worker would be right."
    )


def test_batches_ahead_need_caching() -> None:
    assert ReplayOptions(cache_output_buffer_size=3).batches_ahead == 0
    assert ReplayOptions(caching=True).batches_ahead == 1
    assert ReplayOptions(caching=True, cache_output_buffer_size=3).batches_ahead == 3
