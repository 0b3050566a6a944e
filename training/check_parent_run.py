"""Checks that what a resumed run loads from its parent fits the run, before anything is started."""

from collections.abc import Mapping
from typing import Any

from agents.network import ActorCritic
from agents.spaces import check_spaces
from option_flags import Config
from replay.unroll_layout import UnrollLayout
from run_files.checkpoint import Checkpoint, refusing_foreign_content
from run_files.checkpoint_content import check_in_flight, check_optimizer, check_weights
from run_files.value_rules import ContentError, like, whole
from wrappers.environment import MakeEnvironment, environment_spec

# What environments raise for a state that is not theirs; SystemError is that of ALE.
RESTORE_ERRORS = (LookupError, TypeError, ValueError, AttributeError, RuntimeError, SystemError, OverflowError)


def check_saved_learner(parent: Checkpoint, network: ActorCritic, layout: UnrollLayout) -> None:
    """Raise a UsageError if the saved weights or the saved optimizer are not those of the run's network."""
    check_spaces(parent.content, layout)
    with refusing_foreign_content(parent):
        actions = layout.action_count
        whole(actions, actions)(parent.content["action_count"], "action_count")
        check_weights(parent.content, network)
        check_optimizer(parent.content, network)


def check_saved_games(
    parent: Checkpoint,
    in_flight: Mapping[str, Any] | None,
    config: Config,
    make_environment: MakeEnvironment,
    layout: UnrollLayout,
) -> None:
    """Raise a UsageError if the games and unrolls that the run continues with cannot be restored."""
    if in_flight is None:
        return
    with refusing_foreign_content(parent):
        check_in_flight(in_flight, layout, len(in_flight["snapshots"]), config.workers.envs_per_worker)
        environment = make_environment(config.environment, 0)
        if not environment_spec(environment).can_snapshot:
            environment.close()
            return  # its episodes begin anew
        environment.reset()
        expected = like(environment.get_wrapper_attr("snapshot")())
        for worker, snapshot in enumerate(in_flight["snapshots"]):
            for index, seat in enumerate(snapshot["seats"]):
                place = f"in_flight.snapshots[{worker}].seats[{index}].game"
                expected(seat["game"], place)
                try:
                    environment.get_wrapper_attr("restore")(seat["game"])
                except RESTORE_ERRORS as error:
                    raise ContentError(f"{place} cannot be restored ({error!r:.80})") from None
        environment.close()
