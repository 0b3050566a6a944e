"""The benchmark `peers`: its plan, progress and tables, and that no arm hangs or leaves processes. Without peers."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import psutil
import pytest

from run_files.metrics import Report
from tests.benchmarks import peer_environments, peer_runs, peers
from tests.benchmarks.peer_environments import PEERS, Peer, PeerError, make_environment
from tests.benchmarks.peer_programs.progress import GamesFile, Progress, parse_arguments
from tests.benchmarks.peer_runs import Command, Line, own_reports, peer_reports, run_for, speed
from tests.benchmarks.peer_table import OWN, result_lines
from tests.benchmarks.peers import RUNS, Run, finished, main, own_command, peer_command, plan, row_of
from tests.benchmarks.runs import ROOT

pytestmark = pytest.mark.slow

LINE = {"seconds": 1.0, "agent_steps": 40, "return_mean": None, "games": 0}


def script(folder: Path, *statements: str) -> Command:
    """A program in place of a peer's, with the folder in `folder` and a line of progress in `step`."""
    code = ["import os, pathlib, signal, subprocess, sys, time", f"folder = pathlib.Path({str(folder)!r})"]
    code += [f"step = {json.dumps(json.dumps(LINE))} + chr(10)", *statements]
    return Command([sys.executable, "-c", "\n".join(code)], {}, peer_reports(folder))


STEP = "(folder / 'progress.jsonl').write_text(step)"


def over_when(path: Path) -> Callable[[], float]:
    """A clock on which all time is over as soon as the file exists: a busy machine is slow to start programs."""
    return lambda: 1000.0 if path.exists() else 0.0


def row(arm: str, game: str, return_mean: float | None, speed: float = 100.0, seed: int = 1) -> Report:
    return row_of(Run(arm, game, seed, 20.0), [Line(0, 0, None, 0), Line(1200, 120_000, return_mean, 30)]) | {
        "steps_per_second": speed
    }


def test_the_arms_take_turns() -> None:
    runs = plan(["envpool"], ["Qbert", "Phoenix"], [1, 2], 20.0, ["--batch_size=16"])
    assert [(run.arm, run.game, run.seed) for run in runs] == [
        ("ours", "Qbert", 1),
        ("envpool", "Qbert", 1),
        ("ours", "Phoenix", 1),
        ("envpool", "Phoenix", 1),
        ("ours", "Qbert", 2),
        ("envpool", "Qbert", 2),
        ("ours", "Phoenix", 2),
        ("envpool", "Phoenix", 2),
    ]
    assert {run.flags for run in runs if run.arm == OWN} == {("--batch_size=16",)}
    assert {run.flags for run in runs if run.arm != OWN} == {()}


def test_an_interrupted_benchmark_goes_on_with_the_missing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    played: list[str] = []
    interrupt_at = 2

    def measure(run: Run, results: Path, pythons: object) -> Report:
        if len(played) == interrupt_at:
            raise KeyboardInterrupt
        played.append(run.name)
        if run.arm == "rllib":
            raise PeerError("it made no step")
        return row_of(run, [Line(60, 1000, 200.0, 5)])

    monkeypatch.setattr(peers, "measure", measure)
    monkeypatch.setattr(peers, "make_environment", lambda peer, folder: Path("python"))
    words = ["--games", "Qbert", "--peers", "rllib", "envpool", "--minutes=1", f"--results={tmp_path}"]
    assert main(words) == 130
    assert played == ["ours_Qbert_seed1", "rllib_Qbert_seed1"]
    assert [run.arm for run in finished(tmp_path / RUNS)] == ["ours"]
    interrupt_at = 100
    played.clear()
    assert main(words) == 1  # the one that failed is tried again, and fails again
    assert played == ["rllib_Qbert_seed1", "envpool_Qbert_seed1"]
    played.clear()
    assert main([*words, "--tables_only"]) == 0
    assert main(["--games", "Qbert", "--peers", "envpool", "--minutes=1", f"--results={tmp_path}"]) == 0
    assert not played
    assert "it made no step" in capsys.readouterr().out
    other_flags = ["--batch_size=16", "--peers", "envpool", "--games", "Qbert", "--minutes=1", f"--results={tmp_path}"]
    assert main(other_flags) == 0
    assert played == ["ours_Qbert_seed1"]  # with other options it is another run


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--games", "Chess"], "--games must name games with published scores, such as Qbert, not 'Chess'."),
        (["--minutes=0"], "--minutes must be above 0, not 0."),
        (["--seed=3"], "--seed is set by this benchmark"),
        (["--batch_size=0"], "--batch_size must be"),
    ],
)
def test_a_mistake_gives_one_sentence(
    words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, f"--results={tmp_path}"]) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1


def test_the_command_of_our_own_arm(tmp_path: Path) -> None:
    command = own_command(Run(OWN, "Qbert", 3, 20.0, ("--batch_size=16", "--console=plain")), tmp_path)
    assert set(command.words[2:]) == {
        *("--op_mode=train", "--env=QbertNoFrameskip-v4", "--seed=3", f"--results_dir={tmp_path}"),
        *("--batch_size=16", "--console=plain", "--curves=False"),
    }


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_the_command_of_a_peer_is_what_its_program_reads(peer: Peer, tmp_path: Path) -> None:
    run = Run(peer.name, "Qbert", 3, 20.0)
    command = peer_command(run, peer, Path("python"), tmp_path / "run", tmp_path / "scratch")
    assert command.words[:3] == ["python", "-m", peer.program]
    assert (ROOT / f"{peer.program.replace('.', '/')}.py").exists()
    given = parse_arguments(command.words[3:])
    assert (given.game, given.seed, given.seconds) == ("Qbert", 3, 1200.0)
    assert (given.folder, given.scratch) == (tmp_path / "run", tmp_path / "scratch")


def test_progress_is_written_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 50.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    progress = Progress(tmp_path)
    progress.report(0)
    progress.finished([0.0] * 10)
    progress.finished(range(1, 101))
    progress.report(500)  # too early for another line
    now = 56.0
    progress.report(1000)
    with (tmp_path / "progress.jsonl").open("a") as file:
        file.write('{"seconds": 9')  # of a killed program
    assert peer_reports(tmp_path).lines() == [Line(0, 0, None, 0), Line(6, 1000, 50.5, 110)]
    assert peer_reports(tmp_path).agent_steps() == 1000
    assert peer_reports(tmp_path / "other").lines() == []
    assert peer_reports(tmp_path / "other").agent_steps() == 0


def test_games_of_several_processes_are_gathered(tmp_path: Path) -> None:
    first, second, reader = GamesFile(tmp_path), GamesFile(tmp_path), GamesFile(tmp_path)
    assert reader.new() == []
    first.add(1.5)
    second.add(-2)
    assert reader.new() == [1.5, -2.0]
    assert reader.new() == []
    second.add(7)
    assert reader.new() == [7.0]


def test_our_own_reports_are_read_in_the_same_form(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    report = {"seconds": 3.5, "agent_steps": 100, "frames": 400, "return_mean": None, "episodes": 0}
    lines = [report, {**report, "agent_steps": 200, "return_mean": 12.5, "episodes": 3}]
    (tmp_path / "run" / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert own_reports(tmp_path).lines() == [Line(3.5, 100, None, 0), Line(3.5, 200, 12.5, 3)]


def test_the_speed_leaves_out_the_warm_up() -> None:
    slow_start = [Line(0, 0, None, 0), Line(50, 10, None, 0)]
    steady = [Line(110 + 10 * i, 1000 + 5000 * i, None, 0) for i in range(110)]
    assert speed([*slow_start, *steady]) == pytest.approx(500)
    assert speed([Line(seconds, 7 * seconds, None, 0) for seconds in (1, 2, 3)]) == pytest.approx(7)
    assert speed(slow_start) is None
    assert speed([Line(5, 0, None, 0)]) is None


def test_an_arm_is_interrupted_when_its_time_is_over(tmp_path: Path) -> None:
    command = script(
        tmp_path,
        "try:",
        f"    {STEP}",
        "    time.sleep(200)",
        "except KeyboardInterrupt:",
        "    (folder / 'ended').touch()",
    )
    clock = over_when(tmp_path / "progress.jsonl")
    assert run_for(command, 500.0, tmp_path / "log", clock=clock) == [Line(1, 40, None, 0)]
    assert (tmp_path / "ended").exists()


def test_an_arm_that_does_not_end_is_killed_with_all_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even one that has left its session, and one without its environment, as Ray's do."""
    monkeypatch.setattr(peer_runs, "STOP_SECONDS", 0.2)
    command = script(
        tmp_path,
        STEP,
        "signal.signal(signal.SIGINT, signal.SIG_IGN)",
        "wait = [sys.executable, '-c', 'import time; time.sleep(200)']",
        "children = [subprocess.Popen(wait, start_new_session=far) for far in (False, True)]",
        "children += [subprocess.Popen(wait, start_new_session=True, env={})]",
        "(folder / 'draft').write_text(' '.join(str(one.pid) for one in children))",
        "os.replace(folder / 'draft', folder / 'pids')",
        "time.sleep(200)",
    )
    run_for(command, 500.0, tmp_path / "log", clock=over_when(tmp_path / "pids"))
    left = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(left) == 3
    assert not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in left)


def test_no_shared_memory_of_a_killed_arm_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that Python starts to remove it is not killed before it has done so."""
    monkeypatch.setattr(peer_runs, "STOP_SECONDS", 0.2)
    command = script(
        tmp_path,
        "from multiprocessing.shared_memory import SharedMemory",
        "signal.signal(signal.SIGINT, signal.SIG_IGN)",
        "block = SharedMemory(create=True, size=100)",
        "(folder / 'name').write_text(block.name)",
        "if not os.fork():",
        "    time.sleep(200)",  # as long as it lives, the block is in use
        STEP,
        "time.sleep(200)",
    )
    run_for(command, 500.0, tmp_path / "log", clock=over_when(tmp_path / "progress.jsonl"))
    with pytest.raises(FileNotFoundError):
        SharedMemory((tmp_path / "name").read_text())


def test_an_arm_without_steps_hangs(tmp_path: Path) -> None:
    with pytest.raises(PeerError, match="it made no step for 1 s"):
        run_for(script(tmp_path, STEP, "time.sleep(200)"), 500.0, tmp_path / "log", patience=1.0)


def test_an_arm_that_fails_or_never_steps_has_no_result(tmp_path: Path) -> None:
    with pytest.raises(PeerError, match="it ended with code 3"):
        run_for(script(tmp_path, "print('out of memory'); sys.exit(3)"), 50.0, tmp_path / "log")
    assert "out of memory" in (tmp_path / "log").read_text()
    idle = Command([sys.executable, "-c", "pass"], {}, peer_reports(tmp_path))
    with pytest.raises(PeerError, match="it made no step"):
        run_for(idle, 50.0, tmp_path / "log")


def cells(lines: Sequence[str], name: str) -> list[list[str]]:
    found = [re.split(r" *\| *", line.strip("| ")) for line in lines]
    return [one for one in found if name in one]


def test_the_tables() -> None:
    rows = [
        *(row(OWN, "Pong", 14.6, 1000), row(OWN, "Qbert", 13455.0, 1000), row(OWN, "Phoenix", 761.4, 1000)),
        *(row("envpool", "Pong", -20.7, 100), row("envpool", "Qbert", 163.9, 200), row("rllib", "Pong", -3.05, 500)),
        row("sample_factory", "Pong", None, 250),
    ]
    lines = result_lines(rows, peers.TITLES, markdown=True)
    titles = list(peers.TITLES.values())
    assert cells(lines, "Qbert") == [
        ["Qbert", titles[0], "1", "120k", "1,000", "30", "13,455", "100%"],
        ["Qbert", "EnvPool PPO", "1", "120k", "200", "30", "163.9", "0%"],
    ]
    assert cells(lines, "Pong")[1] == ["Pong", "Sample Factory", "1", "120k", "250", "30", "—", "—"]
    own, factory, rllib, envpool = (cells(lines, title)[-1] for title in titles)
    assert own == [titles[0], "3", "—", "67%", "—", "—"]
    assert factory == ["Sample Factory", "1", "4.00", "—", "—", "—"]
    assert rllib == ["RLlib IMPALA", "1", "2.00", "50%", "—", "2.00"]  # of Pong alone, which both have
    assert envpool == ["EnvPool PPO", "2", "7.50", "0%", "—", "—"]  # no ratio to random play
    assert result_lines(rows, peers.TITLES, markdown=False)


def test_the_interquartile_mean_is_over_all_runs_of_all_games() -> None:
    returns = {("Pong", 1): -20.7, ("Pong", 2): 14.6, ("Qbert", 1): 163.9, ("Qbert", 2): 13455.0}
    rows = [row(OWN, game, value, seed=seed) for (game, seed), value in returns.items()]
    rows += [row("envpool", game, 14.6 if game == "Pong" else 13455.0, seed=seed) for game, seed in returns]
    own, envpool = (
        cells(result_lines(rows, peers.TITLES, markdown=True), title)[-1] for title in list(peers.TITLES.values())[::3]
    )
    assert own[1:4] == ["4", "—", "50%"]
    assert envpool[1:] == ["4", "1.00", "100%", "100% to 100%", "0.50"]


def test_an_environment_is_made_once_and_keeps_its_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[str] = []
    builds = ["2.13.0+cpu", "2.13.0+cpu", "2.13.0+cpu", "2.12.0"]

    def run(words: Sequence[str]) -> str:
        commands.append(" ".join(words))
        if "venv" in words:
            Path(words[-1]).mkdir(parents=True)
        return builds.pop(0) if "-c" in words else ""

    monkeypatch.setattr(peer_environments, "_run", run)
    peer = Peer("other", "Other", "program", ("other==1.0",))
    assert make_environment(peer, tmp_path) == tmp_path / "other" / "bin" / "python"
    installs = [words for words in commands if "install" in words]
    torch = peer_environments.torch_requirement()
    assert installs[0].endswith(f"install --quiet {torch}")
    assert installs[1].endswith(f"{tmp_path / 'other' / 'constraints.txt'} other==1.0")
    assert (tmp_path / "other" / "constraints.txt").read_text().startswith("torch==")
    commands.clear()
    make_environment(peer, tmp_path)
    assert not commands
    newer = Peer("other", "Other", "program", ("other==2.0",))
    with pytest.raises(PeerError, match="the packages of Other replaced torch 2.13.0\\+cpu by 2.12.0"):
        make_environment(newer, tmp_path)
    assert not (tmp_path / "other" / peer_environments.INSTALLED).exists()


@pytest.mark.slow
def test_ctrl_c_ends_the_arm_too(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.benchmarks.peers", "--peers", "envpool", "--games", "Qbert"]
    words += [f"--results={tmp_path}", "--worker_count=1"]
    (tmp_path / "environments" / "envpool").mkdir(parents=True)
    content = "\n".join([peer_environments.torch_requirement(), *PEERS[2].requirements]) + "\n"
    (tmp_path / "environments" / "envpool" / peer_environments.INSTALLED).write_text(content)
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1 of 2: this platform, Qbert, seed 1\n"
        while not (children := psutil.Process(process.pid).children()):
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert "the same command goes on" in process.stdout.read()
    assert process.returncode == 130
    assert not any(child.is_running() for child in children)
