"""What the learn phase found, as a table beside the episodes: worked by hand, and as runs write it."""

import json
import re
import shutil
from dataclasses import replace
from xml.etree import ElementTree

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sparring
from sparring.cli import app
from sparring.config.plugins.registry import bind
from sparring.core.errors import PluginError, RunError, SparringError
from sparring.core.records import Credit, Episode, Segment, Turn
from sparring.methods.credit.base import check_output
from sparring.play.credit_store import COLUMNS, CreditStore, Learned, credit_rows
from sparring.play.turn_table import turn_table
from sparring.report.episode_record import finite
from sparring.report.episode_text import episode_lines
from sparring.testing import check_svg

TINY = ["threads=1", "model.hidden_size=8", "model.layers=1", "model.heads=2", "rollout.games_per_step=8", "evaluation.every=4"]
TINY += ["warmup.updates=0", "store.every=1", "checkpoint.every=2", "steps=4"]


def turn(seat, index, moment, reward, tokens=1):
    said = Segment(kind="sampled", ids=tuple(range(tokens)), logprobs=(-0.5,) * tokens)
    return Turn(seat, index, "learner", "k", ("a",), "a", "a", "ok", {"game": reward}, (said,), moment=moment)


def episode(number, *turns, trained=(True, True)):
    return Episode(
        episode_id=number, group_id=0, game="g", seed=0, roles=("x", "y"), agents=("learner",) * 2, trained=trained, turns=turns, returns=(0, 0)
    )


def test_a_step_of_two_plays_by_hand():
    """Episode 1 is trained on, episode 2 was dropped by selection, episode 9 comes from the buffer."""
    one = episode(1, turn(0, 0, 0, 1.0, tokens=2), turn(1, 0, 1, -1.0), turn(0, 1, 2, 0.5, tokens=0))
    two = episode(2, turn(0, 0, 0, 3.0), turn(1, 0, 1, -3.0), trained=(True, False))
    nine = episode(9, turn(1, 0, 0, 2.0))
    turns = turn_table([nine, one])
    credit = Credit(advantages=np.array([0.1, 0.2, 0.3, 0.4]), baselines=np.array([1.0, 2.0, 3.0, 4.0]))
    rows = credit_rows(5, [one, two], [Learned(batch=[nine, one], turns=turns, credit=credit, entropies=np.array([9.0, 7.0, 8.0, 6.0]))]).to_pylist()
    assert [(row["episode_id"], row["seat"], row["turn_index"]) for row in rows] == [
        (9, 1, 0), (1, 0, 0), (1, 0, 1), (1, 1, 0), (2, 0, 0)
    ]  # fmt: skip
    assert [row["selected"] for row in rows] == [True] * 4 + [False] and [row["replayed"] for row in rows] == [True] + [False] * 4
    assert [row["advantage"] for row in rows] == [0.1, 0.2, 0.3, 0.4, None]
    assert [row["baseline"] for row in rows] == [1.0, 2.0, 3.0, 4.0, None]
    assert [row["reward"] for row in rows] == [2.0, 1.0, 0.5, -1.0, 3.0]
    assert [row["entropies"] for row in rows] == [[9.0], [7.0, 8.0], [], [6.0], None]
    assert {row["step"] for row in rows} == {5} and {row["token_advantages"] for row in rows} == {None}


def test_token_advantages_are_there_one_by_one_and_as_a_mean():
    played = [episode(1, turn(0, 0, 0, 1.0, tokens=2), turn(0, 1, 1, 0.0, tokens=0), turn(0, 2, 2, 0.0, tokens=1))]
    credit = Credit(advantages=np.array([1.0, 3.0, -5.0]), level="token")
    rows = credit_rows(1, played, [Learned(batch=played, turns=turn_table(played), credit=credit, entropies=np.zeros(3))]).to_pylist()
    assert [row["advantage"] for row in rows] == [2.0, 0.0, -5.0]
    assert [row["token_advantages"] for row in rows] == [[1.0, 3.0], [], [-5.0]]


def test_an_empty_batch_has_the_dropped_turns():
    played = [episode(1, turn(0, 0, 0, 1.0))]
    credit = Credit(advantages=np.zeros(0))
    rows = credit_rows(1, played, [Learned(batch=[], turns=turn_table([]), credit=credit, entropies=np.zeros(0))]).to_pylist()
    assert [(row["episode_id"], row["selected"], row["advantage"]) for row in rows] == [(1, False, None)]


@pytest.mark.parametrize(("estimate", "options"), [("grpo", {"divide_by_std": False}), ("rae", {"gamma": 1.0})])
def test_a_baseline_is_what_was_subtracted(estimate, options):
    played = [episode(number, turn(0, 0, 0, float(number)), turn(1, 0, 1, -1.0)) for number in range(4)]
    turns = turn_table(played)
    credit = bind("credit", estimate, options)(turns, {})
    assert np.allclose(credit.advantages, turns.reward - credit.baselines)


def test_baselines_of_a_wrong_shape_are_refused():
    turns = turn_table([episode(1, turn(0, 0, 0, 1.0))])
    wrong = Credit(advantages=np.zeros(1), baselines=np.zeros(3))
    with pytest.raises(PluginError, match=r"must give baselines of shape \(1,\) here; it gave \(3,\)"):
        check_output(bind("credit", "outcome"), wrong, turns)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("credit") / "run"
    return sparring.train("kuhn-tiny", *TINY, "selection={name: variance_filter}", "rollout.group_size=4", "replay={name: r3}", run=folder)


def test_the_table_joins_the_episodes_turn_by_turn(run):
    credit, episodes = f"'{run.path}/credit/*.parquet'", f"'{run.path}/episodes/*.parquet'"
    keys = "step, episode_id, seat, turn_index"
    ((trained,),) = duckdb.sql(f"SELECT count(*) FROM {episodes} WHERE trained").fetchall()
    assert duckdb.sql(f"SELECT count(*) FROM {credit} JOIN {episodes} USING ({keys})").fetchall() == [(trained,)]
    fresh = duckdb.sql(f"SELECT count(*) FROM {credit} WHERE NOT replayed").fetchall()
    assert fresh == [(trained,)]
    for kept, entropies, logprobs in duckdb.sql(f"SELECT selected, entropies, logprobs FROM {credit} JOIN {episodes} USING ({keys})").fetchall():
        assert len(entropies or ()) == (len(logprobs) if kept else 0)
    whole = f"SELECT step, episode_id, count(DISTINCT selected) n FROM {credit} GROUP BY ALL HAVING n > 1"
    assert duckdb.sql(whole).fetchall() == []  # plays are trained on as a whole, or not at all
    assert duckdb.sql(f"SELECT count(DISTINCT selected) FROM {credit}").fetchall() == [(2,)]


def test_advantages_and_entropies_are_those_of_the_metrics(run):
    lines = run.metrics()
    for step in (1, 4):
        rows = pq.read_table(run.path / "credit" / f"part-{step:06d}.parquet").to_pylist()
        kept = [row for row in rows if row["selected"]]
        tokens = np.concatenate([np.repeat(row["advantage"], len(row["entropies"])) for row in kept])
        assert np.std(tokens) == pytest.approx(lines[step - 1]["advantage_std"])
        assert all(0 <= value <= np.log(40) for row in kept for value in row["entropies"])


def test_a_run_that_goes_on_has_the_bytes_of_one_that_did_not_stop(run, tmp_path):
    changes = ["selection={name: variance_filter}", "rollout.group_size=4", "replay={name: r3}"]
    first = sparring.train("kuhn-tiny", *TINY, *changes, "checkpoint.keep=9", run=tmp_path / "run")
    whole = {path.name: path.read_bytes() for path in sorted((first.path / "credit").iterdir())}
    for later in first.path.glob("checkpoints/step_000004"):
        later.rename(tmp_path / "gone")
    again = sparring.train("kuhn-tiny", *TINY, *changes, "checkpoint.keep=9", run=tmp_path / "run", resume=True)
    assert {path.name: path.read_bytes() for path in sorted((again.path / "credit").iterdir())} == whole and len(whole) == 4


def test_a_newer_table_is_refused_and_a_torn_one_left_out(run, tmp_path, caplog):
    store = CreditStore(tmp_path / "credit")
    store.put(1, (run.path / "credit" / "part-000001.parquet").read_bytes())
    store.put(2, (run.path / "credit" / "part-000002.parquet").read_bytes()[:-20])
    assert set(store.read()["step"].to_pylist()) == {1} and "1 of 2 parts" in caplog.text
    table = pq.read_table(store.folder / "part-000001.parquet").replace_schema_metadata({COLUMNS.key: b"9"})
    pq.write_table(table, store.folder / "part-000001.parquet", write_page_checksum=True)
    with pytest.raises(RunError, match="version 9 of the columns of credit, and this Sparring reads up to 2"):
        store.read()


def shown(*words, code=0):
    done = CliRunner().invoke(app, ["show", *map(str, words)])
    assert done.exit_code == code, done.output
    return done.output


def test_show_prints_a_play_with_its_credit(run):
    text = shown(run.path, "--step", 2)
    played = next(episode for step, episode in run.episodes() if step == 2)
    assert f"Episode {played.episode_id} of kuhn_poker, step 2" in text
    table = CreditStore(run.path / "credit").read(lambda step: step == 2).to_pylist()
    rows = {(row["seat"], row["turn_index"]): row for row in table if row["episode_id"] == played.episode_id}
    for turn in played.turns:
        assert f"told    {turn.told}" in text and f"said    {turn.reply!r}" in text
        row = rows[turn.seat, turn.turn_index]
        assert (f"advantage {row['advantage']:+.4g}" if row["selected"] else "selection dropped it") in text
    assert "H=" in text or not any(row["selected"] for row in rows.values())


def test_show_lists_finds_and_refuses(run):
    numbers = [episode.episode_id for step, episode in run.episodes() if step == 4]
    listed = shown(run.path, "--list").splitlines()
    assert [int(line.split()[0]) for line in listed[1:]] == numbers
    assert f"Episode {numbers[-1]} of" in shown(run.path, "--episode", numbers[-1], "--ids")
    assert '"episode_id": ' + str(numbers[0]) in shown(run.path, "--json")


def test_show_says_each_position_and_draws_one(run, tmp_path):
    text = " ".join(shown(run.path, "--ids").split())
    assert " now first is to act. first holds the " in text and re.search(" end (first|second) is to act.| end The play is over.", text)
    file = tmp_path / "board.svg"
    words = [run.path, "--svg", file, "--seat", "second", "--turn"]
    said = " ".join(shown(*words, 0, "--dark").split())
    check_svg(file.read_text())
    assert "Wrote" in said and "first is to act. second holds the" in said and "first holds" not in said
    dark = file.read_bytes()
    shown(*words, 0)
    assert file.read_bytes() != dark
    end = re.search(" end (.{60})", text)[1]
    assert f"Wrote {file}: {end}" in " ".join(shown(run.path, "--svg", file).split())


def test_show_says_who_acted_when_and_draws_it(run, tmp_path):
    text, file = shown(run.path, "--timeline"), tmp_path / "line.svg"
    found = json.loads(shown(run.path, "--json"))["episode"]["turns"]
    assert f"{len(found)} turn" in text and "up to 1 at once. The critical path: " in text
    for seat, role in enumerate(("first ", "second")):  # they take turns, so that a row ends with the seat's last one
        letters = "".join("#" if turn["seat"] == seat else "." for turn in found).rstrip(".")
        assert f"\n{role}  {letters if seat == 0 else letters.replace('.', ' ', 1)}".rstrip() + "\n" in text
    said = " ".join(shown(run.path, "--timeline", "--svg", file).split())
    assert ElementTree.parse(file).getroot().get("role") == "img"
    assert f"Wrote {file}: " in said and "Who acts when" in file.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--timeline", "--json"], "is of the whole play"),
        (["--timeline", "--svg", "FILE", "--turn", 0], "is of the whole play"),
        (["--turn", 1], "write --svg FILE too"),
        (["--dark"], "write --svg FILE too"),
        (["--svg", "FILE", "--turn", 99], "has no turn 99"),
        (["--svg", "FILE", "--seat", "third"], "third"),
    ],
)
def test_show_refuses_a_picture_that_there_is_not(run, tmp_path, words, said):
    words = [tmp_path / "x.svg" if word == "FILE" else word for word in words]
    done = CliRunner().invoke(app, ["show", str(run.path), *map(str, words)])
    assert isinstance(done.exception, SparringError) and said in str(done.exception) and not (tmp_path / "x.svg").exists()


def test_show_goes_on_where_a_play_cannot_be_made_again(run, monkeypatch):
    monkeypatch.setattr("sparring.environments.kuhn_poker.KuhnPoker.version", 9, raising=False)
    text = " ".join(shown(run.path, "--ids").split())
    assert text.startswith("Positions are left out: Environment 'kuhn_poker' has version 9 here") and " now " not in text
    assert "told kuhn first" in text


@pytest.mark.parametrize(("words", "said"), [(["--step", 99], "is not stored. Near it are 1, 2, 3, 4"), (["--episode", 10**6], "has no episode 1000000")])
def test_show_says_what_there_is(run, words, said):
    done = CliRunner().invoke(app, ["show", str(run.path), *map(str, words)])
    assert isinstance(done.exception, RunError) and said in str(done.exception)


def test_show_loads_no_weights_and_fetches_nothing(run, monkeypatch):
    monkeypatch.setattr("sparring.api.load.LocalEngine", None)
    assert re.search(r"tokens  '\S+' p=", shown(run.path))
    folder = run.path.parent / "other"
    shutil.copytree(run.path, folder, dirs_exist_ok=True)
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text.replace("name: tiny", "name: some-org/no-such-model"))
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("the network was asked"))
    assert "Tokens are shown as ids" in shown(folder)


def test_json_is_json(run):
    found = json.loads(shown(run.path, "--json"), parse_constant=lambda name: pytest.fail(name))
    assert {"step", "episode", "credit"} == set(found)
    assert finite({"a": (float("nan"), 1.0), "b": {2, 1}}) == {"a": [None, 1.0], "b": [1, 2]}


def test_a_forged_play_is_one_line(run):
    step, played = run.episodes()[0]
    turns = tuple(one._replace(segments=(Segment(kind="sampled", ids=(1,), logprobs=(1e5,)),)) for one in played.turns)
    with pytest.raises(RunError, match="holds what no run writes"):
        episode_lines(step, replace(played, turns=turns), {}, None)


def test_a_turn_that_was_not_sent_says_so():
    unsent = Turn(0, 0, "learner", "k", ("a",), "", None, "unparsable", {}, (Segment(kind="sampled", ids=()),), truncated=True, told="news")
    lines = " ".join(" ".join(episode_lines(1, episode(1, unsent), {}, None)).split())
    assert "not sent: the conversation had outgrown the model" in lines and "told news" in lines
