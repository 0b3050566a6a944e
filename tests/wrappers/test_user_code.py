"""The user's own code fails, changes the current folder, or says what a terminal would obey."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import main
from options.rules import UsageError
from tests.wrappers.hand_written import CATCH, FAULTY, FRAGILE, TITLE, WANDERER, Catch, Fragile, options_of
from wrappers.any_environment.faults import EnvironmentFaultError
from wrappers.environment import FAILED_RESETS
from wrappers.make_environment import check_environment, make_environment


def test_a_mistake_is_whole_after_another_machine_has_sent_it() -> None:
    """Ray pickles it."""
    error = pickle.loads(pickle.dumps(UsageError("--network=a:b fails.", "Traceback\n")))
    assert (str(error), error.details) == ("--network=a:b fails.", "Traceback\n")


@pytest.fixture(autouse=True)
def no_resets_yet() -> None:
    Fragile.resets = 0
    Fragile.seeds.clear()


def fragile(fails: list[int]) -> Any:
    return make_environment(options_of(FRAGILE, env_kwargs=json.dumps({"fails": fails})), seed=5)


def test_a_reset_that_fails_is_tried_again() -> None:
    environment = fragile([1, 2, 5])
    _, info = environment.reset()
    assert Fragile.seeds == [5, 5, 5]
    failure, _ = info[FAILED_RESETS]
    assert failure.startswith("Traceback") and "hand_written.py" in failure and "adapter.py" not in failure
    assert failure.endswith("reset raised ValueError: the server refuses reset 1.")
    assert environment.reset()[1] == {}
    assert len(environment.reset()[1][FAILED_RESETS]) == 1
    assert Fragile.seeds[3:] == [None, None, None]
    assert environment.step(1)[4] == {}


def test_a_reset_that_always_fails_is_a_fault() -> None:
    environment = fragile(list(range(2, 99)))
    environment.reset()
    with pytest.raises(EnvironmentFaultError, match=r"in a reset: .*: the server refuses reset 5\.$"):
        environment.reset()
    assert Fragile.resets == 5


def test_a_constructor_does_not_change_the_current_folder(tmp_path: Path) -> None:
    here = Path.cwd()
    check_environment(options_of(WANDERER, env_kwargs=json.dumps({"folder": str(tmp_path)})))
    assert Path.cwd() == here


def test_a_module_that_changes_the_folder_or_raises_what_a_terminal_obeys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wandering_module.py").write_text(f"import os\nos.chdir('/')\nraise ValueError({TITLE!r})")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as raised:
        check_environment(options_of("wandering_module:X-v0"))
    assert Path.cwd() == tmp_path
    for text in (str(raised.value), raised.value.details):
        assert "\x1b" not in text and "\x07" not in text
    assert r"\x1b]0;owned" in raised.value.details


def test_what_an_environment_says_of_its_fault_is_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = make_environment(options_of(FAULTY, env_kwargs='{"how": "raises", "at": 1}'), seed=0)
    environment.reset()

    def fail(self: Catch, action: int) -> None:
        raise ValueError(f"{TITLE} of two\nlines")

    monkeypatch.setattr("tests.wrappers.hand_written.Faulty.step", fail)
    with pytest.raises(EnvironmentFaultError) as raised:
        environment.step(0)
    assert r"ValueError: \x1b]0;owned\x07 of two\nlines." in str(raised.value)
    assert "\x1b" not in raised.value.report
    assert raised.value.report.count("\n") > 3


def test_the_command_shows_a_constructors_failure_as_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = json.dumps({"lanes": f"{TITLE}"})
    assert main.main([f"--env={CATCH}", f"--env_kwargs={arguments}"]) == 2
    assert "\x1b" not in capsys.readouterr().err
