"""Pictures of one run and of several runs: what is drawn, files, and messages for wrong input."""

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from options.rules import UsageError
from reports import plot
from reports.panels import COLOURS, dashes, learning_panels, machine_panels, page_panels, smoothed
from reports.plot import PlotOptions, as_bytes, short_count
from reports.run_curves import draw_run
from run_files.run_reader import read_history
from tests.benchmarks.keep_curves import reduced, write_archive
from tests.reports.some_run import write_run

PNG = b"\x89PNG\r\n\x1a\n"
MIXED = json.dumps(
    [
        {"type": "queue", "capacity": 1, "sample_ratio": 0.5},
        {"type": "standard", "capacity": 1000, "sample_ratio": 0.5},
    ]
)


# --- One run ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_is_drawn_with_the_figures_that_it_has(tmp_path: Path) -> None:
    ages = {"replays": [{"name": "queue", "age_mean": 1.0}, {"name": "elite", "age_mean": 50.0}]}
    full = write_run(tmp_path / "full", more={**ages, "kl_replayed": 0.1})
    (full / "evaluations.jsonl").write_text('{"agent_steps": 9000, "frames": 36000, "eval_return_mean": 5.0}\n')
    single = write_run(tmp_path / "single", range(1000, 2000, 1000))
    bare = write_run(tmp_path / "bare", range(0))
    for folder in (full, single, bare):
        picture = draw_run(read_history(folder))
        assert picture.startswith(PNG) and len(picture) > 5000


def test_a_share_of_zero_is_drawn_and_a_term_of_the_loss_without_weight_is_not(tmp_path: Path) -> None:
    figures = {"policy_loss": 0.5, "entropy_loss": 0.0, "idle_share": 0.0, "missed_share": 0.0}
    history = read_history(write_run(tmp_path / "run", more=figures))
    drawn = {line.label for panel in page_panels(history) for line in panel.lines(history.curve)}
    assert {"policy", "idle", "late"} <= drawn and "entropy" not in drawn


@pytest.mark.parametrize(
    ("replays", "lines"), [("queue", None), ("queue elite", ["queue (replay 1)", "elite (replay 2)"])]
)
def test_the_ages_of_unrolls_are_drawn_where_some_are_replayed(
    tmp_path: Path, replays: str, lines: list[str] | None
) -> None:
    figures = {f"{place}_{kind}": {"age_mean": 5.0} for place, kind in enumerate(replays.split())}
    panels = page_panels(read_history(write_run(tmp_path / "run", more={"replays": figures})))
    drawn = {panel.title: [label for _, label in panel.figures] for panel in panels}
    assert drawn.get("Age of drawn unrolls, updates") == lines


def test_both_pictures_of_a_run_have_the_same_panels_and_colours(tmp_path: Path) -> None:
    history = read_history(write_run(tmp_path / "run"))
    drawn = page_panels(history)
    shown = {panel.title: panel.lines(history.curve) for panel in learning_panels(history) + machine_panels(history)}
    assert len(drawn) >= 4
    for panel in drawn:
        assert [(line.label, line.colour) for line in panel.lines(history.curve)] == [
            (line.label, line.colour) for line in shown[panel.title]
        ]


# --- Several runs -----------------------------------------------------------------------------------------------------


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
        (["empty"], "empty has no return_mean yet."),
        (["a", "--only="], "--only"),
        (["a", "--only=b,c"], "--only=b,c is in the name of none of the runs"),
        (["a", "--metric=entrpy"], 'did you mean "entropy"?'),
        (["a", "--metric=QQ"], "a has no QQ yet."),
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
    """Collects the figures, which are not drawn: that takes most of the time."""
    pages: list[Figure] = []

    def seen(figure: Figure, form: str) -> bytes:
        pages.append(figure)
        return form.encode()

    monkeypatch.setattr(plot, "as_bytes", seen)
    return pages


def test_the_axis_names_the_number_of_games_in_a_mean(tmp_path: Path, pages: list[Figure]) -> None:
    usual, short = (
        read_history(folder) for folder in (write_run(tmp_path / "a"), write_run(tmp_path / "b", avg_buff_size=30))
    )
    for histories in ([usual], [short], [usual, short]):
        plot.compare(histories, PlotOptions(output=str(tmp_path / "curves.png")))
    names = [page.axes[0].get_ylabel() for page in pages]
    assert names == ["mean return of the last 100 games", "mean return of the last 30 games", "return_mean"]


def test_seeds_with_one_report_each_are_points(tmp_path: Path, pages: list[Figure]) -> None:
    for seed in (1, 2):
        write_run(tmp_path / f"seed{seed}", range(1000, 2000, 1000), seed=seed)
    plot.main([str(tmp_path), f"--output={tmp_path / 'curves.png'}", "--metric=entropy"])
    (panel,) = pages[0].axes
    assert [(len(np.asarray(line.get_xdata())), line.get_marker()) for line in panel.lines] == [(1, "o")] * 3


@pytest.mark.slow
def test_dollar_signs_in_names_are_no_mathematics(tmp_path: Path, pages: list[Figure]) -> None:
    runs = [write_run(tmp_path / f"$\\frac{number}$", env_kwargs=f'{{"a": "$\\\\frac{number}$"}}') for number in (1, 2)]
    histories = [read_history(folder) for folder in runs]
    plot.compare(histories, PlotOptions(output=str(tmp_path / "both.png")))
    (page,) = pages
    assert len(page.legends[0].get_texts()) == 2 and as_bytes(page).startswith(PNG)
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
    plot.compare([read_history(plain), read_history(other)], PlotOptions(output=str(tmp_path / "both.png")))
    (page,) = pages
    page.draw_without_rendering()
    names = page.legends[0].get_window_extent()
    panel = page.axes[0].get_tightbbox()
    assert panel is not None
    assert names.x0 > 0 and names.x1 < page.bbox.x1
    assert names.y0 >= 0 and names.y1 < panel.y0


def test_a_run_without_a_finished_game_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "a")
    write_run(tmp_path / "young", range(500, 1000, 100), seed=2)
    write_run(tmp_path / "empty", range(0), lr=2e-3)
    plot.main(["young", "a", "empty"])
    assert capsys.readouterr().out.splitlines() == [
        "left out: young has no return_mean yet",
        "left out: empty has no return_mean yet",
        "curves.png: 1 run of 1 configuration",
    ]


def test_a_file_names_the_configurations_and_those_in_grey(tmp_path: Path, pages: list[Figure]) -> None:
    names = tmp_path / "names.json"
    names.write_text('{"coloured": {"defaults": "new"}, "grey": {"slow learning": "old"}}')
    runs = [write_run(tmp_path / "old", lr=1e-5), *(write_run(tmp_path / f"new{seed}", seed=seed) for seed in (1, 2))]
    histories = [read_history(run) for run in [*runs, write_run(tmp_path / "other", lr=2e-3)]]
    plot.compare(histories, PlotOptions(output=str(tmp_path / "curves.png"), names=str(names)))
    (page,) = pages
    labels = {
        text.get_text(): line.get_color()
        for text, line in zip(page.legends[0].get_texts(), page.legends[0].get_lines(), strict=True)
    }
    assert list(labels) == ["defaults, 2 seeds", "lr 0.002", "slow learning"]
    assert list(labels.values()) == [*COLOURS[:2], "0.45"]


@pytest.mark.parametrize("content", [None, "{", "[]", '{"grey": ["old"]}'])
def test_a_file_of_names_that_is_none_is_refused(tmp_path: Path, content: str | None) -> None:
    names = tmp_path / "names.json"
    if content is not None:
        names.write_text(content)
    with pytest.raises(UsageError, match="--names=.* is not a JSON file of names"):
        plot.main([str(write_run(tmp_path / "a")), f"--names={names}"])


@pytest.mark.usefixtures("pages")
def test_runs_are_chosen_by_parts_of_their_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a run in an archive, the name of the archive does not count."""
    names = ["fast_seed1", "fast_seed2", "slow_seed1", "fast"]
    folders = [write_run(tmp_path / name, seed=place, lr_scheduler_steps=9) for place, name in enumerate(names)]
    archive = tmp_path / "seeds.jsonl.gz"
    write_archive(archive, [reduced(folder, folder.name, ["return_mean"]) for folder in folders])
    output = f"--output={tmp_path / 'curves.png'}"
    for only, folders_drawn, archived in (("fast_seed", 2, 2), ("fast_seed1,slow", 2, 2), ("fast", 3, 3), (",", 4, 4)):
        plot.main([*map(str, folders), output, f"--only={only}"])
        plot.main([str(archive), output, f"--only={only}"])
        printed = capsys.readouterr().out
        assert [int(line.split()[1]) for line in printed.splitlines()] == [folders_drawn, archived]


@pytest.mark.usefixtures("pages")
def test_a_sweep_is_drawn_as_all_of_its_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (1, 2):
        write_run(tmp_path / "sweep" / f"run_seed{seed}" / "Game_1", seed=seed)
    plot.main([str(tmp_path / "sweep"), f"--output={tmp_path / 'curves.png'}"])
    assert "2 runs of 1 configuration" in capsys.readouterr().out


def test_a_configuration_looks_the_same_in_all_games(tmp_path: Path, pages: list[Figure]) -> None:
    """Also if its number of seeds differs between them."""
    seeds = {"PongNoFrameskip-v4": {1e-3: 2, 2e-3: 1}, "BreakoutNoFrameskip-v4": {1e-3: 3, 2e-3: 1}}
    runs = [
        read_history(write_run(tmp_path / f"{env}{lr}{seed}", env=env, lr=lr, seed=seed))
        for env, of in seeds.items()
        for lr, most in of.items()
        for seed in range(most)
    ]
    plot.compare(runs, PlotOptions(output=str(tmp_path / "curves.png")))
    (page,) = pages
    assert [text.get_text() for text in page.legends[0].get_texts()] == ["lr 0.001, 3 seeds", "lr 0.002"]
    for axes in page.axes:
        assert {line.get_color() for line in axes.get_lines()} == set(COLOURS[:2])


def test_more_configurations_than_colours_have_dashes(tmp_path: Path, pages: list[Figure]) -> None:
    many = 2 * len(COLOURS)
    runs = [read_history(write_run(tmp_path / str(place), lr=1e-4 * (place + 1))) for place in range(many)]
    plot.compare(runs, PlotOptions(output=str(tmp_path / "curves.png")))
    (page,) = pages
    for lines in (page.axes[0].get_lines(), page.legends[0].get_lines()):
        assert len({(line.get_color(), line.is_dashed()) for line in lines}) == many
        assert not any(line.is_dashed() for line in lines[: len(COLOURS)])
    assert len({dashes(place) for place in range(80)}) == 10, "every further round of colours has its own"
