"""What the documentation says of commands, flags, files and figures is so."""

import json
import re
import shlex
from pathlib import Path

import pytest

from multi_train import SWEEP, SweepOptions
from option_flags import OPTIONS, Config
from options.command_line import given_flags
from options.rules import declared
from reports import curves_sink
from run_files.metrics import read_metrics
from sweeps.plan import KEYS, plan_sweep, read_sweep
from tests.catch import make_catch
from tests.options.words import parse
from training.train import train

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/design.md",
    "docs/export.md",
    "docs/learning.md",
    "docs/options.md",
    "docs/performance.md",
    "docs/replays.md",
    "docs/watching.md",
)


def commands(document: str) -> list[str]:
    """What the document tells its reader to type after `python main.py`; each command stands on a line of its own."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(r"^ *(?:\S.* && \S*)?python main\.py (.*)$", text, re.MULTILINE)


@pytest.mark.parametrize(("document", "least"), [("README.md", 4), ("CONTRIBUTING.md", 1)])
def test_the_commands_are_understood(document: str, least: int) -> None:
    found = commands(document)
    assert len(found) >= least
    for command in found:
        assert parse(shlex.split(command)).run.op_mode in {"train", "train_w_load", "test"}


def test_the_presets_are_understood() -> None:
    presets = sorted((ROOT / "docs" / "presets").glob("*.flags"))
    assert presets
    for preset in presets:
        assert parse([f"--flagfile={preset}"]) != Config()


def test_the_sweeps_are_understood() -> None:
    sweeps = sorted((ROOT / "docs" / "sweeps").glob("*.json"))
    assert sweeps
    for sweep in sweeps:
        assert plan_sweep(read_sweep(str(sweep)), {}).name == sweep.stem


def test_the_first_command_is_the_defaults() -> None:
    assert parse(shlex.split(commands("README.md")[0])) == Config()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_flag_that_is_named_exists(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    for name in re.findall(r"--([\w-]+)", "\n".join(re.findall(r"`(--[^`]+)`", text))):
        others = {
            *declared(SweepOptions),
            "help",
            "flagfile",
            "extra-index-url",
            "x",
            "metric",
            "smooth",
            "output",
            "logdir",
        }
        assert name in {*OPTIONS, *(f"no{option}" for option in OPTIONS), *others}, name


def test_the_tables_name_the_files_and_the_fields_of_a_real_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curves_sink, "LAST_DRAWING_SECONDS", 60)
    small = {"worker_count": 1, "envs_per_worker": 4, "r_f_steps": 5, "batch_size": 4, "frames_stacked": 1}
    config = Config.from_flags({**small, "environment_max_steps": 100, "results_dir": str(tmp_path), "console": "off"})
    folder = train(config, make_catch)

    files = README.split("| file | what is in it |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `([^`]+)`", files, re.MULTILINE)) == {path.name for path in folder.iterdir()}
    rows = README.split("| field | meaning |")[1].split("\n\n")[0].splitlines()
    fields = {name for row in rows for name in re.findall(r"`(\w+)`", row.partition(" | ")[0])}
    assert fields == set(read_metrics(folder / "metrics.jsonl")[-1])


def test_the_sweep_is_understood() -> None:
    """The JSON and the command of the README."""
    definition = json.loads(README.split("```json\n")[1].split("```")[0])
    assert set(definition) == set(KEYS)
    assert len(plan_sweep(definition, {}).runs) == 16
    (words,) = re.findall(r"^python multi_train\.py (.*)$", README, re.MULTILINE)
    assert len(plan_sweep(SWEEP, given_flags(shlex.split(words), OPTIONS)).runs) == 8


def test_ci_runs_the_two_lines_of_the_quick_start() -> None:
    patterns = re.findall(r"readme_line '(.*)'", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert len(patterns) == 2
    for pattern in patterns:
        assert len(re.findall(f"^{pattern}$", README, re.MULTILINE)) == 1


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    here = ROOT / document
    for target in re.findall(r"\]\(([^)]+)\)", here.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        path, _, heading = target.partition("#")
        place = here.parent / path if path else here
        assert place.exists(), target
        if heading:
            lines = place.read_text(encoding="utf-8").splitlines()
            assert heading in {line.lstrip("# ").lower().replace(" ", "-") for line in lines if line[:1] == "#"}, target


@pytest.mark.parametrize("path", ["requirements.txt", "tests/requirements.txt"])
def test_all_versions_are_exact(path: str) -> None:
    for line in (ROOT / path).read_text(encoding="utf-8").splitlines():
        assert re.match(r"#|-r |[\w-]+==[\d.]+( |$)", line), line
