"""The table of what the elite replays of a sweep drew, and messages for wrong input."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.elite_table import main


def write_job(folder: Path, replay: str, steps: int = 200_000) -> None:
    """A job whose only run has a report every 50,000 steps, the first with other figures than the rest."""
    run = folder / "Pong_1"
    run.mkdir(parents=True)
    (run / "config.json").write_text("{}")
    reports: list[dict[str, Any]] = [
        {
            "agent_steps": at,
            "return_mean": None if at == 50_000 else -at / 10_000_000,
            "replays": {"0_queue": {"age_mean": 9.0}, f"1_{replay}": {"age_mean": at / 1000, "times_drawn_mean": 2.0}},
            "kl_replayed": None,
            "kl_fresh": 0.01,
            "entropy": 1.5,
        }
        for at in range(50_000, steps + 1, 50_000)
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(report) + "\n" for report in reports))


def run_main(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["elite_table", *words])
    return main()


def test_a_row_for_each_run_with_an_elite_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_job(tmp_path / "a", "elite")
    write_job(tmp_path / "b", "standard")
    write_job(tmp_path / "c", "elite", steps=100_000)
    (tmp_path / "no_run").mkdir()
    assert run_main(monkeypatch, str(tmp_path), "--last=150000") == 0
    assert capsys.readouterr().out == "| a | 100 | 2.0 |  | 0.010 | 1.50 | 0.0 | 0.0 |  |  |  |  |\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["{}/none"], "elite_table: {}/none is not a folder; that of a sweep, such as results/sweep_elite_control, is "
                      "right.\n"),
        (["{}"], "elite_table: {} has no run with an elite replay and 500,000 agent steps; another sweep is right.\n"),
        (["{}/standard", "--last=100000"], "elite_table: {}/standard has no run with an elite replay and 100,000 agent "
                                           "steps; another sweep is right.\n"),
    ],
)  # fmt: skip
def test_mistakes_are_said_in_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    sentence: str,
) -> None:
    write_job(tmp_path / "standard" / "run", "standard")
    assert run_main(monkeypatch, *(word.format(tmp_path) for word in words)) == 2
    assert capsys.readouterr().err == sentence.format(tmp_path)
