"""Make the pictures of the documents from the runs in docs/data.

    python -m tests.benchmarks.pictures [NAME ...] [--game=results/<run>] [--agent=results/<run>]

Without names, all of them. curves.png and console.svg show the run in pong_run.tar.gz, the others archives of
curves. Two pictures need a run with a checkpoint: game.gif (`--game`) and dashboard.png (`--agent`), which shows its
agent at play and needs Chromium. A PNG has in its text `panels` what it shows, which a test compares with what the
program shows today.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from dashboard.agent_tab import CARDS, VALUE
from options.command_line import split_words
from options.rules import UsageError, declared
from reports import plot
from reports.panels import page_panels
from reports.run_curves import draw_run
from reports.scores import game_name
from run_files.run_folder import write_atomically
from run_files.run_reader import History, read_histories, read_history
from tests.benchmarks import delay_plot, peer_plot
from tests.benchmarks.console_picture import console_svg
from tests.benchmarks.game_film import game_gif
from tests.dashboard.browser import running_browser, serving, visiting
from tests.read_metrics import read_metrics

ROOT = Path(__file__).resolve().parents[2]
DATA, PICTURES = ROOT / "docs" / "data", ROOT / "docs" / "pictures"
PANELS = "panels"  # the text of a PNG
RETURNS = "Return of full games"
MAX_GIF_BYTES = 1_400_000
COLOURS = 256  # fewer make smaller files
DASHBOARD_WIDTH, DASHBOARD_HEIGHT = 1200, 1230
DISPLAY_SECONDS = 150.0  # of the run, after which the display is shown
PLAY_SECONDS = 25  # for which the agent has played in dashboard.png: its chart of values is full
PLOTS: dict[str, list[str]] = {  # the flags of reports.plot
    "pong": ["--seeds=median"],
    "breakout": [],
    "networks": ["--x=minutes"],
    "replays_seeds": [],
    "realtime_pong": ["--x=minutes"],
}
DRAWN = ["curves", "delays", "peers", *PLOTS]


def kept_run(place: Path) -> Path:
    """The run of the README's pictures, as a folder in `place`/results."""
    results = place / "results"
    results.mkdir()
    subprocess.run(["tar", "--extract", f"--file={DATA / 'pong_run.tar.gz'}", f"--directory={results}"], check=True)
    return next(results.iterdir())


def plotted(name: str, place: Path = ROOT) -> tuple[list[History], plot.PlotOptions]:
    """The runs in a picture of reports.plot, and the options that draw it in `place`."""
    words = [f"--names={DATA / f'{name}.names.json'}", f"--output={place / name}.png", *PLOTS[name]]
    flags, _ = split_words(words, declared(plot.PlotOptions))
    return read_histories(DATA / f"{name}.jsonl.gz"), plot.PlotOptions(**flags)


def panels_today(name: str, run: Path) -> list[str]:
    """What a new PNG would show: titles of panels, and the labels of lines that are compared."""
    if name == "curves":
        return [RETURNS, *(panel.title for panel in page_panels(read_history(run)))]
    if name == "dashboard":
        return list(CARDS)
    if name in ("delays", "peers"):
        figure = delay_figure() if name == "delays" else peer_figure()
        return [axes.get_title(loc="left") for axes in figure.axes]
    histories, options = plotted(name)
    groups, _ = plot.named_groups(histories, options.names)
    return [*dict.fromkeys(game_name(group.env) for group in groups), *(group.label for group in groups)]


def delay_figure() -> Figure:
    outcomes, _ = delay_plot.usable(read_histories(DATA / "delays.jsonl.gz"))
    return delay_plot.draw(delay_plot.by_game(outcomes), json.loads((DATA / "floors.json").read_text()))


def peer_figure() -> Figure:
    return peer_plot.draw(read_metrics(DATA / "peers" / "runs.jsonl"))


def panels_of(picture: Path) -> list[str]:
    """What a PNG shows by its own text."""
    with Image.open(picture) as image:
        return list(json.loads(image.info.get(PANELS, "[]")))


def agent_at_play(run: Path) -> tuple[bytes, list[str]]:
    """A screenshot of the run's page while its agent plays, and the titles of its cards."""
    with (
        running_browser() as browser,
        serving(run.parent) as address,
        visiting(browser, address, DASHBOARD_WIDTH) as page,
    ):
        page.page.set_viewport_size({"width": DASHBOARD_WIDTH, "height": DASHBOARD_HEIGHT})
        shown = page.open(f"/run/{run.name}")
        shown.get_by_role("tab", name="Agent").click()
        shown.get_by_role("button", name="Play").click()
        shown.wait_for_selector("img.screen[src^=data]", timeout=120_000)
        shown.wait_for_selector(".live canvas")  # the chart of values, whose title is drawn
        shown.wait_for_timeout(1000 * PLAY_SECONDS)
        return shown.screenshot(), [*shown.locator(".live .card-title").all_inner_texts(), VALUE]


def draw(name: str, run: Path, place: Path) -> bytes:
    """The content of one picture."""
    if name == "console":
        return console_svg(run, DISPLAY_SECONDS)
    if name == "curves":
        picture = draw_run(read_history(run))
    elif name in ("delays", "peers"):
        picture = plot.as_bytes(delay_figure() if name == "delays" else peer_figure())
    else:
        histories, options = plotted(name, place)
        plot.compare(histories, options)
        picture = Path(options.output).read_bytes()
    return as_kept(picture, panels_today(name, run))


def as_kept(picture: bytes, panels: list[str]) -> bytes:
    """The PNG with few colours, and with what it shows in its text."""
    text = PngInfo()
    text.add_itxt(PANELS, json.dumps(panels, ensure_ascii=False))
    buffer = BytesIO()
    with Image.open(BytesIO(picture)) as image:
        few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(buffer, "PNG", optimize=True, pnginfo=text)
    return buffer.getvalue()


def main(words: Sequence[str] | None = None) -> int:
    known = ["console", *DRAWN]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(known)}")
    parser.add_argument("--game", type=Path, help="the run whose agent plays in game.gif")
    parser.add_argument("--agent", type=Path, help="the run whose agent plays in dashboard.png")
    arguments = parser.parse_args(words)
    if unknown := set(arguments.names) - set(known):
        parser.error(f"{', '.join(unknown)}: no such picture; one of {', '.join(known)} would be right")
    names = arguments.names or ([] if arguments.game or arguments.agent else known)
    try:
        with tempfile.TemporaryDirectory() as folder:
            run = kept_run(Path(folder))
            for name in names:
                file = PICTURES / f"{name}.{'svg' if name == 'console' else 'png'}"
                write_atomically(file, draw(name, run, Path(folder)))
                print(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes")
        if arguments.game:
            write_atomically(PICTURES / "game.gif", game_gif(arguments.game, MAX_GIF_BYTES))
        if arguments.agent:
            write_atomically(PICTURES / "dashboard.png", as_kept(*agent_at_play(arguments.agent.resolve())))
    except UsageError as error:
        print(f"pictures: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
