from collections import Counter

import pytest
from scipy import stats

from sparring.config.plugins import registry
from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError, GameError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.play.players.base import PendingTurn
from sparring.play.players.demonstrator import demonstrator, imitated
from sparring.play.players.house import house
from sparring.play.rollout import play
from sparring.play.spec import EpisodeSpec

ROOT = Stream.from_seed(2)


def made(weights=None):
    return registry.bind("players", "biased", {} if weights is None else {"weights": weights})()


def course(name="rock_paper_scissors", **options):
    return make_game(name, options=options).reset(ROOT)


def test_chances_are_the_weights_and_one_for_those_that_are_not_named():
    assert made({"rock": 3, "paper": 1}).chances(course(), 0) == pytest.approx({"rock": 0.6, "paper": 0.2, "scissors": 0.2})
    assert made({"paper": 0, "scissors": 0.5}).chances(course(), 1) == pytest.approx({"rock": 2 / 3, "paper": 0, "scissors": 1 / 3})
    assert made().chances(course("kuhn_poker"), 0) == {"pass": 0.5, "bet": 0.5}
    assert made({"pass": 0, "bet": 0}).chances(course("kuhn_poker"), 0) == {"pass": 0.5, "bet": 0.5}


def test_it_draws_as_it_says_and_never_what_has_no_weight():
    bot = made({"rock": 3, "paper": 0})
    drawn = [bot.choose(course(), 0, ROOT.child(number)) for number in range(2000)]
    assert drawn.count("paper") == 0 and abs(drawn.count("rock") / 2000 - 0.75) < 0.04


def test_among_fewer_legal_actions_the_weights_are_of_those():
    board = course("tic_tac_toe")
    board.apply("b2")
    found = made({"b2": 100, "a1": 3}).chances(board, 1)
    assert "b2" not in found and found["a1"] == pytest.approx(0.3) and found["c3"] == pytest.approx(0.1)


@pytest.mark.parametrize("combinator", ["trial", "repeated"])
@pytest.mark.parametrize(("name", "wrong", "right"), [("rock_paper_scissors", "rok", "rock"), ("kuhn_poker", "bett", "bet"), ("tic_tac_toe", "a4", "a1")])
def test_a_name_that_is_no_action_is_an_error_inside_combinators_too(combinator, name, wrong, right):
    for live in (course(name), course(combinator, environment={"name": name})):
        with pytest.raises(UnknownNameError, match=f"action '{wrong}'"):
            made({wrong: 2}).choose(live, 0, ROOT)
        assert made({right: 2}).choose(live, 0, ROOT) in live.legal(0)


def test_a_word_of_the_combinator_is_no_action():
    with pytest.raises(UnknownNameError, match="action 'note'"):
        made({"note": 2}).chances(course("trial", environment={"name": "rock_paper_scissors"}), 0)


@pytest.mark.parametrize("weight", [-1, float("inf"), float("nan")])
def test_weights_that_are_none_are_refused(weight):
    with pytest.raises(ConfigError, match=r"biased: the weight of 'rock' is -1|'weights.rock': Input should be a finite number"):
        made({"rock": weight})


def test_weights_whose_sum_is_no_number_are_refused():
    with pytest.raises(ConfigError, match=r"biased: .* sum to more than a number holds"):
        registry.bind("players", "biased", {"weights": {"rock": 1e308, "paper": 1e308}})()


def test_each_legal_action_is_equally_likely():
    state = make_game("tic_tac_toe").reset(Stream.from_seed(0))
    state.apply("b2")
    agent, root = registry.bind("players", "random")(), Stream.from_seed(1)
    count = Counter(agent.choose(state, 1, root.child(number)) for number in range(4000))
    assert set(count) == set(state.legal_actions())
    assert stats.chisquare(list(count.values())).pvalue > 0.01


def test_the_choice_is_the_streams_first_draw():
    state = make_game("connect_four").reset(Stream.from_seed(0))
    agent, stream = registry.bind("players", "random")(), Stream.from_seed(3)
    assert agent.choose(state, 0, stream) == state.legal_actions()[stream.integer(0, 7)]


def say(state, **options):
    return registry.bind("players", "scripted", options)().choose(state, state.seat, Stream.from_seed(0))


def test_moves_are_said_in_order_legal_or_not():
    state = make_game("tic_tac_toe").reset(Stream.from_seed(0))
    assert say(state, moves=["b2", "nonsense"]) == "b2"
    state.apply("b2")
    assert say(state, moves=["b2"]) == "b2"  # the other seat's first turn; illegal, said as written
    state.apply("a1")
    assert say(state, moves=["b2", "nonsense"]) == "nonsense"


def test_after_the_moves_the_first_legal_preference_is_played():
    state = make_game("tic_tac_toe").reset(Stream.from_seed(0))
    state.apply("b2")
    assert say(state, preference=["b2", "c3", "a1"]) == "c3"
    assert say(state, preference=["b2"]) == say(state) == "a1"


PREFERENCE = ["b2", "a1", "c3", "c1", "a3", "a2", "b1", "c2", "b3"]


def bot(**options):
    return registry.bind("players", "scripted", options)()


def test_a_preferred_cell_player_plays_every_attempt_of_a_trial_alike():
    game = make_game("trial", options={"environment": {"name": "tic_tac_toe"}, "reflect": False, "redeal": "fresh"})
    root, marks = Stream.from_seed(3), {}
    spec = EpisodeSpec(game=game, episode_id=0, group_id=0, deal=root, stream=root.child(1), seats=("x", "o"), trained=(True, False))
    (episode,) = play([spec], {"x": bot(preference=PREFERENCE[::-1]), "o": bot(preference=PREFERENCE)})
    for turn in episode.turns:
        marks.setdefault((turn.attempt, turn.seat), []).append(turn.action)
    assert len(marks) == 6
    for seat in (0, 1):
        assert marks[0, seat] == marks[1, seat] == marks[2, seat]
    taken = []
    for number, cell in enumerate(turn.action for turn in episode.turns if turn.attempt == 0):
        order = PREFERENCE[::-1] if number % 2 == 0 else PREFERENCE
        assert cell == next(one for one in order if one not in taken)
        taken.append(cell)


def test_it_says_exactly_how_it_plays_where_it_can():
    state = make_game("tic_tac_toe").reset(Stream.from_seed(0))
    assert bot(preference=["b2"]).chances(state, 0) == bot(moves=["b2", "a1"]).chances(state, 0) == {"b2": 1.0}
    state.apply("b2")
    assert bot(moves=["a1", "c3"]).chances(state, 1) == {"a1": 1.0}
    with pytest.raises(GameError, match=r"says 'b2' at its turn 0, which is not legal there"):
        bot(moves=["b2"]).chances(state, 1)
    with pytest.raises(GameError, match=r"SimultaneousChoicePlay, which does not count a seat's turns; write preference"):
        bot(moves=["rock"]).chances(make_game("rock_paper_scissors").reset(Stream.from_seed(0)), 0)


def test_where_a_play_counts_no_turns_preferences_are_played_and_moves_are_refused():
    throw = make_game("rock_paper_scissors").reset(Stream.from_seed(0))
    assert bot(preference=["scissors"]).choose(throw, 1, Stream.from_seed(0)) == "scissors"
    with pytest.raises(GameError, match=r"which of moves=\('rock',\) is due cannot be told from SimultaneousChoicePlay alone.*write preference"):
        bot(moves=["rock"]).choose(throw, 0, Stream.from_seed(0))


class Spelling:
    """A renderer that says a word as the codes of its letters and a stop."""

    def reply(self, text):
        return (*text.encode(), 0)


def pending(count):
    game, root = make_game("kuhn_poker"), Stream.from_seed(0)
    return [PendingTurn(state=game.reset(root.child(n)), seat=0, stream=root.child("say").child(n)) for n in range(count)]


def test_it_says_whole_legal_replies_in_the_renderers_tokens():
    for reply in demonstrator(renderer=Spelling()).act(pending(20)):
        assert reply.text in ("pass", "bet")
        assert reply.ids == (*reply.text.encode(), 0)
        assert reply.logprobs == (0.0,) * len(reply.ids)


def test_legal_actions_are_equally_likely_and_drawn_from_the_turns_own_stream():
    agent, turns = demonstrator(renderer=Spelling()), pending(2000)
    replies = agent.act(turns)
    assert 900 < Counter(reply.text for reply in replies)["bet"] < 1100  # 4.5 standard deviations
    assert [agent.act([turn])[0] for turn in turns[:50]] == replies[:50]


def shown(name, **options):
    return demonstrator(renderer=Spelling(), player=imitated(bind("players", name, options)))


def test_a_players_moves_are_said_in_the_renderers_tokens():
    replies = shown("biased", weights={"bet": 0}).act(pending(20))
    assert {(reply.text, reply.ids) for reply in replies} == {("pass", (*b"pass", 0))}
    leaning = Counter(reply.text for reply in shown("biased", weights={"bet": 3}).act(pending(2000)))
    assert 1400 < leaning["bet"] < 1600  # 3 in 4; five standard deviations


def test_a_player_without_a_leaning_is_random_legal_play():
    assert shown("random").act(pending(50)) == demonstrator(renderer=Spelling()).act(pending(50)) == shown("biased").act(pending(50))


def test_a_memory_is_written_as_it_is_asked_for_whoever_is_imitated():
    (turn,) = pending(1)
    assert shown("biased", weights={"bet": 0}).act([turn._replace(memory="all")])[0].text == "all"


def test_a_player_that_needs_what_a_seat_was_told_is_refused():
    with pytest.raises(ConfigError, match=r"warmup.player: 'mixture' answers by what a seat was told.*biased, scripted"):
        imitated(bind("players", "mixture", {"players": {"random": 1.0}}))


def person(*lines):
    shown, replies = [], iter(lines)

    def ask(text):
        shown.append(text)
        return next(replies)

    return registry.bind("players", "human", {"ask": ask})(), shown


def state_of(style, *moves):
    state = make_game("tic_tac_toe", options={"style": style}).reset(Stream.from_seed(0))
    for move in moves:
        state.apply(move)
    return state


@pytest.mark.parametrize("style", ["full", "brief"])
def test_it_asks_again_until_the_action_is_legal(style):
    agent, shown = person("b2", "what?", "", "I take A1.")
    assert agent.choose(state_of(style, "b2"), 1, Stream.from_seed(0)) == "a1"
    assert shown[0].startswith("The player 'X' chose b2.") and "2 . X ." in shown[0]
    assert shown[1].startswith("b2 is not possible now; it does not count as a move")
    assert shown[2].startswith("'what?' is no action of this game; it does not count as a move")
    assert "? for the rules" in shown[3]
    whole = [" ".join(text.split()) for text in shown]
    assert all("Legal actions: a1, b1, c1, a2, c2, a3, b3, c3" in text for text in whole[:3])
    assert max(len(line) for text in shown for line in text.splitlines()) <= 88


@pytest.mark.parametrize("word", ["?", "help", "Rules"])
def test_a_question_mark_shows_the_rules_and_all_actions(word):
    agent, shown = person(word, "c3")
    assert agent.choose(state_of("brief"), 0, Stream.from_seed(0)) == "c3"
    assert shown[1].startswith("We play tic-tac-toe.") and "1 . . ." in shown[1] and "c3" in shown[1]


def test_later_turns_show_only_what_is_new():
    agent, shown = person(" c1 ")
    assert agent.choose(state_of("brief", "b2", "a1", "c3"), 1, Stream.from_seed(0)) == "c1"
    board = "The board:\n  a b c\n1 O . .\n2 . X .\n3 . . X"
    legal = "Legal actions: b1, c1, a2, c2, a3, b3"
    assert shown == [f"The player 'X' chose c3.\n\n{board}\n\n{legal}\n> "]


def test_a_word_that_leaves_ends_as_the_end_of_input_does():
    agent, _ = person("q")
    with pytest.raises(EOFError):
        agent.choose(state_of("brief"), 0, Stream.from_seed(0))


def test_the_end_of_input_is_passed_on():
    def ask(text):
        raise EOFError

    agent = registry.bind("players", "human", {"ask": ask})()
    with pytest.raises(EOFError):
        agent.choose(state_of("brief"), 0, Stream.from_seed(0))


def test_it_says_what_the_play_says():
    play, stream = make_game("bargain").reset(Stream.from_seed(1)), Stream.from_seed(2)
    (reply,) = house().act([PendingTurn(state=play, seat=0, stream=stream)])
    assert reply.text == play.house(0, stream) and reply.text.startswith("offer ")


def test_a_game_without_one_is_refused_by_name():
    play = make_game("kuhn_poker").reset(Stream.from_seed(1))
    with pytest.raises(GameError, match=r"State in .* has no partner of its own"):
        registry.bind("players", "house", {})().act([PendingTurn(state=play, seat=0, stream=Stream.from_seed(2))])
