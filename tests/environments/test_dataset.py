import asyncio
import json
import logging
import math
import os
import random

import pyarrow
import pytest
from pyarrow import parquet

from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, GameError, UnknownNameError
from sparring.core.records import ChatMessage
from sparring.core.rng import Stream
from sparring.environments.catalogue import another_bank, make_game
from sparring.measure.initial_states import SeenInitialStates, measured_starts
from sparring.testing import check_environment

ROWS = [{"prompt": f"What is {n} + {n}?", "answer": str(2 * n), "level": n % 3} for n in range(60)]
FUNCTIONS = """
import asyncio

SLOT = "reward_functions"
PLUGINS = ("changes", "once", "long", "slow", "fails_later", "broken", "wrong_length", "nothing", "number", "text", "nan", "ids", "levels", "seen")
calls = []

def changes(prompts, completions, answer, **columns):
    answer[0] += "!"
    prompts[0] += "!"
    return [float(len(answer[0]))]

def once(completions, **columns):
    calls.append(completions)
    if len(calls) > 1:
        raise ConnectionError("server busy")
    return [0.5]

def long(prompts, completions, **columns):
    return [float(len(text)) for text in completions]

async def fails_later(completions, **columns):
    await asyncio.sleep(0)
    raise ValueError("later")

async def slow(completions, answer, **columns):
    await asyncio.sleep(0)
    return [1.0 if text == right else 0.0 for text, right in zip(completions, answer)]

def broken(completions, **columns):
    raise ValueError("no reward")

def wrong_length(completions, **columns):
    return [1.0, 2.0]

def nothing(completions, **columns):
    return [None]

def number(completions, **columns):
    return 1.0

def text(completions, **columns):
    return ["0.25"]

def nan(completions, **columns):
    return [float("nan")]

def ids(completions, completion_ids):
    return [0.0]

def levels(prompts, completions, level, **columns):
    return [float(level[0])]

def seen(**arguments):
    calls.append(arguments)
    return [0.0]
"""


@pytest.fixture
def rows_file(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def functions(tmp_path, monkeypatch):
    (tmp_path / "my_rewards.py").write_text(FUNCTIONS, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))


def written(tmp_path, rows, name="other.jsonl"):
    path = tmp_path / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def dataset(path, **options):
    return make_game("dataset", options={"data": str(path), **options})


def play_of(game, prompt=None):
    """Return a play, of a certain row if a prompt is given."""
    number = next((n for n, row in enumerate(game.rows) if row.prompt == prompt), 0)
    play = game.reset(Stream.from_seed(0))
    play.seed = number
    play.begin()
    return play


def reward(game, reply):
    play = play_of(game)
    play.step({0: reply})
    return play.returns[0]


def test_a_dataset_keeps_the_contract_of_environments(rows_file):
    check_environment(registry.bind("environments", "dataset", {"data": str(rows_file)}), plays=5)


def test_an_exact_answer_earns_one_whatever_case_and_space(rows_file):
    game = dataset(rows_file)
    play = play_of(game, "What is 3 + 3?")
    assert play.observe(0).prompt == "What is 3 + 3?" and play.legal(0) is None
    play.step({0: "  6 "})
    assert play.done and play.returns == (1.0,) and play.figures() == {"exact": (1.0,)}
    assert reward(game, "seven") == 0.0


@pytest.mark.parametrize(
    ("name", "answer", "reply", "value"),
    [
        ("exact", "New York", "new  york", 1.0),
        ("exact", "New York", "new york!", 0.0),
        ("contains", "York", "I say new york!", 1.0),
        ("contains", "Paris", "I say new york!", 0.0),
        ("number", "So it is 1,200", "first 3, then 1200.", 1.0),
        ("number", "12", "-12", 0.0),
        ("number", "12", "twelve", 0.0),
    ],
)
def test_the_built_in_reward_functions(tmp_path, name, answer, reply, value):
    game = dataset(written(tmp_path, [{"prompt": "?", "answer": answer}]), rewards=[name], held_out=0)
    assert reward(game, reply) == value


def test_reward_functions_are_called_as_by_trl_and_weighted(rows_file):
    import my_rewards

    my_rewards.calls.clear()
    game = dataset(
        rows_file, rewards=["my_rewards.seen", "my_rewards.long", "exact"], weights=[1, 0.5, 2], payoffs=[-9, 9]
    )
    play = play_of(game, "What is 4 + 4?")
    play.step({0: "8"})
    assert play.returns == (0.5 * 1 + 2 * 1,)
    (arguments,) = my_rewards.calls
    assert arguments == {"prompts": ["What is 4 + 4?"], "completions": ["8"], "answer": ["8"], "level": [1]}


def test_functions_may_be_async_return_none_or_a_text_with_a_number(rows_file):
    assert reward(dataset(rows_file, rewards=["my_rewards.slow"]), "no") == 0.0
    play = play_of(dataset(rows_file, rewards=["my_rewards.slow"]), "What is 5 + 5?")
    play.step({0: "10"})
    assert play.returns == (1.0,)
    play = play_of(dataset(rows_file, rewards=["my_rewards.nothing", "my_rewards.text"]))
    play.step({0: "x"})
    assert play.returns == (0.25,) and math.isnan(play.figures()["nothing"][0])
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


def test_an_async_function_also_runs_inside_an_event_loop_and_its_error_is_named(rows_file):
    play = play_of(dataset(rows_file, rewards=["my_rewards.slow"]), "What is 5 + 5?")

    async def notebook():
        play.step({0: "10"})

    asyncio.run(notebook())
    assert play.returns == (1.0,)
    with pytest.raises(GameError, match="ValueError: later"):
        reward(dataset(rows_file, rewards=["my_rewards.fails_later"]), "x")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("broken", "step of 'rows.jsonl' failed in my_rewards.py, line .*: ValueError: no reward"),
        ("wrong_length", "returned 2 values for one completion"),
        ("number", "returned 1.0; return a list"),
        ("nan", "is nan, not a finite number"),
    ],
)
def test_a_function_that_fails_fails_the_episode_with_its_name(rows_file, name, message):
    with pytest.raises(GameError, match=message):
        reward(dataset(rows_file, rewards=[f"my_rewards.{name}"]), "x")


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        (["exakt"], UnknownNameError, "Did you mean 'exact'"),
        (["my_rewards.ids"], ConfigError, "needs completion_ids"),
        (["my_rewards.absent"], ConfigError, "has no function 'absent'|absent"),
        (["os.system"], ConfigError, "is not a plug-in"),
        ([], ConfigError, "at least one"),
    ],
)
def test_unknown_or_unusable_functions_are_refused(rows_file, names, error, message):
    with pytest.raises(error, match=message):
        dataset(rows_file, rewards=names)


def test_weights_must_fit_the_rewards(rows_file):
    with pytest.raises(ConfigError, match="2 weights for 1 rewards"):
        dataset(rows_file, weights=[1, 2])


def test_rows_are_apart_and_equal_prompts_are_in_one_part(tmp_path, caplog):
    rows = [*ROWS, *ROWS[:20]]
    path = written(tmp_path, rows)
    with caplog.at_level(logging.WARNING):
        train, held_out = dataset(path), dataset(path, part="held_out")
    assert train.starts() and held_out.starts() and not train.starts() & held_out.starts()
    assert len(train.rows) + len(held_out.rows) == 80 and "20 of 80 prompts occur more than once" in caplog.text
    everything = dataset(path, held_out=0)
    assert len(everything.rows) == 80 and everything.other_bank() is None


def test_evaluation_uses_rows_that_training_never_sees(rows_file):
    options = {"data": str(rows_file)}
    config = resolve({"environments": [{"name": "dataset", "options": options}], "context": {"name": "full"}})
    game = make_game("dataset", options=options)
    starts = measured_starts(game, SeenInitialStates(config, [game]))
    assert [start.label for start in starts] == ["unseen", "seen"]
    assert starts[0].game.starts() == another_bank(game).starts() and not starts[0].game.starts() & game.starts()


def test_the_kinds_of_files_have_the_same_rows(tmp_path, rows_file):
    random.seed(0)
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "rows.parquet")
    lines = ["prompt,answer,level", *(f"{row['prompt']},{row['answer']},{row['level']}" for row in ROWS)]
    (tmp_path / "rows.csv").write_text("\n".join(lines), encoding="utf-8")
    folder = tmp_path / "saved"
    folder.mkdir()
    table = pyarrow.Table.from_pylist(ROWS)
    for name, part in (("data-0.arrow", table[:30]), ("data-1.arrow", table[30:])):
        with pyarrow.OSFile(str(folder / name), "wb") as sink, pyarrow.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(part)
    files = [{"filename": "data-0.arrow"}, {"filename": "data-1.arrow"}]
    (folder / "state.json").write_text(json.dumps({"_data_files": files}), encoding="utf-8")
    expected = [(row.prompt, str(row.columns["answer"])) for row in dataset(rows_file).rows]
    for path in (tmp_path / "rows.parquet", tmp_path / "rows.csv", folder):
        assert [(row.prompt, str(row.columns["answer"])) for row in dataset(path).rows] == expected


CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello"},
    {"role": "user", "content": [{"type": "text", "text": "2 + 2?"}]},
    {"role": "assistant", "content": "It is "},
]


def test_messages_with_several_roles_become_a_conversation_with_a_prefill(tmp_path):
    import my_rewards

    my_rewards.calls.clear()
    game = dataset(
        written(tmp_path, [{"prompt": CHAT, "answer": "4"}]), held_out=0, rewards=["my_rewards.seen", "contains"]
    )
    play = play_of(game)
    observation = play.observe(0)
    assert observation.messages == (
        ChatMessage("system", "Be brief."),
        ChatMessage("user", "Hi"),
        ChatMessage("assistant", "Hello"),
    )
    assert observation.prompt == "2 + 2?" and observation.prefill == "It is "
    play.step({0: "4."})
    assert my_rewards.calls[0]["completions"] == [[{"role": "assistant", "content": "It is 4."}]]
    assert my_rewards.calls[0]["prompts"] == [CHAT] and play.returns == (1.0,)


def test_columns_may_have_the_system_message_and_the_prefill(tmp_path):
    rows = [{"prompt": "2 + 2?", "answer": "4", "system": "Be brief.", "prefill": "It is"}]
    observation = play_of(dataset(written(tmp_path, rows), held_out=0)).observe(0)
    assert observation.messages == (ChatMessage("system", "Be brief."),) and observation.prefill == "It is"


def image(url):
    return [{"role": "user", "content": [{"type": "image", "image": url}, {"type": "text", "text": "?"}]}]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "?"}, "row 2 has no column 'prompt', only question"),
        ({"prompt": 3}, "prompt=3 is no text and no list of messages"),
        ({"prompt": ""}, "the last prompt is empty"),
        ({"prompt": []}, "is no text and no list"),
        ({"prompt": [{"role": "tool", "content": "?"}]}, "is no message"),
        ({"prompt": [{"role": "user", "content": 1}]}, "content=1 is no text"),
        ({"prompt": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}, "roles are user, user"),
        ({"prompt": [{"role": "assistant", "content": "a"}]}, "the roles are none"),
        ({"prompt": image("a.png")}, "a part of the type 'image'"),
        ([1, 2], "not an object with columns"),
        ("text", "not an object with columns"),
    ],
)
def test_bad_rows_are_refused_with_their_number(tmp_path, row, message):
    with pytest.raises(ConfigError, match=message) as failure:
        dataset(written(tmp_path, [ROWS[0], row]))
    assert "row 2" in str(failure.value)


def test_bad_files_are_refused(tmp_path):
    for path, message in (
        (tmp_path / "absent.jsonl", "does not exist"),
        (written(tmp_path, [], "empty.jsonl"), "has 0 rows, and none in the part 'train'"),
        (written(tmp_path, ROWS, "rows.txt"), r"no file of \.jsonl"),
    ):
        with pytest.raises(ConfigError, match=message):
            dataset(path)
    (tmp_path / "broken.jsonl").write_text('{"prompt": ', encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot be read: JSONDecodeError"):
        dataset(tmp_path / "broken.jsonl")
    (tmp_path / "broken.parquet").write_bytes(b"no parquet")
    with pytest.raises(ConfigError, match="cannot be read"):
        dataset(tmp_path / "broken.parquet")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        dataset(tmp_path / "folder")


def test_a_random_reply_is_the_answer_of_a_row_and_is_refused_without_one(tmp_path, rows_file):
    play = play_of(dataset(rows_file))
    assert play.sample(0, Stream.from_seed(1)) in {row["answer"] for row in ROWS}
    play = play_of(dataset(written(tmp_path, [{"prompt": "?"}]), held_out=0, rewards=["my_rewards.long"]))
    with pytest.raises(GameError, match="no column 'answer'"):
        play.sample(0, Stream.from_seed(1))


def test_a_function_cannot_change_a_row_and_a_replay_does_not_call_it_again(tmp_path):
    import my_rewards

    my_rewards.calls.clear()
    game = dataset(
        written(tmp_path, [{"prompt": "?", "answer": "ab"}]),
        held_out=0,
        rewards=["my_rewards.changes", "my_rewards.once"],
    )
    assert [reward(game, "x") for _ in range(3)] == [3.5, 3.5, 3.5]
    assert game.rows[0].columns == {"prompt": "?", "answer": "ab"} and len(my_rewards.calls) == 1
    with pytest.raises(GameError, match="server busy"):
        reward(game, "y")


def test_functions_of_equal_names_keep_their_figures_apart(rows_file, tmp_path):
    (tmp_path / "more_rewards.py").write_text(FUNCTIONS, encoding="utf-8")
    game = dataset(rows_file, rewards=["my_rewards.long", "more_rewards.long"])
    play = play_of(game)
    play.step({0: "abc"})
    assert play.figures() == {"my_rewards.long": (3.0,), "more_rewards.long": (3.0,)}


@pytest.mark.parametrize(
    ("options", "bounds"),
    [
        ({}, (0.0, 1.0)),
        ({"rewards": ["exact", "contains"], "weights": [2, -1]}, (-1.0, 2.0)),
        ({"rewards": ["my_rewards.long"]}, (-math.inf, math.inf)),
        ({"rewards": ["my_rewards.long"], "payoffs": [0, 9]}, (0.0, 9.0)),
    ],
)
def test_bounds_of_payoffs_are_those_of_the_weights_or_unknown(rows_file, options, bounds):
    game = dataset(rows_file, **options)
    assert (game.min_utility, game.max_utility) == bounds
    assert game.illegal.rule == ("retry" if bounds[0] == -math.inf else "forfeit")


def test_payoffs_must_rise(rows_file):
    with pytest.raises(ConfigError, match="must rise"):
        dataset(rows_file, payoffs=[1, 0])


@pytest.mark.parametrize(
    ("row", "rewards"),
    [
        ({"prompt": "?"}, ["exact"]),
        ({"prompt": "?", "answer": None}, ["exact"]),
        ({"prompt": "?", "answer": " "}, ["contains"]),
        ({"prompt": "?", "answer": ["a"]}, ["exact"]),
        ({"prompt": "?", "answer": "five"}, ["number"]),
    ],
)
def test_an_answer_that_a_built_in_function_cannot_use_is_refused(tmp_path, row, rewards):
    with pytest.raises(ConfigError, match=r"row 2 has answer=.* cannot compare with"):
        dataset(written(tmp_path, [ROWS[0], row]), held_out=0, rewards=rewards)


@pytest.mark.parametrize(
    ("answer", "reply", "value"), [("1e-05", "0.00001", 1.0), (".5", "5", 0.0), (".5", "0.5", 1.0)]
)
def test_numbers_may_have_exponents_and_leading_points(tmp_path, answer, reply, value):
    assert (
        reward(dataset(written(tmp_path, [{"prompt": "?", "answer": answer}]), held_out=0, rewards=["number"]), reply)
        == value
    )


def test_unusual_files_are_read_or_refused(tmp_path):
    (tmp_path / "line.jsonl").write_text('{"prompt": "a\u2028b", "answer": "1"}\n', encoding="utf-8")
    assert dataset(tmp_path / "line.jsonl", held_out=0).rows[0].prompt == "a\u2028b"
    (tmp_path / "mark.csv").write_text("\ufeffprompt,answer\nq,1\n", encoding="utf-8")
    assert dataset(tmp_path / "mark.csv", held_out=0).rows[0].prompt == "q"
    (tmp_path / "long.csv").write_text(f"prompt,answer\n{'q' * 200_000},1\n", encoding="utf-8")
    assert len(dataset(tmp_path / "long.csv", held_out=0).rows[0].prompt) == 200_000
    (tmp_path / "wide.csv").write_text("prompt,answer\nq,1,2\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="row 1 is"):
        dataset(tmp_path / "wide.csv", held_out=0)
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(ConfigError, match="does not exist"):
        dataset(tmp_path / "pipe.jsonl")
    with pytest.raises(ConfigError, match="a part of the type None"):
        dataset(written(tmp_path, [{"prompt": [{"role": "user", "content": ["hi"]}], "answer": "1"}]))
