"""Curves of a run and its ancestors, read from their folders."""

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from options.rules import UsageError
from run_files.metrics import flat_numbers
from run_files.run_reader import History, RunReader, read_history
from tests.reports.some_run import write_run


def reports_of(history: History) -> int:
    return len(history.curve("agent_steps").x)


def test_a_run_alone(tmp_path: Path) -> None:
    history = read_history(write_run(tmp_path / "run"))
    assert history.options["seed"] == 1
    assert history.curve("entropy").x.tolist() == list(range(1000, 21_000, 1000))
    assert history.curve("return_mean").y.tolist() == list(range(2, 21)), "the first report has none"
    assert history.curve("time_shares/wait", "frames").x[0] == 4000
    assert history.curve("no_such_field").x.size == 0
    assert history.games.x[0] == 993 and history.games.y[-1] == 20
    assert "time_shares/update" in history.names() and "kl_replayed" not in history.names()


def test_a_parent_counts_up_to_its_checkpoint(tmp_path: Path) -> None:
    first = write_run(tmp_path / "first")
    second = write_run(
        tmp_path / "second", range(13_000, 31_000, 1000), parent={"run": str(first), "agent_steps": 12_500}, raised=50
    )
    third = write_run(
        tmp_path / "third", range(9_000, 12_000, 1000), parent={"run": str(second), "agent_steps": 8_000}, raised=90
    )
    history = read_history(second)
    assert history.curve("entropy").x.tolist() == list(range(1000, 31_000, 1000))
    returns = dict(zip(*history.curve("return_mean"), strict=True))
    assert returns[12_000] == 12 and returns[13_000] == 63
    assert history.games.x.tolist() == [at - 7 for at in range(1000, 31_000, 1000)]
    # The third was resumed from a checkpoint that the second had copied from the first before its own first step.
    steps = read_history(third).curve("entropy").x.tolist()
    assert steps == [*range(1000, 9_000, 1000), *range(9_000, 12_000, 1000)]


def test_a_parent_is_found_after_the_results_folder_moved_and_left_out_if_deleted(tmp_path: Path) -> None:
    write_run(tmp_path / "old" / "first")
    write_run(tmp_path / "old" / "second", range(21_000, 23_000, 1000), parent={"run": "x/first", "agent_steps": 9000})
    (tmp_path / "old").rename(tmp_path / "new")
    assert read_history(tmp_path / "new" / "second").curve("entropy").x[0] == 1000
    shutil.rmtree(tmp_path / "new" / "first")
    assert read_history(tmp_path / "new" / "second").curve("entropy").x.tolist() == [21_000, 22_000]


def test_a_parent_is_found_if_its_old_place_belongs_to_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a copy of the results of somebody else, whose home folder nobody may enter."""
    old, stat = "/home/alice/results/first", os.stat

    def refusing(path: Any, **how: Any) -> os.stat_result:
        if str(path) == old:
            raise PermissionError(13, "Permission denied", old)
        return stat(path, **how)

    monkeypatch.setattr(os, "stat", refusing)
    write_run(tmp_path / "first")
    write_run(tmp_path / "second", range(21_000, 23_000, 1000), parent={"run": old, "agent_steps": 9000})
    assert read_history(tmp_path / "second").curve("entropy").x[0] == 1000


def test_evaluations_have_their_own_curve(tmp_path: Path) -> None:
    first, lines = write_run(tmp_path / "first"), []
    for steps in (5000, 15_000):
        evaluation = {"agent_steps": steps, "frames": 4 * steps, "seconds": 9.0, "eval_return_mean": steps / 1000}
        lines.append(json.dumps(evaluation) + "\n")
    (first / "evaluations.jsonl").write_text("".join(lines))
    history = read_history(first)
    assert history.curve("eval_return_mean").x.tolist() == [5000, 15_000]
    assert history.curve("eval_return_mean", "frames").y.tolist() == [5, 15]
    seconds = dict(zip(*history.curve("seconds"), strict=True))  # of training; an evaluation's own have another start
    assert history.curve("eval_return_mean", "seconds").x.tolist() == [seconds[5000], seconds[15_000]]
    assert "eval_return_mean" in history.names()
    assert len(history.curve("agent_steps").x) == 20
    parent = {"run": str(first), "agent_steps": 12_500}
    second = write_run(tmp_path / "second", range(13_000, 14_000, 1000), parent=parent)
    assert read_history(second).curve("eval_return_mean").x.tolist() == [5000]


def test_a_folder_that_is_its_own_parent_is_read_once(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", parent={"run": str(tmp_path / "run"), "agent_steps": 5000})
    assert reports_of(read_history(folder)) == 20


def test_files_that_do_not_exist_yet_are_empty(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "metrics.jsonl").unlink()
    (folder / "episodes.csv").write_text("agent_steps,return,length,worker\n12,3.0,4,0\n99,")  # cut off by a kill
    history = read_history(folder)
    assert history.last == {} and history.names() == []
    assert history.games.x.tolist() == [12]


def test_a_folder_that_is_not_a_run_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"not the folder of a run: it has no config\.json; .*\.$"):
        read_history(tmp_path)


@pytest.mark.parametrize("config", ["", "[]", '{"options": 3}', '{"options": {}, "machine": 3}', "[" * 100_000])
def test_a_damaged_configuration_is_refused(tmp_path: Path, config: str) -> None:
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(UsageError, match=r"/config\.json is damaged or cannot be read; .*\.$"):
        read_history(tmp_path)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("metrics.jsonl", b"nonsense\n"),
        ("metrics.jsonl", b"[" * 100_000 + b"\n[1, 2]\n"),
        ("metrics.jsonl", b"0" * 2_000_000 + b"\n"),
        ("episodes.csv", b"nonsense\n12,x,4,0\n1,nan,3,4\n5,inf,6,7\n1\n"),
        ("episodes.csv", b"\0\0\0\0\n"),
    ],
)
def test_damaged_lines_are_left_out(tmp_path: Path, name: str, lines: bytes) -> None:
    folder = write_run(tmp_path / "run")
    with (folder / name).open("ab") as file:
        file.write(lines)
    history = read_history(folder)
    assert reports_of(history) == len(history.games.x) == 20


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "episodes.csv").unlink()
    (folder / "episodes.csv").mkdir()
    with pytest.raises(UsageError, match=r"/run/episodes\.csv cannot be read \(Is a directory\)\.$"):
        read_history(folder)


def test_a_running_run_is_followed(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    run = RunReader(folder)
    assert run.refresh() and not run.refresh()
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"agent_steps": 21000, "entropy": 1.5}\n{"agent_st')
    with (folder / "episodes.csv").open("a") as file:
        file.write("20500,7.0,300,1\n")
    assert run.refresh() and run.problems == []
    assert run.history.curve("entropy").x[-1] == 21_000
    assert (run.history.games.x[-1], run.history.games.y[-1]) == (20_500, 7)
    shutil.rmtree(folder)
    assert run.refresh() and reports_of(run.history) == 21
    assert run.problems == ["The folder of this run has been deleted. What was read before is shown."]


def test_a_run_is_looked_at_while_a_thread_reads_it(tmp_path: Path) -> None:
    """As on the dashboard: the columns of a row that is read meanwhile all have it, or none has."""
    folder = write_run(tmp_path / "run")
    run = RunReader(folder)

    def follow() -> None:
        for number in range(300):
            with (folder / "metrics.jsonl").open("a") as file:
                file.write(json.dumps({"agent_steps": 30_000 + number, "entropy": 1.0}) + "\n")
            run.refresh()

    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(follow)
        while not done.done():
            assert len({len(column) for column in run.history.reports.values()}) <= 1
        done.result()
    assert reports_of(run.history) == 320


@pytest.mark.parametrize(
    "parent", [{"run": "/etc", "agent_steps": 5}, {"run": 3}, {}, {"run": "x", "agent_steps": "many"}, {"run": "run"}]
)
def test_nonsense_in_place_of_a_parent_is_not_read(tmp_path: Path, parent: dict[str, Any]) -> None:
    assert reports_of(read_history(write_run(tmp_path / "run", parent=parent))) == 20


def test_only_a_parent_within_what_may_be_seen_is_read(tmp_path: Path) -> None:
    first = write_run(tmp_path / "elsewhere" / "first")
    second = write_run(tmp_path / "second", range(6000, 7000, 1000), parent={"run": str(first), "agent_steps": 5000})
    for within, count in ((lambda _: False, 1), (lambda _: True, 6)):
        run = RunReader(second, within=within)
        run.refresh()
        assert reports_of(run.history) == count


@pytest.mark.parametrize("most", [1, 5, 7, 10, 100])
def test_of_many_reports_some_are_kept_at_even_distances_and_the_newest(tmp_path: Path, most: int) -> None:
    folder = write_run(tmp_path / "run", range(0))
    run = RunReader(folder, with_games=False, most_reports=most)
    for number in range(1, 60):
        with (folder / "metrics.jsonl").open("a") as file:
            late = {"late": number} if number > 30 else {}
            file.write(json.dumps({"agent_steps": number, "twice": 2 * number, **late}) + "\n")
        run.refresh()
        steps, values = run.history.curve("twice")
        assert (values == 2 * steps).all() and steps[0] == 1 and steps[-1] == number
        assert number <= 2 * most or len(steps) <= 2 * most + 1
        assert len(set(np.diff(steps[:-1]))) <= 1
        late_steps, late_values = run.history.curve("late")
        assert (late_steps == late_values).all() and late_steps.tolist() == steps[steps > 30].tolist()
    assert not len(run.history.games.x)


def test_numbers_are_named_by_their_path_in_the_report() -> None:
    report = {
        "agent_steps": 12,
        "none": None,
        "nan": float("nan"),
        "damaged": 10**400,
        "word": "pong",
        "time_shares": {"wait": 0.25},
        "replays": [{"name": "queue", "size": 3, "age_mean": None}, {"size": 4}],
        "plain": [1.0, 2.0],
    }
    assert flat_numbers(json.loads(json.dumps(report))) == {
        "agent_steps": 12.0,
        "time_shares/wait": 0.25,
        "replays/0_queue/size": 3.0,
        "replays/1/size": 4.0,
        "plain/0": 1.0,
        "plain/1": 2.0,
    }


def test_of_many_reports_some_at_even_distances_and_the_last_are_kept(tmp_path: Path) -> None:
    for count in (15, 16, 17, 100, 1000):
        run = RunReader(write_run(tmp_path / str(count), range(1000, 1000 * (count + 1), 1000)), most_reports=8)
        run.refresh()
        steps = run.history.curve("entropy").x
        assert steps[0] == 1000 and steps[-1] == 1000 * count
        assert len(steps) == count if count < 16 else 8 <= len(steps) <= 17
        assert len(set(np.diff(steps)[:-1])) == 1
