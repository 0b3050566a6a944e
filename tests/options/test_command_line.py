"""Command lines and flag files: their values, the error messages for wrong ones, and the help."""

import dataclasses
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from main import main
from option_flags import OPTIONS, TOPICS, Config, defaults_beside
from options.command_line import REPLACED_FLAGS, HelpRequested, flag_words, given_flags
from options.rules import UsageError
from tests.options.other_values import OTHER_VALUES
from tests.options.words import parse, sentence_of

ROOT = Path(__file__).resolve().parents[2]
DEFAULTS = Config().flags()


def as_words(name: str, value: Any) -> list[str]:
    return [f"--{name}={json.dumps(value) if isinstance(value, bool) else value}"]


@pytest.mark.slow
def test_every_option_is_a_flag() -> None:
    for name, value in OTHER_VALUES.items():
        if name in ("op_mode", "load_model_url", "load_weights_only", "c_const"):  # only with another flag
            continue
        expected = {**defaults_beside({"env": DEFAULTS["env"], name: value}), name: value}
        assert parse(as_words(name, value)).flags() == expected
        assert parse(as_words(name.replace("_", "-"), value)).flags() == expected
        if not isinstance(value, bool):
            assert parse([f"--{name}", str(value)]).flags() == expected
    assert parse(["--c_const=2", "--rho_const=2"]).loss.c_const == 2.0
    run = parse(["--op_mode=train_w_load", "--load_model_url", "some run"]).run
    assert (run.op_mode, run.load_model_url) == ("train_w_load", "some run")
    assert parse(["--op_mode=train_w_load", "--load_model_url=run", "--load_weights_only"]).run.load_weights_only


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["--use_lstm"], True),
        (["--use-lstm"], True),
        (["--nouse_lstm"], False),
        (["--no-use-lstm"], False),
        *(([f"--use_lstm={text}"], True) for text in ("true", "True", "1", "yes", "YES")),
        *(([f"--use_lstm={text}"], False) for text in ("false", "False", "0", "no")),
    ],
)
def test_ways_to_write_a_switch(words: list[str], value: bool) -> None:
    assert parse(words, {"use_lstm": not value}).network.use_lstm is value


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e6", 10**6), ("1_000_000", 10**6), ("2.5e3", 2500), ("7.0", 7), (str(10**20 + 1), 10**20 + 1)],
)
def test_ways_to_write_a_whole_number(text: str, value: int) -> None:
    assert parse([f"--save_model_period={text}"]).checkpoint.save_model_period == value


@pytest.mark.parametrize(
    "text", ["1.5", "nan", "inf", "-3", "abc", "", "1e-3", "1e9999999999", "9" * 5000, "0x10", "true"]
)
def test_texts_that_are_not_whole_numbers_are_refused(text: str) -> None:
    assert sentence_of(f"--batch_size={text}").startswith("--batch_size must be a whole number of at least 1, not ")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--batch_size=-3"], "--batch_size must be a whole number of at least 1, not -3."),
        (["--batch_size", "-3"], "--batch_size must be a whole number of at least 1, not -3."),
        (["--trace_lambda=1.5"], "--trace_lambda must be a number between 0 and 1, not 1.5."),
        (["--lr", "nan"], "--lr must be a number above 0 and at most 100, not NaN."),
        (["--lr=-1e-5"], "--lr must be a number above 0 and at most 100, not -1e-05."),
        (["--use_lstm=maybe"], '--use_lstm must be true or false, not "maybe".'),
        (["--c-const=2"], "--rho_const must be at least --c_const, but 1.0 is below 2.0."),
        (["--use_lstm", "True"], '"True" belongs to no flag; a switch is written --name, --noname or --name=True.'),
        (["--lr=1", "--use-lstm", "no"], '"no" belongs to no flag; a switch is written --name, --noname or --name=no.'),
        (["--use_lstm", "--nouse_lstm"], "--use_lstm is given twice; give it once."),
        (["--lr=1", "--lr=1"], "--lr is given twice; give it once."),
        (
            ["--replay_parameters=[type:queue", "--replay_parameters=capacity:1"],
            "--replay_parameters is given twice; give it once, its JSON in single quotes.",
        ),
        (
            ["--avg_buff_size=1e20"],
            "--avg_buff_size must be a whole number between 1 and 1000000, not 100000000000000000000.",
        ),
        (["--lr=1e300"], "--lr must be a number above 0 and at most 100, not 1e+300."),
        (["--nouse_lstm=1"], "--nouse_lstm=1 does not take an argument."),
        (["--seed=1", "--lr"], "Missing value for flag --lr."),
        (
            ["--results_dir", "--use_lstm"],
            '--results_dir must be a path that does not begin with a dash, not "--use_lstm".',
        ),
        (
            ["--load_model_url", "--op-mode=test"],
            '--load_model_url must be a path that does not begin with a dash, not "--op_mode=test".',
        ),
        (["--batchsize=2"], "--batchsize is not a known flag; did you mean --batch_size?"),
        (["--batch=2"], "--batch is not a known flag; did you mean --batch_size?"),
        (["--flag-file=x"], "--flag_file is not a known flag; did you mean --flagfile?"),
        (["--zzzzzz=2", "stray"], "--zzzzzz is not a known flag."),
        (["stray", "--zzzzzz=2"], "--zzzzzz is not a known flag."),
        (["--leraning_rate=1"], "--leraning_rate is not a known flag; did you mean --learning_rate?"),
        (["--learnign_rate=1"], "--learnign_rate is not a known flag; did you mean --learning_rate?"),
        (
            ["--enviroment_max_steps=1"],
            "--enviroment_max_steps is not a known flag; did you mean --environment_max_steps?",
        ),
        (["--lr=1", "--learning_rate=1"], "--lr is given twice; give it once."),
        (
            ["--gpu"],
            "--gpu has no meaning here: --device=cuda, or cuda:1 for the second GPU, chooses it; without it a GPU is "
            "used if there is one.",
        ),
        (
            ["--replay_parameters=[{type:", "queue,", "capacity:", "1}]"],
            '"queue," belongs to no flag; the JSON of --replay_parameters needs single quotes.',
        ),
        (
            ["--frame_scale_resolution=84,513"],
            '--frame_scale_resolution must be "height,width", such as 84,84, both at most 512, or native, not '
            '"84,513".',
        ),
        (["--nolr"], "--nolr is not a known flag; did you mean --lr?"),
        (["--render", "True"], '"True" belongs to no flag; a switch is written --name, --noname or --name=True.'),
        (["--flagfile=a", "--flagfile=b"], "--flagfile is given twice; give it once."),
        (
            ["--multiprocessing_backend=spawn"],
            "--multiprocessing_backend has no meaning here: workers are always spawned processes.",
        ),
        (
            ["--learner_thread_count", "2"],
            "--learner_thread_count has no meaning here: --learner_threads sets the CPU threads of the learner.",
        ),
        (
            ["--console=a\nb\x1b[31m\udcff"],
            '--console must be one of auto, live, plain, off, not "a\\nb\\u001b[31m\\udcff".',
        ),
        (["--a\nb"], "--a\\nb is not a known flag."),
    ],
)
def test_sentences(words: list[str], sentence: str) -> None:
    assert sentence_of(*words) == sentence


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["stray"], "stray"),
        (["--seed=1", "a b"], "a b"),
        (["-"], "-"),
        (["--", "--seed=1"], "--seed=1"),
        (["--use_lstm", "stray"], "stray"),
        (["--use_lstm", "a", "no"], "a"),
        (["--replay_parameters=[]", "x"], "x"),
        ([""], ""),
    ],
)
def test_words_that_belong_to_no_flag_are_refused(words: list[str], shown: str) -> None:
    assert sentence_of(*words) == (
        f'"{shown}" belongs to no flag; every word must be --name=value, --name value or --name.'
    )


def test_a_choice_without_its_flag_is_answered_with_the_flag() -> None:
    assert sentence_of("train") == '"train" belongs to no flag; did you mean --op_mode=train?'
    assert sentence_of("--seed=1", "adam") == '"adam" belongs to no flag; did you mean --optimizer=adam?'


def test_names_of_other_platforms_work() -> None:
    words = ["--learning_rate=1e-4", "--total-timesteps=1e6", "--num_workers", "3", "--track", "--unroll_length=5"]
    expected = {
        **DEFAULTS,
        "lr": 1e-4,
        "environment_max_steps": 10**6,
        "worker_count": 3,
        "wandb": True,
        "r_f_steps": 5,
    }
    assert parse(words).flags() == expected
    assert parse(["--notrack"], {"wandb": True}).report.wandb is False
    assert sentence_of(base={"learning_rate": 1}) == "--learning_rate is not a known flag; did you mean --lr?"


def test_precedence(tmp_path: Path) -> None:
    file = tmp_path / "my.flags"
    file.write_text("--batch_size=3\n--r_f_steps=3\n")
    base = {"batch_size": 2, "r_f_steps": 2, "lstm_size": 2, "use_lstm": True}
    config = parse(["--batch_size=4", f"--flagfile={file}"], base)
    assert (config.replay.batch_size, config.replay.r_f_steps, config.network.lstm_size) == (4, 3, 2)
    assert config.network.use_lstm
    assert parse([f"--flagfile={file}", "--batch_size=4"], base) == config
    assert parse(["--flagfile", str(file), "--batch-size", "4"], base) == config
    assert base == {"batch_size": 2, "r_f_steps": 2, "lstm_size": 2, "use_lstm": True}


def test_options_of_a_checkpoint_are_checked_like_the_command_line() -> None:
    assert sentence_of(base={"batch_sise": 1}) == "--batch_sise is not a known flag; did you mean --batch_size?"
    assert sentence_of(base={"lr": "fast"}) == '--lr must be a number above 0 and at most 100, not "fast".'


def test_flagfile_lines(tmp_path: Path) -> None:
    file = tmp_path / "my.flags"
    parameters = OTHER_VALUES["replay_parameters"]
    file.write_text(
        f"# a comment\n\n  --use-lstm\r\n--noepisodic_life\n--results_dir=a b # no comment\n--lr 1e-4\n"
        f"--replay_parameters={parameters}\n"
    )
    config = parse([f"--flagfile={file}"])
    assert config.flags() == {
        **DEFAULTS,
        "use_lstm": True,
        "episodic_life": False,
        "results_dir": "a b # no comment",
        "lr": 1e-4,
        "replay_parameters": parameters,
    }


def test_a_flagfile_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "my.flags").write_text("\n--seed=3\n  # a comment\n--lr=0.5\n", encoding="utf-8-sig")
    config = parse([f"--flagfile={tmp_path}/my.flags"])
    assert (config.seed, config.optimizer.lr) == (3, 0.5)


def test_a_flagfile_s_value_may_contain_an_equals_sign(tmp_path: Path) -> None:
    file = tmp_path / "my.flags"
    for line in ("--results_dir lr=1e-4", "--results_dir=lr=1e-4"):
        file.write_text(line)
        assert parse([f"--flagfile={file}"]).run.results_dir == "lr=1e-4"


def test_a_tilde_at_the_beginning_of_a_path_is_the_user_s_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "my.flags").write_text("--results_dir=~/runs\n")
    assert parse(["--flagfile=~/my.flags"]).run.results_dir == f"{tmp_path}/runs"
    assert parse(["--op_mode=test", "--load_model_url=~/run"]).run.load_model_url == f"{tmp_path}/run"
    assert parse(["--results_dir=runs~"]).run.results_dir == "runs~"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("--lr=1\n--lr=2", "--lr is given twice; give it once."),
        ("--learning_rate_=1", "--learning_rate_ is not a known flag"),
        ("batch_size=3", '"batch_size=3" belongs to no flag'),
        ("--use_lstm True", '"True" belongs to no flag; a switch is written --name, --noname or --name=True.'),
        ("--lr=1e-4 # slow", '--lr must be a number above 0 and at most 100, not "1e-4 # slow".'),
    ],
)
def test_flagfile_errors_name_the_file(tmp_path: Path, content: str, sentence: str) -> None:
    file = tmp_path / "my.flags"
    file.write_text(content)
    assert sentence_of(f"--flagfile={file}").startswith(f"--flagfile={file}: {sentence}")


def test_a_flagfile_may_name_another_one(tmp_path: Path) -> None:
    (tmp_path / "preset.flags").write_text("--lr=1e-4\n")
    (tmp_path / "my.flags").write_text(f"--flagfile={tmp_path}/preset.flags\n--seed=3\n")
    config = parse([f"--flagfile={tmp_path}/my.flags"])
    assert (config.optimizer.lr, config.run.seed) == (1e-4, 3)


def test_flagfile_that_cannot_be_read(tmp_path: Path) -> None:
    missing, binary = tmp_path / "missing", tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe--lr=1")
    assert sentence_of(f"--flagfile={missing}").startswith(f"--flagfile={missing}: it cannot be read: ")
    assert sentence_of(f"--flagfile={binary}") == f"--flagfile={binary}: it must be a text file in UTF-8."
    assert sentence_of(f"--flagfile={tmp_path}").startswith(f"--flagfile={tmp_path}: it cannot be read: ")
    assert sentence_of("--flagfile=").startswith("--flagfile must be a path")
    assert sentence_of("--flagfile") == "Missing value for flag --flagfile."


def test_a_flagfile_is_read_once() -> None:
    """A flag file may be a pipe, such as a shell's <(...), which can be read only once."""
    reader, writer = os.pipe()
    with open(writer, "w") as file:
        file.write("--env=Pong\n")
    assert parse([f"--flagfile=/dev/fd/{reader}"]).environment.env == "Pong"
    os.close(reader)


# --- Help -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["--help", "-h", "-help", "--helpfull", "--helpshort", "--help=true"])
def test_help_comes_before_unknown_flags(word: str) -> None:
    with pytest.raises(HelpRequested):
        parse(["--no_such_flag", word])


def test_help_as_a_value_is_a_value() -> None:
    assert parse(["--results_dir=help"]).run.results_dir == "help"
    assert parse(["--results_dir", "help"]).run.results_dir == "help"


def test_help_lists_every_flag_once_under_its_topic(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: python main.py")
    listed = {part.partition("\n")[0]: part for part in re.split(r"\n\n(?=[A-Z].*:\n)", text)}
    for topic in TOPICS.values():
        names = re.findall(r"^  --(?:\[no\])?(\w+): ", listed[f"{topic.topic}:"], re.MULTILINE)
        assert names == sorted(item.name for item in dataclasses.fields(topic))
    joined = " ".join(text.split())
    assert "--batch_size: Unrolls in one batch. (default: '4') (a whole number of at least 1)" in joined
    assert "--[no]use_lstm: Add" in joined and "(default: 'false')" in joined
    for item in OPTIONS.values():
        assert item.metadata["help"] in joined


def test_help_on_one_topic(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help=optimizer"]) == 0
    text = capsys.readouterr().out
    assert "--adam_eps" in text and "--batch_size" not in text


@pytest.mark.slow
def test_flags_of_the_earlier_platform_are_answered_with_what_replaces_them() -> None:
    for name in REPLACED_FLAGS:
        sentence = sentence_of(f"--{name}=1")
        assert sentence.startswith(f"--{name} has no meaning here: ")
        for flag in re.findall(r"--(\w+)", sentence.partition(": ")[2]):
            assert flag in OPTIONS


def test_the_word_unset_takes_a_value_back_where_there_may_be_none() -> None:
    saved = {"cluster": "auto", "stop_at_return": 18.0, "seed": 3, "lr": 0.1}
    given = given_flags(["--cluster=unset", "--stop_at_return", "unset", "--lr=0.2"], OPTIONS)
    assert given == {"cluster": None, "stop_at_return": None, "lr": 0.2}
    config = Config.from_flags({**saved, **given})
    assert (config.cluster.cluster, config.run.stop_at_return, config.run.seed) == (None, None, 3)
    assert given_flags(flag_words(given), OPTIONS) == given
    with pytest.raises(UsageError, match=r'^--lr must .*, not "unset"\.$'):
        parse(["--lr=unset"])
