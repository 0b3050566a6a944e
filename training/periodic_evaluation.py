"""Evaluations during training: a process at the lowest priority plays test games with the weights of a checkpoint."""

import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from agents.acting import flat_weights, weight_count
from evaluation.film_processes import FilmProcesses
from evaluation.logged_game import LoggedGame
from evaluation.parallel_games import GameResult, evaluation_options, slots_for
from evaluation.player_pool import PlayerPool
from evaluation.player_process import PlayerProcess
from evaluation.realtime_games import as_trained
from evaluation.score_statistics import score_figures
from processes.failures import WorkersFailedError
from processes.pool import ChildPool
from reports.sinks import RetryingSink
from run_files.checkpoint import BEST_EVAL, checkpoint_name, kept
from run_files.metrics import EVALUATIONS, JsonLinesSink
from run_files.run_folder import VIDEOS
from training.checkpoint_saver import CheckpointSaver
from training.run import Run
from training.summary import SummaryFile
from workers.memory.shared_weights import SharedWeights

WAIT_SECONDS = 0.1


@dataclass
class _GamesUnderWay:
    """The games that evaluate one set of weights."""

    checkpoint: Path  # of the policy that plays
    resources: ExitStack
    players: PlayerPool
    agent_steps: int
    frames: int
    updates: int
    begun: float = field(default_factory=time.monotonic)
    results: list[GameResult] = field(default_factory=list)


class PeriodicEvaluation:
    """Starts an evaluation every `eval_period` agent steps, as soon as the one before it has ended.

    It evaluates a checkpoint written at that moment. A hard link keeps the file until its games have ended, so that
    best_eval.pt is exactly the policy that played. Training does not wait, except in a reproducible run, where
    evaluations must start at the same steps every time; then other learners wait too. With `--render` the median game
    is filmed, and the evaluation ends when the film is complete. A resumed run begins with the evaluation that a stop
    has cut short, with its present weights.
    """

    def __init__(self, run: Run, saver: CheckpointSaver, summary: SummaryFile) -> None:
        self._run = run
        self._saver = saver
        self._summary = summary
        self._config = run.config
        self._learner, self._progress, self._best = run.learner, run.progress, run.resume.best
        self._stop = run.stop
        self._announce = run.announce
        self._sink = RetryingSink(JsonLinesSink(run.folder / EVALUATIONS), "evaluations", run.announce)
        children = ChildPool(run.announce, silence=run.config.workers.worker_timeout)
        self._filming = FilmProcesses(run.folder / VIDEOS, run.announce, children)
        self._periods = self._best.evaluated_steps // run.config.test.eval_period
        self._games: _GamesUnderWay | None = None

    @property
    def under_way(self) -> bool:
        """Whether games are played or a film is made."""
        return self._games is not None or self._filming.under_way

    def tick(self) -> None:
        """Called in every iteration of the training loop."""
        self._collect(0.0)
        self._wait_for_film(0.0)

    def start_if_due(self) -> None:
        """Called after an update."""
        if self._periods_over == self._periods or self._learner.updates == 0:
            return
        if self._config.run.reproducible:
            self._wait(self._run.agreement.keep_alive)
        if not self.under_way:
            self._periods = self._periods_over
            self._begin()

    def finish(self) -> None:
        """Wait until all evaluations that are due have ended, or until a signal asks the run to stop."""
        if not self._stop.requested and self.under_way:
            self._announce("waiting for the evaluation under way; CTRL+C skips it")
        self._wait()
        if not self._stop.requested:  # another evaluation may be due, and have waited for this one
            self.start_if_due()
            self._wait()

    def close(self) -> None:
        """Drop the evaluation under way, and free its resources."""
        if self._games is not None:
            self._announce(f"the evaluation at {self._games.agent_steps:,} agent steps is not finished and is dropped")
        self._end_games()
        self._filming.close()
        self._sink.close()

    def _wait(self, goes_on: Callable[[], bool] = lambda: True) -> None:
        while self._games is not None and not self._stop.requested and goes_on():
            self._summary.show_alive()
            self._collect(WAIT_SECONDS)
        while self._filming.under_way and not self._stop.requested and goes_on():
            self._summary.show_alive()
            self._wait_for_film(WAIT_SECONDS)

    def _wait_for_film(self, timeout: float) -> None:
        try:
            self._filming.wait(timeout)
        except WorkersFailedError as error:
            self._announce(str(error))

    def _end_games(self) -> None:
        if self._games is not None:
            self._games.resources.close()
            self._games = None

    @property
    def _periods_over(self) -> int:
        return self._progress.agent_steps // self._config.test.eval_period

    def _seed(self, agent_steps: int) -> tuple[int, ...]:
        """Different games in each evaluation, so that the best policy is not best at a few starting positions only."""
        return self._config.seed, agent_steps

    def _begin(self) -> None:
        updates = self._learner.updates
        if self._saver.saved_updates != updates:
            self._saver.save(with_replays=False)
        if self._saver.saved_updates != updates:
            return  # nothing could be written; the saver has announced it
        with ExitStack() as undo:
            try:
                checkpoint = undo.enter_context(kept(self._saver.folder / checkpoint_name(updates)))
                players = self._start_games(undo)
            except (OSError, WorkersFailedError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                self._announce(f"no evaluation at {self._progress.agent_steps:,} agent steps: {why}")
            else:
                progress = self._progress
                self._games = _GamesUnderWay(
                    checkpoint, undo.pop_all(), players, progress.agent_steps, progress.frames, updates
                )

    def _start_games(self, resources: ExitStack) -> PlayerPool:
        weights = resources.enter_context(closing(SharedWeights(weight_count(self._learner.network))))
        weights.publish(0, flat_weights(self._learner.network))
        games, agent_steps = self._config.test.eval_episode_count, self._progress.agent_steps
        timing = self._progress.action_timing
        player = PlayerProcess(
            make_environment=self._run.setup.make_environment,
            environment=evaluation_options(self._config.environment),
            network=self._config.network,
            layout=self._run.layout,
            compute_dtype=self._run.machine.worker_precision,
            weights=weights,
            seed=self._seed(agent_steps),
            slots=slots_for(games),
            greedy=self._config.test.test_policy == "greedy",
            logged=games if self._config.test.render else 0,
            low_priority=True,
            realtime=as_trained(self._config.realtime, None if timing is None else timing.action_ms),
            inference_processes=self._run.machine.inference_processes,
            timeout=self._config.workers.worker_timeout,
        )
        children = ChildPool(self._announce, silence=self._config.workers.worker_timeout)
        return resources.enter_context(closing(PlayerPool(children, player, 1, range(games))))

    def _collect(self, timeout: float) -> None:
        """Take the results of games that have ended."""
        games = self._games
        if games is None:
            return
        try:
            games.results += games.players.wait(timeout)
        except WorkersFailedError as error:
            self._end_games()
            self._announce(f"the evaluation at {games.agent_steps:,} agent steps failed: {error}")
            return
        if not games.players.has_unfinished_games:
            self._conclude(games)
            self._end_games()

    def _conclude(self, games: _GamesUnderWay) -> None:
        """Keep the checkpoint if it is the best so far, and report."""
        results = sorted(games.results)
        self._best.evaluated_steps = games.agent_steps
        figures = score_figures(results, self._config.environment.env)
        mean = figures["return_mean"]
        is_best = self._best.is_best_evaluation(mean)
        if is_best:
            try:
                games.checkpoint.replace(self._saver.folder / BEST_EVAL)
                self._best.eval_mean = mean
            except OSError as error:
                self._announce(f"{BEST_EVAL} cannot be written ({error.strerror}); the one before it is kept")
        self._sink.write(
            {
                "time": time.time(),
                "seconds": time.monotonic() - games.begun,
                "agent_steps": games.agent_steps,
                "frames": games.frames,
                "updates": games.updates,
                "eval_episodes": len(results),
                **{f"eval_{name}": figure for name, figure in figures.items()},
                "best_eval_return_mean": self._best.eval_mean,
            }
        )
        self._announce(
            f"evaluation at {games.agent_steps:,} agent steps: mean return {mean:,.2f} "
            f"of {len(results)} games{', the best so far' if is_best else ''}"
        )
        if self._config.test.render:
            self._film(games.agent_steps, results)

    def _film(self, agent_steps: int, results: list[GameResult]) -> None:
        showing = LoggedGame(
            make_environment=self._run.setup.make_environment,
            environment=evaluation_options(self._config.environment),
            seed=self._seed(agent_steps),
            result=sorted(results, key=lambda result: result.return_)[len(results) // 2],
            policy=self._config.test.test_policy,
        )
        self._filming.begin(showing, f"evaluation_{agent_steps:010}", low_priority=True)
