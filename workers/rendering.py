"""The best, the median and the worst of a test's games, shown again: as films, and in a window where there is one."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from multiprocessing import connection as connections
from multiprocessing.connection import Connection
from pathlib import Path

from agents.run_folder import remove_abandoned
from agents.scores import best_median_worst
from agents.video import Picture
from agents.window import Window, WindowClosedError, open_window
from option_flags import Config
from workers.games import GameResult
from workers.messages import WorkerError, WorkersFailedError, receive_result
from workers.process_entry import end_process, start_process
from workers.showing import MakeWatchedEnvironment, Recorder, Showing
from workers.stop_request import StopRequest

VIDEOS = "videos"
POLL_SECONDS = 0.1


def show_games(
    results: Sequence[GameResult],
    config: Config,
    make_environment: MakeWatchedEnvironment,
    result_path: Path,
    announce: Callable[[str], None],
    stop: StopRequest,
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
    folder = result_path.parent / VIDEOS
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        announce(f"no videos: {folder} cannot be made ({error.strerror})")
        return
    announce(f"showing the {', the '.join(showings)} of the first {len(results)} games")
    films: dict[Connection, Path] = {}
    with ExitStack() as cleanup:
        cleanup.callback(remove_abandoned, folder)
        for name, showing in showings.items():
            path = (
                folder / f"{result_path.stem}_{name}_game{showing.result.game}_return{showing.result.return_:.0f}.mp4"
            )
            process, connection = start_process(Recorder(showing=showing, path=path), f"recorder-{name}")
            cleanup.callback(end_process, process, connection)
            films[connection] = path
        window = open_window(config.environment.env)
        if isinstance(window, Window):
            cleanup.callback(window.close)
            announce("close the window when you have seen enough; the videos are made in any case")
            show_in_window(window, list(showings.values()), stop)
        else:
            announce(f"{window}: videos only")
        _await_films(films, announce, stop)


def show_in_window(window: Window, showings: Sequence[Showing], stop: StopRequest) -> None:
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


def _await_films(films: dict[Connection, Path], announce: Callable[[str], None], stop: StopRequest) -> None:
    while films and not stop.requested:
        for connection in connections.wait(list(films), POLL_SECONDS):
            assert isinstance(connection, Connection)
            path = films.pop(connection)
            try:
                outcome = receive_result(connection)
            except WorkerError as error:
                raise WorkersFailedError(f"{path} could not be made:\n{error}".rstrip()) from None
            except (EOFError, OSError):
                outcome = "its process died"
            made = isinstance(outcome, int)
            announce(f"video     {path}, {outcome:,} frames" if made else f"{path} could not be made: {outcome}")
    if films:
        announce("stopped: videos that were not ready yet are left out")
