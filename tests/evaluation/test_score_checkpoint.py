"""Tests with --op_mode=test, as a user starts them: results, films, CTRL+C and rejected flags."""

import errno
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import psutil
import pytest
import torch

from agents.network import ActorCritic
from agents.spaces import described_spaces, make_unroll_layout
from evaluation.logged_game import FilmOfGame
from evaluation.parallel_games import GameLog, GameResult, GameSeries, evaluation_options, game_streams
from evaluation.players import PlayerProcess
from evaluation.score_checkpoint import PlayedGames, score_checkpoint, with_latency_of_training
from main import main
from option_flags import Config, EnvironmentOptions
from options.rules import UsageError
from processes.pool import ChildPool, RunFailedError, WorkersFailedError
from reports.console import Console
from run_files.checkpoint import Checkpoint, find_checkpoint, write_checkpoint
from tests.catch import make_catch
from tests.options.words import parse
from tests.processes import signal_session
from tests.run_files.some_checkpoint import some_content, some_learner, some_progress
from wrappers.atari import make_atari
from wrappers.environment import MakeEnvironment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SMALL = {"network": "impala_shallow", "precision": "float32"}


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return untrained(tmp_path, make_catch, {**SMALL, "frames_stacked": 1})


def untrained(tmp_path: Path, make_environment: MakeEnvironment, flags: dict[str, Any]) -> Path:
    """The folder of a run whose network is untrained."""
    config = Config.from_flags({**flags, "seed": 5, "worker_count": 7, "max_game_frames": 999})
    layout = make_unroll_layout(config, make_environment)
    network = ActorCritic(config.network, layout, torch.float32)
    folder = tmp_path / "run"
    (folder / "checkpoints").mkdir(parents=True)
    content = some_content(
        56,
        options=config.flags(),
        spaces=described_spaces(layout),
        unroll=layout.fingerprint,
        learner=some_learner(network.state_dict(), 56),
        progress=some_progress(1234, 56),
    )
    write_checkpoint(folder / "checkpoints" / "checkpoint_0000000056.pt", content)
    return folder


def configured(folder: Path, *words: str) -> tuple[Config, Checkpoint]:
    """The configuration that main.py makes from these flags."""
    checkpoint = find_checkpoint(str(folder))
    given = ["--op_mode=test", f"--load_model_url={folder}", "--console=off", *words]
    return parse(given, checkpoint.played_options), checkpoint


def results(path: Path | None) -> dict[str, Any]:
    assert path is not None
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_results_and_films_are_written(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    flags = ("--test_episode_count=40", "--seed=3", "--worker_count=2", "--render")
    config, make_environment, checkpoint = arguments(run_folder, *flags)
    assert config.run.precision == "float32", "as in training"
    path = score_checkpoint(config, make_environment, checkpoint)
    found = results(path)
    assert path is not None
    assert path.parent == run_folder
    assert (found["games"], found["games_wanted"], found["cut_off"]) == (40, 40, 0)
    assert found["game_numbers"] == list(range(40))
    assert found["return_mean"] == np.mean(found["returns"])
    assert found["lengths"] == [5] * 40
    assert (found["seed"], found["policy"], found["noop_threshold"]) == (3, "sampled", 30)
    assert (found["checkpoint_agent_steps"], found["checkpoint_updates"]) == (1234, 56)
    assert found["max_game_frames"] == 108_000, "a test does not use the limit of the training run"

    films = sorted((run_folder / "videos").iterdir())
    assert len(films) == 3
    assert [film.suffix for film in films] == [".mp4"] * 3
    best = next(film for film in films if "_best_" in film.name)
    game = found["returns"][:30].index(max(found["returns"][:30]))
    assert best.name == f"{path.stem}_best_game{game}_return1.mp4"
    capture = cv2.VideoCapture(str(best))
    assert (capture.get(cv2.CAP_PROP_FRAME_COUNT), capture.get(cv2.CAP_PROP_FPS)) == (6, 60)

    alone = results(score_checkpoint(*arguments(run_folder, *flags[:2], "--worker_count=1")))
    assert alone["returns"] == found["returns"], "the number of processes makes no difference"


def test_the_games_alone_decide_how_many_a_process_plays_at_once(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forward pass of another size changes the last bits, so processes must not change it."""

    def show(_children: ChildPool, player: PlayerProcess, *_: object) -> None:
        raise WorkersFailedError(f"{player.series.slots} slots")

    monkeypatch.setattr("evaluation.score_checkpoint.PlayerPool", show)
    for games, slots in ((3, 1), (100, 16)):
        for processes in (1, 3):
            flags = (f"--test_episode_count={games}", f"--worker_count={processes}")
            with pytest.raises(WorkersFailedError, match=f"^{slots} slots$"):
                score_checkpoint(*arguments(run_folder, *flags))


def test_the_head_of_a_test_says_how_actions_are_chosen_and_which_flags_have_no_effect(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--test_episode_count=2", "--seed=3", "--worker_count=1", "--test_policy=greedy", "--worker_timeout=100"]
    flags += ["--precision=float32", "--device=cpu", "--lr=0.5"]
    config, make_environment, checkpoint = arguments(run_folder, *flags)
    score_checkpoint(config.replace_flags(console="plain"), make_environment, checkpoint)
    out = capsys.readouterr().out
    line = "the most likely actions are taken; --test_policy=sampled draws them from the policy"
    assert out.splitlines()[2] == line
    assert "without effect on a test: --device, --lr\n" in out


def arguments(folder: Path, *words: str) -> tuple[Config, MakeEnvironment, Checkpoint]:
    config, checkpoint = configured(folder, *words)
    return config, make_catch, checkpoint


@pytest.mark.parametrize("game", ["Breakout", "Pong"])
def test_a_film_has_every_raw_frame_of_the_game_that_was_played(tmp_path: Path, game: str) -> None:
    options = evaluation_options(EnvironmentOptions(env=f"{game}NoFrameskip-v4", max_game_frames=200))
    seed, uniforms = game_streams((4,), 2)
    environment = make_atari(options, 0)
    environment.reset(seed=seed)
    actions, ended = list[int](), False
    while not ended:
        actions.append(int(uniforms.integers(3)))
        _, _, terminated, truncated, _ = environment.step(actions[-1])
        ended = terminated or truncated
    emulator: Any = environment.unwrapped
    log = GameLog(np.array(actions, np.uint8), np.zeros(len(actions), np.float32))
    ((game_return, *_),) = environment.get_wrapper_attr("take_finished_games")()
    result = GameResult(2, game_return, len(actions), True, log)
    series = GameSeries(make_environment=make_atari, environment=options, seed=(4,))
    path = tmp_path / "film.mp4"
    frames = emulator.ale.getEpisodeFrameNumber() + 1
    assert FilmOfGame(series, result, path).make(lambda: None) == [f"video     {path}, {frames:,} frames"]
    assert cv2.VideoCapture(str(path)).get(cv2.CAP_PROP_FRAME_COUNT) == frames
    assert [file.name for file in tmp_path.iterdir()] == ["film.mp4"]


def test_the_results_of_a_checkpoint_outside_a_run_go_beside_it(run_folder: Path, tmp_path: Path) -> None:
    bare = tmp_path / "elsewhere" / "mine.pt"
    bare.parent.mkdir()
    find_checkpoint(str(run_folder)).path.rename(bare)
    assert find_checkpoint(str(bare)).run_folder == bare.parent


def test_another_game_is_rejected(run_folder: Path) -> None:
    with pytest.raises(UsageError, match="--env=BoxingNoFrameskip-v4 does not fit a checkpoint with PongNo"):
        score_checkpoint(*arguments(run_folder, "--env=BoxingNoFrameskip-v4"))


def test_zero_games_are_rejected(run_folder: Path) -> None:
    with pytest.raises(UsageError, match="--test_episode_count must be a whole number between 1 and 1000000, not 0"):
        configured(run_folder, "--test_episode_count=0")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "--op_mode=test needs --load_model_url"),
        (["--load_model_url=/nowhere/at/all"], "does not exist"),
        ([f"--load_model_url={ROOT / 'README.md'}"], "not a checkpoint of this program"),
    ],
)
def test_an_error_is_one_sentence(words: Sequence[str], sentence: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--op_mode=test", *words]) == 2
    errors = capfd.readouterr().err
    assert errors.count("\n") == 1 and sentence in errors


def test_ctrl_c_writes_the_results_so_far(tmp_path: Path) -> None:
    folder = untrained(tmp_path, make_atari, {**SMALL, "frame_scale_resolution": "36,36"})
    command = [sys.executable, "main.py", "--op_mode=test", f"--load_model_url={folder}", "--seed=1"]
    command += ["--test_episode_count=100000", "--max_game_frames=200", "--console_period=0.2", "--worker_count=1"]
    run = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert run.stdout is not None
    assert any("done 0.0%" in line and "games 0 " not in line for line in run.stdout)
    children = psutil.Process(run.pid).children(recursive=True)
    signal_session(run.pid, signal.SIGINT)
    out, errors = run.communicate(timeout=200)
    assert (run.returncode, errors) == (0, "")
    assert "stopped after" in out
    assert not psutil.wait_procs(children, timeout=60)[1]
    (path,) = folder.glob("test_*.json")
    assert 1 <= results(path)["games"] < results(path)["games_wanted"]


def test_results_that_cannot_be_written_are_still_printed(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("evaluation.score_checkpoint.write_json", full)
    flags = ("--test_episode_count=4", "--seed=3", "--worker_count=1", "--precision=float32")
    config, checkpoint = configured(run_folder, *flags)
    config = config.replace_flags(console="plain")
    with pytest.raises(RunFailedError, match=r"test_\d+.json could not be written \(No space left on device\)"):
        score_checkpoint(config, make_catch, checkpoint)
    out = capsys.readouterr().out
    assert "mean" in out and "could not be written (No space left on device)" in out.splitlines()[-1]
    assert not list(run_folder.glob("test_*"))


def test_tests_that_begin_in_the_same_second_write_files_of_their_own(run_folder: Path) -> None:
    ended = {0: GameResult(0, 3.0, 5, False, None)}
    played = PlayedGames(1, 1, begun=1000.5, results=ended)
    paths = [played.conclude(*configured(run_folder), Console()) for _ in range(3)]
    assert paths == [run_folder / f"test_{second}.json" for second in (1000, 1001, 1002)]
    assert [results(path)["returns"] for path in paths] == [[3.0]] * 3


@pytest.mark.parametrize(
    ("flags", "milliseconds", "latency"),
    [
        ({"interaction": "realtime"}, 20.1234, "fixed:20.12"),
        ({"interaction": "realtime"}, None, None),
        ({"interaction": "realtime", "inference_latency": "fixed:3"}, 20.1, "fixed:3"),
        ({"interaction": "asynchronous"}, 20.1, None),
        ({}, 20.1, None),
    ],
)
@pytest.mark.parametrize("processes", [0, 3])
def test_a_test_by_the_clock_has_the_latency_of_the_training(
    flags: dict[str, Any], milliseconds: float | None, latency: str | None, processes: int
) -> None:
    progress = {**some_progress(300, 3), "action_ms": milliseconds, "inference_processes": 2}
    flags = {**flags, "inference_processes": processes}
    config, lines = with_latency_of_training(
        Config.from_flags(flags), Checkpoint(Path("c.pt"), some_content(progress=progress))
    )
    taken = latency is not None and "inference_latency" not in flags
    used = 2 if taken and not processes else processes
    assert config == Config.from_flags({**flags, "inference_latency": latency, "inference_processes": used})
    assert [line.split(";")[0] for line in lines] == (
        [f"actions take as long as in training: --inference_latency={latency}"] if taken else []
    )
    older = Checkpoint(Path("c.pt"), some_content())
    assert with_latency_of_training(Config.from_flags(flags), older) == (Config.from_flags(flags), [])
