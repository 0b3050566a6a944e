"""What a live game sends to the page."""

from typing import NamedTuple


class LivePicture(NamedTuple):
    """What the page shows of one moment. Pictures are PNG files."""

    screen: bytes
    seen: bytes  # the newest frame of the observation
    stack: bytes  # all frames of the observation side by side, the oldest first
    salient: bytes | None  # with an alpha channel, to lay over `seen`
    actions: tuple[str, ...]  # the names of the bars: one for each choice, or for each real-valued action
    probabilities: tuple[float, ...]  # from 0 to 1; for real-valued actions, where they are within their bounds
    chosen: tuple[int, ...]  # the bars of the action
    values: tuple[tuple[float, float], ...]  # seconds of play and value estimate, since the picture before
    score: float
    steps: int  # of this game
    scores: tuple[float, ...]  # of the finished games, the newest last
    checkpoint: str
    agent_steps: int  # of the checkpoint
    note: str  # why a newer checkpoint is not played, or empty
