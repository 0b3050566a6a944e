"""Shows the best, the median and the worst game of a test: as films, and in a window if there is a display."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from fractions import Fraction
from pathlib import Path

from evaluation.film import Picture
from evaluation.film_processes import FilmProcesses
from evaluation.logged_game import LoggedGame
from evaluation.parallel_games import GameResult
from evaluation.score_statistics import best_median_worst
from evaluation.window import Window, WindowClosedError, open_window
from machine.stop_signals import StopSignals
from option_flags import Config
from processes.pool import ChildPool
from run_files.run_folder import VIDEOS
from wrappers.environment import MakeWatchedEnvironment

POLL_SECONDS = 0.1


def show_games(
    results: Sequence[GameResult],
    config: Config,
    make_environment: MakeWatchedEnvironment,
    result_path: Path,
    announce: Callable[[str], None],
    stop: StopSignals,
) -> None:
    """Film the games in processes of their own, and meanwhile show them in a window."""
    assert config.run.seed is not None
    chosen = best_median_worst([result.return_ for result in results])
    games = {
        name: LoggedGame(
            make_environment=make_environment,
            environment=config.environment,
            seed=(config.run.seed,),
            result=results[index],
            policy=config.test.test_policy,
        )
        for name, index in chosen.items()
    }
    steps = sum(results[i].length for i in chosen.values())
    announce(f"showing the {', the '.join(games)} of the first {len(results)} games, {steps:,} steps")
    with ExitStack() as cleanup:
        children = ChildPool(announce, silence=config.workers.worker_timeout)
        films = cleanup.enter_context(closing(FilmProcesses(result_path.parent / VIDEOS, announce, children)))
        for name, game in games.items():
            films.begin(game, f"{result_path.stem}_{name}", low_priority=False)
        window = open_window(config.environment.env)
        if isinstance(window, Window):
            cleanup.callback(window.close)
            announce("you can close the window at any time; the videos are made in any case")
            show_in_window(window, list(games.values()), stop, meanwhile=lambda: films.wait(0.0))
        else:
            announce(f"{window}: videos only")
        while films.under_way and not stop.requested:
            films.wait(POLL_SECONDS)


def show_in_window(
    window: Window, games: Sequence[LoggedGame], stop: StopSignals, meanwhile: Callable[[], None]
) -> None:
    """Show one game after another, until the window is closed or a stop signal arrives.

    `meanwhile` is called with each picture.
    """

    def show(picture: Picture, frames_per_second: Fraction) -> None:
        if stop.requested:
            raise WindowClosedError
        meanwhile()
        window.show(picture, frames_per_second)

    try:
        for game in games:
            game.play_back(show)
    except WindowClosedError:
        pass
    window.close()
