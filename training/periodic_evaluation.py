"""Evaluations during training: a process at the lowest priority plays test games with the weights of a checkpoint."""

import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from agents.acting import flat_weights, weight_count
from evaluation.logged_game import film_of
from evaluation.parallel_games import GameResult, GameSeries, evaluation_options, slots_for
from evaluation.players import PlayerPool, PlayerProcess, as_trained, player_of
from evaluation.score_statistics import score_figures
from processes.fork_server import start_forked
from processes.pool import ChildPool, WorkersFailedError
from reports.number_format import number
from reports.sinks import GuardedSink
from run_files.checkpoint import BEST_EVAL, checkpoint_name, link
from run_files.metrics import EVALUATIONS, JsonLinesSink
from run_files.run_folder import VIDEOS
from training.checkpoint_saver import CheckpointSaver
from training.run import Run
from training.summary import write_summary
from workers.shared_weights import SharedWeights

WAIT_SECONDS = 0.1
EVALUATED = ".evaluated.pt"  # another name of the checkpoint that is evaluated, which may be deleted meanwhile


@dataclass
class _GamesUnderWay:
    """The games that evaluate one set of weights."""

    checkpoint: Path  # of the policy that plays
    players: PlayerPool
    resources: ExitStack
    agent_steps: int  # of the training when they began
    frames: int
    updates: int
    begun: float = field(default_factory=time.monotonic)
    results: list[GameResult] = field(default_factory=list)
    have_ended: bool = False  # a film of one of them may still be made


class PeriodicEvaluation:
    """Starts an evaluation every `eval_period` agent steps, as soon as the one before it has ended.

    It evaluates a checkpoint written at that moment. A hard link keeps the file until its games have ended, so that
    best_eval.pt is exactly the policy that played. Training does not wait, except in a reproducible run, where
    evaluations must start at the same steps every time; then other learners wait too. With `--render` the median game
    is filmed, and the evaluation ends when the film is complete. A resumed run begins with the evaluation that a stop
    has cut short, with its present weights.
    """

    def __init__(self, run: Run, saver: CheckpointSaver) -> None:
        self._run = run
        self._saver = saver
        evaluations = JsonLinesSink(run.folder / EVALUATIONS)
        self._sink = GuardedSink("evaluations", lambda: evaluations, run.announce, OSError)
        self._periods = run.progress.evaluated_steps // run.config.test.eval_period
        self._games: _GamesUnderWay | None = None

    @property
    def under_way(self) -> bool:
        """Whether games are played or a film is made."""
        return self._games is not None

    def tick(self, timeout: float = 0.0) -> None:
        """Take what the games or the film have come to, after up to `timeout` seconds."""
        games = self._games
        if games is None:
            return
        try:
            games.results += games.players.wait(timeout)
            if not (games.players.under_way or games.have_ended):
                games.have_ended = True
                self._conclude(games)
            if not games.players.under_way:
                self._end_games()
        except WorkersFailedError as error:
            self._run.announce(f"the evaluation at {games.agent_steps:,} agent steps failed: {error}")
            self._end_games()

    def start_if_due(self) -> None:
        """Called after an update."""
        periods = self._run.progress.agent_steps // self._run.config.test.eval_period
        if periods == self._periods or self._run.learner.updates == 0:
            return
        if self._run.config.run.reproducible:
            self._wait(self._run.agreement.keep_alive)
        if not self.under_way:
            self._periods = periods
            self._begin()

    def finish(self) -> None:
        """Wait until all evaluations that are due have ended, or until a signal asks the run to stop."""
        if not self._run.stop.requested and self.under_way:
            self._run.announce("waiting for the evaluation under way; CTRL+C skips it")
        self._wait()
        if not self._run.stop.requested:  # another evaluation may be due, and have waited for this one
            self.start_if_due()
            self._wait()

    def close(self) -> None:
        """Drop the evaluation under way, and free its resources."""
        if self._games is not None and not self._games.have_ended:
            steps = f"{self._games.agent_steps:,} agent steps"
            self._run.announce(f"the evaluation at {steps} is not finished and is dropped")
        self._end_games()
        self._sink.close()

    def _wait(self, goes_on: Callable[[], bool] = lambda: True) -> None:
        while self.under_way and not self._run.stop.requested and goes_on():
            write_summary(self._run, if_due=True)
            self.tick(WAIT_SECONDS)

    def _begin(self) -> None:
        run, updates = self._run, self._run.learner.updates
        if self._saver.saved_updates != updates:
            self._saver.save(with_replays=False)
        if self._saver.saved_updates != updates:
            return  # nothing could be written; the saver has announced it
        with ExitStack() as undo:
            try:
                checkpoint = self._saver.folder / EVALUATED
                undo.callback(checkpoint.unlink, missing_ok=True)
                link(self._saver.folder / checkpoint_name(updates), checkpoint)
                weights = SharedWeights(weight_count(run.learner.network))
                weights.publish(0, flat_weights(run.learner.network))
                games = range(run.config.test.eval_episode_count)
                silence = run.config.workers.worker_timeout
                children = ChildPool(run.announce, silence=silence, start=start_forked)
                players = undo.enter_context(closing(PlayerPool(children, self._player(weights), 1, games)))
            except (OSError, WorkersFailedError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                run.announce(f"no evaluation at {run.progress.agent_steps:,} agent steps: {why}")
                return
            begun_at = run.progress.agent_steps, run.progress.frames, updates
            self._games = _GamesUnderWay(checkpoint, players, undo.pop_all(), *begun_at)

    def _player(self, weights: SharedWeights) -> PlayerProcess:
        run, series = self._run, self._series(self._run.progress.agent_steps)
        realtime = as_trained(run.config.realtime, run.progress.interval.action_ms)
        precision, processes = run.machine.worker_precision, run.machine.inference_processes
        player = player_of(replace(run.config, realtime=realtime), series, run.layout, precision, weights, processes)
        return replace(player, low_priority=True)

    def _series(self, agent_steps: int) -> GameSeries:
        """Different games in each evaluation, so that the best policy is not best at a few starting positions only."""
        config, games = self._run.config, self._run.config.test.eval_episode_count
        return GameSeries(
            make_environment=self._run.make_environment,
            environment=evaluation_options(config.environment),
            seed=(config.seed, agent_steps),
            slots=slots_for(games),
            greedy=config.test.test_policy == "greedy",
            logged=games if config.test.render else 0,
        )

    def _end_games(self) -> None:
        if self._games is not None:
            self._games.resources.close()
            self._games = None

    def _conclude(self, games: _GamesUnderWay) -> None:
        """Keep the checkpoint if it is the best so far, report, and begin the film."""
        run, progress, results = self._run, self._run.progress, sorted(games.results)
        progress.evaluated_steps = games.agent_steps
        figures = score_figures(results, run.config.environment)
        mean = figures["return_mean"]
        is_best = progress.best_eval_mean is None or mean > progress.best_eval_mean
        if is_best:
            try:
                games.checkpoint.replace(self._saver.folder / BEST_EVAL)
                progress.best_eval_mean = mean
            except OSError as error:
                run.announce(f"{BEST_EVAL} cannot be written ({error.strerror}); the one before it is kept")
        self._sink.write(
            {
                "time": time.time(),
                "seconds": time.monotonic() - games.begun,
                "agent_steps": games.agent_steps,
                "frames": games.frames,
                "updates": games.updates,
                "eval_episodes": len(results),
                **{f"eval_{name}": figure for name, figure in figures.items()},
                "best_eval_return_mean": progress.best_eval_mean,
            }
        )
        run.announce(
            f"evaluation at {games.agent_steps:,} agent steps: mean return {number(mean)} "
            f"of {len(results)} games{', the best so far' if is_best else ''}"
        )
        if run.config.test.render:
            median = sorted(results, key=lambda result: result.return_)[len(results) // 2]
            series, name = self._series(games.agent_steps), f"evaluation_{games.agent_steps:010}"
            games.players.film(median.game, film_of(series, median, run.folder / VIDEOS, name))
