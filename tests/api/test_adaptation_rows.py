"""Evaluation over repeated attempts: returns beside the exact best response and exact ceiling of a pool."""

import numpy as np
import pytest

from sparring.api import measurement
from sparring.api.measurement import adaptations_of, opponents_of, pool_of
from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.environments.catalogue import make_game
from sparring.measure.agent_spec import parse_agent
from sparring.measure.initial_states import SeenInitialStates
from sparring.play.players.base import Reply
from sparring.play.players.kuhn_bot import kuhn_bot

STYLES = ("passive", "station", "loose")


def rows(*opponent_texts, policy=None, trials=2, limit=0, **options):
    game = make_game("trial", options={"environment": {"name": "kuhn_poker"}, "reflect": False, **options})
    opponents = [parse_agent(text) for text in opponent_texts]
    agent = policy or parse_agent("scripted preference=[bet]").make()
    return adaptations_of(
        agent,
        [game],
        pool_of([game], None, opponents),
        trials=trials,
        seen_states=SeenInitialStates(None),
        seed=0,
        limit=limit,
    )


def test_a_pool_has_its_ceiling_and_an_opponent_its_best_response_value():
    *opponent_rows, pool = rows(*(f"kuhn_bot style={style}" for style in STYLES), trials=30)
    assert [round(row["best"], 3) for row in opponent_rows] == [1.0, 0.333, 0.083]
    assert (round(pool["best"], 3), round(pool["fixed"], 3)) == (0.472, 0.333)
    assert [round(share, 3) for share in pool["ceiling"]] == [0.0, 0.933, 0.978]
    for share_closed, mean_return in zip(pool["closed"], pool["attempts"], strict=True):
        for end in ("mean", "low", "high"):
            assert share_closed[end] == pytest.approx(
                (mean_return[end] - pool["fixed"]) / (pool["best"] - pool["fixed"])
            )


class BettingBot(type(kuhn_bot())):
    def __init__(self):
        super().__init__(style="loose")
        self.num_queries = 0

    def chances(self, state, seat):
        return {"bet": 1.0, "pass": 0.0}

    def action_logprobs(self, queries):
        self.num_queries += len(queries)
        return [np.log(np.where(np.array(query.legal_actions) == "bet", 0.75, 1e-300)) for query in queries]


def test_a_policy_with_probabilities_has_exact_and_sampled_returns():
    *opponent_rows, pool = rows(
        *(f"kuhn_bot style={style}" for style in STYLES), policy=BettingBot(), trials=400, limit=3000
    )
    for row in (*opponent_rows, pool):
        for interval, exact_return in zip(row["attempts"], row["exact"]["returns"], strict=True):
            assert interval["low"] - 0.1 < exact_return < interval["high"] + 0.1 and exact_return == pytest.approx(
                row["exact"]["returns"][0]
            )
        assert row["exact"]["illegal"] == pytest.approx([0.25] * 3) and ("closed" in row["exact"]) == (row is pool)
    means = np.array([row["exact"]["returns"] for row in opponent_rows])
    assert pool["exact"]["returns"] == pytest.approx(means.mean(axis=0).tolist())
    for share_closed, mean_return in zip(pool["exact"]["closed"], pool["exact"]["returns"], strict=True):
        assert share_closed == pytest.approx((mean_return - pool["fixed"]) / (pool["best"] - pool["fixed"]))


def test_a_row_is_exact_or_states_the_reason_why_not(monkeypatch):
    agent = BettingBot()
    assert (
        not any({"exact", "why_sampled"} & set(row) for row in rows("kuhn_bot", policy=agent)) and not agent.num_queries
    )
    assert all(
        "exact" not in row and "over 5 conversations" in row["why_sampled"]
        for row in rows("kuhn_bot", policy=agent, limit=5)
    )
    assert all("without notes" in row["why_sampled"] for row in rows("kuhn_bot", policy=agent, limit=5, reflect=True))
    # a scripted bot gives no probabilities
    assert not any({"exact", "why_sampled"} & set(row) for row in rows("kuhn_bot", limit=5))
    for options, reason in (({"redeal": "same"}, "fresh deal"), ({"stop_on_win": True}, "no early stop")):
        for row in rows("kuhn_bot", **options):
            assert reason in row["why"] and "best" not in row
    monkeypatch.setattr("sparring.measure.agent_spec.AgentSpec.make", lambda spec: BotWithoutProbabilities())
    for row in rows("random", policy=kuhn_bot()):
        assert "cannot be measured exactly" in row["why"] and "best" not in row


def test_exact_figures_are_computed_once_per_role_and_pool(monkeypatch):
    requests, original = [], measurement.ceiling_or_reason
    monkeypatch.setattr(
        measurement,
        "ceiling_or_reason",
        lambda *args, **named: requests.append((named["role"], [*named["opponents"]])) or original(*args, **named),
    )
    agent, config = PaperBot(), config_with("{several: {name: random}}", "[{name: biased, weights: {rock: 2}}]")
    game = make_game("trial", options={"reflect": False, "carry": ["left", "right"], "attempts": 1})
    for row in adaptations_of(
        agent, [game], pool_of([game], config, []), trials=2, seen_states=SeenInitialStates(None), seed=0, limit=100
    ):
        assert "exact" in row and "best" in row
    assert requests == [("left", ["several"]), ("left", ["biased"]), ("right", ["several"]), ("right", ["biased"])]
    assert agent.num_queries == 4, "one conversation for each role and pool"


def test_an_attempt_that_never_happens_has_no_return():
    game = {"environment": {"name": "rock_paper_scissors"}, "stop_on_win": True}
    bots = ("scripted preference=[rock]", "biased 'weights={rock: 1, paper: 1}'")
    rock_row, mixed_row, pool = rows(*bots, policy=PaperBot(), limit=3000, **game)
    assert rock_row["exact"]["returns"] == [1.0, None, None] and pool["exact"]["returns"][1] is None
    assert mixed_row["exact"]["returns"] == pytest.approx([0.0, 0.0, 0.0])
    (_, pool) = rows("kuhn_bot style=passive")
    assert pool["best"] == pool["fixed"] == pytest.approx(1.0)
    assert "closed" not in pool and "ceiling" not in pool


class PaperBot(BettingBot):
    def act(self, turns):
        return [Reply(text="paper") for _ in turns]

    def action_logprobs(self, queries):
        self.num_queries += len(queries)
        with np.errstate(divide="ignore"):
            return [np.log((np.array(query.legal_actions) == "paper").astype(float)) for query in queries]


class BotWithoutProbabilities:
    name, renderer = "silent", None

    def act(self, turns):
        return kuhn_bot().act(turns)


def config_with(bots, held_out):
    overrides = [
        f"bots={bots}",
        "matchmaker={name: mixed, past: 0.0, bots: {several: 1.0}}",
        f"evaluation.opponents={held_out}",
    ]
    return resolve(apply_overrides(load_recipe("mage/rock-tiny"), overrides))


def opponents_in(bots, held_out, *opponent_texts):
    opponents = opponents_of(config_with(bots, held_out), [parse_agent(text) for text in opponent_texts])
    return {name: (opponent.weight, opponent.trained) for name, opponent in opponents.items()}


def test_pools_name_bots_by_their_options_and_weigh_mixtures():
    bots = "{several: {name: mixture, players: {\"biased 'weights={rock: 8}'\": 3, random: 1}}}"
    pool = opponents_in(
        bots, "[{name: random}, {name: biased, weights: {rock: 8}}]", "random", "biased 'weights={rock: 2}'"
    )
    assert pool == {
        "several: biased 'weights={rock: 8}'": (0.75, True),
        "several: random": (0.25, True),
        "biased": (1.0, False),
    }
    bots = "{rock: {name: biased, weights: {rock: 8}}, several: {name: mixture, players: {rock: 1, random: 1, learner: 1, past: 1}}}"
    assert opponents_in(bots, "[]", "biased 'weights={rock: 8}'") == {
        "several: rock": (0.25, True),
        "several: random": (0.25, True),
    }
    assert opponents_in("{several: {name: biased}}", "[]", "biased weights=null", "random", "random") == {
        "several": (1.0, True),
        "random": (1.0, False),
    }
