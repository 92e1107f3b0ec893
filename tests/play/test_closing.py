import pytest

import sparring
from sparring.api.human_play import InteractiveSession, Opponent
from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, RolloutError, SparringError
from sparring.core.records import Observation, Verdict
from sparring.core.rng import Stream
from sparring.environments.base import IllegalRule
from sparring.environments.foreign import complete_environment
from sparring.environments.repeated import RepeatedEnvironment
from sparring.environments.trial import Trial
from sparring.measure.initial_states import all_starts
from sparring.measure.matches import play_matches, self_plays
from sparring.methods.rewards.contribution import contribution
from sparring.play.players.base import Reply
from sparring.play.playouts import with_playouts
from sparring.play.replay import figures_of, final_play, replay, replay_states
from sparring.play.rollout import play, rollout
from sparring.testing.environments import check_environment
from tests.play import plays


class CountingRules:
    """An environment with one move of each of two seats, which counts how often each play was closed."""

    SLOT = "environments"
    name, roles, max_turns, min_utility, max_utility, figures = "counted", ("one", "two"), 2, 0.0, 1.0, ("moves",)

    def __init__(self, rule="forfeit", max_open=10**9, failing_call="", fails_for=lambda number: True):
        self.illegal, self.max_open = IllegalRule(rule=rule), max_open
        self.failing_call, self.fails_for = failing_call, fails_for
        self.closed = []  # for each play that was started or copied: how often it was closed
        self.most_open = 0  # largest number of plays that were open simultaneously

    def fail(self, call, number):
        if self.failing_call == call and self.fails_for(number):
            raise ConnectionError(f"CAPACITY_REACHED at {call}")

    def begin(self, move=0):
        if sum(times == 0 for times in self.closed) >= self.max_open:
            raise ConnectionError("CAPACITY_REACHED")
        self.closed.append(0)
        self.most_open = max(self.most_open, self.closed.count(0))
        return Session(self, len(self.closed) - 1, move)

    def reset(self, stream):
        self.fail("reset", len(self.closed))
        return self.begin()

    def all_closed_once(self):
        return bool(self.closed) and set(self.closed) == {1}


class Session:
    def __init__(self, rules, number, move):
        self.rules, self.number, self.move, self.returns = rules, number, move, (0.0, 0.0)

    @property
    def done(self):
        return self.move == 2

    def due(self):
        self.rules.fail("due", self.number)
        return () if self.done else (self.move,)

    def legal(self, seat):
        return ("a", "b")

    def observe(self, seat):
        self.rules.fail("observe", self.number)
        return Observation(prompt="x", key=f"{seat}")

    def step(self, replies):
        self.rules.fail("step", self.number)
        self.move += 1

    def figures(self):
        assert self.rules.closed[self.number] == 0, "figures are read before the play is closed"
        return {"moves": (1.0, 1.0)}

    def clone(self):
        return self.rules.begin(self.move)

    def close(self):
        self.rules.closed[self.number] += 1


class FixedReply:
    name, renderer = "bot", None

    def __init__(self, text="a", error=None):
        self.text, self.error = text, error

    def act(self, turns):
        if self.error is not None:
            raise self.error
        return [Reply(self.text) for _ in turns]


def make_specs(rules, num_episodes=4, **changes):
    return plays.make_specs(complete_environment("counted", rules), num_episodes, name="bot", **changes)


@pytest.mark.parametrize(
    ("text", "changes", "rule"),
    [
        ("a", {}, "forfeit"),
        ("?", {}, "forfeit"),
        ("?", {}, "retry"),
        ("?", {}, "random"),
        ("a", {"max_turns": 1}, "forfeit"),
    ],
    ids=["done", "forfeit", "retry", "random", "truncated"],
)
def test_a_play_is_closed_exactly_once_for_every_kind_of_end(text, changes, rule):
    rules = CountingRules(rule)
    episodes = play(make_specs(rules, **changes), {"bot": FixedReply(text)}, in_flight=2)
    assert len(episodes) == 4 and len(rules.closed) == 4
    assert rules.all_closed_once() and rules.most_open == 2


@pytest.mark.parametrize("fails", ["due", "observe", "step"])
def test_a_failed_play_is_closed_before_its_retry(fails):
    rules = CountingRules(failing_call=fails, max_open=1)
    episodes, counts = rollout(make_specs(rules, 2), {"bot": FixedReply()}, retries=1, in_flight=1)
    assert not episodes and counts.retried == 2 and len(counts.failures) == 2
    assert rules.all_closed_once() and len(rules.closed) == 4 and rules.most_open == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), RuntimeError("the agent raised")])
def test_interrupted_plays_are_closed(error):
    rules = CountingRules()
    with pytest.raises((KeyboardInterrupt, SystemExit, SparringError)):
        play(make_specs(rules), {"bot": FixedReply(error=error)})
    assert rules.all_closed_once() and len(rules.closed) == 4


def test_a_play_with_an_invalid_prefix_is_closed():
    rules = CountingRules()
    (episode,) = play(make_specs(rules, 1), {"bot": FixedReply()})
    foreign = tuple(turn._replace(seat=1 - turn.seat) for turn in episode.turns)
    with pytest.raises(RolloutError):
        play(make_specs(rules, 1, prefix=foreign), {"bot": FixedReply()}, retries=0)
    assert rules.all_closed_once()


def test_an_error_in_close_does_not_lose_the_episode(caplog):
    rules = CountingRules()

    def close_and_raise(self):
        rules.closed[self.number] += 1
        raise OSError("gone")

    session = type("BrokenSession", (Session,), {"close": close_and_raise})
    rules.begin = lambda move=0: (rules.closed.append(0), session(rules, len(rules.closed) - 1, move))[1]
    assert len(play(make_specs(rules), {"bot": FixedReply()})) == 4 and rules.all_closed_once()
    assert "could not be closed: OSError('gone')" in caplog.text


def test_copies_and_replayed_plays_are_closed():
    rules = CountingRules()
    (episode,) = play(make_specs(rules, 1), {"bot": FixedReply()})
    game = complete_environment("counted", rules)
    for state in replay(game, episode):
        state.close()  # the caller must close these states
    assert figures_of(game, episode) == {"moves": (1.0, 1.0)}
    with final_play(game, episode) as last_play:
        assert last_play.done
    states = replay_states(game, episode)
    next(states)
    states.close()  # the iterator is abandoned before its end
    assert contribution(episode, game) == (None, None)
    assert rules.all_closed_once()


class Judge:
    name = "judge"

    def __init__(self, raises=False):
        self.raises = raises

    def judge(self, states, streams=()):
        if self.raises:
            raise KeyboardInterrupt
        assert all(state.play.rules.closed[state.play.number] == 0 for state in states)
        return [Verdict(actions=("a", "b"), values=(1.0, 0.0), best=frozenset("a")) for _ in states]


def test_copies_for_an_oracle_are_closed():
    rules = CountingRules()
    episodes = play(make_specs(rules), {"bot": FixedReply()}, judges={"counted": Judge().judge})
    assert all(turn.verdict is not None for episode in episodes for turn in episode.turns)
    assert rules.all_closed_once() and len(rules.closed) == 4 + 8
    with pytest.raises(KeyboardInterrupt):
        play(make_specs(rules), {"bot": FixedReply()}, judges={"counted": Judge(raises=True).judge})
    assert rules.all_closed_once()


def test_playouts_and_checks_and_matches_close_their_plays():
    rules = CountingRules()
    game = complete_environment("counted", rules)
    episodes = play(make_specs(rules, 2), {"bot": FixedReply()})
    requests = with_playouts(episodes, {"counted": game}, count=2, stream=Stream.from_seed(1), estimate_before=True)
    specs = next(requests)
    with pytest.raises(StopIteration):
        requests.send(rollout(specs, {"bot": FixedReply()}))
    random_agent = registry.bind("players", "random")()
    play_matches(game, random_agent, random_agent, games_per_seat=2, stream=Stream.from_seed(0))
    self_plays(all_starts(game), random_agent, plays=2, stream=Stream.from_seed(0))
    assert rules.all_closed_once() and len(rules.closed) > 10
    checked_rules = CountingRules()
    check_environment(lambda: checked_rules, plays=2)
    assert checked_rules.all_closed_once() and checked_rules.most_open == 2  # the play and its copy


def make_trial(inner):
    return Trial(environment=inner, attempts=3, reflect=False, redeal="same")


@pytest.mark.parametrize(
    "make_combinator", [lambda inner: RepeatedEnvironment(environment=inner, rounds=3), make_trial]
)
def test_inner_plays_of_a_combinator_are_closed_as_each_ends(make_combinator):
    rules = CountingRules(max_open=1)
    game = make_combinator(complete_environment("counted", rules))
    (episode,) = sparring.play_episodes(game, ["random", "random"])
    assert len(episode.turns) == 6 and rules.all_closed_once() and len(rules.closed) == 3 and rules.most_open == 1
    failing_rules = CountingRules(failing_call="reset", fails_for=lambda number: number == 2)
    with pytest.raises(RolloutError, match="CAPACITY_REACHED at reset"):
        sparring.play_episodes(make_combinator(complete_environment("counted", failing_rules)), ["random", "random"])
    assert failing_rules.all_closed_once() and len(failing_rules.closed) == 2


def test_a_session_of_a_person_is_closed_when_left_or_failed():
    rules, opponent = CountingRules(), Opponent("bot-bot", "bot", FixedReply())
    session = InteractiveSession(complete_environment("counted", rules), 0, opponent, 0)
    assert session.pending is not None and rules.closed == [0]
    session.close()
    session.close()
    assert rules.all_closed_once()
    failing_rules = CountingRules(failing_call="observe")
    with pytest.raises(SparringError, match="CAPACITY_REACHED at observe"):
        InteractiveSession(complete_environment("counted", failing_rules), 0, opponent, 0)
    assert failing_rules.all_closed_once()


def test_play_episodes_gives_all_episodes_or_an_error():
    rules = CountingRules(max_open=8)
    assert (
        len(sparring.play_episodes(complete_environment("counted", rules), ["random", "random"], plays=20, in_flight=8))
        == 20
    )
    assert rules.most_open == 8 and rules.all_closed_once()
    rules_with_64_in_flight = CountingRules(max_open=8)
    with pytest.raises(
        RolloutError,
        match=r"12 of 20 episodes are missing, as 12 failed\. 12 x ConnectionError: CAPACITY_REACHED\. .*in_flight",
    ):
        sparring.play_episodes(complete_environment("counted", rules_with_64_in_flight), ["random", "random"], plays=20)
    assert rules_with_64_in_flight.all_closed_once()
    rules_without_limit = CountingRules()
    assert (
        len(
            sparring.play_episodes(
                complete_environment("counted", rules_without_limit), ["random", "random"], plays=100
            )
        )
        == 100
    )
    assert rules_without_limit.most_open == 64
    with pytest.raises(ConfigError, match="in_flight"):
        sparring.play_episodes("kuhn_poker", ["random", "random"], in_flight=0)


def test_matches_count_games_that_could_not_start_with_the_reason():
    rules = CountingRules(
        failing_call="reset", fails_for=lambda number: number >= 5
    )  # every start fails after five plays
    report = play_matches(
        complete_environment("counted", rules),
        FixedReply(),
        FixedReply(),
        games_per_seat=4,
        stream=Stream.from_seed(0),
        in_flight=1,
    )
    assert [(seat.games, seat.failed) for seat in report.seats] == [(4, 0), (1, 3)]
    assert (report.overall.games, report.overall.failed) == (5, 3) and rules.all_closed_once()
    assert report.notes[0].startswith(
        "counted: 3 of 8 games failed with an error, and count in no figure. 3 x ConnectionError: CAPACITY_REACHED at reset."
    )
    failing_rules = CountingRules(failing_call="reset")
    with pytest.raises(RolloutError, match="CAPACITY_REACHED at reset"):
        play_matches(
            complete_environment("counted", failing_rules),
            FixedReply(),
            FixedReply(),
            games_per_seat=2,
            stream=Stream.from_seed(0),
        )
