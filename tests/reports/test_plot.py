"""Curves of one run and of several runs: grouping, labels, files, and messages for wrong input."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from option_flags import Config
from options.rules import UsageError
from reports import plot, plot_style, run_curves
from reports.compare_runs import group_runs, seed_band
from reports.plot_style import as_bytes, short_count, smoothed
from reports.run_curves import draw_run
from run_files.run_history import Curve, read_history
from tests.reports.some_run import write_run

LOADING: dict[str, Any] = {"op_mode": "train_w_load", "load_model_url": "pong"}
PNG = b"\x89PNG\r\n\x1a\n"
MIXED = json.dumps(
    [
        {"type": "queue", "capacity": 1, "sample_ratio": 0.5},
        {"type": "standard", "capacity": 1000, "sample_ratio": 0.5},
    ]
)


# --- One run ----------------------------------------------------------------------------------------------------------


def test_a_run_is_drawn_with_the_figures_that_it_has(tmp_path: Path) -> None:
    ages = {"replays": [{"name": "queue", "age_mean": 1.0}, {"name": "elite", "age_mean": 50.0}]}
    full = write_run(tmp_path / "full", more={**ages, "kl_replayed": 0.1})
    (full / "evaluations.jsonl").write_text('{"agent_steps": 9000, "frames": 36000, "eval_return_mean": 5.0}\n')
    single = write_run(tmp_path / "single", range(1000, 2000, 1000))
    bare = write_run(tmp_path / "bare", range(0))
    for folder in (full, single, bare):
        picture = draw_run(read_history(folder))
        assert picture.startswith(PNG) and len(picture) > 5000


def test_a_share_of_zero_is_drawn_and_a_term_of_the_loss_without_weight_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    monkeypatch.setattr(run_curves, "draw_line", lambda axes, curve, colour, label, means: drawn.append(label))
    figures = {"policy_loss": 0.5, "entropy_loss": 0.0, "idle_share": 0.0, "missed_share": 0.0}
    draw_run(read_history(write_run(tmp_path / "run", more=figures)))
    assert {"policy", "idle action", "late"} <= set(drawn) and "entropy" not in drawn


# --- Several runs -----------------------------------------------------------------------------------------------------


def test_runs_that_differ_only_in_their_seeds_form_a_group(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", results_dir="here")
    b = write_run(tmp_path / "b", seed=2, report_period=5, eval_period=9, worker_timeout=7)
    c = write_run(tmp_path / "c", lr=2e-3, use_lstm=True)
    (only,) = group_runs([read_history(folder) for folder in (a, b)])
    assert only.label == "2 seeds" and len(only.runs) == 2
    labels = [group.label for group in group_runs([read_history(folder) for folder in (a, c, b)])]
    assert labels == ["no use_lstm, lr 0.001, 2 seeds", "use_lstm, lr 0.002"]


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


def test_labels_describe_replays_and_omit_what_follows_from_them(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", lr_scheduler_steps=100)
    b = write_run(tmp_path / "b", lr_scheduler_steps=200, replay_parameters=MIXED)
    groups = group_runs([read_history(folder) for folder in (a, b)])
    assert [group.label for group in groups] == ["queue", "0.5 queue + 0.5 standard (1,000)"]
    config = json.loads((b / "config.json").read_text())
    config["options"]["replay_parameters"] = "{"  # invalid in every version
    (b / "config.json").write_text(json.dumps(config))
    assert [group.label for group in group_runs([read_history(folder) for folder in (a, b)])][1] == "{"
    assert draw_run(read_history(b)).startswith(PNG)


def test_seeds_of_clusters_at_different_addresses_are_one_configuration(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / str(seed), seed=seed, cluster=f"192.0.2.{seed}:6379") for seed in (1, 2, 3)]
    alone = write_run(tmp_path / "alone")
    groups = group_runs([read_history(folder) for folder in (*runs, alone)])
    assert [group.label for group in groups] == ["cluster, 3 seeds", "no cluster"]


def test_the_schedule_that_follows_from_the_uses_of_batches_is_not_named(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / str(uses), loss="impact", impact_uses=uses, lr_scheduler_steps=100 * uses)
        for uses in (1, 2)
    ]
    groups = group_runs([read_history(folder) for folder in runs])
    assert [group.label for group in groups] == ["impact_uses 1", "impact_uses 2"]


def test_labels_contain_the_replay_keys_that_differ(tmp_path: Path) -> None:
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
    label = "0.5 queue + 0.5 elite (1,000, dist_function {}, lambda_batch_multiplier {}, insert_strategy {})"
    assert [group.label for group in group_runs([read_history(run) for run in runs])] == [
        label.format("ln_norm", 1, "oldest"),
        label.format("cos_dist", 6, "oldest") + ", 2 seeds",
        label.format("ln_norm", 6, "elite_insertion"),
    ]


def test_labels_contain_the_capacities_of_queues_that_differ(tmp_path: Path) -> None:
    queues = [json.dumps([{"type": "queue", "capacity": capacity, "sample_ratio": 1.0}]) for capacity in (1, 64)]
    runs = [write_run(tmp_path / str(i), replay_parameters=queue) for i, queue in enumerate(queues)]
    labels = [group.label for group in group_runs([read_history(run) for run in runs])]
    assert labels == ["queue (capacity 1)", "queue (capacity 64)"]


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


def test_cloning_options_matter_only_with_a_replay(tmp_path: Path) -> None:
    labels: list[list[str]] = []
    for replays in (Config().replay.replay_parameters, MIXED):
        runs = [
            write_run(tmp_path / f"{len(labels)}{cloning}", use_policy_cloning_loss=cloning, replay_parameters=replays)
            for cloning in (True, False)
        ]
        labels.append([group.label for group in group_runs([read_history(run) for run in runs])])
    assert labels == [["2 seeds"], ["use_policy_cloning_loss", "no use_policy_cloning_loss"]]


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


def test_the_network_that_auto_chooses_for_atari_is_the_one_that_older_runs_name(tmp_path: Path) -> None:
    networks = ["auto", "nature", "conv3"]
    runs = [read_history(write_run(tmp_path / name, network=name)) for name in networks]
    assert [len(group.runs) for group in group_runs(runs)] == [2, 1]


def test_the_band_of_seeds_covers_the_range_that_all_of_them_have() -> None:
    long = Curve(np.array([0.0, 10.0, 20.0]), np.array([0.0, 10.0, 20.0]))
    short = Curve(np.array([5.0, 15.0]), np.array([7.0, 17.0]))
    band = seed_band([long, short])
    assert (band.x[0], band.x[-1]) == (5, 15)
    np.testing.assert_allclose(band.mean, band.x + 1)
    np.testing.assert_allclose(band.low, band.x)
    np.testing.assert_allclose(band.high, band.x + 2)


def test_smoothing_is_a_running_mean() -> None:
    values = np.array([4.0, 2.0, 0.0, 10.0])
    assert smoothed(values, 2).tolist() == [4, 3, 1, 5]
    assert smoothed(values, 1).tolist() == values.tolist()
    assert smoothed(values, 10**20).tolist() == [4, 3, 2, 4]


def test_counts_are_short() -> None:
    assert [short_count(n) for n in (0, 950, 1_250_000, 24e6, -1500)] == ["0", "950", "1.25M", "24M", "−1.5k"]


@pytest.mark.parametrize(
    ("flags", "begins"),
    [
        ([], PNG),
        (["--x=hours", "--smooth=3", "--output=many.svg"], b"<?xml"),
        (["--x", "frames", "--metric=time_shares/update", "--output=shares.pdf"], b"%PDF"),
    ],
)
def test_the_command_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], flags: list[str], begins: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "a")
    write_run(tmp_path / "b", seed=2, raised=3, steps=range(1000, 15_000, 700))
    write_run(tmp_path / "c", use_lstm=True)
    write_run(tmp_path / "d", env="BreakoutNoFrameskip-v4")
    plot.main(["a", "b", "c", "d", *flags])
    output_text = capsys.readouterr().out
    output = Path(output_text.split(":")[0])
    assert output_text == f"{output}: 4 runs of 3 configurations\n"
    assert output.read_bytes().startswith(begins)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nothing"], "nothing is not the folder of a run"),
        (["a", "empty"], "empty has no metrics yet"),
        (["young"], "no game has ended in young yet"),
        (["a", "--metric=entrpy"], "did you mean entropy?"),
        (["a", "--metric=QQ"], "a field of metrics.jsonl"),
        (["a", "--x=days"], "--x"),
        (["a", "--smooth=0"], "--smooth"),
        (["a", "--output=a.bmp"], "--output"),
        (["a", "--output=no/where/a.png"], "--output"),
        ([], "RUN"),
    ],
)
def test_an_error_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "a")
    write_run(tmp_path / "empty", range(0))
    write_run(tmp_path / "young", range(500, 1000, 100))
    with pytest.raises(UsageError) as caught:
        plot.main(words)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)
    assert not list(tmp_path.glob("*.png"))


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Collects the figures that are drawn."""
    pages: list[Figure] = []

    def seen(figure: Figure, form: str) -> bytes:
        pages.append(figure)
        return as_bytes(figure, form)

    monkeypatch.setattr(plot_style, "as_bytes", seen)
    return pages


def test_the_axis_names_the_number_of_games_in_a_mean(tmp_path: Path, pages: list[Figure]) -> None:
    usual, short = (
        read_history(folder) for folder in (write_run(tmp_path / "a"), write_run(tmp_path / "b", avg_buff_size=30))
    )
    for histories in ([usual], [short], [usual, short]):
        plot.compare(histories, tmp_path / "curves.png")
    names = [page.axes[0].get_ylabel() for page in pages]
    assert names == ["mean return of the last 100 games", "mean return of the last 30 games", "return_mean"]


def test_dollar_signs_in_names_are_no_mathematics(tmp_path: Path, pages: list[Figure]) -> None:
    runs = [write_run(tmp_path / f"$\\frac{number}$", env_kwargs=f'{{"a": "$\\\\frac{number}$"}}') for number in (1, 2)]
    histories = [read_history(folder) for folder in runs]
    plot.compare(histories, tmp_path / "both.png")
    (page,) = pages
    assert len(page.legends[0].get_texts()) == 2
    assert draw_run(histories[0]).startswith(PNG)


def test_long_names_of_configurations_stay_on_the_page(tmp_path: Path, pages: list[Figure]) -> None:
    plain = write_run(tmp_path / "plain")
    other = write_run(
        tmp_path / "other",
        proximal_loss_weight=0.25,
        policy_gradient_loss_weight=0.875,
        gradient_clip_by_norm_threshold=1234.5,
        policy_cloning_loss_weight=0.125,
        lr_warmup_updates=123_456,
        replay_parameters=MIXED,
    )
    plot.compare([read_history(plain), read_history(other)], tmp_path / "both.png")
    (page,) = pages
    names = page.legends[0].get_window_extent()
    panel = page.axes[0].get_tightbbox()
    assert panel is not None
    assert names.x0 > 0 and names.x1 < page.bbox.x1
    assert names.y0 >= 0 and names.y1 < panel.y0
