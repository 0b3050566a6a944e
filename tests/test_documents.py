"""The commands, flags, files, links and figures in the documents are correct."""

import ast
import importlib.util
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dashboard.__main__ import DashboardOptions
from option_flags import OPTIONS, Config, LossOptions
from options.command_line import given_flags
from options.process_options import SweepOptions
from options.rules import declared
from replay.unroll_layout import UnrollLayout
from reports import sinks
from reports.game_scores import GameScoreOptions
from reports.plot import PlotOptions
from run_files.run_reader import ARCHIVE, read_histories
from sweeps.plan import KEYS, plan_sweep, read_sweep
from sweeps.search import SEARCH_KEYS, plan_search
from tests.agents.learners import make_batch, make_learner, reported
from tests.catch import make_catch
from tests.options.other_values import OTHER_VALUES
from tests.options.words import parse
from tests.read_metrics import read_metrics
from training.interval import Interval
from training.train import train

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if path.name != "CHANGELOG.md"  # it names what is gone
)
MOST_WORDS = 1000  # of the README, code blocks left out
ALGORITHM = "docs/change_the_algorithm.md"
EXAMPLE = "z_loss_weight"  # the option that its example adds
OTHER_FLAGS = {"help", "flagfile", "extra-index-url", "logdir", "figures", "setting", "games", "seeds"}


def text_of(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


README, METRICS, SWEEPS = text_of("README.md"), text_of("docs/metrics.md"), text_of("docs/sweeps.md")


def commands(document: str, program: str) -> list[str]:
    """What the document tells its reader to type after `python <program>`, on a line of its own or in a sentence."""
    text = text_of(document)
    in_blocks = re.findall(rf"^ *(?:\S.* && )?[\w./]*python {program} (.*)$", text, re.MULTILINE)
    in_sentences = re.findall(rf"`python {program} ([^`\n]*)`", text)
    return in_blocks + in_sentences


def anchors(text: str) -> set[str]:
    """The names of the headings in links to them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_commands_are_understood(document: str) -> None:
    for command in commands(document, r"main\.py"):
        words = [word for word in shlex.split(command) if not word.startswith(f"--{EXAMPLE}=")]
        assert parse(words).run.op_mode in {"train", "train_w_load", "test", "play"}, command


def test_the_documents_have_commands() -> None:
    assert sum(len(commands(document, r"main\.py")) for document in DOCUMENTS) > 10


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_modules_and_the_data_of_commands_exist(document: str) -> None:
    for words in commands(document, "-m"):
        module, *arguments = shlex.split(words)
        assert importlib.util.find_spec(module), module
        for path in (word for word in arguments if word.startswith("docs/data/") and "<" not in word):
            assert (ROOT / path).exists(), path


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if "/lab/" not in name])
def test_every_source_file_that_is_named_exists(document: str) -> None:
    for path in re.findall(r"`([\w/]+/\w+\.py)`", text_of(document)):
        assert (ROOT / path).exists(), path


def test_the_presets_are_understood() -> None:
    presets = sorted((ROOT / "docs" / "presets").glob("*.flags"))
    assert presets
    for preset in presets:
        assert parse([f"--flagfile={preset}"]) != Config()


@pytest.mark.slow
def test_the_sweeps_are_understood() -> None:
    sweeps = sorted((ROOT / "docs" / "sweeps").glob("*.json"))
    assert sweeps
    for sweep in sweeps:
        assert plan_sweep(read_sweep(sweep), {}).name == sweep.stem


@pytest.mark.parametrize(
    ("sweep", "preset", "runs"),
    [
        ("minatar", "minatar", "asterix breakout freeway seaquest spaceinvaders"),
        ("mujoco", "mujoco", "halfcheetah hopper walker2d"),
        ("small_environments", "cartpole", "cartpole"),
        ("small_environments", "lunarlander", "lunarlander"),
    ],
)
def test_the_sweep_of_a_collection_has_the_flags_of_its_preset(sweep: str, preset: str, runs: str) -> None:
    """But for what differs between the environments, and how often a run reports and when it ends."""
    content = json.loads(text_of(f"docs/sweeps/{sweep}.json"))
    own = {"env", "environment_max_steps", "report_period", "stop_at_return"}
    wanted = Config.from_flags(given_flags([f"--flagfile={ROOT}/docs/presets/{preset}.flags"], OPTIONS)).flags()
    for run in runs.split():
        flags = {**content.get("flags", {}), **content["runs"][run]}
        flags["replay_parameters"] = json.dumps(flags["replay_parameters"]) if "replay_parameters" in flags else None
        found = Config.from_flags({name: value for name, value in flags.items() if value is not None}).flags()
        assert {name for name in wanted if found[name] != wanted[name]} <= own
    assert content["seeds"] == [1, 2, 3]


def test_the_options_of_a_run_can_be_written_to_a_file_of_flags(tmp_path: Path) -> None:
    """By the command of docs/resuming.md."""
    (code,) = re.findall(r'^python -c "(import json.*)" > run\.flags$', text_of("docs/resuming.md"), re.MULTILINE)
    config = Config.from_flags({**OTHER_VALUES, "op_mode": "train", "load_model_url": None, "load_weights_only": False})
    options = tmp_path / "results" / "run" / "config.json"
    options.parent.mkdir(parents=True)
    options.write_text(json.dumps({"options": config.flags()}))
    command = [sys.executable, "-c", code.replace("<run>", "run")]
    (tmp_path / "run.flags").write_text(subprocess.check_output(command, cwd=tmp_path, text=True))
    assert parse([f"--flagfile={tmp_path / 'run.flags'}"]) == config


def test_the_first_command_is_the_defaults() -> None:
    assert parse(shlex.split(commands("README.md", r"main\.py")[0])) == Config()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_flag_that_is_named_exists(document: str) -> None:
    programs = declared(SweepOptions, PlotOptions, GameScoreOptions, DashboardOptions)
    known = {*OPTIONS, *(f"no{option}" for option in OPTIONS), *programs, *OTHER_FLAGS}
    for name in re.findall(r"--([\w-]+)", "\n".join(re.findall(r"`(--[^`]+)`", text_of(document)))):
        assert name in known, name


def test_the_lines_of_an_update_are_those_of_the_learner() -> None:
    """As docs/change_the_algorithm.md shows them, step by step."""
    shown = text_of(ALGORITHM).split("## One update")[1].split("## Example")[0]
    blocks = re.findall(r"^```python\n(.*?)^```", shown, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    code = [line.strip() for line in text_of("agents/learner.py").splitlines()]
    batch, forward, correction, terms, step = [[code.index(line) for line in block.splitlines()] for block in blocks]
    for places in (batch + forward + terms, correction, step):  # of `gradients`, `_corrected` and `update`
        assert places == sorted(places)


def test_the_readme_is_short() -> None:
    prose = re.sub(r"^```.*?^```", "", README, flags=re.MULTILINE | re.DOTALL)
    assert len(prose.split()) <= MOST_WORDS


def test_the_map_of_the_readme_has_the_sentence_of_each_folder() -> None:
    sentences = {
        file.parent.name: ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
        for file in ROOT.glob("*/__init__.py")
        if file.parent.name != "tests"
    }
    for folder, sentence in sentences.items():
        assert f"| `{folder}/` | {sentence} |\n" in README, folder


@pytest.mark.slow
def test_the_tables_name_the_files_and_the_fields_of_a_real_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "LAST_DRAWING_SECONDS", 1000)  # a busy machine is slow
    small = {"worker_count": 1, "envs_per_worker": 4, "r_f_steps": 5, "batch_size": 4, "frames_stacked": 1}
    config = Config.from_flags({**small, "environment_max_steps": 400, "results_dir": str(tmp_path), "console": "off"})
    folder = train(config, make_catch)

    files = METRICS.split("| file | what is in it |")[1].split("\n\n")[0]
    named = set(re.findall(r"^\| `([^`]+)`", files, re.MULTILINE))
    named.remove("logs/worker_3.txt")  # only for a process that has printed something
    assert named == {path.name for path in folder.iterdir()}
    written = set(read_metrics(folder / "metrics.jsonl")[-1])
    timing, clock = fields_of("| field of the timing | meaning |"), fields_of("| field of the clock | meaning |")
    interval = Interval(Config(), UnrollLayout(1, 1, frame_shape=(1, 1, 1), action_sizes=(1,)))
    assert timing == set(interval.action_figures())
    assert clock == set(interval.clock_figures())
    of_impact, of_vtrace = (
        reported(make_learner(LossOptions(loss=loss)), make_batch([True])) for loss in ("impact", "vtrace")
    )
    assert fields_of("| field of IMPACT | meaning |") == set(of_impact) - set(of_vtrace)
    written.add("environment")  # only where an environment reports something
    assert fields_of("| field | meaning |") == written


def fields_of(header: str) -> set[str]:
    """The names in the first column of a table of docs/metrics.md."""
    rows = METRICS.split(header)[1].split("\n\n")[0].splitlines()
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.partition(" | ")[0])}


def test_the_sweep_is_understood() -> None:
    """The JSON and the commands of docs/sweeps.md."""
    first, definition, search = (json.loads(block.split("```")[0]) for block in SWEEPS.split("```json\n")[1:])
    assert set(search) == set(SEARCH_KEYS)
    assert plan_search(search, {}).trials == 20
    assert set(definition) == set(KEYS)
    assert len(plan_sweep(first, {}).runs) == 6
    assert len(plan_sweep(definition, {}).runs) == 16
    words, on_cluster = commands("docs/sweeps.md", r"multi_train\.py")
    assert given_flags(shlex.split(words), {**declared(SweepOptions), **OPTIONS}) == {"sweep": f"{first['name']}.json"}
    assert given_flags(shlex.split(on_cluster), {**declared(SweepOptions), **OPTIONS})["cluster"] == "auto"


def test_ci_runs_the_two_lines_of_the_quick_start() -> None:
    patterns = re.findall(r"readme_line '(.*)'", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert len(patterns) == 2
    for pattern in patterns:
        assert len(re.findall(f"^{pattern}$", README, re.MULTILINE)) == 1


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", text_of(document)):
        if "://" in target:
            continue
        path, _, heading = target.partition("#")
        place = (ROOT / document).parent / path if path else ROOT / document
        assert place.exists(), target
        if heading:
            assert heading in anchors(place.read_text(encoding="utf-8")), target


def test_every_picture_of_curves_has_its_data() -> None:
    archives = sorted((ROOT / "docs" / "data").glob(f"*{ARCHIVE}"))
    drawn = {name for document in DOCUMENTS for name in re.findall(rf"docs/data/(\w+){ARCHIVE}", text_of(document))}
    assert {archive.name.removesuffix(ARCHIVE) for archive in archives} == drawn
    for archive in archives:
        for run in read_histories(archive):
            options = {name: value for name, value in run.options.items() if name in OPTIONS}
            assert Config.from_flags({**options, "op_mode": "train"})
            assert "return_mean" in run.last, (archive.name, run.folder)


def test_the_container_has_every_folder() -> None:
    copied = re.findall(r"^COPY (\w+) ", text_of("docs/Dockerfile"), re.MULTILINE)
    assert set(copied) == {file.parent.name for file in ROOT.glob("*/__init__.py")} - {"tests"}


@pytest.mark.parametrize("path", ["requirements.txt", "dashboard/requirements.txt", "tests/requirements.txt"])
def test_all_versions_are_exact(path: str) -> None:
    for line in text_of(path).splitlines():
        assert re.match(r"#|-r |[\w-]+==[\d.]+( |$)", line), line
