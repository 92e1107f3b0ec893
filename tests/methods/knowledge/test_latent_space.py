import json
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.knowledge.rps_plays import (
    GAME,
    STREAM,
    episode,
    reply,
    request_in_shares,
    request_of,
)

from sparring import play_episodes
from sparring.config.parts import PluginConfig
from sparring.config.plugins.registry import bind
from sparring.core.errors import CheckpointError, ConfigError, GameError, PluginError
from sparring.core.records import Episode, Observation
from sparring.core.rng import Stream
from sparring.environments.abstracted import AbstractedEnvironment
from sparring.environments.catalogue import make_game
from sparring.environments.rps_spock_lizard import MOVES, rps_spock_lizard
from sparring.methods.knowledge.base import Knowledge, KnowledgeRequest, check_output, with_scores
from sparring.methods.knowledge.decision_nodes import (
    EmpiricalPolicy,
    MappedPrompt,
    StateKey,
    empirical_policy,
    map_decisions,
    score_replies,
)
from sparring.methods.knowledge.latent_space import (
    EMBEDDINGS,
    MonteCarloSolver,
    _StateRow,
    latent_space,
)
from sparring.methods.knowledge.space import LatentSpace, cluster_statements, solve_exactly
from sparring.methods.knowledge.statements import (
    AbstractState,
    first_player_name,
    judged_decisions,
    locate_decisions,
    pattern,
)

PAYOFFS = np.array([[rps_spock_lizard.payoff(move, other) for other in MOVES] for move in MOVES])


def exploitability(strategy, sentences):
    probabilities = np.zeros(len(MOVES))
    for probability, word in zip(strategy, sentences, strict=True):
        probabilities[MOVES.index(word)] += probability
    return max(PAYOFFS @ probabilities)


NGRAMS_256, NGRAMS_64 = (bind("knowledge.embeddings", "ngrams", {"size": size}) for size in (256, 64))
BASE = {"rock": 0.53, "paper": 0.29, "scissors": 0.14, "spock": 0.02, "lizard": 0.02}


@pytest.mark.parametrize(
    ("num_clusters", "words", "expected"),
    [(3, MOVES[:3], 1 / 3), (4, MOVES[:4], 1 / 3), (4, (*MOVES[:3], "lizard"), 1 / 3), (5, MOVES, 0.0)],
)
def test_exploitability_is_one_third_until_the_abstract_game_has_all_words(num_clusters, words, expected):
    """LSPO's paper reports .33, .33, 0 for three iterations on rock, paper, scissors, Spock, lizard."""
    space = LatentSpace(embedding=NGRAMS_256, names=())
    clusters = cluster_statements(dict.fromkeys(words, 10), num_clusters, None, space, STREAM)
    assert sorted(clusters.sentences) == sorted(words)
    strategies = solve_exactly(GAME, {"throw": clusters}, 4000)
    assert sorted(strategies) == ["0 left", "1 right"]
    for row in strategies.values():
        assert exploitability(row, clusters.sentences) == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("seed", range(5))
def test_three_iterations_of_a_base_policy_that_rarely_says_two_words(seed):
    """Iterations have 3, 4 and 5 clusters of the replies; each iteration keeps the previous sentences."""
    clusters, exploitabilities = None, []
    for iteration, num_clusters in enumerate((3, 4, 5)):
        counts = {word: max(1, round(1000 * share)) for word, share in BASE.items()}
        previous_clusters = clusters
        clusters = cluster_statements(
            counts,
            num_clusters,
            clusters,
            LatentSpace(embedding=NGRAMS_256, names=()),
            Stream.from_seed(seed).child(iteration),
        )
        if previous_clusters is not None:
            assert clusters.sentences[: len(previous_clusters.sentences)] == previous_clusters.sentences
        exploitabilities.append(
            exploitability(solve_exactly(GAME, {"throw": clusters}, 2000)["0 left"], clusters.sentences)
        )
    assert exploitabilities == pytest.approx([1 / 3, 1 / 3, 0], abs=5e-3)


def knowledge(data, state=None, **options):
    return bind("knowledge", "latent_space", options)(data, state or {})


def test_the_score_by_hand_is_the_log_of_target_over_share():
    """Each seat has 12 replies: 6 rock, 4 paper, 2 scissors. The solution plays each with probability 1/3."""
    three_words, repeated_rock = ["rock", "paper", "scissors"], ["rock", "paper", "rock"]
    plays = [
        (three_words, three_words),
        (repeated_rock, repeated_rock),
        (repeated_rock, repeated_rock),
        (three_words, three_words),
    ]
    data = request_of(*plays)
    output = knowledge(data, floor=0.03)
    target = 0.97 / 3 + 0.01  # target of each of the three clusters
    shares = {"rock": 6 / 12, "paper": 4 / 12, "scissors": 2 / 12}  # equal in each state and over all states
    for scores, rows in zip(output.scores, plays, strict=True):
        for seat in (0, 1):
            assert list(scores[seat]) == pytest.approx([math.log(target / shares[word]) for word in rows[seat]])
    assert output.metrics["clusters"] == 3 and output.metrics["iteration"] == 1
    assert output.metrics["apart"] == pytest.approx(
        (abs(target - 1 / 2) + abs(target - 1 / 3) + abs(target - 1 / 6) + 0.01) / 2
    )


def test_a_share_mixes_the_state_with_a_little_of_all_states():
    data = request_of((["rock"] * 3, ["paper"] * 3), (["rock", "rock", "scissors"], ["paper", "paper", "scissors"]))
    output = knowledge(data, floor=0.03)
    all_states, state_counts = {"rock": 5 / 12, "paper": 5 / 12, "scissors": 2 / 12}, {"rock": 5, "scissors": 1}
    target = 0.97 / 3 + 0.01
    expected = [
        math.log(target / ((state_counts[word] + 3 * all_states[word]) / 9)) for word in ("rock", "rock", "scissors")
    ]
    assert list(output.scores[1][0]) == pytest.approx(expected)


def test_actions_that_the_solution_plays_more_are_preferred():
    """With Spock among four words, rock is dominated, so the solution never plays it.

    Update (1) of the paper gives rock the lower regret, but its text prefers actions of lower regret.
    """
    data = request_in_shares({"rock": 0.4, "paper": 0.2, "scissors": 0.2, "spock": 0.2})
    for prefer in ("ratio", "probability"):
        output = knowledge(data, clusters=4, prefer=prefer)
        scores = {}
        for rows, play in zip(output.scores, data.episodes, strict=True):
            for turn in play.turns:
                scores |= {
                    (item.seat, item.reply): score
                    for item, score in zip((turn, *turn.candidates), rows[turn.seat], strict=True)
                }
        for seat in (0, 1):
            assert all(scores[seat, "rock"] < scores[seat, word] - 0.2 for word in ("paper", "scissors", "spock"))


def test_an_even_mixture_scores_all_replies_equally_by_probability():
    output = knowledge(request_in_shares({"rock": 0.6, "paper": 0.3, "scissors": 0.1}), prefer="probability")
    scores = [score for rows in output.scores for row in rows.values() for score in row]
    assert max(scores) - min(scores) < 1e-3


def test_replies_that_are_no_action_score_worst_and_are_not_clustered():
    data = request_of((["rock", "paper", "mumble"], ["scissors", "rock", "paper"]))
    output = knowledge(data)
    scores = list(output.scores[0][0])
    assert scores[2] < min(scores[:2])
    assert "mumble" not in json.dumps(output.state)


def test_an_illegal_reply_is_no_statement_even_if_a_substitute_was_played():
    play = episode(0, ["rock", "paper"], ["rock"])
    illegal_turn = play.turns[0]._replace(event="illegal", reply="stone")
    decisions = judged_decisions(GAME, replace(play, turns=(illegal_turn, play.turns[1])))
    assert [decision.actions for decision in decisions] == [(None, "paper"), ("rock",)]


def test_an_iteration_has_a_fixed_number_of_steps_and_the_next_adds_clusters():
    state, previous_state, num_clusters = {}, {}, []
    for step in range(7):
        output = knowledge(request_in_shares(BASE, step=step), state, every=2, iterations=3)
        state = output.state
        num_clusters.append((output.metrics["iteration"], output.metrics["clusters"]))
        if step % 2 or step == 6:
            assert state == previous_state, "centres and strategy stay within an iteration"
        previous_state = json.loads(json.dumps(state))
    assert num_clusters == [(1, 3), (1, 3), (2, 4), (2, 4), (3, 5), (3, 5), (3, 5)]


def test_clusters_remain_without_new_replies_of_their_sentences():
    state = knowledge(request_in_shares(BASE), every=1, clusters=5).state
    output = knowledge(
        request_in_shares({"paper": 0.5, "spock": 0.5}, step=1), state, every=1, growth=0, clusters=5, iterations=2
    )
    assert set(output.state["space"]["kinds"]["throw"]["sentences"]) == set(MOVES)


def test_kinds_can_have_separate_initial_numbers_and_must_exist():
    assert knowledge(request_in_shares(BASE), kinds={"throw": 4}).metrics["clusters"] == 4
    with pytest.raises(ConfigError, match="no statements of the kind 'speak'; its kinds are 'throw'"):
        knowledge(request_in_shares(BASE), kinds={"speak": 4})
    with pytest.raises(ConfigError, match="throw: 0 must be at least 1"):
        knowledge(request_in_shares(BASE), kinds={"throw": 0})


def test_the_state_survives_json_exactly():
    output = knowledge(request_in_shares(BASE))
    restored_state = json.loads(json.dumps(output.state))
    assert restored_state == output.state
    next_request = request_in_shares(BASE, step=1)
    assert knowledge(next_request, restored_state).scores == knowledge(next_request, output.state).scores
    for damage in (
        lambda state: state.pop("space"),
        lambda state: state.pop("iteration"),
        lambda state: state.update(iteration="x"),
        lambda state: state.update(space={"size": 8}),
        lambda state: state.update(space=[]),
        lambda state: state["space"].pop("strategies"),
        lambda state: state["space"]["kinds"].update(words={"centres": [[1.0]], "sentences": ["a", "b"]}),
        lambda state: state["space"]["kinds"].update(words={"centres": [], "sentences": []}),
        lambda state: next(iter(state["space"]["strategies"].values())).update(x=[0.5, 0.4]),
        lambda state: next(iter(state["space"]["strategies"].values())).update(x=[1.5, -0.5]),
    ):
        damaged_state = json.loads(json.dumps(output.state))
        damage(damaged_state)
        with pytest.raises(CheckpointError, match="latent space of the checkpoint cannot be read"):
            knowledge(next_request, damaged_state)


class Chat:
    """Two seats speak freely in turn; seat 0 is paid if seat 1 repeats its sentence."""

    name, roles, num_seats, max_turns = "chat", ("asker", "echo"), 2, 2

    def reset(self, stream):
        return ChatPlay(self)

    def openings(self):
        return ((1.0, ChatPlay(self)),)


class ChatPlay:
    def __init__(self, rules, lines=()):
        self.rules, self.lines = rules, lines

    done = property(lambda self: len(self.lines) == 2)
    returns = property(
        lambda self: (
            (float(self.lines[0] == self.lines[1]), -float(self.lines[0] == self.lines[1])) if self.done else (0.0, 0.0)
        )
    )

    def due(self):
        return () if self.done else (len(self.lines),)

    def legal(self, seat):
        return None

    def observe(self, seat):
        return Observation(prompt="", key="/".join(self.lines))

    def step(self, replies):
        if "@" in "".join(replies.values()):
            raise GameError("no signs")
        self.lines += (replies[self.due()[0]],)

    def clone(self):
        return ChatPlay(self.rules, self.lines)


def chat_episode(first_line, second_line):
    turns = (reply(0, first_line, legal=()), reply(1, second_line, legal=()))
    return Episode(
        episode_id=0,
        group_id=0,
        game="chat",
        seed=0,
        roles=Chat.roles,
        agents=("a", "a"),
        trained=(True, True),
        turns=turns,
        returns=(0.0, 0.0),
    )


FREE = ("a wolf", "a sheep @")


def test_free_text_is_a_kind_per_role_with_states_of_clusters():
    play = chat_episode("you are a wolf", "no I am not")
    decisions = judged_decisions(Chat(), play)
    asker, echo = (0, "asker", ("you are a wolf",), False), (1, "echo", ("no I am not",), False)
    assert [
        (decision.turn_index, decision.kind, decision.actions, decision.has_candidates) for decision in decisions
    ] == [
        asker,
        echo,
    ]
    abstracted_chat = AbstractedEnvironment(Chat(), {"echo": FREE})
    assert locate_decisions(abstracted_chat, play, decisions, lambda name, line: name) == {
        0: AbstractState("0 ", (), ()),
        1: AbstractState("1 asker", FREE, FREE),
    }
    assert locate_decisions(abstracted_chat, play, decisions, lambda name, line: None) == {
        0: AbstractState("0 ", (), ())
    }
    assert locate_decisions(abstracted_chat, play, decisions, lambda name, line: "@") == {
        0: AbstractState("0 ", (), ())
    }  # the rules do not allow the sentence
    space = LatentSpace(embedding=NGRAMS_64, names=())
    kinds = {name: cluster_statements({"a wolf": 3, "a sheep": 2}, 2, None, space, STREAM) for name in Chat.roles}
    strategies = solve_exactly(Chat(), kinds, 500)
    assert sorted(strategies) == ["0 ", "1 a sheep", "1 a wolf"]
    assert strategies["1 a wolf"][kinds["echo"].sentences.index("a wolf")] < 0.01  # the echo does not want to repeat


def test_an_environment_without_a_game_tree_is_refused():
    class Open:
        name, roles = "open", ("a",)

    with pytest.raises(GameError, match="open has no method openings"):
        solve_exactly(Open(), {}, 10)


def test_scores_belong_to_replies_and_turns_without_candidates_have_none():
    data = request_of((["rock", "paper"], ["scissors"]))
    (scored_episode,) = with_scores(data.episodes, [{0: (1.0, None)}])
    assert [(turn.reply, turn.score) for turn in (scored_episode.turns[0], *scored_episode.turns[0].candidates)] == [
        ("rock", 1.0),
        ("paper", None),
    ]
    assert scored_episode.turns[1].score is None
    (without_scores,) = with_scores([scored_episode], [{}])
    assert without_scores.turns[0].score is None and without_scores.turns[0].candidates[0].score is None


@pytest.mark.parametrize(
    ("output", "match"),
    [
        (None, "must return a Knowledge"),
        (Knowledge(scores=[], state={}), "scores for each of 1 episodes"),
        (Knowledge(scores=[{0: (1.0,)}], state={}), "2 finite scores for turn 0"),
        (Knowledge(scores=[{0: (1.0, math.nan)}], state={}), "2 finite scores for turn 0"),
        (Knowledge(scores=[{}], state={"a": {1, 2}}), "must be a JSON value"),
        (Knowledge(scores=[{}], state={"a": math.inf}), "must be a JSON value"),
    ],
)
def test_output_that_does_not_match_the_turns_is_refused(output, match):
    data = request_of((["rock", "paper"], ["scissors"]))
    with pytest.raises(PluginError, match=match):
        check_output(bind("knowledge", "latent_space"), output, data, {})


def bluff_turn(seat, key, played_action, other_action):
    """Return a turn whose other action is a candidate."""
    legal = tuple(sorted((played_action, other_action)))
    candidate = reply(seat, other_action, 1, legal=legal)._replace(state_key=key)
    return reply(seat, played_action, candidates=(candidate,), legal=legal)._replace(state_key=key, moment=seat)


def test_actions_that_are_no_statements_are_scored_if_configured():
    """Bluff: claiming "low" with a high card is dominated; the listener calls with probability 2/3."""
    game, plays = make_game("bluff"), []
    for seed in range(24):
        claim = bluff_turn(0, f"speaker card {game.reset(Stream(seed)).card}", "high", "low")
        answer_turn = bluff_turn(1, "listener heard high", "call", "believe")
        play = replace(episode(seed, ["rock"], ["rock"], game="bluff"), roles=game.roles, turns=(claim, answer_turn))
        plays.append(play)
    data = KnowledgeRequest(episodes=plays, environments={"bluff": game}, step=0, stream=STREAM)
    assert all(set(scores) == {0} for scores in knowledge(data, clusters=2).scores)
    with pytest.raises(ConfigError, match=r"its kinds are 'claim'\.$"):
        knowledge(data, kinds={"speech": 2}, actions=True)
    output = knowledge(data, clusters=2, actions=True, floor=0.02, cfr_steps=4000)
    by_card = {play.turns[0].state_key: scores for play, scores in zip(plays, output.scores, strict=True)}
    scores_of_high, scores_of_low = by_card["speaker card high"], by_card["speaker card low"]
    score_of_one_third, score_of_two_thirds = (math.log((0.98 * share + 0.01) / 0.5) for share in (1 / 3, 2 / 3))
    assert scores_of_high[0] == pytest.approx([math.log(0.99 / 0.5), math.log(0.01 / 0.5)], abs=0.02)
    assert scores_of_low[0] == pytest.approx([score_of_one_third, score_of_two_thirds], abs=0.03)
    assert scores_of_high[1] == pytest.approx([score_of_two_thirds, score_of_one_third], abs=0.03)
    keys = {"0 speaker card high", "0 speaker card low", "1 listener heard high"}
    assert set(output.state["space"]["strategies"]["bluff"]) == keys


def test_the_share_of_prompts_without_a_preference_is_reported():
    space = LatentSpace(
        embedding=bind("knowledge.embeddings", "ngrams"),
        names=(),
        strategies={"g": {"even": [0.5, 0.5], "other": [0.25, 0.75], "forced": [1.0]}},
    )
    prompts = [
        MappedPrompt(0, index, StateKey("g", "pool", key), (0, 0))
        for index, key in enumerate(("even", "other", "other", "forced"))
    ]
    assert score_replies(prompts, space, "ratio", 0.02)[1]["even"] == 0.25
    assert score_replies(prompts[1:], space, "ratio", 0.02)[1]["even"] == 0.0
    assert score_replies([], space, "ratio", 0.02)[1] == {}


def test_action_shares_are_pooled_over_states_with_the_same_actions():
    """Two action lists, "a", "b" and "a", "c": counts of other states are used if the list is the same."""
    states = {"1": ("ab", (0, 0, 0, 0)), "2": ("ab", (0, 0, 1, 1)), "3": ("ac", (1, 1, 1, 1))}
    space = LatentSpace(
        embedding=bind("knowledge.embeddings", "ngrams", {"size": 8}),
        names=(),
        strategies={"g": {key: [0.5, 0.5] for key in states}},
    )
    prompts = [
        MappedPrompt(0, index, StateKey("g", pool, key), labels)
        for index, (key, (pool, labels)) in enumerate(states.items())
    ]
    scores, _ = score_replies(prompts, space, "ratio", 0.02)
    shares = [(4 + 2 * 6 / 8) / 6, (2 + 2 * 6 / 8) / 6, 1.0]
    assert [row[0] for row in scores] == pytest.approx([math.log(0.5 / share) for share in shares])
    scores_alone, _ = score_replies(prompts[2:], space, "ratio", 0.02)
    assert scores_alone == [scores[2]]


# -- statements about players -----------------------------------------------------------------------


PLAYER_NAMES = ("p1", "p2", "p10")


@pytest.mark.parametrize(
    ("line", "expected_pattern", "player"),
    [
        ("accuse p2", "accuse @", "p2"),
        ("P10 lies, as p2 says; P10 is the wolf", "@ lies, as someone says; @ is the wolf", "p10"),
        ("silence", "silence", None),
        ("write to me@p1.org, xp2 p22", "write to me at @.org, xp2 p22", "p1"),
        ("", "", None),
    ],
)
def test_a_statement_is_split_into_its_pattern_and_the_named_player(line, expected_pattern, player):
    assert (pattern(line, PLAYER_NAMES), first_player_name(line, PLAYER_NAMES)) == (expected_pattern, player)
    assert (pattern(line, ()), first_player_name(line, ())) == (line, None)


def test_clusters_of_statements_do_not_depend_on_the_named_player():
    space = LatentSpace(embedding=NGRAMS_256, names=PLAYER_NAMES, player_names=PLAYER_NAMES)
    counts = {pattern(line, PLAYER_NAMES): 5 for line in ("silence", "seer p1 wolf", "seer p2 good")}
    clusters = cluster_statements(counts, 3, None, space, STREAM)
    assert sorted(clusters.sentences) == ["seer @ good", "seer @ wolf", "silence"]
    space_with_clusters = replace(space, kinds={"speaks": clusters})
    lines = ["seer p10 wolf", "seer p2 good", "silence", "seer p2 wolf"]
    assert space_with_clusters.nearest_sentences("speaks", lines) == lines
    state = json.loads(json.dumps({"iteration": 0, "space": space_with_clusters.to_json()}))
    assert LatentSpace.from_state(state, space_with_clusters.embedding)[1].nearest_sentences("speaks", lines) == lines
    # a statement without a name belongs to a cluster without a name, or to no cluster
    assert space_with_clusters.nearest_sentences("speaks", ["seer wolf"]) == ["silence"]
    other_space = replace(
        space, kinds={"speaks": cluster_statements({"seer @ wolf": 1, "accuse @": 9}, 1, None, space, STREAM)}
    )
    assert other_space.nearest_sentences("speaks", ["silence", "seer p1 wolf"]) == [None, "accuse p1"]


def test_in_environments_without_players_names_an_at_sign_is_text():
    space = LatentSpace(
        embedding=NGRAMS_64,
        names=("left",),
        kinds={"speaks": cluster_statements({"a@b": 1}, 1, None, LatentSpace(embedding=NGRAMS_64, names=()), STREAM)},
    )
    assert space.nearest_sentences("speaks", ["left"]) == ["a@b"]


EMPIRICAL_STREAM = Stream.from_seed(0)


def solver(game, stream=EMPIRICAL_STREAM, **options):
    return MonteCarloSolver(AbstractedEnvironment(game, {}), stream, depth=1, actions=True, gists=True, **options)


class Signal:
    """Seat 0 sees left or right and says x or y; seat 1 hears it and guesses. Both are paid for a correct guess."""

    name, roles, num_seats, max_turns = "signal", ("teller", "guesser"), 2, 2

    def reset(self, stream):
        return SignalPlay(("left", "right")[stream.integer(0, 2)], "", "")


class SignalPlay:
    def __init__(self, side, word, guess):
        self.side, self.word, self.guess = side, word, guess

    @property
    def done(self):
        return bool(self.guess)

    @property
    def returns(self):
        worth = 1.0 if self.guess == self.side else -1.0
        return (worth, worth)

    def due(self):
        return () if self.done else (1,) if self.word else (0,)

    def legal(self, seat):
        return ("left", "right") if seat else ("x", "y")

    def observe(self, seat):
        return Observation(prompt="", key=self.word if seat else self.side)

    def step(self, replies):
        reply = next(iter(replies.values()))
        self.word, self.guess = (self.word, reply) if self.word else (reply, "")

    def clone(self):
        return SignalPlay(self.side, self.word, self.guess)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("left", "right"), ["xy", "yx"])
def test_the_solution_has_the_convention_of_the_policy(left, right, seed):
    """Either word can mean either side; the empirical policy decides."""
    policy = EmpiricalPolicy(
        by_state={"0 left": Counter({left: 27, right: 3}), "0 right": Counter({right: 27, left: 3})},
        by_kind={"teller": Counter("xy")},
    )
    strategies = solver(Signal(), Stream.from_seed(seed), empirical=policy, anchor=0.3).solve(300)
    assert strategies["0 left"]["xy".index(left)] > 0.8 and strategies["0 right"]["xy".index(right)] > 0.8
    assert strategies[f"1 {left}"][0] > 0.8 and strategies[f"1 {right}"][1] > 0.8


def test_without_an_anchor_the_empirical_policy_has_no_effect():
    policy = EmpiricalPolicy(by_state={"0 left": Counter(x=9)})
    without_empirical, with_empirical = (
        solver(Signal(), **options).solve(20) for options in ({}, {"empirical": policy})
    )
    assert without_empirical == with_empirical


THROWS = ("paper", "rock", "scissors")
WORTH = np.array([[0, 1, -1], [-1, 0, 1], [1, -1, 0]])  # row against column, in the order of THROWS


def solve_with_anchor(anchor, shares, steps=3000, seed=0):
    """Return the strategies of both seats of rock, paper, scissors, in the order of THROWS."""
    game = make_game("rock_paper_scissors")
    keys, action_names = sorted(solver(game).solve(1)), game.reset(EMPIRICAL_STREAM).legal(0)
    counts = {
        key: Counter({throw: round(1e9 * share) for throw, share in zip(THROWS, row, strict=True)})
        for key, row in zip(keys, shares, strict=True)
    }
    strategies = solver(game, Stream.from_seed(seed), empirical=EmpiricalPolicy(by_state=counts), anchor=anchor).solve(
        steps
    )
    return [[strategies[key][action_names.index(throw)] for throw in THROWS] for key in keys]


@pytest.mark.parametrize("anchor", [0.5, 2.0])
def test_the_fixed_point_is_the_logit_equilibrium(anchor):
    """Compare with the fixed point of q exp(u / lambda), computed by damped iteration."""
    shares = np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]])
    solution = shares.copy()
    for _ in range(5000):
        action_values = np.array([WORTH @ solution[1], WORTH @ solution[0]])
        weights = shares * np.exp(action_values / anchor)
        solution += 0.02 * (weights / weights.sum(1, keepdims=True) - solution)
    assert np.abs(solution - shares).max() > 0.05
    assert np.array(solve_with_anchor(anchor, shares)) == pytest.approx(solution, abs=0.03)


@given(st.floats(1e-9, 1e9), st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=4), st.floats(0, 1e9))
def test_an_anchored_strategy_is_a_distribution(anchor, regrets, weight):
    size = len(regrets)
    row = _StateRow(
        labels=tuple("abcd"[:size]),
        regrets=np.array(regrets),
        strategy_sums=np.zeros(size),
        log_empirical=np.log(np.full(size, 1 / size)),
        is_in_result=True,
        weight=weight,
    )
    chances = row.strategy(anchor).probabilities
    assert chances.sum() == pytest.approx(1) and (chances >= 0).all()


def test_shares_of_the_empirical_policy_by_hand():
    policy = EmpiricalPolicy(by_state={"s": Counter(a=2, b=1)}, by_kind={"k": Counter(a=3, c=1)})
    pooled_shares = np.array([3.1, 0.1, 1.1]) / 4.3
    assert policy.shares("k", "s", ("a", "b", "c")) == pytest.approx((np.array([2, 1, 0]) + 3 * pooled_shares) / 6)
    assert policy.shares("k", "new", ("a", "b", "c")) == pytest.approx(pooled_shares)
    assert policy.shares("other", "new", ("a", "b")) == pytest.approx([0.5, 0.5])


def test_the_empirical_policy_of_recorded_episodes_and_its_option():
    game = make_game("werewolf", options={"players": 4, "rounds": 1, "say": ["result", "accuse"]})
    episodes = play_episodes(game, ["werewolf_bot style=accuser"] * 4, plays=8)
    request = KnowledgeRequest(episodes=episodes, environments={game.name: game}, step=0, stream=EMPIRICAL_STREAM)
    decisions = [judged_decisions(game, item, actions=True) for item in episodes]
    anchored_output = latent_space(request, {}, clusters=8, actions=True, solver="sampled", cfr_steps=20, anchor=0.3)
    without_anchor = latent_space(request, {}, clusters=8, actions=True, solver="sampled", cfr_steps=20)
    assert (
        anchored_output.state["space"]["kinds"] == without_anchor.state["space"]["kinds"]
        and anchored_output.state != without_anchor.state
    )
    _, space = LatentSpace.from_state(anchored_output.state, PluginConfig.model_validate("ngrams").bind(EMBEDDINGS))
    (first_decision, *_), *_ = mapped = map_decisions(request, decisions, space, gists=True)
    assert len(mapped) == 8 and first_decision.game == game.name
    policy = empirical_policy(item for row in mapped for item in row)
    labels = policy.by_kind["wolf speaks"]
    assert sum(labels.values()) > 4 and all(label.startswith("seer #") and label.endswith("wolf") for label in labels)
    assert sum(policy.by_kind[""].values()) > 30


@pytest.mark.parametrize("speech", ["words", "text"])
@pytest.mark.parametrize(
    "solver_options",
    [
        {},
        {"gists": False},
        {"growth": 2, "iterations": 2, "every": 1},
        {"depth": 2},
        {"actions": False},
        {"prefer": "probability"},
    ],
    ids=str,
)
def test_an_anchor_works_with_other_options(speech, solver_options):
    options = {
        "players": 4,
        "rounds": 1,
        "tie": "none",
        "speech": speech,
        **({"say": ["accuse"]} if speech == "words" else {}),
        "style": "full",
    }
    game, states = make_game("werewolf", options=options), []
    episodes = play_episodes(game, ["werewolf_bot sentences=true"] * 4, plays=6)
    for step in range(2):
        request = KnowledgeRequest(
            episodes=episodes, environments={game.name: game}, step=step, stream=EMPIRICAL_STREAM
        )
        states.append(
            latent_space(
                request,
                states[-1] if states else {},
                **{
                    "clusters": 3,
                    "actions": True,
                    "solver": "sampled",
                    "cfr_steps": 4,
                    "anchor": 0.2,
                    **solver_options,
                },
            ).state
        )
    assert states[1]["iteration"] == (1 if "every" in solver_options else 0)
    for strategy in states[1]["space"]["strategies"].values():
        assert strategy and all(sum(row) == pytest.approx(1) for row in strategy.values())


def test_an_anchor_with_the_full_tree_solver_is_refused():
    request = KnowledgeRequest(episodes=[], environments={}, step=0, stream=EMPIRICAL_STREAM)
    with pytest.raises(
        ConfigError, match=r"anchor=0\.1 applies to sampled episodes only.*write solver: sampled, or leave anchor out"
    ):
        latent_space(request, {}, anchor=0.1)
