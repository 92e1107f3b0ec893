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

    def _or(self, name, *args, otherwise):
        return self.parts[name](self, *args) if name in self.parts else otherwise

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
        return self._or("observe", seat, otherwise=Observation(prompt="say", key=f"{seat} {self.taken}"))

    def step(self, replies):
        self.taken += 1
        return self._or("step", replies, otherwise=None)


class Says:
    renderer = None

    def __init__(self, text="left"):
        self.text = text

    def act(self, turns):
        return [Reply(text=self.text) for _ in turns]


def specs_of(*games, count=1, **fields):
    root = Stream.from_seed(0)
    common = {"deal": root, "seats": ("a", "a"), "trained": (True, True), **fields}
    groups = [(group, game) for group, game in enumerate(games) for _ in range(count)]
    return [
        EpisodeSpec(game=game, episode_id=n, group_id=group, stream=root.child(n), **common)
        for n, (group, game) in enumerate(groups)
    ]


def raising(*_):
    raise RuntimeError("broken")


def refusing(*_):
    raise GameError("faulty: this reply is refused")


def later(what):
    """Return a part that is at fault from the second moment on only."""

    def part(course, *args):
        right = {
            "due": (0, 1),
            "legal": WORDS,
            "observe": Observation(prompt="say", key="k"),
            "returns": (0.0, 0.0),
            "step": None,
            "done": False,
        }
        return what[1] if course.taken else right[what[0]]

    return {what[0]: part}


def both(parts, *, text="left", retries=1, rule="forfeit"):
    """Play a group of a faulty environment beside one that is right; return episodes and counts."""
    games = [complete_environment("faulty", Rules(rule, **parts)), complete_environment("right", Rules())]
    games[1].name = "right"
    before = time.monotonic()
    with CallWatch(3):
        episodes, counts = rollout(specs_of(*games, count=2), {"a": Says(text)}, retries=retries).require_any()
    assert time.monotonic() - before < 20
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
        for wrong in (
            None,
            "say",
            ("say", "key"),
            Observation(prompt=1, key="k"),
            Observation(prompt="say", key=None),
            Observation("say", "k", note=1),
        )
    },
    **{
        f"returns are {wrong!r}": {"returns": lambda course, wrong=wrong: wrong}
        for wrong in (
            (),
            (1.0,),
            (1.0, 2.0, 3.0),
            (float("nan"), 0.0),
            (float("inf"), 0.0),
            None,
            1.0,
            ("1", "2"),
            (None, 0.0),
        )
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


@pytest.mark.parametrize("name", ["reset", "done", "due", "legal", "observe", "step", "returns"])
def test_what_hangs_is_interrupted_counted_and_not_tried_again(name):
    def hang(*_):
        while True:
            time.sleep(0.01)

    games = [complete_environment("faulty", Rules(**{name: hang})), complete_environment("right", Rules())]
    with CallWatch(0.5):
        episodes, counts = rollout(specs_of(*games), {"a": Says()})
    assert counts.dropped_groups == {0} and counts.retried == 0
    assert [episode.group_id for episode in episodes] == [1]


@pytest.mark.parametrize("rule", ["forfeit", "retry", "random"])
@pytest.mark.parametrize("text", ["left", "nothing"])
def test_a_play_that_never_ends_is_cut_at_its_most_turns(text, rule):
    episodes, counts = both({"done": lambda course: False, "due": lambda course: (0, 1)}, text=text, rule=rule)
    assert not counts.dropped_groups
    assert all(
        len(episode.turns) <= 12 and (episode.cut or episode.forfeited_by is not None) for episode in episodes[:2]
    )


def test_any_text_is_played_where_no_list_says_otherwise():
    episodes, counts = both({"legal": lambda course, seat: None}, text="anything \ud800")
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
    due = specs_of(complete_environment("faulty", Rules()), prefix=(*episodes[0].turns, *episodes[0].turns))
    with CallWatch(3), pytest.raises(RolloutError):
        play(due, {"a": Says()}, retries=0)
    assert "take complete moments" in caplog.text and "Hung" not in caplog.text


@pytest.mark.parametrize("text", [1, b"left", ["left"]])
def test_what_is_read_in_a_reply_is_a_text_or_nothing(text, monkeypatch, caplog):
    monkeypatch.setattr(
        Course, "read", lambda self, seat, reply, exact=False: self._or("read", otherwise=reply), raising=False
    )
    _, counts = both({"read": lambda course: text})
    assert counts.dropped_groups == {0} and "read() gave" in caplog.text


def test_a_copy_that_raises_drops_its_group_and_no_other(monkeypatch):
    monkeypatch.setattr(Course, "clone", lambda self: self._or("clone", otherwise=self), raising=False)
    games = [complete_environment("faulty", rules) for rules in (Rules(clone=raising), Rules())]
    judged = []
    judges = {"faulty": lambda states, streams: judged.extend(states) or [None] * len(states)}
    episodes, counts = rollout(specs_of(*games), {"a": Says()}, retries=1, judges=judges)
    assert counts.dropped_groups == {0} and counts.retried == 1
    assert [episode.group_id for episode in episodes] == [1] and len(judged) == 6
