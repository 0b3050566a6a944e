"""Recorded games as unrolls of a run, and pretraining with them.

A recorded game is played once more, so what the agent sees and which rewards it gets follow the options of the run.
"""

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from agents.distributions import distribution_of, masked
from agents.learner import Learner
from agents.training_batch import stack_indices
from evaluation.recorded_games import MINARI, RecordedGame, read_games
from machine.capacity import format_bytes, usable_memory
from options.rules import UsageError, counted
from replay.mix import Batch
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from run_files.checkpoint import PICTURE_FLAGS
from training.minari_games import minari_games
from training.run import Run
from workers.randomness import stream_of
from wrappers.environment import as_observation

# Of a game's options, the first ones must be those of the run, and the second ones are replaced by them. The others,
# such as sticky actions, decide how the game goes on.
SAME = ("env", "env_kwargs", "env_wrapper", "skipped_frames", "full_action_space", "interaction")
OF_THE_RUN = (*PICTURE_FLAGS, "largest_pixel", "action_masks", "reward_clipping_method")
# Of the policy behind recorded actions: of 18 choices, the one that was taken has a probability of 0.985.
LIKELY_LOGIT, NEAR_LOG_DEVIATION = 7.0, math.log(0.1)


def read_demonstrations(run: Run) -> Rows:
    """The unrolls of the games of --demonstrations, `[N, nbytes]`; none if the run does not use them."""
    options, own = run.config.replay, run.config.environment
    parts: list[Rows] = [np.empty((0, run.layout.nbytes), np.uint8)]
    if options.demonstrations is None or not (options.keeps_games or pretrains(run)):
        return parts[0]
    room, needed = usable_memory(), 0
    for name, game, environment in _games(run, options.demonstrations):
        with closing(environment):
            try:
                parts.append(unrolls_of(game, environment, run.layout, run.config.loss.gamma, own.episodic_life))
            except ValueError as error:
                raise UsageError(f"--demonstrations: {name} {error}.") from None
        needed += 2 * parts[-1].nbytes  # twice: they are joined at the end
        if needed > room:
            raise UsageError(
                f"--demonstrations={options.demonstrations} needs more than the {format_bytes(room)} of memory that "
                "are free; fewer games would be right."
            )
    return np.concatenate(parts)


def _games(run: Run, demonstrations: str) -> Iterator[tuple[str, RecordedGame, gymnasium.Env[Any, Any]]]:
    """Each recorded game: its name, the game, and an environment in which it can be played again."""
    own = run.config.environment
    if demonstrations.startswith(MINARI):
        yield from minari_games(demonstrations.removeprefix(MINARI), own, run.layout)
        return
    for name, game in read_games(demonstrations).items():
        for flag in SAME:
            if (recorded := getattr(game.options, flag)) != (now := getattr(own, flag)):
                raise UsageError(f"--demonstrations: {name} has --{flag}={recorded}, and the run --{flag}={now}.")
        played = replace(game.options, **{flag: getattr(own, flag) for flag in OF_THE_RUN})
        yield name, game, run.make_environment(played, 0)


def pretrains(run: Run) -> bool:
    """Whether the run begins with updates by demonstrations alone."""
    options = run.config.replay
    return options.demonstrations is not None and options.pretrain_updates > 0 and run.resume.parent is None


def unrolls_of(
    game: RecordedGame, environment: gymnasium.Env[Any, Any], layout: UnrollLayout, gamma: float, by_lives: bool
) -> Rows:
    """The unrolls of one game `[n, nbytes]`, as a `Rollout` writes them, from a policy that nearly always acts like it.

    After the end of the game, the last unroll goes on with its start. Values are discounted returns; those of a game
    that was left before its end count what came until then. One that a time limit ended is taken to go on with the
    mean reward of its last episode. ValueError as of `play_again`.
    """
    frames, vectors, rewards, dones, is_cut = play_again(game, environment, by_lives)
    actions = game.actions.astype(layout.action_dtype)
    values, bootstraps, following = np.zeros(len(actions), np.float32), np.zeros(len(actions), np.float32), 0.0
    if is_cut and gamma < 1:
        bootstraps[-1] = rewards[np.append(-1, np.flatnonzero(dones[:-1]))[-1] + 1 :].mean() / (1 - gamma)
    for t in reversed(range(len(actions))):
        values[t] = following = rewards[t] + gamma * (bootstraps[t] + following * (1 - dones[t]))
    logits = logits_near(torch.from_numpy(actions), layout)
    if layout.mask_size:
        logits = masked(logits, torch.from_numpy(vectors[:, -layout.mask_size :]))

    rows: Rows = np.zeros((-(-len(actions) // layout.unroll_length), layout.nbytes), np.uint8)
    fields = layout.arrays(rows)
    states = layout.unroll_length * np.arange(len(rows))[:, None] + np.arange(layout.unroll_length + 1)
    states %= len(actions)  # [n, T+1]
    first, starts = states[:, 0], np.roll(dones, 1)  # `starts`: whether a state is the first one of its episode
    if layout.has_pictures:
        stacks = stack_indices(torch.from_numpy(dones)[None], layout.frame_stack)[0, first].numpy()
        older = np.maximum(stacks[:, :-1] - (layout.frame_stack - 1), 0)  # before the first frame, it is repeated
        fields["frames"][:] = frames[np.concatenate([older, states], 1)]
    if layout.vector_length:
        fields["vectors"][:] = vectors[states]
    of_steps = {"behaviour_logits": logits.numpy(), "actions": actions, "values": values, "bootstraps": bootstraps}
    for field, array in {**of_steps, "rewards": rewards, "dones": dones}.items():
        fields[field][:] = array[states[:, :-1]]
    fields["first_reward"][:] = np.where(starts[first], 0.0, rewards[first - 1])
    fields["first_action"][:] = actions[first - 1]
    fields["first_action"][starts[first]] = layout.no_action
    return rows


def logits_near(actions: torch.Tensor, layout: UnrollLayout) -> torch.Tensor:
    """The parameters of a policy that nearly always takes these actions: `[steps, ...]` → `[steps, P]`."""
    choices, numbers = LIKELY_LOGIT * distribution_of(layout).encode(actions), len(layout.number_names)
    if not numbers:
        return choices
    means = actions[:, -numbers:]
    return torch.cat([choices[:, :-numbers], means, torch.full_like(means, NEAR_LOG_DEVIATION)], -1)


def play_again(
    game: RecordedGame, environment: gymnasium.Env[Any, Any], by_lives: bool
) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], bool]:
    """Frames and vectors before each step, its reward, and whether an episode ended in it: `[steps, ...]` each.

    Also whether a time limit ended the game. With `by_lives`, a lost life ends an episode.
    ValueError if it is another game than the one that was recorded.
    """
    take_finished_games = environment.get_wrapper_attr("take_finished_games")
    count_lives = environment.get_wrapper_attr("lives") if by_lives else lambda: 0
    seen, ends, is_cut = as_observation(environment.reset(seed=game.seed)[0]), False, False
    take_finished_games()  # drop a game that ended during the reset
    lives, steps = count_lives(), []
    for action in game.actions.tolist() if game.actions.ndim == 1 else game.actions:
        if not environment.action_space.contains(action):
            raise ValueError(f"has an action that --env={game.options.env} has not: {action!r:.40}")
        frame, vector = seen.frame.copy(), seen.vector
        observation, reward, terminated, truncated, _ = environment.step(action)
        seen, ends, is_cut = as_observation(observation), terminated or truncated, truncated and not terminated
        before, lives = lives, count_lives()
        steps.append((frame, vector, reward, ends or 0 < lives < before))
        if ends:
            break
    found = take_finished_games()[-1].return_ if ends else math.nan
    recorded = math.nan if game.return_ is None else game.return_
    # Not the last digits, as in a film.
    if len(steps) < len(game.actions) or not np.isclose(found, recorded, rtol=1e-6, atol=1e-6, equal_nan=True):
        raise ValueError("is another game when it is played again; the environment must honour the seed of its reset")
    frames, vectors, rewards, dones = map(np.array, zip(*steps, strict=True))
    dones[-1] = True
    return frames, vectors, rewards.astype(np.float32), dones, is_cut


def pretrain(run: Run) -> int:
    """Bring policy and values near those of the demonstrations, by the cloning losses and with a schedule of its own.

    Returns the number of updates, which do not count as those of the run.
    """
    config, unrolls, wanted = run.config, run.demonstrations, run.config.replay.pretrain_updates
    only_cloning: dict[str, Any] = {
        **{"use_policy_cloning_loss": True, "policy_cloning_loss_weight": 1.0},
        **{"use_value_cloning_loss": True, "value_cloning_loss_weight": config.loss.value_loss_weight},
        **{"policy_gradient_loss_weight": 0.0, "value_loss_weight": 0.0},
        **{"entropy_loss_weight": 0.0, "entropy_loss_end_weight": None, "use_kl_mask": False, "loss": "vtrace"},
    }
    loss = replace(config.loss, **only_cloning)
    learner = Learner(run.network, run.layout, loss, config.optimizer, wanted, run.machine.device)
    rng = np.random.default_rng(stream_of("pretraining", config.seed))
    replayed = np.zeros(config.replay.batch_size, np.bool_)
    run.announce(f"pretraining with {counted(len(unrolls), 'unroll')} of recorded games: {wanted:,} updates")
    divergence = torch.tensor(torch.nan)
    while learner.updates < wanted and not run.stop.requested:
        rows = torch.from_numpy(unrolls[rng.integers(len(unrolls), size=len(replayed))])
        divergence = learner.update(Batch(rows, replayed))["policy_cloning_loss"]
    run.announce(f"pretrained by {learner.updates:,} updates: a divergence of {divergence:.3g} from the recorded play")
    if learner.updates < wanted:
        run.announce("pretraining was stopped; a run that is resumed from here goes on without the rest of it")
    return learner.updates
