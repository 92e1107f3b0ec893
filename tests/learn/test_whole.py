"""Losses that look at a whole minibatch, and updates that go through the turns from the last to the first."""

import itertools
import math
import types

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config import LearnerConfig, resolve
from sparring.config.plugins import registry
from sparring.config.plugins.registry import BoundPlugin, Plugin
from sparring.core.rng import Stream
from sparring.core.schedule import parse
from sparring.engine.local import LocalEngine
from sparring.learn.learner import LOG_RATIO_LIMIT, Learner, ReverseTurns, minibatches
from sparring.learn.pack import LegalReplies, WeightedLoss, pack
from sparring.methods.credit.base import start_groups, trajectory_returns
from sparring.methods.losses.base import LossTerm, agent_weights, reduce
from sparring.play.turn_table import turn_table
from sparring.run.warmup import warm_up
from tests.engine.builders import episodes_of, weights


@pytest.fixture(scope="module")
def played():
    run = LocalEngine(
        resolve(
            {
                "environments": [{"name": "kuhn_poker"}],
                "rollout": {"games_per_step": 48, "group_size": 4},
                "threads": 1,
                "warmup": {"updates": 20},
            }
        ),
    )
    warm_up(run.config, run)
    episodes = episodes_of(run)
    return run, pack(episodes, LegalReplies(run.policies["main"].renderer.reply)), turn_table(episodes)


def learner_with(run, function, needs=("whole",), **config):
    module = types.SimpleNamespace(NEEDS=set(needs))
    bound = BoundPlugin(
        plugin=Plugin(slot="losses", name="probe", function=function, module=module), options={}, schedules={}
    )
    model = run.model.clone()
    return Learner(model, LearnerConfig(**config), [WeightedLoss(bound=bound, weight=parse(1.0))], temperature=1.0)


def update(learner, played, advantages=None):
    _, data, turns = played
    advantages = np.linspace(-1, 1, len(data.turn_of)) if advantages is None else advantages
    return learner.update(data, advantages, None, turns=turns, progress=0.0, stream=Stream.from_seed(0))


@pytest.mark.parametrize("config", [{}, {"micro_tokens": 40}, {"minibatches": 3, "epochs": 2, "micro_tokens": 60}])
def test_the_whole_minibatch_is_seen_from_every_forward_pass(played, config):
    run, data, turns = played
    seen = []

    def probe(batch):
        whole, index = batch.whole, batch.index
        assert torch.allclose(whole.logprobs[index], batch.logprobs, atol=1e-6)  # the weights of this very minibatch
        assert torch.equal(whole.advantages[index], batch.advantages)
        assert torch.equal(whole.old_logprobs[index], batch.old_logprobs)
        assert torch.allclose(whole.entropy[index], batch.entropy, atol=1e-6)
        assert torch.allclose(whole.reference_logprobs[index], batch.reference_logprobs, atol=1e-6)
        assert not whole.logprobs.requires_grad
        seen.append(whole)
        return LossTerm(values=batch.logprobs)

    update(learner_with(run, probe, ("whole", "entropy", "reference_logprobs"), **config), played)
    returns, first = trajectory_returns(turns)
    groups = start_groups(turns)[0]
    for whole in seen:
        assert len(whole.outcome) == len(torch.unique(whole.trajectory)) == len(whole.group)
        assert set(whole.outcome.tolist()) <= set(returns.astype(np.float32).tolist())
        assert set(whole.group.tolist()) <= set(groups[first].tolist())
        assert ((whole.uniform >= 0) & (whole.uniform < 1)).all()
    if not config:  # one pass over everything, in the order of the table
        (whole,) = seen
        assert whole.trajectory.tolist() == turns.trajectory[data.turn_of].tolist()
        assert whole.turn_index.tolist() == turns.turn_index[data.turn_of].tolist()
        assert whole.outcome.tolist() == pytest.approx(returns.tolist())
        assert whole.group.tolist() == groups[first].tolist()


@pytest.mark.parametrize(
    ("needs", "config", "passes", "of_reference"),
    [
        ((), {}, 1, 0),
        (("whole",), {}, 1, 0),  # one pass is all of the minibatch: it is read once
        (("whole", "reference_logprobs"), {}, 1, 1),
        (("reference_logprobs",), {"micro_tokens": 40}, 1, 1),
        (("whole",), {"micro_tokens": 40}, 2, 0),
        (("whole", "reference_logprobs"), {"micro_tokens": 40}, 2, 1),
        (("whole", "reference_logprobs"), {"leaves": 2}, 2, 1),
    ],
)
def test_a_minibatch_is_read_no_more_often_than_it_must(played, monkeypatch, needs, config, passes, of_reference):
    learner = learner_with(played[0], lambda batch: LossTerm(values=batch.logprobs), needs, **config)
    read, forward = [], learner._forward
    monkeypatch.setattr(
        learner, "_forward", lambda model, part: read.append((model, len(part.tokens))) or forward(model, part)
    )
    update(learner, played)
    tokens = len(played[1].turn_of)
    mine = sum(count for model, count in read if model is learner.model)
    assert mine == tokens * passes
    assert sum(count for _, count in read) - mine == tokens * of_reference


def test_a_sum_does_not_depend_on_how_the_minibatch_is_cut(played):
    def probe(batch):
        return LossTerm(values=batch.logprobs * batch.advantages, level="sum")

    def gradient(**config):
        learner = learner_with(played[0], probe, gradient_norm=1e9, **config)
        update(learner, played)
        return torch.cat([p.grad.flatten() for p in learner.model.parameters()])

    whole = gradient()
    assert torch.allclose(whole, gradient(micro_tokens=40), atol=1e-4)
    assert torch.allclose(whole, gradient(micro_tokens=40, reduction="sequence_mean"), atol=1e-4)
    assert whole.norm() > 1.0


@pytest.mark.parametrize(
    "config", [{}, {"micro_tokens": 40}, {"leaves": 4}, {"leaves": 2, "micro_tokens": 60}, {"minibatches": 3}]
)
def test_the_agent_mean_of_each_minibatch_does_not_depend_on_how_it_is_cut(played, config):
    run, data, _ = played
    data = data.only(
        ~((data.episode[np.repeat(np.arange(len(data.tokens)), data.tokens)] % 3 == 0) & (data.turn_of % 2 == 0))
    )
    advantages = np.linspace(-1, 1, len(data.turn_of))

    def gradients(probe, **options):
        learner, norms = learner_with(run, probe, gradient_norm=1e9, **config, **options), []
        learner._apply = lambda: norms.append(torch.cat([p.grad.flatten() for p in learner.model.parameters()])) or 0.0
        learner.update(data, advantages, None, turns=played[2], progress=0.0, stream=Stream.from_seed(0))
        return norms

    of_token = np.repeat(np.arange(len(data.tokens)), data.tokens)

    def by_hand(batch):
        sequences = np.unique(of_token[tokens_of(batch)])
        plays = data.episode[sequences]
        weight = {s: 1 / (len(set(plays)) * (plays == data.episode[s]).sum() * data.tokens[s]) for s in sequences}
        mine = of_token[tokens_of(batch)][batch.index.numpy()]
        return LossTerm(values=batch.logprobs * batch.advantages * torch.tensor([weight[s] for s in mine]), level="sum")

    def tokens_of(batch):
        return np.searchsorted(advantages.astype(np.float32), batch.whole.advantages.numpy() - 1e-7)

    plain = gradients(lambda batch: LossTerm(values=batch.logprobs * batch.advantages), reduction="agent_mean")
    expected = gradients(by_hand)
    assert len(plain) == config.get("minibatches", 1)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(plain, expected, strict=True)) and plain[0].norm() > 0.01
    other = gradients(lambda batch: LossTerm(values=batch.logprobs * batch.advantages), reduction="sequence_mean")
    assert not torch.allclose(plain[0], other[0], atol=1e-4)


@pytest.mark.parametrize(
    "name", [name for name in registry.names("losses") if "values" not in registry.load("losses", name).needs]
)
def test_every_loss_gets_what_it_needs_and_trains(played, name):
    run = played[0]
    named = {"policy_gradient", name}  # some losses only weigh others
    bound = [WeightedLoss(bound=registry.bind("losses", each), weight=parse(1.0)) for each in sorted(named)]
    learner = Learner(run.model.clone(), LearnerConfig(epochs=2, micro_tokens=60), bound, temperature=1.0)
    before = [p.detach().clone() for p in learner.model.parameters()]
    metrics = update(learner, played)
    assert name == "policy_gradient" or any(key.startswith(f"{name}/") for key in metrics)
    assert all(math.isfinite(value) for value in metrics.values())
    assert any(not torch.equal(a, b) for a, b in zip(before, learner.model.parameters(), strict=True))


def test_the_reverse_order_updates_the_last_turns_first(played):
    run, data, turns = played
    seen = []

    def probe(batch):
        seen.append(turns.turn_index[batch.turn.numpy()][batch.advantages.numpy() != 0].tolist())
        return LossTerm(values=-batch.advantages * batch.logprobs)

    learner = learner_with(run, probe, order="reverse_turns", epochs=2)
    update(learner, played, np.ones(len(data.turn_of)))
    assert [set(indices) for indices in seen] == [{1}, {0}, {1}, {0}]
    assert {int(state["step"]) for state in learner.optimizer.state.values()} == {4}


def test_seeupo_s_first_update_is_that_of_the_plain_gradient_on_the_last_turns(played):
    def learner(name, preset=None):
        bound = [WeightedLoss(bound=registry.bind("losses", name, preset=preset), weight=parse(1.0))]
        return Learner(played[0].model.clone(), LearnerConfig(order="reverse_turns"), bound, temperature=1.0)

    ours, plain = learner("gspo", "seeupo"), learner("policy_gradient")
    steps = []
    for each in (ours, plain):
        each._apply = lambda each=each: steps.append([p.grad.clone() for p in each.model.parameters()]) or 0.0
        update(each, played, np.ones(len(played[1].turn_of)))
    assert len(steps) == 4
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(steps[0], steps[2], strict=True))


def test_the_weights_of_the_reverse_order_by_hand():
    index, trajectory = np.array([0, 0, 1, 0]), np.array([0, 0, 0, 1])
    table = types.SimpleNamespace(turn_index=index, trajectory=trajectory)
    order = ReverseTurns(table, np.arange(4), np.array([0, 0, 0, 1]))
    ones = np.array([2.0, 2.0, 2.0, 3.0])
    assert order.indices == [1, 0]
    assert order.advantages(ones, 1).tolist() == [0, 0, 8.0, 0]  # one token of four
    order.record_shift(1, np.array([9.0, 9.0, math.log(1.5), 9.0]))  # the last turn became half as likely again
    assert order.advantages(ones, 0) == pytest.approx(np.array([3.0, 3.0, 0.0, 3.0]) * 4 / 3)
    order.record_shift(0, np.full(4, 500.0))
    assert order.advantages(ones, 0)[0] == pytest.approx(2.0 * math.exp(LOG_RATIO_LIMIT) * 4 / 3)


# one sequence of one turn of two tokens, and one of three such turns: turn 0 has tokens of both, turns 1 and 2 of the second alone
WEIGHTS = [
    ("token_mean", 0, 1 / 4, 1 / 4),
    ("sequence_mean", 0, 1 / 4, 1 / 4),
    ("agent_mean", 0, 1 / 4, 1 / 4),
    ("constant", 0, 1 / 2, 1 / 2),
    ("token_mean", 2, 0, 1 / 2),
    ("sequence_mean", 2, 0, 1 / 2),
    ("agent_mean", 2, 0, 1 / 2),
    ("constant", 2, 0, 1 / 2),
]


@pytest.mark.parametrize(("reduction", "index", "short", "long"), WEIGHTS)
def test_tokens_of_a_turn_weigh_by_hand_what_the_reduction_over_the_turn_gives(reduction, index, short, long):
    turn_of, sequence = np.repeat(np.arange(4), 2), np.array([0] * 2 + [1] * 6)
    table = types.SimpleNamespace(turn_index=np.array([0, 0, 1, 2]), trajectory=np.array([0, 1, 1, 1]))
    order = ReverseTurns(table, turn_of, sequence, reduction, np.array([0, 1]))
    weights = weights_of(order.advantages(np.ones(8), index), sequence, reduction, np.array([0, 1]))
    in_turn = table.turn_index[turn_of] == index
    assert weights == pytest.approx(np.where(in_turn, np.where(sequence == 0, short, long), 0.0))


def weights_of(advantages, sequence, reduction, episode):
    losses = torch.ones(len(sequence), dtype=torch.float64, requires_grad=True)
    weighted = losses * torch.from_numpy(advantages)
    weight = torch.from_numpy(agent_weights(episode))
    reduce(weighted, torch.from_numpy(sequence), int(sequence.max()) + 1, reduction, 1.0, weight).backward()
    return losses.grad.numpy()


@given(seed=st.integers(0, 500), reduction=st.sampled_from(["token_mean", "sequence_mean", "agent_mean", "constant"]))
def test_an_update_is_the_reduction_over_the_turns_own_tokens(seed, reduction):
    generator = np.random.Generator(np.random.Philox(seed))
    sizes = [
        generator.integers(1, 4, generator.integers(1, 5)) for _ in range(4)
    ]  # tokens of each turn of each sequence
    sequence = np.repeat(np.arange(4), [in_turn.sum() for in_turn in sizes])
    index = np.concatenate([np.repeat(np.arange(len(in_turn)), in_turn) for in_turn in sizes])
    episode = np.array([5, 2, 2, 2])
    table = types.SimpleNamespace(turn_index=index, trajectory=sequence)
    order = ReverseTurns(table, np.arange(len(index)), sequence, reduction, episode)
    for turn in order.indices:
        in_turn = index == turn
        weights = weights_of(order.advantages(np.ones(len(index)), turn), sequence, reduction, episode)
        there, alone = np.unique(sequence[in_turn], return_inverse=True)
        expected = weights_of(np.ones(in_turn.sum()), alone, reduction, episode[there])
        if reduction == "constant":  # the constant stands for tokens per sequence, of all sequences
            expected = expected * (alone.max() + 1) / 4
        assert weights[in_turn] == pytest.approx(expected)
        assert not weights[~in_turn].any()


def test_one_turn_games_are_trained_as_they_always_are():
    config = {
        "environments": [{"name": "kuhn_poker"}],
        "rollout": {"games_per_step": 16},
        "threads": 1,
        "model": {"hidden_size": 16, "heads": 2},
    }
    run = LocalEngine(resolve(config))
    episodes = episodes_of(run)
    for episode in episodes:  # cut every game after each seat's first turn
        object.__setattr__(episode, "turns", tuple(turn for turn in episode.turns if turn.turn_index == 0))
    data, turns = pack(episodes), turn_table(episodes)

    def trained(order):
        learner = learner_with(run, lambda batch: LossTerm(values=-batch.advantages * batch.logprobs), (), order=order)
        update(learner, (run, data, turns))
        return weights(learner.model)

    assert torch.allclose(trained("together"), trained("reverse_turns"), atol=1e-7)


def test_games_that_a_loss_may_compare_stay_in_one_minibatch(played):
    _, data, turns = played
    rows = np.cumsum(data.tokens) - data.tokens
    group = turns.group[data.turn_of[rows]]
    apart, together = (minibatches(data, 3, Stream.from_seed(1), table, split="sequences") for table in (None, turns))
    for parts in (apart, together):
        assert sorted(np.concatenate(parts).tolist()) == list(range(len(data.distinct)))
    assert [set(group[a].tolist()) & set(group[b].tolist()) for a, b in itertools.pairwise(together)] == [set(), set()]
    assert set(group[apart[0]].tolist()) & set(group[apart[1]].tolist())
    assert together[0].tolist() != minibatches(data, 3, Stream.from_seed(2), turns)[0].tolist()
    assert minibatches(data, 1, Stream.from_seed(1), turns)[0].tolist() == list(range(len(data.distinct)))


@pytest.mark.parametrize("count", [2, 3, 5, 400])
def test_no_minibatch_parts_the_seats_of_a_game(played, count):
    _, data, turns = played
    rows = np.cumsum(data.tokens) - data.tokens
    assert data.episode.tolist() == turns.episode[data.turn_of[rows]].tolist()
    parts = minibatches(data, count, Stream.from_seed(1))
    assert len(parts) == count
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(data.distinct)))
    homes = [set(data.episode[part].tolist()) for part in parts]
    assert all(not a & b for a, b in itertools.combinations(homes, 2))
    assert [part.tolist() for part in parts] == [
        part.tolist() for part in minibatches(data, count, Stream.from_seed(1))
    ]
    assert any(
        a.tolist() != b.tolist() for a, b in zip(parts, minibatches(data, count, Stream.from_seed(2)), strict=True)
    )
    assert minibatches(data, 1, Stream.from_seed(1))[0].tolist() == list(range(len(data.distinct)))


@pytest.mark.parametrize(("needs", "together"), [((), "episode"), (("whole",), "group")])
def test_the_learner_keeps_games_whole_unless_told_otherwise(played, needs, together):
    turns = played[2]

    def homes(**config):
        seen = []
        column = getattr(turns, together)
        learner = learner_with(
            played[0],
            lambda batch: seen.append(set(column[batch.turn.numpy()].tolist())) or LossTerm(values=batch.logprobs),
            needs,
            minibatches=3,
            **config,
        )
        update(learner, played)
        assert len(seen) == 3
        return seen

    assert all(not a & b for a, b in itertools.combinations(homes(), 2))
    parted = [a & b for a, b in itertools.combinations(homes(split="sequences"), 2)]
    assert any(parted) == (not needs)  # losses that compare games keep them together however one asks


def test_the_reverse_order_does_not_ask_for_minibatches(played):
    def trained(**config):
        learner = learner_with(
            played[0], lambda batch: LossTerm(values=-batch.advantages * batch.logprobs), (), **config
        )
        update(learner, played)
        return weights(learner.model)

    plain = trained(order="reverse_turns")
    assert torch.equal(plain, trained(order="reverse_turns", minibatches=3))
    assert torch.equal(plain, trained(order="reverse_turns", minibatches=3, split="sequences"))
