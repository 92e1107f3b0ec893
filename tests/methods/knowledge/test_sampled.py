import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.errors import GameError
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.abstracted import AbstractedEnvironment, AbstractedPlay, Gist
from sparring.environments.base import random_reply
from sparring.environments.catalogue import make_game
from sparring.methods.knowledge.latent_space import MonteCarloSolver
from sparring.methods.knowledge.space import solve_exactly
from sparring.methods.knowledge.statements import abstract_state_of

STREAM = Stream.from_seed(0)


def solution(name, steps, *, depth=1, seed=0, actions=True, **options):
    game = make_game(name, options=options)
    return MonteCarloSolver(
        AbstractedEnvironment(game, {}), Stream.from_seed(seed), depth=depth, actions=actions, gists=True
    ).solve(steps)


@pytest.mark.parametrize("depth", [1, 2])
def test_bluff_has_the_same_solution_as_on_the_full_tree(depth):
    """Every seat decides once, so this is external sampling."""
    exact_solution, sampled_solution = (
        solve_exactly(make_game("bluff"), {}, 2000, actions=True),
        solution("bluff", 6000, depth=depth),
    )
    assert sampled_solution.keys() <= exact_solution.keys() and len(sampled_solution) == len(exact_solution)
    for key, row in sampled_solution.items():
        assert row == pytest.approx(exact_solution[key], abs=0.06), key


class Ladder:
    """Seat 0 says "up" or "stop" at most three times; seat 1 has one word. Up, up, stop pays most."""

    name, roles, num_seats, max_turns = "ladder", ("climber", "other"), 2, 6

    def reset(self, stream):
        return LadderPlay(self, ())


class LadderPlay:
    def __init__(self, rules, words):
        self.rules, self.words = rules, words

    @property
    def done(self):
        return "stop" in self.words or len(self.words) == 3

    @property
    def returns(self):
        worth = {("up", "up", "stop"): 1.0, ("stop",): 0.5}.get(self.words, 0.0)
        return (worth, -worth)

    def due(self):
        return () if self.done else (0, 1)

    def legal(self, seat):
        return ("up", "stop") if seat == 0 else ("look",)

    def observe(self, seat):
        return Observation(prompt="", key=f"{len(self.words)}" if seat == 0 else "")

    def step(self, replies):
        self.words = (*self.words, replies[0])

    def clone(self):
        return LadderPlay(self.rules, self.words)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_consecutive_decisions_are_learned_at_any_depth(depth):
    strategies = MonteCarloSolver(
        AbstractedEnvironment(Ladder(), {}), STREAM, depth=depth, actions=True, gists=True
    ).solve(400)
    assert strategies["1 "] == [1.0]
    assert [strategies[f"0 {index}"][right] > 0.95 for index, right in enumerate((0, 0, 1))] == [True] * 3


def random_play(moments, seed, **options):
    game = make_game("werewolf", options={"players": 5, "tie": "none", "rounds": 3, **options})
    play = AbstractedPlay(AbstractedEnvironment(game, {}), game.reset(Stream.from_seed(seed)))
    for index in range(moments):
        seats_to_act = play.due()
        if play.done:
            break
        stream = Stream.from_seed(seed).child(index)
        play.step({seat: random_reply(play.inner, seat, play.legal(seat), stream.child(seat)) for seat in seats_to_act})
    return play


@given(
    seed=st.integers(0, 10**6),
    moments=st.integers(0, 24),
    options=st.sampled_from(({}, {"players": 7, "wolves_talk": True})),
)
def test_players_with_one_label_are_interchangeable_and_every_action_has_a_label(seed, moments, options):
    play = random_play(moments, seed, **options)
    for seat in play.due():
        abstract_state = abstract_state_of(play, seat, gists=True)
        assert len(abstract_state.labels) == len(abstract_state.legal) and set(abstract_state.distinct_labels) == set(
            abstract_state.labels
        )
        assert not any(
            name in word
            for word in abstract_state.distinct_labels
            for name in ("p1", "p2", "p3", "p4", "p5", "p6", "p7")
        )
        assert abstract_state.key.split()[0] in ("wolf", "seer", "doctor", "villager")
        assert [
            abstract_state.distinct_labels[abstract_state.index_of(action)] for action in abstract_state.legal
        ] == list(abstract_state.labels)


@given(seed=st.integers(0, 10**6), moments=st.integers(0, 24), order=st.permutations(range(5)))
def test_an_abstract_state_does_not_depend_on_player_numbers(seed, moments, order):
    """The same play with permuted numbers has the same abstract states (gists) and labels."""
    game = make_game("werewolf", options={"players": 5, "tie": "none", "rounds": 3, "order": "simultaneous"})

    def permute_numbers(text):
        return "".join(
            f"p{order[int(letter) - 1] + 1}"
            if previous_char == "p" and letter.isdigit()
            else ("" if letter == "p" and next_char.isdigit() else letter)
            for previous_char, letter, next_char in zip(" " + text, text, text[1:] + " ", strict=False)
        )

    play = game.begin(tuple(range(5)), STREAM)
    renumbered_play = game.begin(tuple(order), STREAM)
    for index in range(moments):
        if play.done:
            break
        seats_to_act = play.due()
        if (
            seats_to_act != renumbered_play.due()
        ):  # the wolf with the smallest number proposes, so a different wolf may act
            return
        stream = Stream.from_seed(seed).child(index)
        replies = {seat: random_reply(play, seat, play.legal(seat), stream.child(seat)) for seat in seats_to_act}
        for seat in seats_to_act:
            gist, permuted_gist = play.gist(seat), renumbered_play.gist(seat)
            assert gist.key == permuted_gist.key
            assert {permute_numbers(name): label for name, label in gist.labels.items()} == dict(permuted_gist.labels)
        play.step(replies)
        renumbered_play.step({seat: permute_numbers(word) for seat, word in replies.items()})


def test_an_abstract_state_by_hand():
    game = make_game("werewolf", options={"players": 5, "tie": "none", "rounds": 3, "doctor": True})
    assert game.roles == ("wolf", "seer", "doctor", "villager1", "villager2")
    play = game.begin((0, 1, 2, 3, 4), STREAM)
    play.step({0: "p5", 1: "p1", 2: "p5"})  # the seer sees the wolf, and the doctor saves its target
    assert play.due() == (0,)
    play.step({0: "seer p2 wolf"})
    assert play.gist(1) == Gist(
        "seer speak top - / plain / wolf", {"p1": "#wolf", "p3": "#plain", "p4": "#plain", "p5": "#plain", "p2": "me"}
    )
    play.step({1: "seer p1 wolf"})
    play.step({2: "accuse p1"})
    abstract_state = abstract_state_of(AbstractedPlay(AbstractedEnvironment(game, {}), play), 3, gists=True)
    assert abstract_state.key == "villager speak plain - / plain / seer"
    assert {
        action: label
        for action, label in zip(abstract_state.legal, abstract_state.labels, strict=True)
        if action.startswith("accuse")
    } == {
        "accuse p1": "accuse #seer",
        "accuse p2": "accuse #seer",
        "accuse p3": "accuse #plain",
        "accuse p5": "accuse #plain",
    }
    free_text_game = make_game(
        "werewolf",
        options={"players": 5, "tie": "none", "rounds": 3, "doctor": True, "speech": "text", "style": "full"},
    )
    free_text_play = free_text_game.begin((0, 1, 2, 3, 4), STREAM)
    night = {0: "p5", 1: "p1", 2: "p5"}
    for replies in (
        night,
        {0: "I looked at p2 last night: a werewolf!"},
        {1: "I'm the seer and p1 is the wolf"},
        {2: "I, p3, do not trust p1."},
    ):
        free_text_play.step(replies)
    assert free_text_play.gist(3)[:2] == play.gist(3)[:2]  # the meaning counts, not the wording


def test_proposed_players_are_known_and_the_top_living_suspect_is_marked():
    game = make_game("werewolf", options={"players": 7, "tie": "none", "rounds": 3})
    play = game.begin(tuple(range(7)), STREAM)
    assert game.roles[:2] == ("wolf1", "wolf2")
    play.step({0: "p5", 2: "p1", 3: "p3"})
    assert play.gist(1).key == "wolf decide plain - / plain / plain! / wolf"
    play.step({1: "p5"})
    for replies in ({0: "accuse p7"}, {1: "accuse p7"}, {2: "accuse p4"}, {3: "support p3"}):
        play.step(replies)
    assert play.due() == (5,) and play.gist(5).key == "villager speak plain dead / plain / top / trusted"
    assert play.gist(5).labels == {
        "p1": "#plain",
        "p2": "#plain",
        "p3": "#trusted",
        "p4": "#plain",
        "p5": "dead",
        "p7": "#top",
        "p6": "me",
    }
    assert play.gist(6).key == "villager speak top dead / plain / trusted"  # the player itself is never the top suspect


def test_wolves_that_talk_use_the_last_name_of_this_night():
    game = make_game("werewolf", options={"players": 7, "tie": "none", "rounds": 3, "wolves_talk": True})
    play = game.begin(tuple(range(7)), STREAM)  # wolves p1 and p2, doctor p4
    first_state = play.gist(0)
    assert set(first_state.labels.values()) == {"me", "#wolf", "#plain"}
    play.step({0: "kill p5"})
    assert play.gist(1).labels["p5"] == "#plain!" and play.gist(1).key != first_state.key
    play.step({1: "kill p6"})
    assert play.gist(0).labels["p5"] == "#plain" and play.gist(0).labels["p6"] == "#plain!"
    play.step({0: "p4", 2: "p1", 3: "p4"})
    assert play.gist(1).labels["p4"] == "#plain!" and play.gist(1).labels["p6"] == "#plain"  # who was proposed
    play.step({1: "p4"})
    for reply in ("silence", "abstain"):
        for _ in range(7):
            play.step(dict.fromkeys(play.due(), reply))
            if reply == "abstain":
                break
    assert play.position.phase == "whisper" and "!" not in play.gist(0).key  # the next night


def test_texts_with_one_meaning_share_a_label():
    game = make_game("werewolf", options={"players": 4, "tie": "none", "rounds": 1, "speech": "text", "style": "full"})
    lines = (
        "I think that @ is a werewolf.",
        "I do not trust @.",
        "I am the seer and @ is a werewolf.",
        "Let us be careful.",
    )
    play = game.begin((0, 1, 2, 3), STREAM)  # wolf p1, seer p2
    play.step({0: "p4", 1: "p1"})
    abstract_state = abstract_state_of(
        AbstractedPlay(AbstractedEnvironment(game, {"wolf speaks": lines}), play), 0, gists=True
    )
    assert abstract_state.distinct_labels == ("accuse #plain", "claim seer", "seer #plain wolf", "silence")
    assert (
        len(abstract_state.legal) == 13 and abstract_state.labels.count("accuse #plain") == 4
    )  # two wordings, two players
    assert (
        abstract_state.labels.count("silence") == 5
    )  # statements about itself and about dead players count as silence
    assert abstract_state.labels.count("claim seer") == 2
    assert (
        abstract_state.index_of("I do not trust p2.") == abstract_state.index_of("I think that p3 is a werewolf.") == 0
    )
    state_without_gists = abstract_state_of(
        AbstractedPlay(AbstractedEnvironment(game, {"wolf speaks": lines}), play), 0, gists=False
    )
    assert state_without_gists.labels == state_without_gists.legal
    night = make_game("werewolf", options={"players": 7, "speech": "text", "style": "full", "wolves_talk": True}).begin(
        tuple(range(7)), STREAM
    )
    assert (
        night.gist(0).meaning_of("Not p3, but p4 tonight.") == "kill p4"
        and night.gist(0).meaning_of("Hm.") == "silence"
    )
    assert (
        night.gist(0).meaning_of("p9") == "silence"
        and play.gist(0).meaning_of("I am the seer and p9 is a wolf.") == "claim seer"
    )
    night.step({0: ""})
    night.step({1: ""})
    assert night.gist(0).meaning_of is None and play.gist(0).meaning_of("") == "silence"


def test_a_solution_from_few_episodes_makes_the_village_win_more():
    game = make_game("werewolf", options={"players": 4, "rounds": 1, "say": ["result", "accuse"]})
    abstracted_werewolf = AbstractedEnvironment(game, {})
    solver = MonteCarloSolver(abstracted_werewolf, STREAM.child("solver"), depth=1, actions=True, gists=True)
    strategies = solver.solve(300)
    assert len(strategies) < 200  # so most states are visited

    def count_wolf_wins(is_solved):
        """Return how many of 200 episodes the wolf wins; the village plays the solution or at random."""
        total = 0
        for index in range(200):
            stream = STREAM.child(index)
            generator, play = (
                stream.child("draws").generator(),
                AbstractedPlay(abstracted_werewolf, game.reset(stream.child("play"))),
            )
            while not play.done:
                replies = {}
                for seat in play.due():
                    abstract_state = abstract_state_of(play, seat, gists=True)
                    chances = strategies.get(abstract_state.key) if is_solved and game.teams[seat] else None
                    label = generator.choice(abstract_state.distinct_labels, p=chances)
                    replies[seat] = str(
                        generator.choice(
                            [
                                action
                                for action, name in zip(abstract_state.legal, abstract_state.labels, strict=True)
                                if name == label
                            ]
                        )
                    )
                play.step(replies)
            total += play.returns[0] > 0
        return total

    assert count_wolf_wins(is_solved=False) - count_wolf_wins(is_solved=True) > 30


def test_free_text_without_known_clusters_is_refused():
    game = make_game("werewolf", options={"players": 4, "tie": "none", "rounds": 1, "deduce": True})
    with pytest.raises(GameError, match="may say any text in werewolf, and the step has no statement of that kind"):
        MonteCarloSolver(AbstractedEnvironment(game, {}), STREAM, depth=1, actions=True, gists=True).solve(1)


def test_free_text_can_name_dead_players():
    game = make_game("werewolf", options={"players": 4, "tie": "none", "rounds": 1, "speech": "text", "style": "full"})
    statements = dict.fromkeys(
        ("wolf speaks", "seer speaks", "villager speaks"), ("I do not trust @.", "I have nothing to say.")
    )
    solver = MonteCarloSolver(AbstractedEnvironment(game, statements), STREAM, depth=1, actions=True, gists=True)
    strategies = solver.solve(30)
    assert {len(row) for key, row in strategies.items() if " speak " in key} <= {
        2,
        3,
    }  # nothing, one or two kinds of others
    play = AbstractedPlay(AbstractedEnvironment(game, statements), game.begin((0, 1, 2, 3), STREAM))
    play.step({0: "p4", 1: "p1"})
    abstract_state = abstract_state_of(play, 0, gists=True)
    labels = ("silence", "accuse #plain", "accuse #plain", "silence", "silence")
    assert abstract_state.labels == labels and abstract_state.key in strategies
