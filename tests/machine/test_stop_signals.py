"""One signal, two at once, a second one later, and a closed terminal under nohup."""

import signal
import time
from collections.abc import Iterator

import pytest

from machine.stop_signals import SAME_SIGNAL_SECONDS, STOP_SIGNALS, StopSignals


@pytest.fixture(autouse=True)
def not_under_nohup() -> Iterator[None]:
    """Also if the tests were started under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_second_signal_counts_if_it_comes_later(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    before = signal.getsignal(number)
    with StopSignals() as stop:
        assert (stop.requested, stop.stop_now) == (False, False)
        for now, stop_now in ((100.0, False), (100.0 + SAME_SIGNAL_SECONDS, False), (102.0, True)):  # noqa: B007
            signal.raise_signal(number)
            assert (stop.requested, stop.stop_now) == (True, stop_now)
    assert signal.getsignal(number) == before


def test_a_stop_that_another_machine_asks_for_counts_like_a_signal() -> None:
    with StopSignals() as stop:
        stop.request()
        signal.raise_signal(signal.SIGHUP)
        assert (stop.requested, stop.stop_now) == (True, False)


def test_a_signal_to_save_does_not_stop_the_run() -> None:
    with StopSignals() as stop:
        signal.raise_signal(signal.SIGUSR1)
        assert (stop.requested, stop.stop_now, stop.save_now) == (False, False, True)


def test_under_nohup_a_closed_terminal_does_not_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop.requested
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
