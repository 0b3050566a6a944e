"""Test games during training: one process at the lowest priority plays them with the weights of a checkpoint."""

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import torch

from agents.learner import Learner
from agents.network import flat_weights, weight_count
from evaluation.film_processes import FilmProcesses
from evaluation.logged_game import LoggedGame
from evaluation.parallel_games import GameResult, evaluation_options
from evaluation.player_pool import PlayerPool
from evaluation.player_process import PlayerProcess
from evaluation.score_statistics import score_figures
from machine.stop_signals import StopSignals
from option_flags import Config
from replay.unroll_layout import UnrollLayout
from reports.sinks import OutageProofSink
from run_files.checkpoint import BEST_EVAL, checkpoint_name, link
from run_files.metrics import JsonLinesSink
from run_files.run_folder import VIDEOS
from training.checkpoint_saver import Saver
from training.progress import Progress
from workers.failures import WorkersFailedError
from workers.shared_weights import SharedWeights
from wrappers.environment_types import MakeWatchedEnvironment

UNDER_EVALUATION = "under_evaluation.pt"
WAIT_SECONDS = 0.1


class Evaluator:
    """Evaluates nothing: for a run without --eval_period."""

    def tick(self) -> None:
        """Called in every turn of the training loop."""

    def finish(self) -> None:
        """Wait until all evaluations that are due are over, or until a signal comes."""

    def close(self) -> None:
        """Give up all that is under way."""


@dataclass
class _Evaluation:
    """One set of weights, and the games that it is judged by."""

    players: PlayerPool
    weights: SharedWeights
    agent_steps: int
    frames: int
    updates: int
    begun: float = field(default_factory=time.monotonic)
    results: list[GameResult] = field(default_factory=list)


class PeriodicEvaluator(Evaluator):
    """Begins an evaluation whenever another `eval_period` agent steps are over, and the one before it is.

    What is evaluated is a checkpoint written at that moment, held by a name of its own until its games are over, so
    that the best one kept is the very one that played. Training does not wait, but for a reproducible run, in which
    evaluations must begin at steps that depend on nothing else. With `--render` there is a film of the median game,
    and the evaluation over when it is made.
    """

    def __init__(
        self,
        config: Config,
        make_environment: MakeWatchedEnvironment,
        layout: UnrollLayout,
        compute_dtype: torch.dtype,
        learner: Learner,
        progress: Progress,
        saver: Saver,
        stop: StopSignals,
        folder: Path,
        announce: Callable[[str], None],
    ) -> None:
        self._config = config
        self._make_environment = make_environment
        self._layout = layout
        self._compute_dtype = compute_dtype
        self._learner = learner
        self._progress = progress
        self._saver = saver
        self._stop = stop
        self._sink = OutageProofSink(JsonLinesSink(folder / "evaluations.jsonl"), "evaluations", announce)
        self._announce = announce
        self._filming = FilmProcesses(folder / VIDEOS, announce)
        self._periods = self._periods_over
        self._evaluation: _Evaluation | None = None

    def tick(self) -> None:
        self._listen(0.0)
        self._wait_for_film(0.0)
        if self._periods_over == self._periods or self._learner.updates == 0:
            return
        if self._config.run.reproducible:
            self._wait()
        if self._evaluation is None and not self._filming.under_way:
            self._periods = self._periods_over
            self._begin()

    def finish(self) -> None:
        if not self._stop.requested and (self._evaluation is not None or self._filming.under_way):
            self._announce("waiting for the evaluation under way; CTRL+C leaves it out")
        self._wait()
        if not self._stop.requested:  # the one that had to wait for it
            self.tick()
            self._wait()

    def _wait(self) -> None:
        while self._evaluation is not None and not self._stop.requested:
            self._listen(WAIT_SECONDS)
        while self._filming.under_way and not self._stop.requested:
            self._wait_for_film(WAIT_SECONDS)

    def _give_up_games(self) -> None:
        if self._evaluation is not None:
            self._evaluation.players.close()
            self._evaluation.weights.close()
            self._evaluation = None
            self._forget_checkpoint()

    def close(self) -> None:
        if self._evaluation is not None:
            self._announce(f"the evaluation at {self._evaluation.agent_steps:,} agent steps is left out")
        self._give_up_games()
        self._filming.close()
        self._sink.close()

    def _wait_for_film(self, timeout: float) -> None:
        try:
            self._filming.wait(timeout)
        except WorkersFailedError as error:
            self._announce(str(error))

    @property
    def _periods_over(self) -> int:
        return self._progress.agent_steps // self._config.test.eval_period

    def _seed(self, agent_steps: int) -> tuple[int, ...]:
        """Other games each time: the best must not be the best at a few starts only."""
        assert self._config.run.seed is not None
        return self._config.run.seed, agent_steps

    @property
    def _checkpoint(self) -> Path:
        return self._saver.folder / UNDER_EVALUATION

    def _forget_checkpoint(self) -> None:
        with suppress(OSError):  # of a file system that has become read-only, say
            self._checkpoint.unlink(missing_ok=True)

    def _begin(self) -> None:
        updates = self._learner.updates
        if self._saver.saved_updates != updates:
            self._saver.save(with_replays=False)
        if self._saver.saved_updates != updates:
            return  # nothing could be written, and the saver has said so
        with ExitStack() as undo:
            undo.callback(self._forget_checkpoint)
            try:
                link(self._saver.folder / checkpoint_name(updates), self._checkpoint)
                weights = SharedWeights(weight_count(self._learner.network))
                undo.callback(weights.close)
                self._evaluation = self._start(weights, updates)
            except (OSError, WorkersFailedError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                self._announce(f"no evaluation at {self._progress.agent_steps:,} agent steps: {why}")
            else:
                undo.pop_all()

    def _start(self, weights: SharedWeights, updates: int) -> _Evaluation:
        weights.publish(0, flat_weights(self._learner.network))
        games, agent_steps = self._config.test.eval_episode_count, self._progress.agent_steps
        player = PlayerProcess(
            make_environment=self._make_environment,
            environment=evaluation_options(self._config.environment),
            network=self._config.network,
            layout=self._layout,
            compute_dtype=self._compute_dtype,
            weights=weights,
            seed=self._seed(agent_steps),
            greedy=self._config.test.test_policy == "greedy",
            logged=games if self._config.test.render else 0,
            low_priority=True,
        )
        players = PlayerPool(player, 1, range(games))
        return _Evaluation(players, weights, agent_steps, self._progress.frames, updates)

    def _listen(self, timeout: float) -> None:
        evaluation = self._evaluation
        if evaluation is None:
            return
        try:
            evaluation.results += evaluation.players.wait(timeout)
        except WorkersFailedError as error:
            self._give_up_games()
            self._announce(f"the evaluation at {evaluation.agent_steps:,} agent steps is given up: {error}")
            return
        if not evaluation.players.at_work:
            self._conclude(evaluation)
            self._give_up_games()

    def _conclude(self, evaluation: _Evaluation) -> None:
        """Keep the checkpoint if it is the best so far, and report."""
        results = sorted(evaluation.results)
        figures = score_figures(results, self._config.environment.env)
        mean = figures["return_mean"]
        best_before = self._progress.best_eval_mean
        is_best = best_before is None or mean > best_before
        if is_best:
            try:
                self._checkpoint.replace(self._saver.folder / BEST_EVAL)
                self._progress.best_eval_mean = mean
            except OSError as error:
                self._announce(f"{BEST_EVAL} cannot be written ({error.strerror}); the one before it stays")
        self._sink.write(
            {
                "time": time.time(),
                "seconds": time.monotonic() - evaluation.begun,
                "agent_steps": evaluation.agent_steps,
                "frames": evaluation.frames,
                "updates": evaluation.updates,
                "eval_episodes": len(results),
                **{f"eval_{name}": figure for name, figure in figures.items()},
                "best_eval_return_mean": self._progress.best_eval_mean,
            }
        )
        self._announce(
            f"evaluation at {evaluation.agent_steps:,} agent steps: mean return {mean:,.2f} "
            f"of {len(results)} games{', the best so far' if is_best else ''}"
        )
        if self._config.test.render:
            self._film(evaluation.agent_steps, results)

    def _film(self, agent_steps: int, results: list[GameResult]) -> None:
        showing = LoggedGame(
            make_environment=self._make_environment,
            environment=evaluation_options(self._config.environment),
            seed=self._seed(agent_steps),
            result=sorted(results, key=lambda result: result.return_)[len(results) // 2],
            policy=self._config.test.test_policy,
        )
        self._filming.begin(showing, f"evaluation_{agent_steps:010}", low_priority=True)
