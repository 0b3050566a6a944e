"""Signals, as they come: one by one, twice at once, and not at all under nohup."""

import signal
import time
from collections.abc import Iterator

import pytest

from machine.stop_signals import ONE_WISH_SECONDS, STOP_SIGNALS, StopSignals


@pytest.fixture(autouse=True)
def not_under_nohup() -> Iterator[None]:
    """However the tests themselves were started."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_second_signal_hurries_but_not_at_once(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    before = signal.getsignal(number)
    with StopSignals() as stop:
        assert (stop.requested, stop.hurried) == (False, False)
        for now, hurried in ((100.0, False), (100.0 + ONE_WISH_SECONDS, False), (102.0, True)):  # noqa: B007
            signal.raise_signal(number)
            assert (stop.requested, stop.hurried) == (True, hurried)
    assert signal.getsignal(number) == before


def test_a_wish_to_save_stops_nothing() -> None:
    with StopSignals() as stop:
        signal.raise_signal(signal.SIGUSR1)
        assert (stop.requested, stop.hurried, stop.save_now) == (False, False, True)


def test_under_nohup_a_closed_terminal_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop.requested
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
