import json
import logging
import multiprocessing
import os
import random as random_module
import re
import shutil
import signal
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sparring
from sparring.cli import app
from sparring.config import resolve
from sparring.config.plugins.registry import bind
from sparring.core import files
from sparring.core.errors import PluginError, RunError, SparringError
from sparring.core.records import (
    LEARNER,
    Credit,
    EnvironmentSpec,
    Episode,
    Segment,
    Turn,
    bot,
    ref,
    snapshot,
)
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import from_spec, make_game
from sparring.league.seating import step_specs
from sparring.methods.credit.base import check_output
from sparring.methods.selection.replay.base import ReplayBuffer
from sparring.play.players.base import Reply
from sparring.play.players.random import random
from sparring.play.replay import replay
from sparring.play.rollout import play
from sparring.play.store import (
    COLUMNS,
    CREDIT_COLUMNS,
    CreditStore,
    EpisodeStore,
    LearnedBatch,
    credit_rows,
    from_bytes,
    to_bytes,
)
from sparring.play.turn_table import turn_table
from sparring.report.episode_record import json_value
from sparring.report.episode_text import episode_lines
from sparring.testing import check_svg
from tests.play import plays


def play_kuhn(step=0, **rollout):
    games = [{"name": "kuhn_poker", "illegal": {"penalty": 0.5}}]
    config = resolve({"environments": games, "rollout": {"games_per_step": 20, **rollout}, "threads": 1})
    engine = LocalEngine(config)
    matchmaker = bind("league.matchmakers", "mixed", {"bots": {"random": 0.5}})
    specs = step_specs(
        step,
        games=engine.environments,
        rollout=config.rollout,
        matchmaker=matchmaker,
        members=(),
        root=engine.root,
        progress=0.0,
    )
    return engine.play(specs).episodes


@pytest.mark.parametrize("rollout", [{}, {"top_p": 0.6}, {"max_turns": 1}])
def test_stored_episodes_are_read_back_equal(tmp_path, rollout):
    store, first_episodes, second_episodes = (
        EpisodeStore(tmp_path / "episodes"),
        play_kuhn(0, **rollout),
        play_kuhn(1, **rollout),
    )
    store.append(1, first_episodes)
    store.append(2, second_episodes)
    assert list(store.episodes()) == [(1, stored_episode) for stored_episode in first_episodes] + [
        (2, stored_episode) for stored_episode in second_episodes
    ]
    assert from_bytes(to_bytes([(1, episode) for episode in first_episodes])) == [
        (1, episode) for episode in first_episodes
    ]
    assert (True in {episode.cut for episode in first_episodes}) == ("max_turns" in rollout)


@pytest.mark.parametrize("name", ["trial", "talk", "bargain", "lookups", "sealed_auction", "puzzle_duel"])
def test_attempts_moments_and_texts_are_read_back_equal(tmp_path, name):
    stored_episodes, store = plays.random_episodes(make_game(name), 4, seed=2), EpisodeStore(tmp_path / "episodes")
    store.append(1, stored_episodes)
    assert list(store.episodes()) == [(1, episode) for episode in stored_episodes]
    assert (max(turn.attempt for turn in stored_episodes[0].turns) > 0) == (name == "trial")
    assert any(turn.note for turn in stored_episodes[0].turns) == (name == "trial")
    assert (len({turn.moment for turn in stored_episodes[0].turns}) < len(stored_episodes[0].turns)) == (
        name in ("trial", "talk", "sealed_auction")
    )


def without_column(episode, column):
    if column == "environment":
        return replace(episode, environment=None)
    return (
        replace(episode, turns=tuple(turn._replace(prompt="") for turn in episode.turns))
        if column == "told"
        else episode
    )


@pytest.mark.parametrize("column", COLUMNS.added)
def test_a_file_without_a_later_column_is_read_with_its_default(tmp_path, column):
    store, stored_episodes = EpisodeStore(tmp_path / "episodes"), play_kuhn(0)
    path = store.append(1, stored_episodes)
    pq.write_table(pq.read_table(path).drop_columns([column]), path, write_page_checksum=True)
    expected = [(1, without_column(episode, column)) for episode in stored_episodes]
    assert list(store.episodes()) == expected
    assert from_bytes(path.read_bytes()) == expected


def test_a_file_of_a_newer_version_is_refused_by_name(tmp_path):
    store, stored_episodes = EpisodeStore(tmp_path / "episodes"), play_kuhn(0)
    path = store.append(1, stored_episodes)
    newer_table = pq.read_table(path).replace_schema_metadata({COLUMNS.key: b"7"})
    pq.write_table(newer_table, path, write_page_checksum=True)
    with pytest.raises(
        RunError, match=r"part-000001.parquet has version 7 of the columns of episodes, and this Sparring reads up to 6"
    ):
        store.read()
    with pytest.raises(ValueError, match="has version 7"):
        from_bytes(path.read_bytes())


@pytest.mark.parametrize("label", [b"two", b"", b"\xff", b"-1"])
def test_a_file_with_an_invalid_version_is_skipped(tmp_path, caplog, label):
    store = EpisodeStore(tmp_path / "episodes")
    path = store.append(1, play_kuhn(0))
    pq.write_table(pq.read_table(path).replace_schema_metadata({COLUMNS.key: label}), path, write_page_checksum=True)
    assert list(store.episodes()) == [] and "1 of 1 parts" in caplog.text


INVALID_VALUES = [
    ("environment", text)
    for text in ("[", "[]", "null", "{}", '{"name": "x", "y": 1}', '{"name": "x", "options": []}', "[" * 100_000)
]
INVALID_VALUES += [
    ("seat", 9),
    ("seat", -1),
    ("forfeited_by", 9),
    ("roles", None),
    ("roles", ["x"]),
    ("logprobs", None),
    ("reward_names", None),
]
INVALID_VALUES += [
    ("legal_actions", None),
    ("segment_lengths", [-1]),
    ("segment_kinds", ["sampled"] * 7),
    ("returns", [0.0]),
]
INVALID_VALUES += [("run_versions", [0] * 7), ("run_versions", [None])]
PLAYER = {"kind": "learner", "name": "", "step": None}
INVALID_VALUES += [
    ("players", [PLAYER]),
    ("players", []),
    ("players", [PLAYER, None]),
    ("players", [{**PLAYER, "kind": "king"}] * 2),
]
INVALID_VALUES += [
    ("players", [{**PLAYER, "kind": "bot", "name": "minimax"}] * 2),
    ("players", [{**PLAYER, "step": 1}] * 2),
]


@pytest.mark.parametrize(("column", "value"), INVALID_VALUES)
def test_a_file_with_invalid_values_is_skipped_and_counted(tmp_path, caplog, column, value):
    store, stored_episodes = EpisodeStore(tmp_path / "episodes"), play_kuhn(0)
    store.append(1, stored_episodes)
    path = store.append(2, stored_episodes)
    table = pq.read_table(path)
    column_index = table.column_names.index(column)
    type_ = pa.string() if column == "environment" else store.columns.schema.field(column).type
    pq.write_table(
        table.set_column(column_index, column, pa.array([value] * len(table), type_)), path, write_page_checksum=True
    )
    assert [step for step, _ in store.episodes()] == [1] * len(stored_episodes)
    assert "1 of 2 parts" in caplog.text


def test_lone_surrogates_are_replaced():
    (episode, *_) = play_kuhn(0)
    turns = tuple(
        turn._replace(prompt="stones \ud800", legal_actions=("a\udc00", *turn.legal_actions)) for turn in episode.turns
    )
    with_surrogates = replace(episode, turns=turns, agents=("a\ud800", "learner"), players=(ref("a\ud800"), LEARNER))
    ((_, restored_episode),) = from_bytes(to_bytes([(1, with_surrogates)]))
    assert (
        restored_episode.players == (ref("a?"), LEARNER)
        and {turn.prompt for turn in restored_episode.turns} == {"stones ?"}
        and restored_episode.turns[0].legal_actions[0] == "a?"
    )


def test_episodes_that_are_read_twice_share_no_mutable_value(tmp_path):
    store = EpisodeStore(tmp_path / "episodes")
    store.append(1, play_kuhn(0))
    next(store.episodes())[1].environment.options["stones"] = 3
    assert all(episode.environment.options == {} for _, episode in store.episodes())


def test_the_prompt_of_every_turn_is_stored():
    for episode in play_kuhn(0):
        assert [turn.moment for turn in episode.turns] == list(range(len(episode.turns)))
        assert episode.environment == EnvironmentSpec(
            name="kuhn_poker", illegal={"rule": "forfeit", "penalty": 0.5, "retries": 2, "payoff": "zero_sum"}
        )
        game = from_spec(episode.environment)
        for turn, state in zip(episode.turns, replay(game, episode), strict=True):
            earlier_turns = [
                earlier_turn for earlier_turn in episode.turns[: turn.moment] if earlier_turn.seat == turn.seat
            ]
            text = state.observe(turn.seat, 0).text  # the full prompt, which an agent without memory gets
            assert text.startswith(earlier_turns[0].prompt if earlier_turns else turn.prompt)
            assert text.endswith(turn.prompt)


def test_the_prompt_of_a_retry_states_the_error():
    game = make_game("kuhn_poker", illegal={"rule": "retry", "retries": 1})

    class Mute:
        name, renderer = "mute", None

        def act(self, turns):
            self.notices = [turn.notice for turn in turns]
            return [Reply(text="...") for _ in turns]

    (episode,) = play(plays.make_specs(game, 1, name="mute"), {"mute": Mute()})
    illegal_turn, retry_turn = episode.turns[:2]
    assert (illegal_turn.moment, retry_turn.moment) == (0, 1) and illegal_turn.seat == retry_turn.seat
    assert "..." not in illegal_turn.prompt and retry_turn.prompt and retry_turn.prompt != illegal_turn.prompt
    assert episode.environment.illegal["rule"] == "retry"


DATA = Path(__file__).parent.parent / "data"


def test_files_of_version_0_are_read(caplog):
    """tests/data/run_v0 was written by commit 54ba71c, before files had a version."""
    records = list(EpisodeStore(DATA / "run_v0" / "episodes").episodes())
    assert not caplog.text
    assert [(step, len(episode.turns), episode.game, episode.environment) for step, episode in records] == [
        (step, num_turns, "kuhn_poker", None)
        for step, num_turns in ((1, 6), (1, 6), (1, 6), (1, 9), (2, 7), (2, 6), (2, 9), (2, 6))
    ]
    first_turn = records[0][1].turns[0]
    assert (
        first_turn.moment == 0
        and first_turn.prompt == ""
        and first_turn.verdict is not None
        and first_turn.playout is not None
    )
    game = make_game("kuhn_poker", illegal={"rule": "retry", "penalty": 1.0})
    assert all(replay(game, episode) for _, episode in records)
    buffer = ReplayBuffer.restored(DATA / "run_v0" / "checkpoints" / "step_000002")
    assert [stored.step for stored in buffer.entries] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_files_of_version_1_are_read(caplog):
    """tests/data/episodes_v1 was written by commit 4624d02, when players were stored as names."""
    records = [episode for _, episode in EpisodeStore(DATA / "episodes_v1").episodes()]
    assert not caplog.text and len(records) == 8
    assert {player for episode in records for player in episode.players} == {
        LEARNER,
        bot("random"),
        snapshot(1),
        snapshot(2),
    }
    assert all(tuple(map(str, episode.players)) == episode.agents for episode in records)
    assert [episode for _, episode in from_bytes(to_bytes([(3, episode) for episode in records]))] == records


def test_files_of_version_2_are_read(caplog):
    """tests/data/episodes_v2 and credit_v1 were written by commit bedb724, before prompts had candidates."""
    records = [episode for _, episode in EpisodeStore(DATA / "episodes_v2").episodes()]
    assert not caplog.text and {episode.game for episode in records} == {"repeated", "kuhn_poker"}
    turns = [turn for episode in records for turn in episode.turns]
    assert all(turn.candidates == () and turn.candidate == 0 and turn.score is None for turn in turns)
    assert any(turn.moment == next_turn.moment for turn, next_turn in pairwise(turns)) and any(
        turn.verdict for turn in turns
    )
    assert [episode for _, episode in from_bytes(to_bytes([(2, episode) for episode in records]))] == records
    credit = CreditStore(DATA / "credit_v1").read()
    assert credit.num_rows == len(turns) and set(credit["candidate"].to_pylist()) == {0}


def test_candidates_without_their_committed_turn_are_a_damaged_file():
    (episode, *_) = play_kuhn(0)
    turn_with_candidate = episode.turns[0]._replace(candidates=(episode.turns[0]._replace(candidate=1),))
    table = pq.read_table(
        pa.BufferReader(to_bytes([(1, replace(episode, turns=(turn_with_candidate, *episode.turns[1:])))]))
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table.filter(pc.invert(pc.and_(table["committed"], pc.is_valid(table["state_group"])))), sink)
    with pytest.raises(ValueError, match="no row of its played reply"):
        from_bytes(sink.getvalue().to_pybytes())


def test_each_sampled_segment_keeps_the_version_of_its_weights(tmp_path):
    sampled_segment = Segment(kind="sampled", ids=(1, 2), logprobs=(-0.5, -0.5), weights_version=3)
    context_segment = Segment(kind="context", ids=(5,))
    (episode, *_) = play_kuhn(0)
    first_turn = episode.turns[0]._replace(
        segments=(context_segment, sampled_segment, context_segment, sampled_segment._replace(weights_version=4)),
        weights_version=4,
    )
    episode = replace(episode, turns=(first_turn, *episode.turns[1:]))
    store = EpisodeStore(tmp_path / "episodes")
    path = store.append(1, [episode])
    assert list(store.episodes()) == [(1, episode)]
    pq.write_table(pq.read_table(path).drop_columns(["run_versions"]), path, write_page_checksum=True)
    ((_, restored_episode),) = store.episodes()
    assert [segment.weights_version for segment in restored_episode.turns[0].segments] == [0, 4, 0, 4]


def test_three_seats_and_streams_beyond_63_bits(tmp_path):
    (spec,) = plays.make_specs(make_game("kuhn_poker", options={"players": 3}), 1, name="bot", trained=(False,) * 3)
    stored_episodes = play([replace(spec, deal=Stream((1 << 64) - 1))], {"bot": random()})
    store = EpisodeStore(tmp_path / "episodes")
    store.append(1, stored_episodes)
    assert list(store.episodes()) == [(1, stored_episodes[0])]


def test_duckdb_can_query_stored_episodes(tmp_path):
    store, stored_episodes = EpisodeStore(tmp_path / "episodes"), play_kuhn()
    store.append(1, stored_episodes)
    query = f"SELECT role, avg(seat_return), count(*) FROM '{tmp_path}/episodes/*.parquet' WHERE turn_index = 0 GROUP BY role ORDER BY role"
    rows = duckdb.sql(query).fetchall()
    expected = [e.returns[0] for e in stored_episodes]
    assert rows[0][0] == "first"
    assert rows[0][1] == pytest.approx(sum(expected) / len(expected))
    query = f"SELECT DISTINCT players[seat + 1].kind AS kind, agent FROM '{tmp_path}/episodes/*.parquet' ORDER BY kind"
    assert duckdb.sql(query).fetchall() == [("bot", "bot-random"), ("learner", "learner")]


def test_a_truncated_file_is_skipped_with_a_warning(tmp_path, caplog):
    store, stored_episodes = EpisodeStore(tmp_path / "episodes"), play_kuhn()
    store.append(1, stored_episodes)
    truncated_path = store.append(2, stored_episodes)
    truncated_path.write_bytes(truncated_path.read_bytes()[:-40])
    (tmp_path / "episodes" / ".tmp-part-000003.parquet").write_bytes(b"half")
    with caplog.at_level(logging.WARNING):
        assert [step for step, _ in store.episodes()] == [1] * len(stored_episodes)
    assert "1 of 2 parts" in caplog.text


def test_a_kill_during_a_write_leaves_a_readable_folder(tmp_path, monkeypatch):
    store, stored_episodes = EpisodeStore(tmp_path / "episodes"), play_kuhn()
    store.append(1, stored_episodes)

    def write_half_and_kill(path, data):
        path.write_bytes(data[:40])
        os.kill(os.getpid(), signal.SIGKILL)

    def write_in_child():
        monkeypatch.setattr(files, "write_synced", write_half_and_kill)
        store.append(2, stored_episodes)

    process = multiprocessing.get_context("fork").Process(target=write_in_child)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    names = {path.name for path in (tmp_path / "episodes").iterdir()}
    assert len(names) == 2  # the part file and the temporary file
    rows = store.read().num_rows
    assert duckdb.sql(f"SELECT count(*) FROM '{tmp_path}/episodes/*.parquet'").fetchall() == [(rows,)]
    store.truncate_after(1)
    assert [path.name for path in (tmp_path / "episodes").iterdir()] == ["part-000001.parquet"]


@pytest.mark.parametrize("name", ["part-000002.parquet", "notes.parquet"])
@pytest.mark.parametrize("type_", ["table", "text", "folder"])
def test_a_foreign_file_is_skipped_with_a_warning(tmp_path, caplog, name, type_):
    store, stored_episodes = EpisodeStore(tmp_path / "episodes"), play_kuhn()
    store.append(1, stored_episodes)
    path = tmp_path / "episodes" / name
    if type_ == "table":
        pq.write_table(pa.table({"step": [1, 2], "x": [1, 2]}), path)
    elif type_ == "text":
        path.write_text("shopping list")
    else:
        path.mkdir()
    with caplog.at_level(logging.WARNING):
        assert [step for step, _ in store.episodes()] == [1] * len(stored_episodes)
    assert "1 of 2 parts" in caplog.text and name in caplog.text


def test_a_changed_byte_is_detected_or_changes_nothing(tmp_path):
    """Pages have checksums, so a damaged column is never read as data."""
    store, stored_episodes = EpisodeStore(tmp_path / "episodes"), play_kuhn()
    path = store.append(1, stored_episodes)
    expected, data = store.read(), path.read_bytes()
    footer_start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")  # the pages are before the footer
    for position in range(4, footer_start, 23):
        path.write_bytes(data[:position] + bytes([data[position] ^ 0x10]) + data[position + 1 :])
        content = store.read()
        assert content.num_rows == 0 or content.equals(expected), position


def test_files_are_ordered_by_step_beyond_a_million(tmp_path):
    store, stored_episodes = EpisodeStore(tmp_path / "episodes"), play_kuhn()
    for step in (999_999, 1_000_000):
        store.append(step, stored_episodes[:1])
    assert [step for step, _ in store.episodes()] == [999_999, 1_000_000]


def test_later_steps_are_removed_and_a_step_is_written_once(tmp_path):
    store, stored_episodes = EpisodeStore(tmp_path / "episodes"), play_kuhn()
    for step in (1, 2, 3):
        store.append(step, stored_episodes)
    store.truncate_after(1)
    store.append(1, stored_episodes[:3])
    assert [step for step, _ in store.episodes()] == [1, 1, 1]


def steps_after_pruning(folder, steps, keep, every=10):
    """Return the steps that stay if the store is pruned at random times and at the end."""
    store = EpisodeStore(folder)
    folder.mkdir(parents=True)
    for step, is_pruned in steps:
        store.path(step).touch()
        if is_pruned:
            store.prune(every, keep)
    store.prune(every, keep)
    return store.steps()


@pytest.mark.parametrize(
    ("keep", "num_steps"),
    [(1, 1), (1, 7), (2, 2), (2, 9), (3, 17), (4, 4), (4, 5), (4, 30), (5, 41), (8, 24), (100, 100), (100, 260)],
)
def test_pruning_keeps_the_newest_steps_and_a_spread_of_older_ones(tmp_path, keep, num_steps):
    all_steps, num_newest = [10 * (number + 1) for number in range(num_steps)], (keep + 1) // 2
    steps = steps_after_pruning(tmp_path / "at once", [(step, False) for step in all_steps], keep)
    assert steps[-num_newest:] == all_steps[-num_newest:]
    assert min(num_steps, keep) >= len(steps) >= min(num_steps, num_newest + (keep - num_newest) // 2)
    older_steps = steps[:-num_newest]
    assert {b - a for a, b in pairwise([0, *older_steps])} <= {older_steps[0] if older_steps else 0}, (
        "older steps are spread evenly from the first step"
    )
    generator = random_module.Random(num_steps)
    assert steps == steps_after_pruning(
        tmp_path / "now and then", [(step, generator.random() < 8 / num_steps) for step in all_steps], keep
    )
    assert steps == steps_after_pruning(
        tmp_path / "often", [(step, step > all_steps[-1] - 80) for step in all_steps], keep
    )


def test_a_store_without_a_limit_keeps_all_steps(tmp_path):
    assert steps_after_pruning(tmp_path / "all", [(step, True) for step in range(1, 60)], 0, every=1) == list(
        range(1, 60)
    )
    # from before store.every was changed
    assert steps_after_pruning(tmp_path / "odd", [(step, True) for step in (3, 7, 10, 20)], 2) == [
        10,
        20,
    ]


def test_an_empty_store(tmp_path):
    store = EpisodeStore(tmp_path / "episodes")
    assert store.read().num_rows == 0
    assert list(store.episodes()) == []
    store.truncate_after(0)


SMALL_OVERRIDES = [
    "threads=1",
    "model.hidden_size=8",
    "model.layers=1",
    "model.heads=2",
    "rollout.games_per_step=8",
    "evaluation.every=4",
]
SMALL_OVERRIDES += ["warmup.updates=0", "store.every=1", "checkpoint.every=2", "steps=4"]


def make_turn(seat, index, moment, reward, tokens=1):
    segment = Segment(kind="sampled", ids=tuple(range(tokens)), logprobs=(-0.5,) * tokens)
    return Turn(seat, index, "learner", "k", ("a",), "a", "a", "ok", {"game": reward}, (segment,), moment=moment)


def make_episode(number, *turns, trained=(True, True)):
    return Episode(
        episode_id=number,
        group_id=0,
        game="g",
        seed=0,
        roles=("x", "y"),
        agents=("learner",) * 2,
        trained=trained,
        turns=turns,
        returns=(0, 0),
    )


def test_the_credit_table_of_two_episodes_by_hand():
    """Episode 1 is trained on, episode 2 is dropped by selection, and episode 9 is from the replay buffer."""
    trained_episode = make_episode(
        1, make_turn(0, 0, 0, 1.0, tokens=2), make_turn(1, 0, 1, -1.0), make_turn(0, 1, 2, 0.5, tokens=0)
    )
    dropped_episode = make_episode(2, make_turn(0, 0, 0, 3.0), make_turn(1, 0, 1, -3.0), trained=(True, False))
    replayed_episode = make_episode(9, make_turn(1, 0, 0, 2.0))
    turns = turn_table([replayed_episode, trained_episode])
    credit = Credit(advantages=np.array([0.1, 0.2, 0.3, 0.4]), baselines=np.array([1.0, 2.0, 3.0, 4.0]))
    rows = credit_rows(
        5,
        [trained_episode, dropped_episode],
        [
            LearnedBatch(
                batch=[replayed_episode, trained_episode],
                turns=turns,
                credit=credit,
                entropies=np.array([9.0, 7.0, 8.0, 6.0]),
            )
        ],
    ).to_pylist()
    assert [(row["episode_id"], row["seat"], row["turn_index"]) for row in rows] == [
        (9, 1, 0), (1, 0, 0), (1, 0, 1), (1, 1, 0), (2, 0, 0)
    ]  # fmt: skip
    assert [row["selected"] for row in rows] == [True] * 4 + [False] and [row["replayed"] for row in rows] == [True] + [
        False
    ] * 4
    assert [row["advantage"] for row in rows] == [0.1, 0.2, 0.3, 0.4, None]
    assert [row["baseline"] for row in rows] == [1.0, 2.0, 3.0, 4.0, None]
    assert [row["reward"] for row in rows] == [2.0, 1.0, 0.5, -1.0, 3.0]
    assert [row["entropies"] for row in rows] == [[9.0], [7.0, 8.0], [], [6.0], None]
    assert {row["step"] for row in rows} == {5} and {row["token_advantages"] for row in rows} == {None}


def test_token_advantages_are_stored_with_their_mean():
    stored_episodes = [
        make_episode(
            1, make_turn(0, 0, 0, 1.0, tokens=2), make_turn(0, 1, 1, 0.0, tokens=0), make_turn(0, 2, 2, 0.0, tokens=1)
        )
    ]
    credit = Credit(advantages=np.array([1.0, 3.0, -5.0]), level="token")
    rows = credit_rows(
        1,
        stored_episodes,
        [LearnedBatch(batch=stored_episodes, turns=turn_table(stored_episodes), credit=credit, entropies=np.zeros(3))],
    ).to_pylist()
    assert [row["advantage"] for row in rows] == [2.0, 0.0, -5.0]
    assert [row["token_advantages"] for row in rows] == [[1.0, 3.0], [], [-5.0]]


def test_an_empty_batch_has_only_dropped_turns():
    stored_episodes = [make_episode(1, make_turn(0, 0, 0, 1.0))]
    credit = Credit(advantages=np.zeros(0))
    rows = credit_rows(
        1, stored_episodes, [LearnedBatch(batch=[], turns=turn_table([]), credit=credit, entropies=np.zeros(0))]
    ).to_pylist()
    assert [(row["episode_id"], row["selected"], row["advantage"]) for row in rows] == [(1, False, None)]


def test_baselines_of_a_wrong_shape_are_refused():
    turns = turn_table([make_episode(1, make_turn(0, 0, 0, 1.0))])
    wrong_credit = Credit(advantages=np.zeros(1), baselines=np.zeros(3))
    with pytest.raises(PluginError, match=r"must return baselines of shape \(1,\) here; it returned \(3,\)"):
        check_output(bind("credit", "outcome"), wrong_credit, turns)


@pytest.fixture(scope="module")
def trained_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("credit") / "run"
    return sparring.train(
        "kuhn-tiny",
        *SMALL_OVERRIDES,
        "selection={name: variance_filter}",
        "rollout.group_size=4",
        "replay={name: r3}",
        run=folder,
    )


def test_the_credit_table_joins_the_episodes_turn_by_turn(trained_run):
    credit, episodes = f"'{trained_run.path}/credit/*.parquet'", f"'{trained_run.path}/episodes/*.parquet'"
    keys = "step, episode_id, seat, turn_index"
    ((num_trained,),) = duckdb.sql(f"SELECT count(*) FROM {episodes} WHERE trained").fetchall()
    assert duckdb.sql(f"SELECT count(*) FROM {credit} JOIN {episodes} USING ({keys})").fetchall() == [(num_trained,)]
    new_rows = duckdb.sql(f"SELECT count(*) FROM {credit} WHERE NOT replayed").fetchall()
    assert new_rows == [(num_trained,)]
    for selected, entropies, logprobs in duckdb.sql(
        f"SELECT selected, entropies, logprobs FROM {credit} JOIN {episodes} USING ({keys})"
    ).fetchall():
        assert len(entropies or ()) == (len(logprobs) if selected else 0)
    query = f"SELECT step, episode_id, count(DISTINCT selected) n FROM {credit} GROUP BY ALL HAVING n > 1"
    assert duckdb.sql(query).fetchall() == []  # an episode is trained on completely or not at all
    assert duckdb.sql(f"SELECT count(DISTINCT selected) FROM {credit}").fetchall() == [(2,)]


def test_stored_advantages_and_entropies_agree_with_the_metrics(trained_run):
    metrics = trained_run.metrics()
    for step in (1, 4):
        rows = pq.read_table(trained_run.path / "credit" / f"part-{step:06d}.parquet").to_pylist()
        selected_rows = [row for row in rows if row["selected"]]
        tokens = np.concatenate([np.repeat(row["advantage"], len(row["entropies"])) for row in selected_rows])
        assert np.std(tokens) == pytest.approx(metrics[step - 1]["advantage_std"])
        assert all(0 <= value <= np.log(40) for row in selected_rows for value in row["entropies"])


def test_a_resumed_run_writes_the_same_credit_files(trained_run, tmp_path):
    changes = ["selection={name: variance_filter}", "rollout.group_size=4", "replay={name: r3}"]
    finished_run = sparring.train("kuhn-tiny", *SMALL_OVERRIDES, *changes, "checkpoint.keep=9", run=tmp_path / "run")
    files_before = {path.name: path.read_bytes() for path in sorted((finished_run.path / "credit").iterdir())}
    for later_checkpoint in finished_run.path.glob("checkpoints/step_000004"):
        later_checkpoint.rename(tmp_path / "gone")
    resumed_run = sparring.train(
        "kuhn-tiny", *SMALL_OVERRIDES, *changes, "checkpoint.keep=9", run=tmp_path / "run", resume=True
    )
    assert {
        path.name: path.read_bytes() for path in sorted((resumed_run.path / "credit").iterdir())
    } == files_before and len(files_before) == 4


def test_a_newer_credit_table_is_refused_and_a_truncated_one_skipped(trained_run, tmp_path, caplog):
    store = CreditStore(tmp_path / "credit")
    store.put(1, (trained_run.path / "credit" / "part-000001.parquet").read_bytes())
    store.put(2, (trained_run.path / "credit" / "part-000002.parquet").read_bytes()[:-20])
    assert set(store.read()["step"].to_pylist()) == {1} and "1 of 2 parts" in caplog.text
    table = pq.read_table(store.folder / "part-000001.parquet").replace_schema_metadata({CREDIT_COLUMNS.key: b"9"})
    pq.write_table(table, store.folder / "part-000001.parquet", write_page_checksum=True)
    with pytest.raises(RunError, match="version 9 of the columns of credit, and this Sparring reads up to 2"):
        store.read()


def run_show(*arguments, exit_code=0):
    result = CliRunner().invoke(app, ["show", *map(str, arguments)])
    assert result.exit_code == exit_code, result.output
    return result.output


def test_show_prints_an_episode_with_its_credit(trained_run):
    text = run_show(trained_run.path, "--step", 2)
    shown_episode = next(episode for step, episode in trained_run.episodes() if step == 2)
    assert f"Episode {shown_episode.episode_id} of kuhn_poker, step 2" in text
    table = CreditStore(trained_run.path / "credit").read(lambda step: step == 2).to_pylist()
    rows = {(row["seat"], row["turn_index"]): row for row in table if row["episode_id"] == shown_episode.episode_id}
    for turn in shown_episode.turns:
        assert f"prompt  {turn.prompt}" in text and f"reply   {turn.reply!r}" in text
        row = rows[turn.seat, turn.turn_index]
        assert (f"advantage {row['advantage']:+.4g}" if row["selected"] else "selection dropped it") in text
    assert "H=" in text or not any(row["selected"] for row in rows.values())


def test_show_lists_episodes_and_refuses_missing_ones(trained_run):
    episode_ids = [episode.episode_id for step, episode in trained_run.episodes() if step == 4]
    lines = run_show(trained_run.path, "--list").splitlines()
    assert [int(line.split()[0]) for line in lines[1:]] == episode_ids
    assert f"Episode {episode_ids[-1]} of" in run_show(trained_run.path, "--episode", episode_ids[-1], "--ids")
    assert '"episode_id": ' + str(episode_ids[0]) in run_show(trained_run.path, "--json")


def test_show_describes_each_position_and_draws_one(trained_run, tmp_path):
    text = " ".join(run_show(trained_run.path, "--ids").split())
    assert " now first is to act. first holds the " in text and re.search(
        " end (first|second) is to act.| end The play is over.", text
    )
    file = tmp_path / "board.svg"
    arguments = [trained_run.path, "--svg", file, "--seat", "second", "--turn"]
    description = " ".join(run_show(*arguments, 0, "--dark").split())
    check_svg(file.read_text())
    assert (
        "Wrote" in description
        and "first is to act. second holds the" in description
        and "first holds" not in description
    )
    dark = file.read_bytes()
    run_show(*arguments, 0)
    assert file.read_bytes() != dark
    end = re.search(" end (.{60})", text)[1]
    assert f"Wrote {file}: {end}" in " ".join(run_show(trained_run.path, "--svg", file).split())


def test_show_prints_and_draws_the_timeline_of_seats(trained_run, tmp_path):
    text, file = run_show(trained_run.path, "--timeline"), tmp_path / "line.svg"
    turns = json.loads(run_show(trained_run.path, "--json"))["episode"]["turns"]
    assert f"{len(turns)} turn" in text and "up to 1 at once. The critical path: " in text
    for seat, role in enumerate(
        ("first ", "second")
    ):  # the seats alternate, so each row ends with the last turn of its seat
        letters = "".join("#" if make_turn["seat"] == seat else "." for make_turn in turns).rstrip(".")
        assert f"\n{role}  {letters if seat == 0 else letters.replace('.', ' ', 1)}".rstrip() + "\n" in text
    output = " ".join(run_show(trained_run.path, "--timeline", "--svg", file).split())
    assert ElementTree.parse(file).getroot().get("role") == "img"
    assert f"Wrote {file}: " in output and "Who acts when" in file.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--step", 99], "is not stored. The nearest are 1, 2, 3, 4"),
        (["--episode", 10**6], "has no episode 1000000"),
        (["--timeline", "--json"], "shows the whole episode"),
        (["--timeline", "--svg", "FILE", "--turn", 0], "shows the whole episode"),
        (["--turn", 1], "write --svg FILE too"),
        (["--dark"], "write --svg FILE too"),
        (["--svg", "FILE", "--turn", 99], "has no turn 99"),
        (["--svg", "FILE", "--seat", "third"], "third"),
    ],
)
def test_show_refuses_wrong_options(trained_run, tmp_path, words, message):
    words = [tmp_path / "x.svg" if word == "FILE" else word for word in words]
    outcome = CliRunner().invoke(app, ["show", str(trained_run.path), *map(str, words)])
    assert (
        isinstance(outcome.exception, SparringError)
        and message in str(outcome.exception)
        and not (tmp_path / "x.svg").exists()
    )


def test_show_prints_an_episode_that_cannot_be_replayed(trained_run, monkeypatch):
    monkeypatch.setattr("sparring.environments.kuhn_poker.KuhnPoker.version", 9, raising=False)
    text = " ".join(run_show(trained_run.path, "--ids").split())
    assert (
        text.startswith("Positions are left out: Environment 'kuhn_poker' has version 9 here") and " now " not in text
    )
    assert "prompt kuhn first" in text


def test_show_loads_no_weights_and_fetches_nothing(trained_run, monkeypatch):
    monkeypatch.setattr("sparring.api.load.LocalEngine", None)
    assert re.search(r"tokens  '\S+' p=", run_show(trained_run.path))
    folder = trained_run.path.parent / "other"
    shutil.copytree(trained_run.path, folder, dirs_exist_ok=True)
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text.replace("name: tiny", "name: some-org/no-such-model"))
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("the network was asked"))
    assert "Tokens are shown as ids" in run_show(folder)


def test_show_prints_valid_json(trained_run):
    data = json.loads(run_show(trained_run.path, "--json"), parse_constant=lambda name: pytest.fail(name))
    assert {"step", "episode", "credit"} == set(data)
    assert json_value({"a": (float("nan"), 1.0), "b": {2, 1}}) == {"a": [None, 1.0], "b": [1, 2]}


def test_a_manipulated_episode_is_refused_with_one_line(trained_run):
    step, episode = trained_run.episodes()[0]
    turns = tuple(
        make_turn._replace(segments=(Segment(kind="sampled", ids=(1,), logprobs=(1e5,)),))
        for make_turn in episode.turns
    )
    with pytest.raises(RunError, match="is an invalid record"):
        episode_lines(step, replace(episode, turns=turns), {}, None)


def test_a_turn_that_was_not_sent_is_marked():
    unsent = Turn(
        0,
        0,
        "learner",
        "k",
        ("a",),
        "",
        None,
        "unparsable",
        {},
        (Segment(kind="sampled", ids=()),),
        truncated=True,
        prompt="news",
    )
    lines = " ".join(" ".join(episode_lines(1, make_episode(1, unsent), {}, None)).split())
    assert "not sent: longer than the model's context" in lines and "prompt news" in lines
