"""The start of a new run from the weights of another one (--load_weights_only)."""

from typing import Any

from agents.learner import Learner
from agents.network import ActorCritic
from agents.spaces import check_observations
from agents.torsos.own_torso import note_on_source
from replay.unroll_layout import UnrollLayout
from run_files.checkpoint import Checkpoint, refusing_foreign_content


class InitialWeights:
    """Loads the weights of `source` into the network of a new run of the game `env`; does nothing without a source.

    If the games differ in their number of actions, the policy head keeps its fresh weights.
    """

    def __init__(self, source: Checkpoint | None, network: ActorCritic, layout: UnrollLayout, env: str) -> None:
        self._source = source
        self._env = env
        self._notes: list[str] = []
        if source is None:
            return
        self._notes.append(
            f"weights from {source.path}, after {source.agent_steps:,} agent steps of {source.options['env']}; "
            "everything else begins anew"
        )
        self._notes += note_on_source(source.content)
        with refusing_foreign_content(source):
            check_observations(source.content, layout)
            state = source.content["learner"]["network"]
            adapted = network.adapted(state)
            network.load_saved(adapted)
            actions = len(state["policy_head.bias"])
        if adapted is not state:
            self._notes.append(
                f"the policy head is new: {network.policy_head.out_features} actions instead of {actions}"
            )

    def notes(self) -> list[str]:
        """Lines for the user: where the weights come from, and which of them are new."""
        return self._notes

    def described(self) -> dict[str, Any] | None:
        """The entry in config.json."""
        if self._source is None:
            return None
        path, run = self._source.path.absolute(), self._source.run_folder.absolute()
        counters = {"agent_steps": self._source.agent_steps, "updates": self._source.updates}
        return {"run": str(run), "checkpoint": str(path), "env": self._source.options["env"], **counters}

    def restore_background(self, learner: Learner) -> None:
        """Keep the background in the same game, where the weights fit it. In another game it is measured anew."""
        if self._source is not None and self._source.options["env"] == self._env:
            learner.keep_background(self._source.updates)
