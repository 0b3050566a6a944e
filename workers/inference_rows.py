"""What workers ask of the inference server, and what it answers, in memory that they see together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from replay.row_layout import Declared, RowLayout, Rows
from replay.unroll_layout import UnrollLayout
from workers.observations import observation_shape
from workers.shared_block import SharedBlock


@dataclass(frozen=True)
class QuestionLayout(RowLayout):
    """All that a decision for one environment depends on."""

    layout: UnrollLayout

    @property
    def declared(self) -> Sequence[Declared]:
        return [
            ("observation", observation_shape(self.layout), "uint8"),
            ("uniform", (), "float64"),
            ("lstm_state", (2, self.layout.lstm_size), "float32"),
            ("previous_action", (), "int32"),
            ("previous_reward", (), "float32"),
        ]


@dataclass(frozen=True)
class AnswerLayout(RowLayout):
    """One decision."""

    layout: UnrollLayout

    @property
    def declared(self) -> Sequence[Declared]:
        return [
            ("action", (), "int64"),
            ("logits", (self.layout.action_count,), "float32"),
            ("value", (), "float32"),
            ("features", (self.layout.feature_size,), "float16"),
            ("lstm_state", (2, self.layout.lstm_size), "float32"),
        ]


class InferenceMemory:
    """Shared rows `[worker, environment + 1, nbytes]` of questions and of answers.

    A worker's environments are in two groups, so that it can step one of them while the other waits; a single
    environment is one group. The row behind them is a group, too, for the value of a state that a time limit cut off.
    A group belongs to its worker until that has asked, then to the server until it has answered.
    """

    def __init__(self, layout: UnrollLayout, workers: int, environments: int) -> None:
        self.layout = layout
        self.workers = workers
        self.environments = environments
        rows = workers * (environments + 1)
        self._blocks = [SharedBlock(rows * layout.nbytes) for layout in (QuestionLayout(layout), AnswerLayout(layout))]
        self._open()

    def _open(self) -> None:
        self.question_layout, self.answer_layout = QuestionLayout(self.layout), AnswerLayout(self.layout)
        self.questions: Rows
        self.answers: Rows
        self.questions, self.answers = (
            block.bytes.reshape(self.workers, self.environments + 1, -1) for block in self._blocks
        )

    @property
    def groups(self) -> tuple[slice, ...]:
        """The groups of environments, and the row for a state that was cut off as the last one."""
        count, half = self.environments, (self.environments + 1) // 2
        halves = (slice(0, half), slice(half, count)) if count > 1 else (slice(0, 1),)
        return (*halves, slice(count, count + 1))

    @property
    def most_rows_at_once(self) -> int:
        """Questions in one batch, which has one group of each worker."""
        return self.workers * max(1, (self.environments + 1) // 2)

    def close(self) -> None:
        for block in self._blocks:
            block.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"shape": (self.layout, self.workers, self.environments), "blocks": self._blocks}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.layout, self.workers, self.environments = state["shape"]
        self._blocks = state["blocks"]
        self._open()
