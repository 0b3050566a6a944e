"""`python -m reports.game_scores`: from the folders of runs to tables."""

import json
from pathlib import Path
from typing import Any

import pytest

from option_flags import Config
from options.rules import UsageError
from reports.game_scores import main
from reports.scores import ATARI_5, game_name
from run_files.checkpoint import checkpoint_name
from wrappers.emulator import ID_ENDING

HUMAN = {"BattleZone": 37187.5, "DoubleDunk": -16.4, "NameThisGame": 8049.0, "Phoenix": 7242.6, "Qbert": 13455.0}


def write_run(
    folder: Path, returns: list[float], *, steps: int = 1000, parent: Path | None = None, **flags: Any
) -> Path:
    """A run whose games end at even distances up to `steps`."""
    folder.mkdir(parents=True)
    options = Config.from_flags({"seed": 1, **flags}).flags()
    described = None if parent is None else {"run": str(parent), "checkpoint": "", "agent_steps": steps // 2}
    (folder / "config.json").write_text(json.dumps({"options": options, "parent": described}))
    (folder / "metrics.jsonl").write_text(json.dumps({"agent_steps": steps, "return_mean": 0.0}) + "\n")
    rows = [f"{steps * (i + 1) // len(returns)},{value},10,0\n" for i, value in enumerate(returns)]
    (folder / "episodes.csv").write_text("agent_steps,return,length,worker\n" + "".join(rows))
    return folder


def env(game: str) -> str:
    return game + ID_ENDING


def table(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[dict[str, list[str]], str]:
    """The rows of all tables by their first cell, and all that was printed."""
    main([*map(str, words), "--format=markdown"])
    printed = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in printed.splitlines() if line[:1] == "|"]
    return {row[0]: row[1:] for row in rows}, printed


@pytest.mark.parametrize("written", ["{}NoFrameskip-v4", "ALE/{}-v5"])
def test_a_sweep_is_a_table_of_its_games(tmp_path: Path, capsys: pytest.CaptureFixture[str], written: str) -> None:
    for game, human in HUMAN.items():
        for seed in (1, 2):
            write_run(tmp_path / f"{game}_seed{seed}" / "run", [human] * 3, env=written.format(game), seed=seed)
    rows, printed = table(capsys, tmp_path)
    qbert = game_name(written.format("Qbert"))
    assert rows[qbert] == ["2", "1,000", "13,455", "13,455", "13,455", "100%", "1,658", "1,495", "5,354"]
    assert rows[game_name(written.format("DoubleDunk"))][2] == "-16.4"
    assert rows["interquartile mean of 10 runs"] == ["100%", "100% to 100%"]
    weights = sum(ATARI_5.values())
    wanted = f"{(101**weights - 1) / 100:.0%}"
    assert rows["Atari-5's estimate of the median of 57 games"] == [wanted, f"{wanted} to {wanted}"]
    assert rows["the same for Rainbow"][1] == "—"
    assert "###" not in printed and "Dopamine's after 10 million frames" in printed


def test_the_last_hundred_games_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", [0.0] * 100 + [5.0] * 50 + [9.0] * 50)
    assert table(capsys, run)[0]["Pong"][:3] == ["1", "1,000", "7.00"]
    assert table(capsys, run, "--agent_steps=500")[0]["Pong"][:3] == ["1", "500", "0.0"]
    assert table(capsys, run, "--agent_steps=750")[0]["Pong"][:3] == ["1", "750", "2.50"]


def test_a_run_that_was_gone_on_with_counts_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write_run(tmp_path / "job" / "a", [1.0] * 100, steps=500)
    write_run(tmp_path / "job" / "b", [3.0, 3.0], parent=first)
    assert table(capsys, tmp_path)[0]["Pong"][:2] == ["1", "1,000"]


def test_a_start_of_a_job_that_was_killed_before_its_first_checkpoint_is_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (1, 2):
        write_run(tmp_path / f"job_seed{seed}" / "first", [9.0] * 100, seed=seed)
    second = write_run(tmp_path / "job_seed1" / "second", [1.0] * 100, seed=1)
    (second / "checkpoints").mkdir()
    (second / "checkpoints" / checkpoint_name(5)).touch()
    assert table(capsys, tmp_path)[0]["Pong"][0] == "3", "these are not the runs of a sweep"
    (tmp_path / "sweep.json").write_text("{}")
    assert table(capsys, tmp_path)[0]["Pong"][:5] == ["2", "1,000", "5.00", "1.00", "9.00"]
    assert table(capsys, tmp_path / "job_seed1")[0]["Pong"][:3] == ["1", "1,000", "1.00"]
    assert table(capsys, tmp_path / "job_seed1" / "first")[0]["Pong"][:3] == ["1", "1,000", "9.00"]


def test_other_configurations_have_tables_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs: list[dict[str, Any]] = [{}, {"seed": 2}, {"protocol": "machado"}, {"repeat_action_probability": 0.25}]
    for number, flags in enumerate(runs):
        write_run(tmp_path / str(number), [1.0], **flags)
    _, printed = table(capsys, *(tmp_path / str(number) for number in range(4)))
    headings = [line for line in printed.splitlines() if line.startswith("###")]
    assert headings == [
        "### protocol classic, repeat_action_probability 0",
        "### protocol machado, repeat_action_probability 0.25",
        "### protocol classic, repeat_action_probability 0.25",
    ]
    assert [line for line in printed.splitlines() if line.startswith("| Pong | 2 |")]


def test_the_flags_of_a_protocol_are_not_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for protocol in ("classic", "machado"):
        write_run(tmp_path / protocol, [1.0], protocol=protocol)
    _, printed = table(capsys, tmp_path)
    assert [line for line in printed.splitlines() if line.startswith("###")] == [
        "### protocol classic", "### protocol machado",
    ]  # fmt: skip


def test_the_terminal_shows_the_same_without_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for game in ("Qbert", "Phoenix"):
        write_run(tmp_path / game, [100.0], env=env(game))
    main([str(tmp_path)])
    printed = capsys.readouterr().out
    assert "|" not in printed and "Qbert" in printed
    assert "Atari-5's estimate of the median of 57 games needs BattleZone, DoubleDunk, NameThisGame too." in printed


def test_a_game_without_human_scores_has_its_returns_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "run", [4.0, 6.0], env=env("Tetris"))
    rows, printed = table(capsys, tmp_path)
    assert rows["Tetris"] == ["1", "1,000", "5.00", *["—"] * 6]
    assert "Dopamine" not in printed and "interquartile" not in printed


def test_runs_without_a_finished_game_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "run", [4.0])
    empty = write_run(tmp_path / "empty", [], seed=2)
    (empty / "metrics.jsonl").write_text("")
    assert f"left out, without a finished game: {empty}" in table(capsys, tmp_path)[1]
    write_run(tmp_path / "late", [4.0], seed=3)
    (empty / "metrics.jsonl").write_text(json.dumps({"agent_steps": 1000}) + "\n")
    (tmp_path / "run" / "episodes.csv").write_text("agent_steps,return,length,worker\n500,4.0,10,0\n")
    printed = table(capsys, tmp_path, "--agent_steps=999")[1]
    assert f"left out, without a finished game by 999 agent steps: {empty}, {tmp_path / 'late'}" in printed


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "name at least one run or sweep, such as results/sweep_atari5."),
        (["{0}/nowhere"], "{0}/nowhere is not the folder of a run: it has no config.json; a folder such as "
                          "results/<env>_<time> would be right."),
        (["{0}/empty"], "{0}/empty has no finished game, so there are no scores."),
        (["{0}/run", "--agent_steps=999"], "{0}/run has no finished game by 999 agent steps, so there are no scores."),
        (["{0}/run", "--agent_steps=1001"], "--agent_steps=1001 is more than {0}/run has, 1,000; a smaller number "
                                            "would be right."),
        (["{0}/run", "--format=html"], '--format must be one of text, markdown, not "html".'),
    ],
)  # fmt: skip
def test_mistakes_are_said_in_one_sentence(tmp_path: Path, words: list[str], sentence: str) -> None:
    write_run(tmp_path / "run", [4.0])
    (write_run(tmp_path / "empty", []) / "metrics.jsonl").write_text("")
    with pytest.raises(UsageError) as refused:
        main([word.format(tmp_path) for word in words])
    assert str(refused.value) == sentence.format(tmp_path)
