"""Hanabi: the table rebuilt from events agrees with OpenSpiel's at every position."""

import re

import pytest

from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.hanabi import replay

VARIANTS = [(size, players) for size in ("mini", "simple") for players in (2, 3, 4)]


def spoken(game, index, spiel):
    """Return OpenSpiel's name of an action in our words."""
    name = spiel.action_to_string(spiel.current_player(), index)
    if match := re.fullmatch(r"\((Play|Discard) (\d)\)", name):
        return f"{match[1].lower()}{int(match[2]) + 1}"
    match = re.fullmatch(r"\(Reveal player \+(\d) (?:color|rank) (\w)\)", name)
    return f"tell-{match[2]}" if game.num_seats == 2 else f"tell+{match[1]}-{match[2]}"


def told_by_openspiel(spiel, seat):
    """Return (lives, information, stacks, hands from the seat on, deck, discards) from OpenSpiel's observation."""
    text = spiel.observation_string(seat)
    lives, information = (int(re.search(rf"{word} tokens: (\d+)", text)[1]) for word in ("Life", "Info"))
    stacks = re.search(r"Fireworks: (.*?) *\n", text)[1]
    hands = [
        re.findall(r"^(\w\w) \|\|", part, re.M) for part in text.split("Hands:")[1].split("Deck size")[0].split("-----")
    ]
    return (
        lives,
        information,
        stacks,
        hands,
        int(re.search(r"Deck size: (\d+)", text)[1]),
        text.split("Discards:")[1].split(),
    )


@pytest.mark.parametrize(("size", "players"), VARIANTS)
def test_the_table_agrees_with_openspiel_at_every_position(size, players):
    game = make_game("hanabi", options={"size": size, "players": players})
    for seed in range(30):
        state, draws = game.reset(Stream.from_seed(seed)), Stream.from_seed(seed).child("play")
        while not state.done:
            table, seat = replay(game.sizes, state.trail), state.seat
            lives, information, stacks, hands, deck, discards = told_by_openspiel(state.spiel, seat)
            assert (table.lives, table.information, table.deck) == (lives, information, deck)
            assert " ".join(f"{colour}{height}" for colour, height in table.stacks.items()) == stacks
            others = [table.hands[(seat + offset) % players] for offset in range(1, players)]
            assert hands[1:] == others
            assert sorted(table.discards) == sorted(discards)
            legal = state.legal_actions()
            assert [spoken(game, index, state.spiel) for index in state.spiel.legal_actions()] == list(legal)
            state.apply(legal[draws.integer(state.plies, len(legal))])
        table = replay(game.sizes, state.trail)
        score = sum(table.stacks.values()) if table.lives else 0
        assert list(state.returns) == [float(score)] * players


@pytest.mark.parametrize("style", ["brief", "full"])
@pytest.mark.parametrize("players", [2, 3])
def test_no_seat_is_told_its_own_cards(players, style):
    """Swapping the seat's hidden hand for another one that looks the same to it changes no word."""
    game = make_game("hanabi", options={"players": players, "style": style})
    seen = {}
    for seed in range(300):
        state = game.reset(Stream.from_seed(seed))
        hidden = tuple(event.action for event in state.trail[: game.sizes.hand])
        others = tuple(event.action for event in state.trail[game.sizes.hand :])
        text = state.observe(0).text
        known = seen.setdefault(others, (text, {hidden}))
        assert known[0] == text
        known[1].add(hidden)
    assert any(len(hands) > 1 for _, hands in seen.values())


def test_words_of_a_hint_and_a_play():
    game = make_game("hanabi")
    spiel = game.spiel.new_initial_state()
    for _ in range(6):
        spiel.apply_action(spiel.chance_outcomes()[0][0])
    state = game.state_of(spiel)  # seat0 holds R1 R1 R1, seat1 holds R2 Y1 Y1
    state.apply("tell-Y")
    assert state.observe(1).text == "hanabi seat1 R1 R1 R1 tell-Y 2 3"
    state.apply("play1")
    state.apply_index(3)
    assert state.observe(0, 1).text == "play1 R2 miss Y2"
    assert state.game.table(state).known[1] == [["Y", "?"], ["Y", "?"], ["?", "?"]]
