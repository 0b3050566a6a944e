"""Which flags fit a checkpoint, and whether its run can go on."""

from pathlib import Path
from typing import Any

import pytest

from option_flags import Config
from options.rules import UsageError
from run_files.checkpoint import Checkpoint, checkpoint_name, read_checkpoint, write_checkpoint
from run_files.inherited_options import check_resumable
from tests.run_files.some_checkpoint import some_content


def saved_in(folder: Path) -> Checkpoint:
    path = folder / checkpoint_name(3)
    write_checkpoint(path, some_content(3))
    return read_checkpoint(path)


def test_another_game_is_refused(tmp_path: Path) -> None:
    saved = saved_in(tmp_path)
    check_resumable(Config(), saved)
    with pytest.raises(UsageError, match=r"--env=QbertNoFrameskip-v4 .* a checkpoint with PongNoFrameskip-v4.*\.$"):
        check_resumable(Config.from_flags({"env": "QbertNoFrameskip-v4"}), saved)


@pytest.mark.parametrize("flag", ["full_action_space", "factored_actions"])
def test_other_actions_are_refused(tmp_path: Path, flag: str) -> None:
    with pytest.raises(UsageError, match=rf"^--{flag}=True does not fit a checkpoint with False; leave"):
        check_resumable(Config.from_flags({flag: True}), saved_in(tmp_path))


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({"environment_max_steps": 301}, None),
        ({"environment_max_steps": 300}, r"--environment_max_steps=300 is already reached: .* 300 agent steps; .*\.$"),
        ({"stop_at_return": 4.0, "avg_buff_size": 2}, r"--stop_at_return=4\.0 is already .* 2 games is 4\.00; .*\.$"),
        ({"stop_at_return": 4.1, "avg_buff_size": 2}, None),
        ({"stop_at_return": 1.0, "avg_buff_size": 4}, None),  # the window is not full
    ],
)
def test_a_run_that_is_complete_cannot_go_on(tmp_path: Path, flags: dict[str, Any], why: str | None) -> None:
    saved = saved_in(tmp_path)
    saved.content["progress"]["recent_returns"] = [1.0, 3.0, 5.0]
    if why is None:
        check_resumable(Config.from_flags(flags), saved)
    else:
        with pytest.raises(UsageError, match=f"^{why}"):
            check_resumable(Config.from_flags(flags), saved)


@pytest.mark.parametrize(
    ("goal", "reached", "inherited"),
    [(2.9, None, None), (3.0, None, None), (3.1, None, 3.1), (None, None, None), (3.5, 3.5, None), (4.5, 3.5, 4.5)],
)
def test_a_reached_goal_is_not_inherited(
    tmp_path: Path, goal: float | None, reached: float | None, inherited: float | None
) -> None:
    """Also if games that ended after it have lowered the mean again."""
    content = some_content(3)
    content["options"] |= {"avg_buff_size": 3, "stop_at_return": goal}
    content["progress"] |= {"reached_goal": reached, "recent_returns": [1.0, 3.0, 5.0]}
    assert Checkpoint(tmp_path, content).options["stop_at_return"] == inherited
