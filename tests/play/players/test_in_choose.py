"""Players who look at the play within combinators: among candidates, and as who proposes them."""

import pytest

from sparring.config.plugins.registry import bind
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.reply import meant

ROOT = Stream.from_seed(0)
GAMES = {
    "werewolf_bot": {"name": "werewolf"},
    "fictitious": {"name": "rock_paper_scissors"},
    "kuhn_bot": {"name": "kuhn_poker"},
    "searcher": {"name": "wide_search", "options": {"workers": 2}},
    "scheduler": {"name": "dag_search"},
}


def chosen(inner, seed=0, **options):
    return make_game("choose", options={"environment": inner, **options}).reset(Stream.from_seed(seed))


@pytest.mark.parametrize("diverse", [True, False])
@pytest.mark.parametrize("name", GAMES)
def test_whoever_proposes_plays_as_the_seat_that_chooses_would(name, diverse):
    """All seats of a play with proposers, to its end or, where candidates are not known by the player, to the first choice."""
    agent = bind("players", name, {})()
    for seed in range(4):
        state = chosen(GAMES[name], seed, proposer="seat", count=2, diverse=diverse)
        half = state.rules.inner.num_seats
        for moment in range(200):
            due = state.due()
            if state.done or (name in ("searcher", "scheduler") and due[0] < half):
                break
            said = {seat: agent.choose(state, seat, ROOT.child(moment).child(seat)) for seat in due}
            if not diverse or name not in ("searcher", "scheduler"):
                assert all(said[seat] in state.legal(seat) for seat in due if state.legal(seat) is not None)
            if any(said[seat] not in state.legal(seat) for seat in due):
                break  # the second proposal of one who knows one alone
            state.step(said)
        assert moment > 0


@pytest.mark.parametrize("shuffle", [True, False])
def test_kuhn_bot_goes_by_what_its_candidates_are(shuffle):
    """An aggressive one bets with every card, whichever number that has."""
    agent, numbers = bind("players", "kuhn_bot", {"style": "aggressive"})(), set()
    for seed in range(20):
        state = chosen({"name": "kuhn_poker"}, seed, shuffle=shuffle)
        legal, seat = state.legal(0), 0
        chances = agent.chances(state, seat)
        assert {meant(state, seat, legal)[legal.index(reply)]: share for reply, share in chances.items()} == {"pass": 0.0, "bet": 1.0}
        numbers |= {reply for reply, share in chances.items() if share}
    assert len(numbers) == (2 if shuffle else 1)


def test_fictitious_answers_among_candidates_and_inside_attempts():
    agent = bind("players", "fictitious", {})()
    trial = make_game("trial", options={"environment": {"name": "choose", "options": {"environment": GAMES["fictitious"]}}, "attempts": 3, "carry": ["left", "right"], "reflect": False})
    state = trial.reset(ROOT)
    for word in ("rock", "rock"):
        number = {seat: state.legal(seat)[meant(state, seat, state.legal(seat)).index(word)] for seat in (0, 1)}
        state.step(number)
    for seat in (0, 1):
        legal = state.legal(seat)
        assert meant(state, seat, legal)[legal.index(agent.choose(state, seat, ROOT))] == "paper"
