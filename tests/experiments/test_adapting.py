"""Rows of attempts beside what there is to be had, exactly."""

import pytest

from sparring.environments.catalogue import make_game
from sparring.experiments.adapting import adaptations_of
from sparring.measure.opponents import parse_agent
from sparring.measure.starts import Met
from sparring.players.kuhn_bot import kuhn_bot

STYLES = ("passive", "station", "loose")


def rows(*others, policy=None, trials=2, **options):
    game = make_game("trial", options={"environment": {"name": "kuhn_poker"}, "reflect": False, **options})
    found = [parse_agent(text) for text in others]
    agent = policy or parse_agent("scripted preference=[bet]").make()
    return adaptations_of(agent, [game], config=None, others=found, trials=trials, met=Met(None), seed=0)


def test_a_pool_stands_beside_its_ceiling_and_an_opponent_beside_its_best_response():
    *each, pool = rows(*(f"kuhn_bot style={style}" for style in STYLES), trials=30)
    assert [round(row["best"], 3) for row in each] == [1.0, 0.333, 0.083]
    assert (round(pool["best"], 3), round(pool["fixed"], 3)) == (0.472, 0.333)
    assert [round(share, 3) for share in pool["ceiling"]] == [0.0, 0.933, 0.978]
    for closed, earned in zip(pool["closed"], pool["attempts"], strict=True):
        for end in ("mean", "low", "high"):
            assert closed[end] == pytest.approx((earned[end] - pool["fixed"]) / (pool["best"] - pool["fixed"]))


def test_one_opponent_leaves_nothing_to_find_out():
    (_, pool) = rows("kuhn_bot style=passive")
    assert pool["best"] == pool["fixed"] == pytest.approx(1.0)
    assert "closed" not in pool and "ceiling" not in pool


class Silent:
    """Plays as a bot does, and does not say how."""

    name, renderer = "silent", None

    def act(self, turns):
        return kuhn_bot().act(turns)


def test_where_there_is_no_ceiling_the_row_says_why(monkeypatch):
    for options, why in (({"redeal": "same"}, "fresh deals"), ({"stop_on_win": True}, "no early stop")):
        for row in rows("kuhn_bot", **options):
            assert why in row["why"] and "best" not in row
    monkeypatch.setattr("sparring.measure.opponents.AgentSpec.make", lambda spec: Silent())
    for row in rows("random", policy=kuhn_bot()):
        assert "cannot be described exactly" in row["why"] and "best" not in row
