"""In fresh order episodes are admitted up to a bound, and every issued episode is in exactly one state."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.engine.workers.episode_budget import Admission, EpisodeBudget

GAMES_PER_STEP, GROUP_SIZE = 8, 2  # episodes of a step and of a group


class SimulatedRun:
    def __init__(self, lag, steps):
        self.lag, self.steps, self.num_learnt_steps, self.num_taken = lag, steps, 0, 0
        self.admission = Admission(games_per_step=GAMES_PER_STEP, lag=lag, steps=steps)
        self.fates = []  # a list [state] for every episode that was ever issued
        self.open = {}  # unit -> group -> states of its episodes
        self.arrived = {}  # group -> fates
        self.num_units = self.num_groups = 0

    def issue(self, limit):
        num_groups = min(limit, self.admission.num_issuable // GROUP_SIZE)
        if not num_groups:
            return
        groups = range(self.num_groups, self.num_groups + num_groups)
        self.num_groups += num_groups
        self.open[self.num_units] = {group: self._new_fates() for group in groups}
        self.admission.issue(self.num_units, dict.fromkeys(groups, GROUP_SIZE))
        self.num_units += 1

    def _new_fates(self):
        fates = [["open"] for _ in range(GROUP_SIZE)]
        self.fates += fates
        return fates

    def lose(self, unit):
        if unit in self.open:
            for group, fates in self.open[unit].items():
                for fate in fates:
                    fate[0] = "lost"
                self.open[unit][group] = self._new_fates()
        self.admission.reissue(unit)

    def answer(self, unit, failed):
        groups = dict(self.open.get(unit, {}))
        if failed and groups:
            for fate in groups.pop(min(groups)):
                fate[0] = "lost"
        self.open.pop(unit, None)
        self.arrived |= groups
        self.admission.record_arrival(unit, dict.fromkeys(groups, GROUP_SIZE))

    def learn(self, withhold_every):
        while self.num_taken < GAMES_PER_STEP:
            if not self.arrived:
                return  # the step continues when more groups arrive
            group = next(iter(self.arrived))
            assert self.admission.arrived_groups[0] == group  # groups are taken in the order of arrival
            is_withheld = bool(withhold_every) and group % withhold_every == 0
            for fate in self.arrived.pop(group):
                fate[0] = "withheld" if is_withheld else "learned"
            self.admission.take_group(group, is_too_stale=is_withheld)
            self.num_taken += 0 if is_withheld else GROUP_SIZE
        self.num_learnt_steps, self.num_taken = self.num_learnt_steps + 1, 0
        self.admission.begin_step(self.num_learnt_steps)

    def kill(self, checkpoint):
        budget, arrived, fates = checkpoint
        issued = self.admission.budget.issued
        for fate in self.fates:
            fate[0] = "lost"
        for fate, name in zip(self.fates, fates, strict=False):
            fate[0] = "lost" if name == "open" else name
        fates_before = [fate for fate in self.fates if fate[0] != "lost"]
        self.admission = Admission(
            games_per_step=GAMES_PER_STEP, lag=self.lag, steps=self.steps, budget=budget.after_kill(issued)
        )
        self.admission.begin_step(self.num_learnt_steps)
        self.open, self.arrived, self.num_taken = {}, {}, 0
        for group, numbers in arrived.items():
            self.arrived[group] = [self.fates[number] for number in numbers]
            for number in numbers:
                self.fates[number][0] = "open"
        self.admission.restore_groups(dict.fromkeys(arrived, GROUP_SIZE))
        assert len(fates_before) == budget.learned + budget.withheld

    def checkpoint(self):
        numbers = {id(fate): number for number, fate in enumerate(self.fates)}
        arrived = {group: [numbers[id(fate)] for fate in fates] for group, fates in self.arrived.items()}
        return self.admission.budget, arrived, [fate[0] for fate in self.fates]

    def check(self):
        budget, counts = self.admission.budget, Counter(fate[0] for fate in self.fates)
        assert budget == EpisodeBudget(
            issued=len(self.fates), **{name: counts[name] for name in ("learned", "withheld", "lost", "open")}
        )
        assert budget.is_balanced
        assert budget.open + self.num_taken <= (self.lag + 1) * GAMES_PER_STEP
        if (
            self.num_learnt_steps < self.steps and self.admission.num_arrived + self.num_taken < GAMES_PER_STEP
        ):  # no step waits for an episode that cannot arrive
            assert self.admission.num_playing or self.admission.num_issuable


EVENTS = st.one_of(
    st.tuples(st.just("issue"), st.integers(1, 5)),
    st.tuples(st.just("lose"), st.integers(0, 30)),
    st.tuples(st.just("answer"), st.integers(0, 30), st.booleans()),
    st.tuples(st.just("learn"), st.integers(0, 3)),
    st.tuples(st.just("checkpoint")),
    st.tuples(st.just("kill")),
)


@given(lag=st.integers(0, 3), events=st.lists(EVENTS, max_size=80))
@settings(max_examples=400, deadline=None)
def test_every_issued_episode_is_in_exactly_one_state(lag, events):
    run = SimulatedRun(lag, steps=6)
    checkpoint = run.checkpoint()
    for name, *values in events:
        if name == "checkpoint":
            checkpoint = run.checkpoint()
        elif name == "kill":
            run.kill(checkpoint)
        elif name != "learn" or run.num_learnt_steps < run.steps:
            getattr(run, name)(*values)
        run.check()


def num_issuable(admission, step):
    admission.begin_step(step)
    return admission.num_issuable


def test_issued_episodes_are_limited_by_the_lag_and_the_end_of_the_run():
    admission = Admission(games_per_step=8, lag=2, steps=4)
    assert [num_issuable(admission, step) for step in range(5)] == [24, 24, 16, 8, 0]
    admission.begin_step(0)
    admission.issue(0, {0: 4, 1: 4, 2: 4})
    assert admission.num_issuable == 12
    admission.record_arrival(0, {0: 4, 2: 4})  # group 1 failed, so one more may be issued
    assert (admission.num_issuable, admission.budget.lost) == (16, 4)
    admission.take_group(0, is_too_stale=True)  # a group that is too old also frees its place
    assert admission.num_issuable == 20
    admission.take_group(2, is_too_stale=False)  # a group being learnt frees its place only afterwards
    assert admission.num_issuable == 20
    assert num_issuable(admission, 1) == 24


def test_a_group_with_missing_episodes_is_lost_completely():
    admission = Admission(games_per_step=8, lag=1, steps=4)
    admission.issue(0, {7: 4, 8: 4})
    admission.record_arrival(0, {7: 3, 8: 4, 99: 4})
    assert admission.arrived_groups == (8,)
    assert admission.budget == EpisodeBudget(issued=8, lost=4, open=4)


def test_a_budget_is_read_back_equal():
    budget = EpisodeBudget(issued=9, learned=3, withheld=1, lost=1, open=4)
    assert EpisodeBudget.of({"issued": 9, "learned": 3, "withheld": 1, "lost": 1, "open": 4}) == budget
    assert budget.is_balanced and not EpisodeBudget(issued=1).is_balanced
    assert budget.after_kill() == EpisodeBudget(issued=9, learned=3, withheld=1, lost=5)
    assert budget.after_kill(12) == EpisodeBudget(issued=12, learned=3, withheld=1, lost=8)
    with pytest.raises(TypeError):
        EpisodeBudget.of({"issud": 9})
