"""Gymnasium's check of an environment: its complaints as sentences, whatever the environment does meanwhile."""

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.processes import wait_until_gone
from tests.wrappers.hand_written import CATCH, FAULTY, NAMELESS_SIGNAL, UNSEEDED, WITH_PROGRAM, options_of
from wrappers.any_environment.gymnasium_check import check, complaints

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow


def test_a_right_environment_has_no_complaints(capfd: pytest.CaptureFixture[str]) -> None:
    assert complaints(options_of("CartPole-v1")) == []
    assert complaints(options_of("PongNoFrameskip-v4")) == []
    assert capfd.readouterr() == ("", "")


def test_each_complaint_is_a_sentence() -> None:
    assert not list(check(options_of(CATCH)))
    found = list(check(options_of(UNSEEDED)))
    assert any("seed" in sentence for sentence in found)
    assert all(sentence.endswith(".") and "\n" not in sentence and "\x1b" not in sentence for sentence in found)


def test_what_an_environment_raises_is_a_complaint() -> None:
    (sentence,) = complaints(options_of(FAULTY, env_kwargs='{"how": "raises", "at": 1}'))
    raised = "the environment raised ValueError: nothing works after 1 steps"
    assert sentence == f"Gymnasium's check of {FAULTY}: {raised}."


def test_an_environment_that_ends_its_process_is_a_complaint() -> None:
    (sentence,) = complaints(options_of(FAULTY, env_kwargs='{"how": "exits", "at": 1}'))
    assert sentence == f"Gymnasium's check of {FAULTY}: the environment raised SystemExit: 0."


def test_an_environment_that_hangs_is_a_complaint() -> None:
    found = complaints(options_of(FAULTY, env_kwargs='{"how": "computes", "at": 1}'), seconds=8)
    assert found == [f"Gymnasium's check of {FAULTY} was ended after 8 seconds: reset, step or close may hang."]


def test_a_program_of_the_environment_ends_with_the_check(tmp_path: Path) -> None:
    """Also if the environment does not end it; nothing waits for it."""
    mark = tmp_path / "mark"
    arguments = json.dumps({"mark": str(mark), "closes": False})
    assert complaints(options_of(WITH_PROGRAM, env_kwargs=arguments)) == []
    wait_until_gone(int(mark.read_text()))


def test_the_check_ends_with_the_program_that_started_it() -> None:
    """CTRL+C does not reach its group, and the program may exit at once."""
    options = f"options_of({FAULTY!r}, env_kwargs='{json.dumps({'how': 'computes', 'at': 1})}')"
    code = "from wrappers.any_environment.gymnasium_check import complaints\n"
    code += f"from tests.wrappers.hand_written import options_of\ncomplaints({options}, seconds=1000)"
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) as program:
        while not (checks := psutil.Process(program.pid).children()):
            assert program.poll() is None
            time.sleep(0.01)
        program.kill()
    wait_until_gone(*(check.pid for check in checks))


def test_the_environment_is_closed(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    assert not list(check(options_of(WITH_PROGRAM, env_kwargs=json.dumps({"mark": str(mark)}))))
    wait_until_gone(int(mark.read_text()))


def test_a_signal_without_a_name_has_its_number() -> None:
    arguments = json.dumps({"how": "is killed", "at": 1})
    (sentence,) = complaints(options_of(FAULTY, env_kwargs=arguments))
    assert sentence.startswith(f"Gymnasium's check of {FAULTY} ended with signal {NAMELESS_SIGNAL}: ")


def test_a_file_named_like_a_package_of_ours_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "options.py").write_text("raise RuntimeError")
    monkeypatch.chdir(tmp_path)
    assert complaints(options_of("CartPole-v1")) == []
