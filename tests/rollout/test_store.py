import logging

import duckdb
import pytest

from sparring.agents.random import random
from sparring.config import resolve
from sparring.engine.local import LocalEngine
from sparring.games.catalogue import make_game
from sparring.league.starts import starts
from sparring.registry import bind
from sparring.rng import Stream
from sparring.rollout.play import EpisodeSpec, RolloutCounts, play
from sparring.rollout.store import EpisodeStore


def episodes(step=0, **rollout):
    games = [{"name": "kuhn_poker", "illegal": {"penalty": 0.5}}]
    config = resolve({"games": games, "rollout": {"games_per_step": 20, **rollout}, "threads": 1})
    engine = LocalEngine(config)
    matchmaker = bind("league.matchmakers", "mixed", {"bots": {"random": 0.5}})
    specs = starts(step, games=engine.games, rollout=config.rollout, matchmaker=matchmaker, members=(), root=engine.root, progress=0.0)
    return engine.play(specs, RolloutCounts())


@pytest.mark.parametrize("rollout", [{}, {"top_p": 0.6}])
def test_episodes_come_back_as_they_were(tmp_path, rollout):
    store, first, second = EpisodeStore(tmp_path / "episodes"), episodes(0, **rollout), episodes(1, **rollout)
    store.append(1, first)
    store.append(2, second)
    assert list(store.episodes()) == [(1, e) for e in first] + [(2, e) for e in second]


def test_three_seats_and_streams_beyond_63_bits(tmp_path):
    game, root = make_game("kuhn_poker", options={"players": 3}), Stream((1 << 64) - 1)
    spec = EpisodeSpec(game=game, episode_id=1, group_id=0, deal=root, stream=root, seats=("bot",) * 3, trained=(False,) * 3)
    played = play([spec], {"bot": random()})
    store = EpisodeStore(tmp_path / "episodes")
    store.append(1, played)
    assert list(store.episodes()) == [(1, played[0])]


def test_duckdb_queries_it(tmp_path):
    store, played = EpisodeStore(tmp_path / "episodes"), episodes()
    store.append(1, played)
    query = f"SELECT role, avg(seat_return), count(*) FROM '{tmp_path}/episodes/*.parquet' WHERE turn_index = 0 GROUP BY role ORDER BY role"
    rows = duckdb.sql(query).fetchall()
    expected = [e.returns[0] for e in played]
    assert rows[0][0] == "first"
    assert rows[0][1] == pytest.approx(sum(expected) / len(expected))


def test_a_torn_part_is_left_out_with_a_warning(tmp_path, caplog):
    store, played = EpisodeStore(tmp_path / "episodes"), episodes()
    store.append(1, played)
    torn = store.append(2, played)
    torn.write_bytes(torn.read_bytes()[:-40])
    (tmp_path / "episodes" / ".tmp-part-000003.parquet").write_bytes(b"half")
    with caplog.at_level(logging.WARNING):
        assert [step for step, _ in store.episodes()] == [1] * len(played)
    assert "1 of 2 parts" in caplog.text


def test_later_steps_are_cut_off_and_a_step_is_written_once(tmp_path):
    store, played = EpisodeStore(tmp_path / "episodes"), episodes()
    for step in (1, 2, 3):
        store.append(step, played)
    store.truncate_after(1)
    store.append(1, played[:3])
    assert [step for step, _ in store.episodes()] == [1, 1, 1]


def test_an_empty_store(tmp_path):
    store = EpisodeStore(tmp_path / "episodes")
    assert store.read().num_rows == 0
    assert list(store.episodes()) == []
    store.truncate_after(0)
