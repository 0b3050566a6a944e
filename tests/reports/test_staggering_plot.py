"""The picture of the staggering rules: what it shows, its file, and messages for wrong input."""

from pathlib import Path

import pytest

from options.rules import UsageError
from reports import staggering_plot
from reports.staggering_plot import main


@pytest.fixture(autouse=True)
def few_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staggering_plot, "PROCESSES", (1, 5, 20))
    monkeypatch.setattr(staggering_plot, "INFERENCES", 12)


def test_the_picture_is_written_and_says_how_many_processes_are_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "rules.png"
    main(["--sigma=0", f"--output={output}"])
    assert output.read_bytes().startswith(b"\x89PNG")
    lines = capsys.readouterr().out.splitlines()
    enough = "act in 99% of the frames with: none more than 20, max 5, mean 5"
    assert lines[0] == f"1M: 83 ms, ⌈mean / frame⌉ = 5; {enough}"
    assert lines[3].endswith("none more than 20, max more than 20, mean more than 20")
    assert lines[-1] == f"{output}: 4 networks, 1 to 20 processes"


def test_a_slower_game_needs_fewer_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--sigma=0", "--fps=12", f"--output={tmp_path / 'rules.svg'}"])
    assert "⌈mean / frame⌉ = 1; act in 99% of the frames with: none 1, max 1, mean 1" in capsys.readouterr().out


def test_processes_that_miss_a_tenth_of_the_frames_are_not_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--sigma=0.3", f"--output={tmp_path / 'rules.png'}"])
    assert capsys.readouterr().out.splitlines()[0].endswith("mean 20")


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("results/run", "takes no words without --, such as results/run"),
        ("--fps=0", "--fps must be a number above 0"),
        ("--sigma=9", "--sigma must be a number between 0 and 3"),
        ("--output=rules.txt", "--output must end in one of"),
        ("--output=/no/such/folder/a.png", r"cannot be written \(No such file or directory\)"),
    ],
)
def test_what_is_wrong_is_named(word: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        main([word])
