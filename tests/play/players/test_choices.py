from collections import Counter

import pytest

from sparring.config.plugins import registry
from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError, GameError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.play.players.base import PendingTurn
from sparring.play.players.demonstrator import demonstrator, imitated_player
from sparring.play.players.house import house
from sparring.play.rollout import play
from tests.play.plays import make_specs

ROOT = Stream.from_seed(2)


def biased_player(weights=None):
    return registry.bind("players", "biased", {} if weights is None else {"weights": weights})()


def new_play(name="rock_paper_scissors", **options):
    return make_game(name, options=options).reset(ROOT)


def test_probabilities_follow_the_weights_with_1_for_unnamed_actions():
    assert biased_player({"rock": 3, "paper": 1}).chances(new_play(), 0) == pytest.approx(
        {"rock": 0.6, "paper": 0.2, "scissors": 0.2}
    )
    assert biased_player({"paper": 0, "scissors": 0.5}).chances(new_play(), 1) == pytest.approx(
        {"rock": 2 / 3, "paper": 0, "scissors": 1 / 3}
    )
    assert biased_player().chances(new_play("kuhn_poker"), 0) == {"pass": 0.5, "bet": 0.5}
    assert biased_player({"pass": 0, "bet": 0}).chances(new_play("kuhn_poker"), 0) == {"pass": 0.5, "bet": 0.5}


def test_weights_apply_to_the_legal_actions_only():
    board = new_play("tic_tac_toe")
    board.apply("b2")
    chances = biased_player({"b2": 100, "a1": 3}).chances(board, 1)
    assert "b2" not in chances and chances["a1"] == pytest.approx(0.3) and chances["c3"] == pytest.approx(0.1)


@pytest.mark.parametrize("combinator", ["trial", "repeated"])
@pytest.mark.parametrize(
    ("name", "unknown_action", "known_action"),
    [("rock_paper_scissors", "rok", "rock"), ("kuhn_poker", "bett", "bet"), ("tic_tac_toe", "a4", "a1")],
)
def test_a_weight_of_an_unknown_action_is_an_error_also_in_combinators(combinator, name, unknown_action, known_action):
    for live_play in (new_play(name), new_play(combinator, environment={"name": name})):
        with pytest.raises(UnknownNameError, match=f"action '{unknown_action}'"):
            biased_player({unknown_action: 2}).choose(live_play, 0, ROOT)
        assert biased_player({known_action: 2}).choose(live_play, 0, ROOT) in live_play.legal(0)


def test_a_word_of_a_combinator_is_an_unknown_action():
    with pytest.raises(UnknownNameError, match="action 'note'"):
        biased_player({"note": 2}).chances(new_play("trial", environment={"name": "rock_paper_scissors"}), 0)


@pytest.mark.parametrize("weight", [-1, float("inf"), float("nan")])
def test_invalid_weights_are_refused(weight):
    with pytest.raises(
        ConfigError, match=r"biased: the weight of 'rock' is -1|'weights.rock': Input should be a finite number"
    ):
        biased_player({"rock": weight})


def test_weights_with_an_infinite_sum_are_refused():
    with pytest.raises(ConfigError, match=r"biased: .* a sum that is not finite"):
        registry.bind("players", "biased", {"weights": {"rock": 1e308, "paper": 1e308}})()


def test_the_random_choice_is_the_first_draw_of_the_stream():
    state = make_game("connect_four").reset(Stream.from_seed(0))
    agent, stream = registry.bind("players", "random")(), Stream.from_seed(3)
    assert agent.choose(state, 0, stream) == state.legal_actions()[stream.integer(0, 7)]


def reply_of_scripted(state, **options):
    return registry.bind("players", "scripted", options)().choose(state, state.seat, Stream.from_seed(0))


def test_scripted_moves_are_replied_in_order_even_if_illegal():
    state = make_game("tic_tac_toe").reset(Stream.from_seed(0))
    assert reply_of_scripted(state, moves=["b2", "nonsense"]) == "b2"
    state.apply("b2")
    # the opponent's first turn: the reply is illegal and unchanged
    assert reply_of_scripted(state, moves=["b2"]) == "b2"
    state.apply("a1")
    assert reply_of_scripted(state, moves=["b2", "nonsense"]) == "nonsense"


def test_after_the_moves_the_first_legal_preference_is_played():
    state = make_game("tic_tac_toe").reset(Stream.from_seed(0))
    state.apply("b2")
    assert reply_of_scripted(state, preference=["b2", "c3", "a1"]) == "c3"
    assert reply_of_scripted(state, preference=["b2"]) == reply_of_scripted(state) == "a1"


PREFERENCE = ["b2", "a1", "c3", "c1", "a3", "a2", "b1", "c2", "b3"]


def scripted_player(**options):
    return registry.bind("players", "scripted", options)()


def test_a_player_by_preference_plays_all_attempts_equally():
    game = make_game("trial", options={"environment": {"name": "tic_tac_toe"}, "reflect": False, "redeal": "fresh"})
    moves = {}
    (episode,) = play(
        make_specs(game, 1, seats=("x", "o")),
        {"x": scripted_player(preference=PREFERENCE[::-1]), "o": scripted_player(preference=PREFERENCE)},
    )
    for turn in episode.turns:
        moves.setdefault((turn.attempt, turn.seat), []).append(turn.action)
    assert len(moves) == 6
    for seat in (0, 1):
        assert moves[0, seat] == moves[1, seat] == moves[2, seat]
    actions = []
    for index, cell in enumerate(turn.action for turn in episode.turns if turn.attempt == 0):
        order = PREFERENCE[::-1] if index % 2 == 0 else PREFERENCE
        assert cell == next(candidate_cell for candidate_cell in order if candidate_cell not in actions)
        actions.append(cell)


def test_a_scripted_player_gives_its_probabilities_if_the_move_is_legal():
    state = make_game("tic_tac_toe").reset(Stream.from_seed(0))
    assert (
        scripted_player(preference=["b2"]).chances(state, 0)
        == scripted_player(moves=["b2", "a1"]).chances(state, 0)
        == {"b2": 1.0}
    )
    state.apply("b2")
    assert scripted_player(moves=["a1", "c3"]).chances(state, 1) == {"a1": 1.0}
    with pytest.raises(GameError, match=r"replies 'b2' in turn 0, which is illegal"):
        scripted_player(moves=["b2"]).chances(state, 1)
    with pytest.raises(GameError, match=r"SimultaneousChoicePlay does not count a seat's turns; write preference"):
        scripted_player(moves=["rock"]).chances(make_game("rock_paper_scissors").reset(Stream.from_seed(0)), 0)


def test_moves_are_refused_if_the_play_does_not_count_turns():
    play = make_game("rock_paper_scissors").reset(Stream.from_seed(0))
    assert scripted_player(preference=["scissors"]).choose(play, 1, Stream.from_seed(0)) == "scissors"
    with pytest.raises(
        GameError,
        match=r"cannot choose from moves=\('rock',\): SimultaneousChoicePlay does not count.*write preference",
    ):
        scripted_player(moves=["rock"]).choose(play, 0, Stream.from_seed(0))


class ByteRenderer:
    def reply(self, text):
        return (*text.encode(), 0)


def first_turns(count):
    game, root = make_game("kuhn_poker"), Stream.from_seed(0)
    return [
        PendingTurn(state=game.reset(root.child(number)), seat=0, stream=root.child("say").child(number))
        for number in range(count)
    ]


def test_the_demonstrator_replies_legal_actions_as_tokens_of_the_renderer():
    for reply in demonstrator(renderer=ByteRenderer()).act(first_turns(20)):
        assert reply.text in ("pass", "bet")
        assert reply.ids == (*reply.text.encode(), 0)
        assert reply.logprobs == (0.0,) * len(reply.ids)


def test_the_demonstrator_draws_legal_actions_uniformly_by_stream():
    agent, turns = demonstrator(renderer=ByteRenderer()), first_turns(2000)
    replies = agent.act(turns)
    assert 900 < Counter(reply.text for reply in replies)["bet"] < 1100  # mean 1000, within 4.5 standard deviations
    assert [agent.act([turn])[0] for turn in turns[:50]] == replies[:50]


def imitator_of(name, **options):
    return demonstrator(renderer=ByteRenderer(), player=imitated_player(bind("players", name, options)))


def test_the_demonstrator_imitates_a_player():
    replies = imitator_of("biased", weights={"bet": 0}).act(first_turns(20))
    assert {(reply.text, reply.ids) for reply in replies} == {("pass", (*b"pass", 0))}
    counts = Counter(reply.text for reply in imitator_of("biased", weights={"bet": 3}).act(first_turns(2000)))
    assert 1400 < counts["bet"] < 1600  # probability 3/4: mean 1500, within 5 standard deviations


def test_imitating_a_uniform_player_equals_random_legal_play():
    assert (
        imitator_of("random").act(first_turns(50))
        == demonstrator(renderer=ByteRenderer()).act(first_turns(50))
        == imitator_of("biased").act(first_turns(50))
    )


def test_an_imitated_memory_is_the_example_of_the_request():
    (turn,) = first_turns(1)
    assert imitator_of("biased", weights={"bet": 0}).act([turn._replace(memory="all")])[0].text == "all"


def test_imitating_a_player_that_needs_prompts_is_refused():
    with pytest.raises(ConfigError, match=r"warmup.player: 'mixture' replies to prompts.*biased, scripted"):
        imitated_player(bind("players", "mixture", {"players": {"random": 1.0}}))


def human_player_and_prompts(*lines):
    texts, replies = [], iter(lines)

    def ask(text):
        texts.append(text)
        return next(replies)

    return registry.bind("players", "human", {"ask": ask})(), texts


def tic_tac_toe_after(style, *moves):
    state = make_game("tic_tac_toe", options={"style": style}).reset(Stream.from_seed(0))
    for move in moves:
        state.apply(move)
    return state


@pytest.mark.parametrize("style", ["full", "brief"])
def test_a_person_is_asked_again_until_the_action_is_legal(style):
    agent, texts = human_player_and_prompts("b2", "what?", "", "I take A1.")
    assert agent.choose(tic_tac_toe_after(style, "b2"), 1, Stream.from_seed(0)) == "a1"
    assert texts[0].startswith("The player 'X' chose b2.") and "2 . X ." in texts[0]
    assert texts[1].startswith("b2 is not possible now; it does not count as a move")
    assert texts[2].startswith("'what?' is not an action of this game; it does not count as a move")
    assert "? for the rules" in texts[3]
    lines = [" ".join(text.split()) for text in texts]
    assert all("Legal actions: a1, b1, c1, a2, c2, a3, b3, c3" in text for text in lines[:3])
    assert max(len(line) for text in texts for line in text.splitlines()) <= 88


@pytest.mark.parametrize("word", ["?", "help", "Rules"])
def test_a_question_mark_shows_the_rules_and_all_actions(word):
    agent, texts = human_player_and_prompts(word, "c3")
    assert agent.choose(tic_tac_toe_after("brief"), 0, Stream.from_seed(0)) == "c3"
    assert texts[1].startswith("We play tic-tac-toe.") and "1 . . ." in texts[1] and "c3" in texts[1]


def test_a_person_sees_only_new_text_in_later_turns():
    agent, texts = human_player_and_prompts(" c1 ")
    assert agent.choose(tic_tac_toe_after("brief", "b2", "a1", "c3"), 1, Stream.from_seed(0)) == "c1"
    board = "The board:\n  a b c\n1 O . .\n2 . X .\n3 . . X"
    legal = "Legal actions: b1, c1, a2, c2, a3, b3"
    assert texts == [f"The player 'X' chose c3.\n\n{board}\n\n{legal}\n> "]


def test_the_end_of_input_or_the_word_q_raises_eof():
    with pytest.raises(EOFError):
        human_player_and_prompts("q")[0].choose(tic_tac_toe_after("brief"), 0, Stream.from_seed(0))

    def ask(text):
        raise EOFError

    agent = registry.bind("players", "human", {"ask": ask})()
    with pytest.raises(EOFError):
        agent.choose(tic_tac_toe_after("brief"), 0, Stream.from_seed(0))


def test_the_environment_partner_replies_as_the_play_says():
    play, stream = make_game("bargain").reset(Stream.from_seed(1)), Stream.from_seed(2)
    (reply,) = house().act([PendingTurn(state=play, seat=0, stream=stream)])
    assert reply.text == play.house(0, stream) and reply.text.startswith("offer ")


def test_a_game_without_a_scripted_partner_is_refused():
    play = make_game("kuhn_poker").reset(Stream.from_seed(1))
    with pytest.raises(GameError, match=r"State in .* has no scripted partner"):
        registry.bind("players", "house", {})().act([PendingTurn(state=play, seat=0, stream=Stream.from_seed(2))])
