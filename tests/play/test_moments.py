import random as random_module
import re

import pytest

from sparring.config.plugins.guard import CallWatch
from sparring.core.errors import GameError, HungError, ModelError, PluginError, RolloutError
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.base import IllegalRule
from sparring.environments.catalogue import make_game
from sparring.environments.foreign import complete_environment
from sparring.models.samplers.base import sample
from sparring.play.episode import Candidates, end_of_moment, first_of_moment
from sparring.play.players.base import Reply
from sparring.play.players.random import random
from sparring.play.playouts import with_playouts
from sparring.play.replay import replay
from sparring.play.rollout import play, rollout, run_requests
from sparring.play.turn_table import turn_table
from tests.play.plays import make_specs, tiny_learner

MOVES = ("rock", "paper", "scissors")


class RockPaperScissors:
    """Several rounds of rock, paper, scissors; the prompt of each seat states the other's last move."""

    roles, min_utility, max_utility, zero_sum, utility_sum, brief = ("left", "right"), -3.0, 3.0, True, 0.0, True

    def __init__(self, rounds=3, rule="forfeit"):
        self.rounds, self.max_turns, self.illegal, self.name = (
            rounds,
            2 * rounds,
            IllegalRule(rule=rule, penalty=0.25),
            "rounds",
        )

    def reset(self, stream):
        return RoundsPlay(self.rounds)


class RoundsPlay:
    def __init__(self, rounds, moves=()):
        self.rounds, self.moves = rounds, moves

    def clone(self):
        return RoundsPlay(self.rounds, self.moves)

    @property
    def done(self):
        return len(self.moves) == self.rounds

    @property
    def returns(self):
        score = sum(
            (0, 1, -1)[(MOVES.index(left_move) - MOVES.index(right_move)) % 3] for left_move, right_move in self.moves
        )
        return (float(score), float(-score))

    def due(self):
        return () if self.done else (0, 1)

    def legal(self, seat):
        return MOVES

    def observe(self, seat):
        return Observation(prompt=self.moves[-1][1 - seat] if self.moves else "begin", key=f"{seat} {self.moves}")

    def step(self, replies):
        assert sorted(replies) == [0, 1]
        self.moves = (*self.moves, (replies[0], replies[1]))


class FixedReplies:
    renderer = None

    def __init__(self, *texts):
        self.texts, self.seen = iter(texts), []

    def act(self, turns):
        self.seen += [(turn.prompt, turn.past()) for turn in turns]
        return [Reply(text=next(self.texts)) for _ in turns]


def play_rounds(left, right, rounds=3, rule="forfeit", **changes):
    game = complete_environment("rounds", RockPaperScissors(rounds, rule))
    (episode,) = play(make_specs(game, 1, seats=("a", "b"), **changes), {"a": left, "b": right}, retries=0)
    return game, episode


def test_no_seat_sees_a_reply_of_its_own_moment():
    left, right = FixedReplies("rock", "paper", "paper"), FixedReplies("scissors", "rock", "rock")
    _, episode = play_rounds(left, right)
    assert [(turn.moment, turn.seat, turn.turn_index, turn.action) for turn in episode.turns] == [
        *(
            (0, 0, 0, "rock"),
            (0, 1, 0, "scissors"),
            (1, 0, 1, "paper"),
            (1, 1, 1, "rock"),
            (2, 0, 2, "paper"),
            (2, 1, 2, "rock"),
        )
    ]
    assert [text for text, _ in left.seen] == ["begin", "scissors", "rock"]
    assert right.seen[2] == ("paper", (("begin", "scissors"), ("rock", "rock")))
    assert episode.returns == (3.0, -3.0) and not episode.cut and episode.forfeited_by is None
    # the reward of a turn is the change of its seat's return until the seat's next turn
    assert [turn.rewards["game"] for turn in episode.turns] == [1.0, -1.0, 1.0, -1.0, 1.0, -1.0]
    table = turn_table([episode])
    assert table.trajectory.tolist() == [0, 0, 0, 1, 1, 1] and table.reward.tolist() == [1, 1, 1, -1, -1, -1]


def test_a_recorded_episode_is_replayed_moment_by_moment():
    game, episode = play_rounds(FixedReplies("rock", "paper", "paper"), FixedReplies("scissors", "rock", "rock"))
    states = replay(game, episode)
    assert [len(state.moves) for state in states] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("left", "right", "returns", "forfeited_by"),
    [("x", "rock", (-3.0, 3.0), 0), ("rock", "x", (3.0, -3.0), 1), ("x", "y", (0.0, 0.0), 0)],
)
def test_a_forfeit_ends_the_episode_and_simultaneous_forfeits_share_the_loss(left, right, returns, forfeited_by):
    _, episode = play_rounds(FixedReplies(left), FixedReplies(right))
    assert (episode.returns, episode.forfeited_by) == (returns, forfeited_by)
    assert [turn.action for turn in episode.turns] == [None, None] and len(episode.turns) == 2
    assert [turn.event for turn in episode.turns] == [
        "ok" if text == "rock" else "unparsable" for text in (left, right)
    ]
    assert [turn.rewards.get("illegal", 0.0) for turn in episode.turns] == [
        0.0 if text == "rock" else -0.25 for text in (left, right)
    ]


def test_only_the_seat_with_an_illegal_reply_retries():
    left, right = FixedReplies("x", "paper"), FixedReplies("rock")
    game, episode = play_rounds(left, right, rounds=1, rule="retry")
    assert [(turn.moment, turn.seat, turn.action) for turn in episode.turns] == [
        (0, 0, None),
        (0, 1, "rock"),
        (1, 0, "paper"),
    ]
    assert episode.returns == (1.0, -1.0)
    assert [len(state.moves) for state in replay(game, episode)] == [0, 0, 0]


def test_a_random_move_replaces_an_illegal_one_and_is_repeatable():
    moves = {
        play_rounds(FixedReplies("x", "rock"), FixedReplies("rock", "rock"), rounds=2, rule="random")[1].turns[0].action
        for _ in range(3)
    }
    assert len(moves) == 1 and moves <= set(MOVES)


def test_an_episode_is_truncated_after_a_whole_moment():
    _, episode = play_rounds(FixedReplies("rock", "rock"), FixedReplies("paper", "rock"), max_turns=3)
    assert episode.cut and len(episode.turns) == 4 and episode.returns == (-1.0, 1.0)


def test_an_episode_continues_from_whole_moments_of_another():
    _, episode = play_rounds(FixedReplies("rock", "rock", "rock"), FixedReplies("paper", "rock", "rock"))
    _, continued_episode = play_rounds(FixedReplies("paper"), FixedReplies("paper"), prefix=episode.turns[:4])
    assert [turn.action for turn in continued_episode.turns] == ["rock", "paper", "rock", "rock", "paper", "paper"]
    with pytest.raises(RolloutError, match="All 1 groups failed"):
        play_rounds(FixedReplies("paper"), FixedReplies("paper"), prefix=episode.turns[:3])


def test_positions_are_rounded_to_whole_moments():
    _, episode = play_rounds(FixedReplies("rock", "rock", "rock"), FixedReplies("paper", "rock", "rock"))
    assert [first_of_moment(episode.turns, index) for index in range(7)] == [0, 0, 2, 2, 4, 4, 6]
    assert [end_of_moment(episode.turns, index) for index in range(6)] == [2, 2, 4, 4, 6, 6]


def test_playouts_start_after_whole_moments():
    game, episode = play_rounds(FixedReplies("rock", "rock", "rock"), FixedReplies("paper", "rock", "rock"))
    playout_specs = []

    def rollout_again(make_specs):
        playout_specs.extend(make_specs)
        return rollout(make_specs, {"a": FixedReplies(*["rock"] * 99), "b": FixedReplies(*["paper"] * 99)})

    results = run_requests(
        with_playouts([episode], {"rounds": game}, count=2, stream=Stream.from_seed(1)), rollout_again
    )[0]
    assert [len(spec.prefix) for spec in playout_specs] == [2, 2, 2, 2, 4, 4, 4, 4]
    assert [turn.playout for turn in results[0].turns] == [-3.0, 3.0, -2.0, 2.0, -1.0, 1.0]


def test_an_oracle_is_refused_if_plays_cannot_be_copied(monkeypatch):
    monkeypatch.delattr(RoundsPlay, "clone")
    game = complete_environment("rounds", RockPaperScissors(1))
    with pytest.raises(GameError, match="cannot be copied, so no oracle can judge them"):
        play(
            make_specs(game, 1, name="a"),
            {"a": FixedReplies("rock", "rock")},
            judges={"rounds": lambda states, streams: [None] * len(states)},
            retries=0,
        )


class CallPlay:
    def __init__(self, rules, stream):
        self.rules, self.calls, self.returns = rules, 0, (0.0,)

    done = property(lambda self: self.calls == 3)

    def due(self):
        return () if self.done else (0,)

    def legal(self, seat):
        return ("yes", "no")

    def observe(self, seat):
        return Observation(prompt=f"call {self.calls}", key=str(self.calls), fresh=self.calls != 1)

    def step(self, replies):
        self.calls += 1


class CallRules(RockPaperScissors):
    roles, num_seats, max_turns, brief = ("worker",), 1, 3, False

    def reset(self, stream):
        return CallPlay(self, stream)


@pytest.mark.parametrize(("rule", "num_retries"), [("random", 0), ("retry", 2)])
def test_a_correction_is_not_shown_in_the_next_conversation(rule, num_retries):
    game = complete_environment("called", CallRules(3, rule))
    worker = FixedReplies(*["x"] * 9)
    play(make_specs(game, 1, name="a"), {"a": worker}, retries=0)
    prompts_seen = [re.sub(r"^Your .*?(?= call \d)", "NOTICE", text, flags=re.DOTALL) for text, _ in worker.seen]
    first_prompts = ["call 0", "NOTICE call 1", "call 2"]  # the second call continues the conversation of the first
    assert prompts_seen == [
        text
        for call, first_prompt in enumerate(first_prompts)
        for text in (first_prompt, *[f"NOTICE call {call}"] * num_retries)
    ]


class LateAgent:
    """Replies immediately to most turns, and after a pause to turns of ``late_streams``."""

    renderer, name = None, "late"

    def __init__(self, late_streams):
        self.inner, self.late, self.log = random(), late_streams, []

    def act(self, turns):
        raise AssertionError("submit is called instead")

    def submit(self, turns):
        self.log.append(len(turns))
        replies = self.inner.act(turns)
        return self.replies_in_parts(
            replies, [index for index, turn in enumerate(turns) if turn.stream.key in self.late]
        )

    def replies_in_parts(self, replies, slow_indices):
        yield [(index, reply) for index, reply in enumerate(replies) if index not in slow_indices]
        calls = 0
        while slow_indices and calls < len(self.log):
            calls = len(self.log)
            yield []
        yield [(index, replies[index]) for index in slow_indices]


def test_an_episode_does_not_wait_for_replies_of_others():
    """The first decision of episode 0 gets its reply last, when all other episodes have ended."""
    game = make_game("tic_tac_toe", illegal={"rule": "random"})
    specs = make_specs(game, 5, name="late")
    finished_ids = []
    agent = LateAgent({specs[0].stream.child(1).key})
    episodes = play(specs, {"late": agent}, on_finished=finished_ids.append)
    assert episodes == play(make_specs(game, 5, name="late"), {"late": random()})
    assert 4 in finished_ids and finished_ids[-1] == 5  # four episodes ended while the fifth waited for its first reply
    assert agent.log[0] == 5 and agent.log.count(1) >= 4


def test_pending_requests_are_cancelled_when_a_rollout_fails():
    class WaitingAgent(LateAgent):
        def replies_in_parts(self, replies, slow):
            try:
                while True:
                    yield []
            finally:
                self.log.append("given up")

    class FailingAgent(LateAgent):
        def replies_in_parts(self, replies, slow):
            yield []
            raise ModelError("no reply")

    game, waiting_agent = make_game("kuhn_poker"), WaitingAgent(set())
    specs = [*make_specs(game, 1, name="patient"), *make_specs(game, 1, name="failing")]
    with pytest.raises(ModelError, match="no reply") as error:
        play(specs, {"patient": waiting_agent, "failing": FailingAgent(set())})
    assert waiting_agent.log == [1, "given up"], (
        "requests are cancelled immediately, not when the error is garbage-collected"
    )
    assert error.tb is not None


def test_an_act_of_a_subclass_is_used_instead_of_an_inherited_submit():
    class OwnAct(LateAgent):
        def act(self, turns):
            self.log.append("act")
            return self.inner.act(turns)

    class OwnSubmitAgain(OwnAct):
        submit = LateAgent.submit

    specs = make_specs(make_game("kuhn_poker", illegal={"rule": "random"}), 3, name="late")
    for agent, is_act_used in ((OwnAct(set()), True), (OwnSubmitAgain(set()), False)):
        play(specs, {"late": agent})
        assert ("act" in agent.log) is is_act_used
    changed_agent = LateAgent(set())
    changed_agent.act = random().act
    play(specs, {"late": changed_agent})
    assert changed_agent.log == []


class SlowSampler:
    """A sampler that returns replies in random order, one or none per call."""

    def __init__(self, inner, seed):
        self.inner, self.order = inner, random_module.Random(seed)

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def submit(self, requests, params, stop_ids):
        results = sample(self.inner, requests, params, stop_ids)
        return self.replies_in_parts(results)

    def replies_in_parts(self, results):
        indices = list(range(len(results)))
        self.order.shuffle(indices)
        for index in indices:
            if self.order.random() < 0.4:
                yield []
            yield [(index, results[index])]


def score_by_length(episodes):
    return [[float(len(turn.reply)) for turn in episode.turns] for episode in episodes]


@pytest.mark.parametrize("candidates", [None, Candidates(3, score_by_length)])
@pytest.mark.parametrize("seed", range(3))
def test_a_slow_sampler_in_random_order_gives_the_same_episodes(seed, candidates, monkeypatch):
    game = make_game("tic_tac_toe", illegal={"rule": "random"})
    player, _ = tiny_learner(game)
    expected = play(make_specs(game, 8), {"learner": player}, candidates=candidates)
    player.sampler = SlowSampler(tiny_learner(game)[0].sampler, seed)
    assert play(make_specs(game, 8), {"learner": player}, in_flight=5, candidates=candidates) == expected


def test_a_player_without_a_reply_is_an_error():
    class AgentWithoutReply(LateAgent):
        def replies_in_parts(self, replies, slow):
            while True:
                yield []

    with CallWatch(0.3), pytest.raises(HungError, match=r"'late'.* has given no reply for 0.3 seconds"):
        play(make_specs(make_game("kuhn_poker"), 2, name="late"), {"late": AgentWithoutReply(set())})


@pytest.mark.parametrize(
    ("submitted", "message"),
    [
        (lambda count: iter(()), "returned no reply to turn 0"),
        (lambda count: iter([[(0, Reply("bet"))] * 2]), "for turn 0"),
        (lambda count: iter([[(count, Reply("bet"))]]), f"for turn {2}"),
        (lambda count: iter([[(0, "bet")]]), "returned str for turn 0"),
        (lambda count: 1 / 0, "ZeroDivisionError"),
        (lambda count: (1 / 0 for _ in range(3)), "ZeroDivisionError"),
    ],
)
def test_a_wrong_return_value_of_submit_is_an_error(submitted, message):
    class WrongSubmit(LateAgent):
        def submit(self, turns):
            return submitted(len(turns))

    with pytest.raises(PluginError, match=message):
        play(make_specs(make_game("kuhn_poker"), 2, name="late"), {"late": WrongSubmit(set())})


def test_a_sampler_that_leaves_a_request_out_is_an_error():
    player, _ = tiny_learner(make_game("kuhn_poker"))

    class ForgetfulSampler(SlowSampler):
        def replies_in_parts(self, results):
            yield [(0, results[0])]

    player.sampler = ForgetfulSampler(player.sampler, 0)
    with pytest.raises(ModelError, match="ForgetfulSampler returned no reply to request 1 of 4"):
        play(make_specs(make_game("kuhn_poker"), 4), {"learner": player})
