"""Runs compared: seeds as one line with a band, scores, and one axis for each option that differs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dashboard.charts import Frame
from dashboard.comparison import (
    comparison_chart,
    each_alone,
    figures_of,
    runs_of_sweep,
    score_rows,
    search_chart,
)
from dashboard.results import Results, RunRow
from reports.compare_runs import Group, group_runs, looks
from reports.panels import COLOURS, X_AXES
from run_files.checkpoint import checkpoint_name
from tests.dashboard.some_runs import append_report, write_run, write_sweep

FRAME = Frame(X_AXES["steps"])
ELITE = (
    '[{"type": "queue", "capacity": 1, "sample_ratio": 0.5},'
    ' {"type": "elite", "capacity": %d, "sample_ratio": 0.5, "dist_function": "%s"}]'
)


def charted(groups: Sequence[Group]) -> Any:
    """The lines of a chart with these groups."""
    return comparison_chart("", groups, "return_mean", FRAME, looks(groups))["series"]


def rows_of(root: Path) -> list[RunRow]:
    return sorted(Results(root).rows()[0], key=lambda row: row.name)


def groups_with_curves(folders: Sequence[Path]) -> list[Group]:
    data = [Results(folder.parent).reader(folder) for folder in folders]
    for one in data:
        one.refresh()
    return group_runs([one.history for one in data])


def test_seeds_are_drawn_as_their_mean_and_range(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / f"s{seed}", seed=seed, final_return=10.0 * seed) for seed in (1, 2, 3)]
    folders.append(write_run(tmp_path / "other", lr=1e-4, final_return=5.0))
    low, gap, mean, single = charted(groups_with_curves(folders))
    assert low["data"][-1] == [20_000, 10] and gap["data"][-1] == [20_000, 20] and mean["data"][-1] == [20_000, 20]
    assert low["stack"] == gap["stack"] and "areaStyle" in gap and "areaStyle" not in low
    assert single["data"][-1] == [20_000, 5]
    assert (mean["name"], single["name"]) == ("lr 0.001, 3 seeds", "lr 0.0001")
    folders.append(write_run(tmp_path / "again", lr=1e-4, final_return=6.0))
    each = charted(each_alone(groups_with_curves(folders)))
    assert {line["name"]: line["data"][-1][1] for line in each} == {
        "lr 0.001, seed 1": 10, "lr 0.001, seed 2": 20, "lr 0.001, seed 3": 30,
        "lr 0.0001, seed 1, other": 5, "lr 0.0001, seed 1, again": 6,
    }  # fmt: skip


def test_a_configuration_has_the_same_colour_in_all_games(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / f"{env}{lr}", env=env, lr=lr) for env, lr in
               (("CartPole-v1", 1e-4), ("CartPole-v1", 1e-3), ("Acrobot-v1", 1e-3), ("Acrobot-v1", 1e-2))]  # fmt: skip
    groups = groups_with_curves(folders)
    colours = {}
    for env in ("CartPole-v1", "Acrobot-v1"):
        own = [group for group in groups if group.env == env]
        chart = comparison_chart("", own, "return_mean", FRAME, looks(groups))
        colours[env] = {line["name"]: line["lineStyle"]["color"] for line in chart["series"]}
    assert colours == {
        "CartPole-v1": {"lr 0.0001": COLOURS[0], "lr 0.001": COLOURS[1]},
        "Acrobot-v1": {"lr 0.001": COLOURS[1], "lr 0.01": COLOURS[2]},
    }


def test_more_configurations_than_colours_have_dashes(tmp_path: Path) -> None:
    many = 2 * len(COLOURS) + 1
    folders = [write_run(tmp_path / str(place), lr=1e-4 * (place + 1)) for place in range(many)]
    styles = [line["lineStyle"] for line in charted(groups_with_curves(folders))]
    assert len({(style["color"], str(style["type"])) for style in styles}) == many
    assert [style["type"] for style in styles[: len(COLOURS)]] == ["solid"] * len(COLOURS)


def test_configurations_are_ordered_by_their_mean_return(tmp_path: Path) -> None:
    folders = []
    for seed in (1, 2):
        folders.append(write_run(tmp_path / f"low{seed}", seed=seed, lr=1e-4, final_return=float(seed)))
        folders.append(write_run(tmp_path / f"high{seed}", seed=seed, final_return=10.0 * seed))
    folders.append(write_run(tmp_path / "new", lr=1e-2, reports=0, games=0, status=None, environment_max_steps=20_000))
    assert search_chart(groups_with_curves(folders[:2]), Results(tmp_path)) is None, "two runs are no picture"
    scores = score_rows(groups_with_curves(folders))
    columns = ("configuration", "mean return", "lowest to highest")
    assert [tuple(score[column] for column in columns) for score in scores] == [
        ("lr 0.001, 2 seeds", "15.0", "10.0 to 20.0"),
        ("lr 0.0001, 2 seeds", "1.50", "1.00 to 2.00"),
        ("lr 0.01", "—", ""),
    ]


def test_the_figures_of_any_run_are_offered(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_run(tmp_path / name, reports=0, games=0, environment_max_steps=10**6)
    folders = [tmp_path / name for name in ("a", "b")]
    assert figures_of(groups_with_curves(folders)) == ["return_mean"]
    append_report(tmp_path / "b", 1)
    (tmp_path / "b" / "evaluations.jsonl").write_text('{"agent_steps": 1000, "eval_return_mean": 5.0}\n')
    figures = figures_of(groups_with_curves(folders))
    assert figures[0] == "return_mean" and {"entropy", "time_shares/wait", "eval_return_mean"} <= set(figures)


def test_each_job_of_a_sweep_counts_once(tmp_path: Path) -> None:
    """Its first start was killed before the first checkpoint; another one was resumed."""
    write_sweep(tmp_path / "lr", {"a": {"seed": 1}, "b": {"seed": 2}})
    write_run(tmp_path / "lr" / "a" / "killed", reports=3)
    begun = tmp_path / "lr" / "a" / "Run_0"
    last = write_run(tmp_path / "lr" / "a" / "last", parent={"run": str(begun), "agent_steps": 10_000})
    for folder, updates in ((begun, 7), (last, 9)):
        (folder / "checkpoints").mkdir()
        (folder / "checkpoints" / checkpoint_name(updates)).touch()
    for place in ("alone", "twice"):  # no jobs of a sweep
        write_run(tmp_path / "others" / place)
    kept = {row.name for row in runs_of_sweep(rows_of(tmp_path))}
    assert kept == {"lr/a/last", "lr/b/Run_1", "others/alone", "others/twice"}


def test_a_search_has_an_axis_for_each_option_that_differs(tmp_path: Path) -> None:
    for place, (lr, size, kind) in enumerate(
        [(1e-4, 100, "ln_norm"), (1e-3, 1000, "cos_dist"), (1e-2, 100, "ln_norm")]
    ):
        write_run(tmp_path / f"run{place}", lr=lr, replay_parameters=ELITE % (size, kind), final_return=float(place))
    chart = search_chart(groups_with_curves(sorted(tmp_path.iterdir())), Results(tmp_path))
    assert chart is not None
    axes = {axis["name"]: axis for axis in chart["parallelAxis"]}
    assert chart["visualMap"]["text"][0] == "mean return" and (
        chart["visualMap"]["min"],
        chart["visualMap"]["max"],
    ) == (0, 2)
    assert set(axes) == {"lr", "elite capacity", "elite dist function", "mean return"}
    assert axes["lr"]["type"] == "log" and axes["elite dist function"]["data"] == ["cos_dist", "ln_norm"]
    lines = {line["name"]: dict(zip(axes, line["value"], strict=True)) for line in chart["series"][0]["data"]}
    assert lines["run1"] == {"lr": 1e-3, "elite capacity": 1000, "elite dist function": "cos_dist", "mean return": 1}


def test_options_that_only_some_runs_have_are_no_axes(tmp_path: Path) -> None:
    for place, lr in enumerate([1e-4, 1e-3, 1e-2]):
        queue = '[{"type": "queue", "capacity": 1, "sample_ratio": 1.0}]'
        replays = ELITE % (100 + place, "ln_norm") if place else queue
        write_run(tmp_path / f"run{place}", lr=lr, replay_parameters=replays)
    chart = search_chart(groups_with_curves(sorted(tmp_path.iterdir())), Results(tmp_path))
    assert chart is not None
    names = [axis["name"] for axis in chart["parallelAxis"]]
    assert "lr" in names and "queue sample ratio" in names and "elite capacity" not in names
