from collections import Counter

import pytest

from sparring.config.plugins.registry import bind
from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from tests.cases import every_case

AGENT = bind("players", "fictitious", {})()
STREAM = Stream.from_seed(0)


def after(combinator, *throws, name="rock_paper_scissors", seat=0, **options):
    """Return a play in which the other seat threw these before, and this one rock."""
    key = "attempts" if combinator == "trial" else "rounds"
    more = {"carry": ["left", "right"], "reflect": False} if combinator == "trial" else {}
    state = make_game(combinator, options={"environment": {"name": name}, key: 9, **more, **options}).reset(STREAM)
    for word in throws:
        state.step({seat: "rock", 1 - seat: word})
    return state


@every_case("combinator", ["trial", "repeated"])
@every_case("seat", [0, 1])
@every_case(
    ("throws", "best"),
    [
        (("rock",), {"paper"}),
        (("scissors",), {"rock"}),
        (("rock", "rock", "paper"), {"paper"}),
        (("rock", "paper"), {"paper"}),  # wins once and draws once
        (("rock", "paper", "scissors"), {"rock", "paper", "scissors"}),
        ((), {"rock", "paper", "scissors"}),
    ],
)
def test_it_answers_what_was_thrown_so_far(combinator, seat, throws, best):
    state = after(combinator, *throws, seat=seat)
    counts = Counter(AGENT.choose(state, seat, STREAM.child(n)) for n in range(60))
    assert set(counts) == best and min(counts.values()) >= 60 / len(best) / 2


def test_in_the_game_of_five_it_takes_the_best_of_all_words():
    assert AGENT.choose(after("trial", "rock", "scissors", name="rps_spock_lizard"), 0, STREAM) == "spock"


def test_between_attempts_it_notes_what_it_was_told():
    state = after(
        "trial", "paper", reflect=True, environment={"name": "rock_paper_scissors", "options": {"style": "full"}}
    )
    assert AGENT.choose(state, 0, STREAM).startswith("You chose rock, the other player chose paper.")


@pytest.mark.parametrize("name", ["kuhn_poker", "repeated_dilemma"])
def test_other_games_are_refused(name):
    state = make_game(name).reset(STREAM)
    with pytest.raises(
        GameError, match=r"'fictitious' plays only rock_paper_scissors .*; write random or scripted there"
    ):
        AGENT.choose(state, state.due()[0] if hasattr(state, "due") else 0, STREAM)
