"""What a run checks, chooses and prints before it starts."""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.cuda._utils import _get_device_index

from agents.network import ActorCritic
from learners.group import OneLearner
from learners.rank import LearnerRank
from machine import device as devices
from machine import machine_setup
from machine.machine_setup import Machine, choose_slots_per_worker, prepare_machine
from option_flags import OPTIONS, Config
from options.command_line import given_flags
from options.presets import FRESH_ALONE
from options.rules import UsageError
from replay.unroll_layout import ActionKind, UnrollLayout
from reports.run_header import LOWER_LAG, described_actions, described_observations, run_header
from run_files.checkpoint import find_checkpoint
from tests.catch import make_catch
from training import run as run_module
from training.run import set_up_run
from training.train import records_updates, train
from wrappers.make_environment import make_environment

CATCH = UnrollLayout(unroll_length=20, frame_stack=1, frame_shape=(1, 36, 36), action_sizes=(3,))
NETWORK = "nature"
HALF_REPLAYED = (
    '[{"type": "queue", "capacity": 1, "sample_ratio": 0.5}, {"type": "standard", "capacity": 9, "sample_ratio": 0.5}]'
)


@pytest.mark.parametrize(("asked", "workers"), [("auto", torch.float32), ("bfloat16", torch.bfloat16)])
def test_the_precision_of_workers_depends_on_the_cpu_and_not_on_the_gpu(
    monkeypatch: pytest.MonkeyPatch, asked: str, workers: torch.dtype
) -> None:
    monkeypatch.setattr(devices, "has_fast_bfloat16", lambda device: device.type == "cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    current_devices: list[int] = []
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: current_devices.append(_get_device_index(device)))
    machine = prepare_machine(Config().replace_flags(precision=asked))
    assert (machine.device, current_devices) == (torch.device("cuda:0"), [0])
    assert (machine.precision, machine.worker_precision) == (torch.bfloat16, workers)


def test_more_threads_than_cores_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads spin while they wait for each other: the run would not respond for minutes, not even to CTRL+C."""
    monkeypatch.setattr(machine_setup, "usable_cores", lambda: 2)
    assert prepare_machine(Config().replace_flags(device="cpu", learner_threads=2)).learner_threads == 2
    with pytest.raises(UsageError, match=r"^--learner_threads=3 is more than the 2 cores .*, would be right\.$"):
        prepare_machine(Config().replace_flags(device="cpu", learner_threads=3))


@pytest.mark.slow
def test_a_run_too_short_for_a_batch_prints_how_many_steps_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = {"environment_max_steps": 1, "worker_count": 1, "envs_per_worker": 1, "console": "plain", "curves": False}
    flags = {**words, "replay_parameters": FRESH_ALONE, "results_dir": str(tmp_path)}
    folder = train(Config.from_flags(flags), make_catch)
    lines = capsys.readouterr().out.splitlines()
    planned = r"batch of .*; nature, 113k parameters, no update, because the first one needs 160 agent steps"
    assert any(re.match(planned, line) for line in lines[:5]), lines
    assert "nothing was learned: the first update needs 160 agent steps" in lines[-4:-2]
    parent = find_checkpoint(str(folder))
    assert parent.updates == 0
    flags = {
        **parent.options,
        **given_flags(shlex.split(lines[-1].removeprefix("resume with: python main.py")), OPTIONS),
    }
    assert find_checkpoint(str(train(Config.from_flags(flags), make_catch, parent))).updates == 1


def machine_for(config: Config, workers: int) -> Machine:
    return Machine(
        torch.device("cpu"), torch.float32, torch.float32, workers, choose_slots_per_worker(config, workers), 1
    )


@pytest.mark.parametrize(
    ("workers", "flags", "lag"),
    [
        (2, {}, None),
        (64, {}, 512),
        (64, {"batch_size": 256}, None),
        (16, {"learners": 4, "batch_size": 8}, 256),  # each learner has so many
        (64, {"reproducible": True}, None),  # workers and learner take turns
        (8, {"replay_parameters": HALF_REPLAYED}, 64),
    ],
)
def test_a_run_that_may_reach_a_high_policy_lag_warns_before_it_starts(
    workers: int, flags: dict[str, Any], lag: int | None
) -> None:
    config = Config().replace_flags(seed=1, **flags)
    machine = machine_for(config, workers)
    lines = run_header(config, Path("results/run"), machine, CATCH, NETWORK, 100)
    warnings = [line for line in lines if "policy lag" in line]
    expected = f"if all workers are kept busy, policy lag may reach {lag} updates; {LOWER_LAG}"
    assert warnings == ([] if lag is None else [expected])


def test_each_worker_of_a_run_has_a_number_of_its_own() -> None:
    """Where --worker_count is 0, learners may have unequally many: as many as each has cores."""

    class ThirdOfFour(OneLearner):
        def of_all(self, value: Any) -> list[Any]:
            return [5, 6, value, 6] if isinstance(value, int) else [value]

    config = Config().replace_flags(batch_size=8)
    assert set_up_run(config, make_catch, None, ThirdOfFour()).first_worker == 0
    ThirdOfFour.rank = LearnerRank(2, 4, 0, 1)
    assert set_up_run(config, make_catch, None, ThirdOfFour()).first_worker == 11


def test_options_without_effect_are_listed(tmp_path: Path) -> None:
    machine = machine_for(Config(), workers=2)

    def notes(**flags: Any) -> list[str]:
        config = Config().replace_flags(**{"replay_parameters": FRESH_ALONE, **flags})
        return run_header(config, tmp_path, machine, CATCH, NETWORK, 100)[3:]

    assert notes() == notes(use_lstm=True, lstm_size=9) == notes(optimizer="adam", adam_eps=1e-3) == []
    assert notes(lstm_size=9, adam_eps=1e-3, render=True, use_replay_compression=True) == [
        "--use_replay_compression has no effect without a replay besides queues",
        "--lstm_size has no effect without --use_lstm",
        "--adam_eps has no effect without --optimizer=adam",
        "--render has no effect without --eval_period",
    ]
    elite = '[{"type": "elite", "capacity": 9, "sample_ratio": 1.0, "lambda_batch_multiplier": %s}]'
    assert notes(replay_parameters=elite % 6, batch_size=2) == []
    for multiplier, size in ((1.4, 2), (6, 9)):
        assert notes(replay_parameters=elite % multiplier, batch_size=size)[-1] == (
            f"the elite replay draws like standard: nothing is ranked with {size} candidates for a share of {size}; "
            "a larger lambda_batch_multiplier, such as 6, or a larger capacity would be right"
        )


@pytest.mark.parametrize(
    ("flags", "needed"),
    [
        ({"replay_parameters": HALF_REPLAYED, "training_fill_in_factor": 0.3}, None),
        ({"policy_cloning_loss_weight": 1.0}, "a replay besides queues"),
        ({"impact_epsilon": 0.1}, "--loss=impact"),
        ({"loss": "impact", "impact_uses": 1, "impact_batches": 5}, None),
        ({"loss": "impact", "impact_uses": 1, "impact_batches": 5, "impact_target_period": 7}, "a second use"),
        ({"lz4_compression_level": 3}, "--use_replay_compression or --cluster"),
        ({"lz4_compression_level": 3, "cluster": "auto"}, None),
        ({"cluster": "auto", "worker_count": 3, "local_workers": False}, "--local_workers"),
        ({"console": "off", "console_period": 3.0}, "--console=plain"),
        ({"reproducible": True, "slots_per_worker": 2}, "--noreproducible"),
        ({"env": "CartPole-v1", "factored_actions": True}, "a NoFrameskip game"),
    ],
)
def test_what_an_option_needs_is_said_where_it_is_missing(flags: dict[str, Any], needed: str | None) -> None:
    config = Config.from_flags({"replay_parameters": FRESH_ALONE, **flags})
    lines = run_header(config, Path(), machine_for(Config(), 2), CATCH, NETWORK, 100)
    said = [line for line in lines if "has no effect without" in line]
    assert len(said) == (needed is not None) and all(f"without {needed}" in line for line in said)


def test_inference_on_the_learner_is_refused_on_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(UsageError, match="--inference=learner does not work on macOS; --inference=worker would be"):
        prepare_machine(Config().replace_flags(inference="learner"))


@pytest.mark.parametrize(
    ("stack", "frame_shape", "numbers", "described"),
    [
        (4, (1, 84, 84), 0, "sees 4 pictures of 84×84×1"),
        (1, (3, 7, 9), 4, "sees 1 picture of 7×9×3 and 4 numbers"),
        (0, (0, 0, 0), 1, "sees 1 number"),
    ],
)
def test_observations_of_every_kind_are_described(
    stack: int, frame_shape: tuple[int, ...], numbers: int, described: str
) -> None:
    layout = replace(CATCH, frame_stack=stack, frame_shape=frame_shape, vector_size=numbers)
    assert described_observations(layout) == described


def test_the_head_names_the_network_and_the_precision_that_are_used(tmp_path: Path) -> None:
    """Not those of the flags: --network=auto, and bfloat16 where the torso computes in float32."""
    setup = set_up_run(Config.from_flags({"env": "CartPole-v1", "precision": "bfloat16"}), make_environment, None)
    lines = run_header(setup.config, tmp_path, setup.machine, setup.layout, setup.network.torso_name, 100)
    assert setup.network.compute_dtype == torch.float32
    assert lines[0].startswith("CartPole-v1, sees 4 numbers, 2 actions, seed ")
    assert " in float32 with " in lines[1]
    assert lines[2].endswith("; mlp, 100 updates planned")


@pytest.mark.parametrize(
    ("flags", "noted"),
    [
        ({"env": "CartPole-v1"}, []),
        ({"env": "CartPole-v1", "frames_stacked": 4, "largest_pixel": 9}, ["frames_stacked", "largest_pixel"]),
        ({"env": "ALE/Pong-v5", "env_kwargs": '{"obs_type": "ram"}'}, []),
        ({"env": "ALE/Pong-v5", "grayscaling_frames": False}, []),
    ],
)
def test_flags_of_pictures_are_noted_where_there_are_none(flags: dict[str, Any], noted: list[str]) -> None:
    config = Config.from_flags({**flags, "replay_parameters": FRESH_ALONE})
    setup = set_up_run(config, make_environment, None)
    expected = [f"--{name} has no effect on observations without a picture" for name in noted]
    assert setup.notes == expected


def test_large_pictures_are_noted() -> None:
    flags = {"env": "ALE/Pong-v5", "frame_scale_resolution": "native", "replay_parameters": FRESH_ALONE}
    (note,) = set_up_run(Config.from_flags(flags), make_environment, None).notes
    assert note.startswith("the pictures have 160×210 pixels: with --frame_scale_resolution=84,84 ")


@pytest.mark.parametrize(
    ("kind", "sizes", "described"),
    [
        ("discrete", (3,), "3 actions"),
        ("product", (3, 2, 4), "choices of 3, 2 and 4 actions"),
        ("product", (2, 2), "2 choices of 2 actions"),
        ("gaussian", (0,), "1 real-valued action"),
        ("gaussian", (0, 0), "2 real-valued actions"),
    ],
)
def test_actions_of_every_kind_are_described(kind: ActionKind, sizes: tuple[int, ...], described: str) -> None:
    assert described_actions(replace(CATCH, action_kind=kind, action_sizes=sizes)) == described


@pytest.mark.parametrize("rank", [0, 1])
def test_only_the_first_learner_checks_where_reports_go(monkeypatch: pytest.MonkeyPatch, rank: int) -> None:
    """The others write none, and their machines may lack what is needed for it."""

    def refuse(*_: object) -> None:
        raise UsageError("the first learner cannot report here.")

    def stop(*_: object) -> None:
        raise UsageError("all checks of reports are over.")

    monkeypatch.setattr(run_module, "check_sinks", refuse)
    monkeypatch.setattr(run_module, "settle_seed", stop)
    learners = OneLearner()
    learners.rank = LearnerRank(rank, 2, 0, 1)
    with pytest.raises(UsageError, match=("the first", "all checks")[rank]):
        set_up_run(Config.from_flags({"env": "CartPole-v1", "learners": 2}), make_environment, None, learners)


@pytest.mark.parametrize(
    ("flags", "device", "recorded"),
    [
        ({}, "cuda:0", True),
        ({"learners": 2}, "cuda:0", True),
        ({}, "cpu", False),
        ({"cuda_graphs": False}, "cuda:0", False),
        ({"reproducible": True}, "cuda:0", False),
        ({"loss": "impact"}, "cuda:0", True),
        ({"network": "tests.learners.test_updates:make_torso"}, "cuda:0", False),
        ({"network": "tests.learners.test_updates:make_recordable_torso"}, "cuda:0", True),
    ],
)
def test_updates_are_recorded_where_they_can_be(flags: dict[str, Any], device: str, recorded: bool) -> None:
    config = Config().replace_flags(**flags)
    layout = replace(CATCH, frame_stack=2, frame_shape=(1, 20, 20))
    network = ActorCritic(config.network, layout, torch.float32)
    assert records_updates(config, torch.device(device), network) == recorded
