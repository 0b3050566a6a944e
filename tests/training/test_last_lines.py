"""The last lines of a run."""

import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from option_flags import Config
from tests.training.some_run import some_run
from training.summary import last_lines

ROOT = Path(__file__).resolve().parents[2]


def ending(*, status: str = "finished", has_saved: bool = True, **progress: Any) -> list[str]:
    """The last lines of a run with this progress."""
    figures = {
        **{
            "agent_steps": 5000,
            "parent_steps": 0,
            "needs_steps": False,
            "frames": 20_000,
            "updates": 30,
            "seconds": 10.0,
        },
        **{"return_mean": 0.0, "return_window": 100, "goal_reached": False, "never_scored": False, "episodes": 7},
        **{"time_shares_of_run": dict},
    }
    goal = progress.pop("goal", None)
    config = Config().replace_flags(stop_at_return=goal, r_f_steps=20, batch_size=8)
    figures |= {"goal_reached": goal is not None}
    run = some_run(Path("results/run"), config=config, status=status, progress=SimpleNamespace(**figures | progress))
    saver: Any = SimpleNamespace(seconds=0.5, has_saved=has_saved)
    load: Any = SimpleNamespace(worker_shares=dict, cores_in_use=lambda cores: (0.0, 0.0))
    return last_lines(run, saver, load)


@pytest.mark.parametrize(("games", "begin"), [(1, "the only game so far"), (1200, "each of the 1,200 games so far")])
def test_a_run_that_never_scored_says_so_and_where_to_read_on(games: int, begin: str) -> None:
    (line,) = [line for line in ending(never_scored=True, episodes=games) if "return of 0" in line]
    assert line.startswith(f"{begin} ended with a return of 0")
    heading = line.split('"')[1]
    assert f"\n## {heading}\n" in (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")
    assert not any("return of 0" in line for line in ending())


def test_the_last_line_goes_on() -> None:
    command = "resume with: python main.py --op_mode=train_w_load --load_model_url=results/run"
    assert ending()[-1] == f"{command} --environment_max_steps=10000"
    assert ending(needs_steps=True)[-1] == command
    assert ending(has_saved=False)[-1] == "nothing could be saved, so the run cannot be resumed"


def test_a_run_that_was_started_from_another_folder_is_resumed_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ending(needs_steps=True)[-1].removeprefix("resume with: ")
    python, program, *flags = shlex.split(command)
    assert (python, flags) == ("python", ["--op_mode=train_w_load", "--load_model_url=results/run"])
    assert Path(program).is_file()
    tmp_path.rmdir()
    assert ending(needs_steps=True)[-1].endswith(command), "also if the folder has been deleted"


def test_a_run_that_reached_its_return_says_so() -> None:
    assert (
        ending(goal=18.5, return_window=100)[1] == "the mean return of the last 100 games reached --stop_at_return=18.5"
    )
    assert ending(goal=-3.0, return_window=1)[1] == "the mean return of the last game reached --stop_at_return=-3"
