from collections import Counter

import pytest

from sparring.config.plugins.registry import bind
from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from tests.cases import every_case

AGENT = bind("players", "fictitious", {})()
STREAM = Stream.from_seed(0)


def play_after(combinator, *throws, name="rock_paper_scissors", seat=0, **options):
    """Return a play in which the opponent has thrown ``throws`` and this seat always rock."""
    rounds_option = "attempts" if combinator == "trial" else "rounds"
    extra_options = {"carry": ["left", "right"], "reflect": False} if combinator == "trial" else {}
    state = make_game(
        combinator, options={"environment": {"name": name}, rounds_option: 9, **extra_options, **options}
    ).reset(STREAM)
    for throw in throws:
        state.step({seat: "rock", 1 - seat: throw})
    return state


@every_case("combinator", ["trial", "repeated"])
@every_case("seat", [0, 1])
@every_case(
    ("throws", "best"),
    [
        (("rock",), {"paper"}),
        (("scissors",), {"rock"}),
        (("rock", "rock", "paper"), {"paper"}),
        (("rock", "paper"), {"paper"}),  # the best response wins once and draws once
        (("rock", "paper", "scissors"), {"rock", "paper", "scissors"}),
        ((), {"rock", "paper", "scissors"}),
    ],
)
def test_fictitious_play_is_the_best_response_to_earlier_throws(combinator, seat, throws, best):
    state = play_after(combinator, *throws, seat=seat)
    counts = Counter(AGENT.choose(state, seat, STREAM.child(number)) for number in range(60))
    assert set(counts) == best and min(counts.values()) >= 60 / len(best) / 2


def test_fictitious_play_is_the_best_response_in_the_game_of_five_throws():
    assert AGENT.choose(play_after("trial", "rock", "scissors", name="rps_spock_lizard"), 0, STREAM) == "spock"


def test_the_note_of_fictitious_play_is_the_example_of_the_prompt():
    state = play_after(
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
