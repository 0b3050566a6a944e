"""When each frame of a game in real time is due."""


class FrameClock:
    """Frame k is due k / fps after the start. Deadlines are computed from the start, so there is no drift.

    A frame that is late is played at once, and none is skipped: after a pause, frames follow each other until the games
    have caught up. A frame counts as missed if the next one is due already when it is played.
    """

    def __init__(self, start: float, fps: float) -> None:
        self._start = start
        self._fps = fps
        self.frames = 0  # played so far
        self.missed = 0

    @property
    def due(self) -> float:
        """When the next frame is due."""
        return self._start + self.frames / self._fps

    def play(self, now: float) -> None:
        """Count the next frame, which is played now."""
        self.frames += 1
        self.missed += now >= self.due
