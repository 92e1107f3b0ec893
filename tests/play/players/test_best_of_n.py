import json

import pytest
from typer.testing import CliRunner

from sparring.cli import app
from sparring.config.plugins import registry
from sparring.config.plugins.registry import bind
from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.reply import actions_meant
from sparring.play.players.base import PendingTurn
from sparring.play.players.best_of_n import BestOfN


def turns_of_positions(name="tic_tac_toe", num_positions=30):
    game, pending = make_game(name), []
    for episode in range(num_positions):
        state = game.reset(Stream.from_seed(episode))
        for ply in range(2 + episode % 4):
            state.apply(state.legal_actions()[(3 * episode + ply) % len(state.legal_actions())])
            if state.done:
                break
        if not state.done:
            pending.append(PendingTurn(state=state, seat=state.seat, stream=Stream.from_seed(99).child(episode)))
    return pending


def best_of_n_player(**options):
    return registry.bind("players", "best_of_n", options)()


def share_of_best(agent, pending):
    oracle = registry.bind("oracles", "minimax")()
    pairs = zip(oracle.judge([turn.state for turn in pending]), agent.act(pending), strict=True)
    return sum(reply.text in verdict.best for verdict, reply in pairs) / len(pending)


def test_best_of_1_equals_the_player():
    pending, random_player = turns_of_positions(), registry.bind("players", "random")()
    assert best_of_n_player(count=1).act(pending) == random_player.act(pending)


def test_more_replies_are_better_and_many_are_optimal():
    pending = turns_of_positions()
    shares = [share_of_best(best_of_n_player(count=count), pending) for count in (1, 4, 200)]
    assert shares[0] < shares[1] <= shares[2] == 1.0


class FixedReplies:
    name, renderer = "saying", None

    def __init__(self, *texts):
        self.texts = texts

    def act(self, turns):
        from sparring.play.players.base import Reply

        return [Reply(self.texts[index % len(self.texts)]) for index in range(len(turns))]


def judge_with_values(values):
    from sparring.methods.oracles.base import make_verdict

    return lambda game: (
        lambda states: [
            None if values is None else make_verdict(state.legal_actions(), values[: len(state.legal_actions())])
            for state in states
        ]
    )


@pytest.mark.parametrize(
    ("texts", "values", "expected"),
    [
        (("a1", "b1", "c1"), [0.0, 2.0, 1.0], "b1"),
        (("zz", "c1", "a1"), [5.0, 5.0, 5.0], "c1"),  # the first of equal values; an illegal reply is below all
        (("zz", "a1", "zz"), [-9.0, -1.0, -1.0], "a1"),
        (("c1", "b1", "a1"), None, "c1"),  # the oracle abstains
        (("zz", "zy", "zx"), [0.0, 1.0, 2.0], "zz"),
    ],
)
def test_the_chosen_reply_by_hand(texts, values, expected):
    state = make_game("tic_tac_toe").reset(Stream.from_seed(0))
    values = None if values is None else [*values, *[0.0] * 6]
    agent = BestOfN(FixedReplies(*texts), 3, judge_with_values(values))
    (reply,) = agent.act([PendingTurn(state=state, seat=0, stream=Stream.from_seed(0))])
    assert reply.text == expected


def test_a_memory_is_one_reply_and_a_play_without_copies_is_refused():
    state = make_game("tic_tac_toe").reset(Stream.from_seed(0))
    agent = BestOfN(FixedReplies("first", "second"), 2, judge_with_values(None))
    (reply,) = agent.act([PendingTurn(state=state, seat=0, stream=Stream.from_seed(0), memory="m")])
    assert reply.text == "first"

    class Uncopied:
        game = state.game

    with pytest.raises(GameError, match="cannot be copied"):
        agent.act([PendingTurn(state=Uncopied(), seat=0, stream=Stream.from_seed(0))])


def test_evaluate_with_best_of_improves_a_run(tmp_path):
    config = {
        "threads": 1, "steps": 1, "warmup": {"updates": 2, "games": 8}, "rollout": {"games_per_step": 4},
        "environments": [{"name": "tic_tac_toe", "illegal": {"rule": "random"}, "oracle": {"name": "minimax"}}],
    }  # fmt: skip
    import sparring

    sparring.train(config, run=tmp_path / "run")
    results = {}
    for count in (1, 8):
        arguments = [
            "evaluate",
            str(tmp_path / "run"),
            "--games",
            "30",
            "--best-of",
            str(count),
            "--json",
            "--no-exact",
        ]
        outcome = CliRunner().invoke(app, arguments)
        assert outcome.exit_code == 0, outcome.output
        results[count] = json.loads(outcome.output)
    optimal_shares = {
        count: sum(row["intervals"]["optimal"]["mean"] for row in result["matches"])
        for count, result in results.items()
    }
    assert optimal_shares[8] > optimal_shares[1] and results[8]["best_of"] == 8 and "best_of" not in results[1]
    refused_result = CliRunner().invoke(
        app, ["evaluate", str(tmp_path / "run"), "--games", "4", "--best-of", "2", "--oracle", "none"]
    )
    assert refused_result.exit_code != 0


ROOT = Stream.from_seed(0)
GAMES = {
    "werewolf_bot": {"name": "werewolf"},
    "fictitious": {"name": "rock_paper_scissors"},
    "kuhn_bot": {"name": "kuhn_poker"},
    "searcher": {"name": "wide_search", "options": {"workers": 2}},
    "scheduler": {"name": "dag_search"},
}


def new_choose_play(inner, seed=0, **options):
    return make_game("choose", options={"environment": inner, **options}).reset(Stream.from_seed(seed))


@pytest.mark.parametrize("diverse", [True, False])
@pytest.mark.parametrize("name", GAMES)
def test_bots_propose_and_choose_in_the_environment_choose(name, diverse):
    agent = bind("players", name, {})()
    for seed in range(4):
        state = new_choose_play(GAMES[name], seed, proposer="seat", count=2, diverse=diverse)
        num_inner_seats = state.rules.inner.num_seats
        for moment in range(200):
            due = state.due()
            if state.done or (name in ("searcher", "scheduler") and due[0] < num_inner_seats):
                break
            replies = {seat: agent.choose(state, seat, ROOT.child(moment).child(seat)) for seat in due}
            if not diverse or name not in ("searcher", "scheduler"):
                assert all(replies[seat] in state.legal(seat) for seat in due if state.legal(seat) is not None)
            if any(replies[seat] not in state.legal(seat) for seat in due):
                break  # a bot with only one proposal repeats it, which is illegal
            state.step(replies)
        assert moment > 0


@pytest.mark.parametrize("shuffle", [True, False])
def test_kuhn_bot_chooses_candidates_by_their_meaning(shuffle):
    agent, likely_replies = bind("players", "kuhn_bot", {"style": "aggressive"})(), set()
    for seed in range(20):
        state = new_choose_play({"name": "kuhn_poker"}, seed, shuffle=shuffle)
        legal, seat = state.legal(0), 0
        chances = agent.chances(state, seat)
        assert {actions_meant(state, seat, legal)[legal.index(reply)]: share for reply, share in chances.items()} == {
            "pass": 0.0,
            "bet": 1.0,
        }
        likely_replies |= {reply for reply, share in chances.items() if share}
    assert len(likely_replies) == (2 if shuffle else 1)


def test_fictitious_chooses_candidates_inside_a_trial():
    agent = bind("players", "fictitious", {})()
    trial = make_game(
        "trial",
        options={
            "environment": {"name": "choose", "options": {"environment": GAMES["fictitious"]}},
            "attempts": 3,
            "carry": ["left", "right"],
            "reflect": False,
        },
    )
    state = trial.reset(ROOT)
    for _ in range(2):
        replies = {
            seat: state.legal(seat)[actions_meant(state, seat, state.legal(seat)).index("rock")] for seat in (0, 1)
        }
        state.step(replies)
    for seat in (0, 1):
        legal = state.legal(seat)
        assert actions_meant(state, seat, legal)[legal.index(agent.choose(state, seat, ROOT))] == "paper"
