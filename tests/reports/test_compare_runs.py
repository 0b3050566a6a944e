"""Runs of equal configuration are one group, named by the options that differ."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reports.compare_runs import Group, configuration, group_runs, line_of, what_is_unusual
from reports.panels import Line
from reports.run_curves import draw_run
from run_files.run_reader import Curve, History, read_histories, read_history
from tests.benchmarks.keep_curves import reduced, write_archive
from tests.reports.some_run import write_run

LOADING: dict[str, Any] = {"op_mode": "train_w_load", "load_model_url": "pong"}
STANDARD = {"type": "standard", "capacity": 1000, "sample_ratio": 0.5}
MIXED = json.dumps([{"type": "queue", "capacity": 1, "sample_ratio": 0.5}, STANDARD])


def labels(*runs: Path) -> list[str]:
    return [group.label for group in group_runs([read_history(run) for run in runs])]


def queue(**more: Any) -> str:
    return json.dumps([{"type": "queue", "capacity": 1, "sample_ratio": 1.0, **more}])


SCHEDULES = [{"batch_size": size, "lr_scheduler_steps": steps} for size, steps in ((8, 100), (8, 200), (16, 200))]
CLONING = [{"use_policy_cloning_loss": cloning} for cloning in (True, False)]
PONG, CARTPOLE = {"env": "PongNoFrameskip-v4"}, {"env": "CartPole-v1"}


@pytest.mark.parametrize(
    ("runs", "wanted"),
    [
        ([{"seed": seed, "cluster": f"192.0.2.{seed}:6379"} for seed in (1, 2)] + [{}],
         ["cluster, 2 seeds", "no cluster"]),
        ([{"loss": "impact", "impact_uses": uses, "lr_scheduler_steps": 100 * uses} for uses in (1, 2)],
         ["impact_uses 1", "impact_uses 2"]),
        (SCHEDULES, [", ".join(f"{name} {value}" for name, value in run.items()) for run in SCHEDULES]),
        ([{"replay_parameters": queue(capacity=capacity)} for capacity in (1, 64)],
         ["queue", "queue (capacity 64)"]),
        ([{"replay_parameters": queue(), **cloning} for cloning in CLONING], ["2 runs"]),
        ([{"replay_parameters": MIXED, **cloning} for cloning in CLONING],
         ["use_policy_cloning_loss", "no use_policy_cloning_loss"]),
        ([{"lr": lr} for lr in (0.001, 0.0012345678)], ["lr 0.001", "lr 0.0012345678"]),
        ([PONG, CARTPOLE, {**CARTPOLE, "lr": 1e-4}], ["lr 0.001", "lr 0.001", "lr 0.0001"]),
        ([{**PONG, "lr": 1e-4}, CARTPOLE], ["", ""]),
        ([{"seed": seed} for seed in (0, 1, 2)], ["3 seeds"]),
        ([{"seed": seed % 3} for seed in range(6)], ["6 runs"]),
    ],
)  # fmt: skip
def test_a_label_has_what_differs_within_a_game_and_the_number_of_seeds(
    tmp_path: Path, runs: list[dict[str, Any]], wanted: list[str]
) -> None:
    assert labels(*(write_run(tmp_path / str(place), **flags) for place, flags in enumerate(runs))) == wanted


def test_a_list_names_only_what_is_no_default() -> None:
    found = [configuration({**PONG, **more}) for more in ({}, {"cluster": "192.0.2.1:6379"}, {"lr": 0.5})]
    assert what_is_unusual(found) == ["", "cluster", "lr 0.5"]


def test_runs_that_differ_only_in_their_seeds_form_a_group(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", results_dir="here")
    b = write_run(tmp_path / "b", seed=2, report_period=5, eval_period=9, worker_timeout=7)
    c = write_run(tmp_path / "c", lr=2e-3, use_lstm=True)
    (only,) = group_runs([read_history(folder) for folder in (a, b)])
    assert only.label == "2 seeds" and len(only.runs) == 2
    assert labels(a, c, b) == ["no use_lstm, lr 0.001, 2 seeds", "use_lstm, lr 0.002"]


def test_runs_from_the_weights_of_another_run_are_not_grouped_with_new_ones(tmp_path: Path) -> None:
    origin = {"run": "pong", "checkpoint": "pong/checkpoint_1.pt", "agent_steps": 5000}
    new = write_run(tmp_path / "new", stop_at_return=1.0)
    tuned = write_run(tmp_path / "tuned", weights_from=origin, load_weights_only=True, **LOADING)
    longer = write_run(
        tmp_path / "longer", range(21_000, 23_000, 1000), parent={"run": str(tuned), "agent_steps": 20_500}
    )
    groups = group_runs([read_history(folder) for folder in (new, tuned, longer)])
    assert [(group.label, len(group.runs)) for group in groups] == [
        ("weights_from None", 1),
        ("weights_from pong/checkpoint_1.pt", 1),
    ]
    assert read_history(tuned).curve("entropy").x[0] == 1000, "steps of the other run are not its own"


@pytest.mark.slow
def test_labels_describe_replays_and_omit_what_follows_from_them(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", lr_scheduler_steps=100, replay_parameters=queue())
    b = write_run(tmp_path / "b", lr_scheduler_steps=200, replay_parameters=MIXED)
    groups = group_runs([read_history(folder) for folder in (a, b)])
    assert [group.label for group in groups] == ["queue", "0.5 queue + 0.5 standard (1,000)"]
    config = json.loads((b / "config.json").read_text())
    config["options"]["replay_parameters"] = "{"  # invalid in every version
    (b / "config.json").write_text(json.dumps(config))
    assert [group.label for group in group_runs([read_history(folder) for folder in (a, b)])][1] == "{"
    assert draw_run(read_history(b))


def test_labels_contain_the_replay_keys_that_are_not_defaults(tmp_path: Path) -> None:
    def elite(**more: Any) -> str:
        entry = {"type": "elite", "capacity": 1000, "sample_ratio": 0.5, **more}
        return json.dumps([{"type": "queue", "capacity": 1, "sample_ratio": 0.5}, entry])

    near = elite(dist_function="cos_dist", lambda_batch_multiplier=6)
    settings = [
        elite(),
        near,
        near.replace(" ", ""),
        elite(lambda_batch_multiplier=6, insert_strategy="elite_insertion"),
    ]
    runs = [write_run(tmp_path / str(i), replay_parameters=text, seed=i) for i, text in enumerate(settings)]
    assert [group.label for group in group_runs([read_history(run) for run in runs])] == [
        "0.5 queue + 0.5 elite (1,000)",
        "0.5 queue + 0.5 elite (1,000, dist_function cos_dist, lambda_batch_multiplier 6), 2 seeds",
        "0.5 queue + 0.5 elite (1,000, lambda_batch_multiplier 6, insert_strategy elite_insertion)",
    ]


def test_a_run_and_the_one_resumed_from_it_are_one(tmp_path: Path) -> None:
    first = write_run(tmp_path / "first")
    parent = {"run": str(first), "agent_steps": 12_500}
    second = write_run(tmp_path / "second", range(13_000, 31_000, 1000), parent=parent)
    branch = write_run(tmp_path / "branch", range(13_000, 31_000, 1000), parent=parent, lr=3e-3)
    short = write_run(tmp_path / "short", range(13_000, 15_000, 1000), parent=parent)
    kept = group_runs([read_history(folder) for folder in (first, short)])
    assert [[run.folder.name for run in group.runs] for group in kept] == [["first", "short"]], "the first is longer"
    other = write_run(tmp_path / "other", seed=2)
    groups = group_runs([read_history(folder) for folder in (first, second, branch, first, other, second)])
    assert [[run.folder.name for run in group.runs] for group in groups] == [["second", "other"], ["branch"]]
    assert [group.label for group in groups] == ["lr 0.001, 2 seeds", "lr 0.003"]


def test_options_that_an_older_run_lacks_count_as_defaults(tmp_path: Path) -> None:
    old, new = write_run(tmp_path / "old"), write_run(tmp_path / "new")
    config = json.loads((old / "config.json").read_text())
    del config["options"]["trace_lambda"]
    (old / "config.json").write_text(json.dumps(config))
    assert len(group_runs([read_history(old), read_history(new)])) == 1


def test_a_value_chosen_by_the_run_equals_the_same_value_given_by_flag(tmp_path: Path) -> None:
    chose = write_run(tmp_path / "chose", slots_per_worker=0, machine={"slots_per_worker": 1})
    told = write_run(tmp_path / "told", slots_per_worker=1, seed=2)
    other = write_run(tmp_path / "other", slots_per_worker=2)
    groups = group_runs([read_history(run) for run in (chose, told, other)])
    assert [group.label for group in groups] == ["slots_per_worker 1, 2 seeds", "slots_per_worker 2"]


def test_the_network_that_auto_has_come_to_is_compared_and_named(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, network=name) for name in ("auto", "nature", "conv3")]
    config = json.loads((runs[0] / "config.json").read_text())
    (runs[0] / "config.json").write_text(json.dumps({**config, "network": "nature"}))
    groups = group_runs([read_history(run) for run in runs])
    assert [(group.name, len(group.runs)) for group in groups] == [("network nature", 2), ("network conv3", 1)]


def test_names_and_tags_that_all_runs_of_a_group_have_are_named_where_they_tell_them_apart(tmp_path: Path) -> None:
    slow = [write_run(tmp_path / f"slow{seed}", lr=1e-4, seed=seed, run_name="slow", tags="paper") for seed in (1, 2)]
    others = [write_run(tmp_path / f"other{seed}", seed=seed, tags="paper", run_name=f"name{seed}") for seed in (1, 2)]
    assert labels(*slow, *others) == ["slow (paper), lr 0.0001, 2 seeds", "(paper), lr 0.001, 2 seeds"]
    assert labels(*others, write_run(tmp_path / "same", lr=1e-4, tags="paper"))[1] == "lr 0.0001"


def band_of(curves: Sequence[Curve], *, to_end: bool = False) -> Any:
    """The line of seeds with these curves."""
    runs: Any = range(len(curves))
    look = Line("three", np.empty(0), np.empty(0), "blue")
    return line_of(Group("", "Pong", runs), look, lambda run: curves[run], to_end=to_end)  # type: ignore[call-overload]


def test_the_band_of_seeds_covers_the_range_that_all_of_them_have() -> None:
    long = Curve(np.array([0.0, 10.0, 20.0]), np.array([0.0, 10.0, 20.0]))
    short = Curve(np.array([5.0, 15.0]), np.array([7.0, 17.0]))
    band = band_of([long, short])
    assert (band.x[0], band.x[-1]) == (5, 15)
    np.testing.assert_allclose(band.y, band.x + 1)
    np.testing.assert_allclose(band.low, band.x)
    np.testing.assert_allclose(band.high, band.x + 2)


def test_a_seed_that_ended_before_another_began_is_not_in_the_band() -> None:
    ended = Curve(np.array([0.0, 10.0]), np.array([0.0, 10.0]))
    late = Curve(np.array([20.0, 30.0]), np.array([5.0, 6.0]))
    band = band_of([ended, late])
    assert (band.x[0], band.x[-1]) == (20, 30)
    np.testing.assert_allclose(band.low, np.linspace(5, 6, len(band.x)))
    np.testing.assert_array_equal(band.low, band.high)


def test_the_median_goes_to_the_end_of_the_longest_seed() -> None:
    """The seeds that have ended count with their last values."""
    curves = [Curve(np.array([0.0, end]), np.array([0.0, end])) for end in (10.0, 20.0, 40.0)]
    band = band_of(curves, to_end=True)
    assert (band.x[0], band.x[-1]) == (0, 40)
    np.testing.assert_allclose(band.y, np.minimum(band.x, 20))
    np.testing.assert_allclose(band.low, np.minimum(band.x, 10))
    np.testing.assert_allclose(band.high, band.x)


# --- Archives ---------------------------------------------------------------------------------------------------------


def archived(folder: Path) -> History:
    """The run as an archive has it."""
    path = folder.parent / f"{folder.name}.jsonl.gz"
    write_archive(path, [reduced(folder, folder.name, ["return_mean"])])
    return read_histories(path)[0]


def planned(folder: Path, updates: int | None, **options: Any) -> Path:
    """A run that plans so many updates, which runs of older versions do not say."""
    write_run(folder, **options)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "planned_updates": updates}))
    return folder


def test_runs_of_other_lengths_are_told_apart_by_their_steps_where_all_are_known(tmp_path: Path) -> None:
    """Not by planned updates: those of a run that was made longer depend on where it was then."""
    longer = {"environment_max_steps": 2_000_000}
    runs = [
        planned(tmp_path / "a", 12_500, **longer),
        planned(tmp_path / "b", 12_501, seed=2, **longer),
        planned(tmp_path / "c", 6250, environment_max_steps=1_000_000),
    ]
    assert labels(*runs) == ["environment_max_steps 2000000, 2 seeds", "environment_max_steps 1000000"]


def test_archived_runs_of_other_lengths_have_names_of_their_own(tmp_path: Path) -> None:
    kept = [
        archived(planned(tmp_path / f"{size}{updates}", updates, batch_size=size))
        for size, updates in ((8, 12_500), (8, 25_000), (16, 12_500))
    ]
    assert [group.label for group in group_runs(kept)] == [
        "batch_size 8, lr_scheduler_steps 12500",
        "batch_size 8, lr_scheduler_steps 25000",
        "batch_size 16, lr_scheduler_steps 12500",
    ]
