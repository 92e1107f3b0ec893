import re
import time

import pytest

from sparring.config.plugins.guard import CallWatch
from sparring.core.errors import GameError, RolloutError
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.base import IllegalRule
from sparring.environments.foreign import complete_environment
from sparring.play.players.base import Reply
from sparring.play.rollout import play, rollout
from sparring.play.spec import EpisodeSpec
from tests.cases import every_case

WORDS = ("left", "right")


class Rules:
    roles, min_utility, max_utility, brief, max_turns = ("one", "two"), -1.0, 1.0, True, 6

    def __init__(self, rule="forfeit", **parts):
        self.name, self.illegal, self.parts = "faulty", IllegalRule(rule=rule, retries=1), parts

    def reset(self, stream):
        course = Course(self.parts if stream.uniform(0) < 2 else {})
        if "reset" in self.parts:
            return self.parts["reset"](course)
        return course


class Course:
    """Three moments, both seats at once; what is given in ``parts`` takes the place of a method."""

    def __init__(self, parts):
        self.parts, self.taken = parts, 0

    def _or(self, name, *given, otherwise):
        return self.parts[name](self, *given) if name in self.parts else otherwise

    @property
    def done(self):
        return self._or("done", otherwise=self.taken == 3)

    @property
    def returns(self):
        return self._or("returns", otherwise=(float(self.taken), 0.0))

    def due(self):
        return self._or("due", otherwise=() if self.taken == 3 else (0, 1))

    def legal(self, seat):
        return self._or("legal", seat, otherwise=WORDS)

    def observe(self, seat):
        return self._or("observe", seat, otherwise=Observation(told="say", key=f"{seat} {self.taken}"))

    def step(self, replies):
        self.taken += 1
        return self._or("step", replies, otherwise=None)


class Says:
    renderer = None

    def __init__(self, said="left"):
        self.said = said

    def act(self, turns):
        return [Reply(text=self.said) for _ in turns]


def raising(*_):
    raise RuntimeError("broken")


def refusing(*_):
    raise GameError("faulty: this reply is refused")


def later(what):
    """Return a part that is at fault from the second moment on only."""

    def part(course, *given):
        right = {"due": (0, 1), "legal": WORDS, "observe": Observation(told="say", key="k"), "returns": (0.0, 0.0), "step": None, "done": False}
        return what[1] if course.taken else right[what[0]]

    return {what[0]: part}


def both(parts, *, said="left", retries=1, rule="forfeit"):
    """Play a group of a faulty environment beside one that is right; return episodes and counts."""
    games = [complete_environment("faulty", Rules(rule, **parts)), complete_environment("right", Rules())]
    games[1].name = "right"
    root = Stream.from_seed(0)
    specs = [
        EpisodeSpec(
            game=games[number // 2], episode_id=number, group_id=number // 2, deal=root, stream=root.child(number), seats=("a", "a"), trained=(True, True)
        )
        for number in range(4)
    ]
    begun = time.monotonic()
    with CallWatch(3):
        episodes, counts = rollout(specs, {"a": Says(said)}, retries=retries).require_any()
    assert time.monotonic() - begun < 20
    return episodes, counts


FAULTS = {
    **{f"{name} raises": {name: raising} for name in ("reset", "done", "returns", "due", "legal", "observe", "step")},
    **{f"{name} refuses": {name: refusing} for name in ("reset", "due", "legal", "observe", "step")},
    "reset gives nothing": {"reset": lambda course: None},
    **{
        f"due gives {wrong!r}": {"due": lambda course, wrong=wrong: wrong}
        for wrong in ((), (2,), (-1,), (0, 0), (1, 0), None, 1, ("0",), (0.0,), (True,), (0, None))
    },
    **{
        f"legal gives {wrong!r}": {"legal": lambda course, seat, wrong=wrong: wrong}
        for wrong in (["left"], (), (1, 2), ("left", "left"), "left", {"left"}, ("left", None))
    },
    **{
        f"observe gives {wrong!r}": {"observe": lambda course, seat, wrong=wrong: wrong}
        for wrong in (None, "say", ("say", "key"), Observation(told=1, key="k"), Observation(told="say", key=None))
    },
    **{
        f"returns are {wrong!r}": {"returns": lambda course, wrong=wrong: wrong}
        for wrong in ((), (1.0,), (1.0, 2.0, 3.0), (float("nan"), 0.0), (float("inf"), 0.0), None, 1.0, ("1", "2"), (None, 0.0))
    },
    **{
        f"later {name} is {wrong!r}": later((name, wrong))
        for name, wrong in (("due", ()), ("due", (3,)), ("legal", ()), ("observe", None), ("returns", (0.0,)))
    },
}


@every_case("fault", FAULTS)
@every_case("rule", ["forfeit", "retry", "random"])
def test_its_group_is_dropped_and_counted_and_the_other_is_whole(fault, rule, caplog):
    caplog.clear()
    episodes, counts = both(FAULTS[fault], rule=rule)
    assert counts.dropped_groups == {0} and counts.retried == 2
    assert [(episode.game, episode.group_id, episode.returns) for episode in episodes] == [("right", 1, (3.0, 0.0))] * 2
    assert "faulty" in caplog.text


SAID = {
    "due gives ()": r"faulty: due\(\) gave \(\).*not done",
    "due gives (2,)": r"faulty: due\(\) gave \(2,\)",
    "due gives (0, 0)": r"faulty: due\(\) gave \(0, 0\)",
    "legal gives ['left']": r"faulty: legal\(0\) gave \['left'\]",
    "legal gives ()": r"faulty: legal\(0\) gave \(\)",
    "observe gives 'say'": r"faulty: observe\(0\) gave 'say'",
    "returns are (1.0,)": r"faulty: returns must be one finite number per seat",
    "returns are None": r"faulty: returns must be one finite number per seat",
}


@pytest.mark.parametrize("fault", SAID)
def test_the_log_says_what_is_wrong_and_what_to_give(fault, caplog):
    both(FAULTS[fault])
    assert re.search(SAID[fault], caplog.text)


@pytest.mark.parametrize("name", ["reset", "done", "due", "legal", "observe", "step", "returns"])
def test_what_hangs_is_interrupted_counted_and_not_tried_again(name):
    def hang(*_):
        while True:
            time.sleep(0.01)

    root = Stream.from_seed(0)
    games = [complete_environment("faulty", Rules(**{name: hang})), complete_environment("right", Rules())]
    specs = [
        EpisodeSpec(game=game, episode_id=number, group_id=number, deal=root, stream=root.child(number), seats=("a", "a"), trained=(True, True))
        for number, game in enumerate(games)
    ]
    with CallWatch(0.5):
        episodes, counts = rollout(specs, {"a": Says()})
    assert counts.dropped_groups == {0} and counts.retried == 0
    assert [episode.group_id for episode in episodes] == [1]


@pytest.mark.parametrize("rule", ["forfeit", "retry", "random"])
@pytest.mark.parametrize("said", ["left", "nothing"])
def test_a_play_that_never_ends_is_cut_at_its_most_turns(said, rule):
    episodes, counts = both({"done": lambda course: False, "due": lambda course: (0, 1)}, said=said, rule=rule)
    assert not counts.dropped_groups
    assert all(len(episode.turns) <= 12 and (episode.cut or episode.forfeited_by is not None) for episode in episodes[:2])


def test_any_text_is_played_where_no_list_says_otherwise():
    episodes, counts = both({"legal": lambda course, seat: None}, said="anything \ud800")
    assert not counts.dropped_groups
    assert [turn.action for turn in episodes[0].turns] == ["anything \ud800"] * 6
    assert [episode.forfeited_by for episode in episodes] == [None, None, 0, 0]


@pytest.mark.parametrize("most", [0, -1, float("inf"), None, "6", True, 2.5])
def test_plays_without_an_end_are_refused(most, monkeypatch, caplog):
    monkeypatch.setattr(Rules, "max_turns", most)
    with pytest.raises(RolloutError, match="All 2 groups failed"):
        both({"done": lambda course: False})
    assert "must be a whole number of at least 1" in caplog.text


def test_a_prefix_that_is_longer_than_the_play_is_refused(caplog):
    episodes, _ = both({})
    root = Stream.from_seed(0)
    spec = EpisodeSpec(
        game=complete_environment("faulty", Rules()),
        episode_id=0,
        group_id=0,
        deal=root,
        stream=root,
        seats=("a", "a"),
        trained=(True, True),
        prefix=(*episodes[0].turns, *episodes[0].turns),
    )
    with CallWatch(3), pytest.raises(RolloutError):
        play([spec], {"a": Says()}, retries=0)
    assert "take whole moments" in caplog.text and "Hung" not in caplog.text


@pytest.mark.parametrize("found", [1, b"left", ["left"]])
def test_what_is_read_in_a_reply_is_a_text_or_nothing(found, monkeypatch, caplog):
    monkeypatch.setattr(Course, "read", lambda self, seat, reply, exact=False: self._or("read", otherwise=reply), raising=False)
    _, counts = both({"read": lambda course: found})
    assert counts.dropped_groups == {0} and "read() gave" in caplog.text


def test_a_copy_that_raises_drops_its_group_and_no_other(monkeypatch):
    monkeypatch.setattr(Course, "clone", lambda self: self._or("clone", otherwise=self), raising=False)
    root = Stream.from_seed(0)
    specs = [
        EpisodeSpec(game=game, episode_id=number, group_id=number, deal=root, stream=root, seats=("a", "a"), trained=(True, True))
        for number, game in enumerate((complete_environment("faulty", Rules(clone=raising)), complete_environment("faulty", Rules())))
    ]
    judged = []
    judges = {"faulty": lambda states, streams: judged.extend(states) or [None] * len(states)}
    episodes, counts = rollout(specs, {"a": Says()}, retries=1, judges=judges)
    assert counts.dropped_groups == {0} and counts.retried == 1
    assert [episode.group_id for episode in episodes] == [1] and len(judged) == 6


def test_where_every_group_failed_it_is_an_error():
    root = Stream.from_seed(0)
    spec = EpisodeSpec(game=complete_environment("faulty", Rules(step=raising)), episode_id=0, group_id=0, deal=root, stream=root, seats=("a", "a"), trained=(True, True))
    with pytest.raises(RolloutError, match="All 1 groups failed beyond their retries"):
        play([spec], {"a": Says()}, retries=1)
