"""A worker's side of --inference=learner: it asks the inference server and goes on stepping other environments."""

from collections.abc import Sequence
from multiprocessing.connection import Connection

import numpy as np
import torch
from numpy.typing import NDArray

from agents.acting import ActorState, Decision
from workers.inference_rows import InferenceMemory
from workers.local_policy import Questions
from workers.messages import receive_answer, send_question
from workers.observations import put_stack


class RemoteDecider:
    """Asks through a pipe of this process's own, so that no answer can be meant for one that held its place before."""

    def __init__(self, memory: InferenceMemory, worker: int, server: Connection) -> None:
        *self._halves, self._cut_off = memory.groups
        self.groups: Sequence[slice] = self._halves
        self._server = server
        rows = memory.questions[worker]
        rows[:] = 0
        asked = memory.question_layout.arrays(rows)
        state = ActorState(
            *(torch.from_numpy(asked[name]) for name in ("lstm_state", "previous_action", "previous_reward"))
        )
        for e in range(memory.environments):
            state.restart(e)
        self._rows = Questions(asked["observation"], state, torch.from_numpy(asked["uniform"]))
        self.questions = self._rows.select(slice(0, memory.environments))
        answered = memory.answer_layout.arrays(memory.answers[worker])
        names = ("action", "logits", "value", "features", "lstm_state")
        of_all = [torch.from_numpy(answered[name]) for name in names]
        self._decisions = [Decision(*(tensor[rows] for tensor in of_all)) for rows in memory.groups]
        self._arrived: dict[int, int] = {}  # group → weight version of an answer that was not wanted yet

    def refresh(self) -> None:
        """Nothing: the server has the newest weights whenever it decides."""

    def ask(self, group: int) -> None:
        send_question(self._server, group)

    def answer(self, group: int) -> tuple[Decision, int]:
        while group not in self._arrived:
            answered, weight_version = receive_answer(self._server)
            self._arrived[answered] = weight_version
        return self._decisions[group], self._arrived.pop(group)

    def value_of(self, environment: int, observation: NDArray[np.uint8]) -> float:
        own, place = self.questions.select(slice(environment, environment + 1)), self._rows.select(self._cut_off)
        put_stack(place.observations[0], observation)
        for name, value in vars(own.state).items():
            getattr(place.state, name)[:] = value
        group = len(self._halves)
        self.ask(group)
        return float(self.answer(group)[0].values)
