"""The best, the median and the worst of a test's games, shown again: as films, and in a window where there is one."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from evaluation.film import FRAMES_PER_SECOND, Picture
from evaluation.film_processes import Filming
from evaluation.logged_game import Showing
from evaluation.parallel_games import GameResult
from evaluation.score_statistics import best_median_worst
from evaluation.window import Window, WindowClosedError, open_window
from machine.stop_signals import StopSignals
from option_flags import Config
from run_files.run_folder import VIDEOS
from wrappers.environment_types import MakeWatchedEnvironment

POLL_SECONDS = 0.1


def show_games(
    results: Sequence[GameResult],
    config: Config,
    make_environment: MakeWatchedEnvironment,
    result_path: Path,
    announce: Callable[[str], None],
    stop: StopSignals,
) -> None:
    """Make films beside the file of results, each in a process of its own, and meanwhile show the games in a window."""
    assert config.run.seed is not None
    chosen = best_median_worst([result.return_ for result in results])
    showings = {
        name: Showing(
            make_environment=make_environment,
            environment=config.environment,
            seed=(config.run.seed,),
            result=results[index],
            policy=config.test.test_policy,
        )
        for name, index in chosen.items()
    }
    seconds = sum(results[i].length for i in chosen.values()) * config.environment.skipped_frames // FRAMES_PER_SECOND
    announce(f"showing the {', the '.join(showings)} of the first {len(results)} games, {seconds:,} seconds of play")
    with ExitStack() as cleanup:
        filming = cleanup.enter_context(closing(Filming(result_path.parent / VIDEOS, announce)))
        for name, showing in showings.items():
            filming.begin(showing, f"{result_path.stem}_{name}", low_priority=False)
        window = open_window(config.environment.env)
        if isinstance(window, Window):
            cleanup.callback(window.close)
            announce("close the window when you have seen enough; the videos are made in any case")
            show_in_window(window, list(showings.values()), stop)
        else:
            announce(f"{window}: videos only")
        while filming.under_way and not stop.requested:
            filming.wait(POLL_SECONDS)


def show_in_window(window: Window, showings: Sequence[Showing], stop: StopSignals) -> None:
    """One game after another, until the window is closed or a signal comes."""

    def show(picture: Picture) -> None:
        if stop.requested:
            raise WindowClosedError
        window.show(picture)

    try:
        for showing in showings:
            showing.run_through(show)
    except WindowClosedError:
        pass
    window.close()
