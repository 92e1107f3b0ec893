import pytest

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, GameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.play.players.base import PendingTurn
from sparring.play.players.chances import chances_of

CARDS = "JQK"
# style -> P(bet) with J, Q, K before a bet, and after a bet
BET_PROBABILITIES = {
    "conservative": ([0, 0, 1], [0, 0, 1]),
    "aggressive": ([1, 1, 1], [0, 1, 1]),
    "intermediate": ([0, 1, 1], [0, 0, 1]),
    "passive": ([0, 0, 0], [0, 0, 0]),
    "station": ([0, 0, 0], [1, 1, 1]),
    "loose": ([0.5, 0.5, 1], [0.5, 0.5, 1]),
}
KUHN = {"environment": {"name": "kuhn_poker"}}


def make_bot(**options):
    return registry.bind("players", "kuhn_bot", options)()


def state_after(cards, *moves, style="brief"):
    game = make_game("kuhn_poker", options={"style": style})
    play = game.state_of(game.first_node())
    for card in cards:
        play.apply_index(CARDS.index(card))
    for move in moves:
        play.apply(move)
    return play


@pytest.mark.parametrize("style", BET_PROBABILITIES)
@pytest.mark.parametrize("wording", ["brief", "full"])
def test_each_style_bets_and_calls_with_its_probabilities(style, wording):
    bot, (bets, calls) = make_bot(style=style), BET_PROBABILITIES[style]
    for card, other_card in ("JK", "QJ", "KQ"):
        for seat, cards, moves, bet_chances in (
            (0, card + other_card, [], bets), (0, card + other_card, ["pass", "bet"], calls),
            (1, other_card + card, ["pass"], bets), (1, other_card + card, ["bet"], calls),
        ):  # fmt: skip
            chances = bot.chances(state_after(cards, *moves, style=wording), seat)
            assert chances == {"pass": 1 - bet_chances[CARDS.index(card)], "bet": bet_chances[CARDS.index(card)]}, (
                style,
                cards,
                moves,
            )


def test_the_bot_does_not_use_the_card_of_the_other_seat():
    assert make_bot().style == "conservative"
    for style in BET_PROBABILITIES:
        assert make_bot(style=style).chances(state_after("QJ", "bet"), 1) == make_bot(style=style).chances(
            state_after("KJ", "bet"), 1
        )


@pytest.mark.parametrize(
    ("combinator", "options"), [("trial", {"attempts": 3}), ("repeated", {"rounds": 3}), ("talk", {})]
)
def test_inside_combinators_the_bot_plays_the_base_game(combinator, options):
    play = make_game(combinator, options={**KUHN, **options}).reset(Stream.from_seed(3))
    bot, stream, cards_and_bets, turn_number = make_bot(style="aggressive"), Stream.from_seed(4), set(), 0
    while not play.done:
        (seat,) = play.due()
        legal = play.legal(seat)
        if legal is not None:
            base_play = play.play
            card = CARDS[base_play.trail[seat].action]
            is_after_bet = "bet" in [base_play.game.words[event.action] for event in base_play.trail[2:]]
            bet_probability = BET_PROBABILITIES["aggressive"][is_after_bet][CARDS.index(card)]
            assert chances_of("aggressive", bot, play, seat) == {"pass": 1 - bet_probability, "bet": bet_probability}
            cards_and_bets.add((card, is_after_bet))
        reply = bot.choose(play, seat, stream.child(turn_number))
        assert legal is None or reply in legal
        play.step({seat: reply})
        turn_number += 1
    assert len(cards_and_bets) >= 2


def test_other_games_seats_and_styles_are_refused():
    for game, options in (
        ("tic_tac_toe", {}),
        ("leduc_poker", {}),
        ("kuhn_poker", {"players": 3}),
        ("rock_paper_scissors", {}),
    ):
        play = make_game(game, options=options).reset(Stream.from_seed(0))
        with pytest.raises(GameError, match=f"'kuhn_bot' plays only kuhn_poker of two seats, not {game}; write"):
            make_bot().choose(play, 0, Stream.from_seed(0))
    with pytest.raises(ConfigError, match="style"):
        make_bot(style="wild")


def test_replies_depend_only_on_the_turn_and_do_not_change_the_state():
    states = [
        state_after(cards, *moves) for cards in ("JK", "QJ", "KQ") for moves in ([], ["pass"], ["bet"], ["pass", "bet"])
    ]
    pending = [PendingTurn(play, play.seat, Stream.from_seed(7).child(number)) for number, play in enumerate(states)]
    joint_replies = [reply.text for reply in make_bot(style="loose").act(pending)]
    agent = make_bot(style="loose")
    assert joint_replies == [agent.act([turn])[0].text for turn in reversed(pending)][::-1] and agent.act([]) == []
    assert [len(play.trail) for play in states] == [2, 3, 3, 4] * 3 and {*joint_replies} == {"pass", "bet"}
