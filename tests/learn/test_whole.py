"""Losses of a whole minibatch, and updates in reverse order of turns."""

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
def run_and_episodes():
    engine = LocalEngine(
        resolve(
            {
                "environments": [{"name": "kuhn_poker"}],
                "rollout": {"games_per_step": 48, "group_size": 4},
                "threads": 1,
                "warmup": {"updates": 20},
            }
        ),
    )
    warm_up(engine.config, engine)
    episodes = episodes_of(engine)
    return engine, pack(episodes, LegalReplies(engine.policies["main"].renderer.reply)), turn_table(episodes)


def make_learner_with_loss(run, function, requirements=("whole",), **config):
    module = types.SimpleNamespace(NEEDS=set(requirements))
    losses_of_learner = BoundPlugin(
        plugin=Plugin(slot="losses", name="probe", function=function, module=module), options={}, schedules={}
    )
    model = run.model.clone()
    return Learner(
        model, LearnerConfig(**config), [WeightedLoss(bound=losses_of_learner, weight=parse(1.0))], temperature=1.0
    )


def update(learner, run_and_episodes, advantages=None):
    _, data, turns = run_and_episodes
    advantages = np.linspace(-1, 1, len(data.turn_of)) if advantages is None else advantages
    return learner.update(data, advantages, None, turns=turns, progress=0.0, stream=Stream.from_seed(0))


@pytest.mark.parametrize("config", [{}, {"micro_tokens": 40}, {"minibatches": 3, "epochs": 2, "micro_tokens": 60}])
def test_every_forward_pass_sees_the_whole_minibatch(run_and_episodes, config):
    run, data, turns = run_and_episodes
    recorded_minibatches = []

    def probe(batch):
        minibatch, index = batch.whole, batch.index
        assert torch.allclose(
            minibatch.logprobs[index], batch.logprobs, atol=1e-6
        )  # computed with the weights of this minibatch
        assert torch.equal(minibatch.advantages[index], batch.advantages)
        assert torch.equal(minibatch.old_logprobs[index], batch.old_logprobs)
        assert torch.allclose(minibatch.entropy[index], batch.entropy, atol=1e-6)
        assert torch.allclose(minibatch.reference_logprobs[index], batch.reference_logprobs, atol=1e-6)
        assert not minibatch.logprobs.requires_grad
        recorded_minibatches.append(minibatch)
        return LossTerm(values=batch.logprobs)

    update(make_learner_with_loss(run, probe, ("whole", "entropy", "reference_logprobs"), **config), run_and_episodes)
    returns, first_turns = trajectory_returns(turns)
    groups = start_groups(turns)[0]
    for minibatch in recorded_minibatches:
        assert len(minibatch.outcome) == len(torch.unique(minibatch.trajectory)) == len(minibatch.group)
        assert set(minibatch.outcome.tolist()) <= set(returns.astype(np.float32).tolist())
        assert set(minibatch.group.tolist()) <= set(groups[first_turns].tolist())
        assert ((minibatch.uniform >= 0) & (minibatch.uniform < 1)).all()
    if not config:  # one pass over everything, in the order of the table
        (minibatch,) = recorded_minibatches
        assert minibatch.trajectory.tolist() == turns.trajectory[data.turn_of].tolist()
        assert minibatch.turn_index.tolist() == turns.turn_index[data.turn_of].tolist()
        assert minibatch.outcome.tolist() == pytest.approx(returns.tolist())
        assert minibatch.group.tolist() == groups[first_turns].tolist()


@pytest.mark.parametrize(
    ("requirements", "config", "passes", "passes_of_reference"),
    [
        ((), {}, 1, 0),
        (("whole",), {}, 1, 0),  # a single pass with the whole minibatch is computed once
        (("whole", "reference_logprobs"), {}, 1, 1),
        (("reference_logprobs",), {"micro_tokens": 40}, 1, 1),
        (("whole",), {"micro_tokens": 40}, 2, 0),
        (("whole", "reference_logprobs"), {"micro_tokens": 40}, 2, 1),
        (("whole", "reference_logprobs"), {"leaves": 2}, 2, 1),
    ],
)
def test_a_minibatch_needs_no_unnecessary_forward_passes(
    run_and_episodes, monkeypatch, requirements, config, passes, passes_of_reference
):
    learner = make_learner_with_loss(
        run_and_episodes[0], lambda batch: LossTerm(values=batch.logprobs), requirements, **config
    )
    forward_calls, forward = [], learner._forward
    monkeypatch.setattr(
        learner, "_forward", lambda model, part: forward_calls.append((model, len(part.tokens))) or forward(model, part)
    )
    update(learner, run_and_episodes)
    tokens = len(run_and_episodes[1].turn_of)
    num_reads = sum(count for model, count in forward_calls if model is learner.model)
    assert num_reads == tokens * passes
    assert sum(count for _, count in forward_calls) - num_reads == tokens * passes_of_reference


def test_a_sum_does_not_depend_on_the_split_of_the_minibatch(run_and_episodes):
    def probe(batch):
        return LossTerm(values=batch.logprobs * batch.advantages, level="sum")

    def gradient(**config):
        learner = make_learner_with_loss(run_and_episodes[0], probe, gradient_norm=1e9, **config)
        update(learner, run_and_episodes)
        return torch.cat([p.grad.flatten() for p in learner.model.parameters()])

    unsplit = gradient()
    assert torch.allclose(unsplit, gradient(micro_tokens=40), atol=1e-4)
    assert torch.allclose(unsplit, gradient(micro_tokens=40, reduction="sequence_mean"), atol=1e-4)
    assert unsplit.norm() > 1.0


@pytest.mark.parametrize(
    "config", [{}, {"micro_tokens": 40}, {"leaves": 4}, {"leaves": 2, "micro_tokens": 60}, {"minibatches": 3}]
)
def test_the_agent_mean_does_not_depend_on_the_split(run_and_episodes, config):
    run, data, _ = run_and_episodes
    data = data.only(
        ~((data.episode[np.repeat(np.arange(len(data.tokens)), data.tokens)] % 3 == 0) & (data.turn_of % 2 == 0))
    )
    advantages = np.linspace(-1, 1, len(data.turn_of))

    def gradients(probe, **options):
        learner, norms = make_learner_with_loss(run, probe, gradient_norm=1e9, **config, **options), []
        learner._apply_gradient = lambda: (
            norms.append(torch.cat([p.grad.flatten() for p in learner.model.parameters()])) or 0.0
        )
        learner.update(data, advantages, None, turns=run_and_episodes[2], progress=0.0, stream=Stream.from_seed(0))
        return norms

    sequence_of_token = np.repeat(np.arange(len(data.tokens)), data.tokens)

    def agent_mean_by_hand(batch):
        sequences = np.unique(sequence_of_token[tokens_of(batch)])
        episodes = data.episode[sequences]
        weight = {s: 1 / (len(set(episodes)) * (episodes == data.episode[s]).sum() * data.tokens[s]) for s in sequences}
        weights_of_tokens = sequence_of_token[tokens_of(batch)][batch.index.numpy()]
        return LossTerm(
            values=batch.logprobs * batch.advantages * torch.tensor([weight[s] for s in weights_of_tokens]), level="sum"
        )

    def tokens_of(batch):
        return np.searchsorted(advantages.astype(np.float32), batch.whole.advantages.numpy() - 1e-7)

    agent_mean_gradients = gradients(
        lambda batch: LossTerm(values=batch.logprobs * batch.advantages), reduction="agent_mean"
    )
    expected = gradients(agent_mean_by_hand)
    assert len(agent_mean_gradients) == config.get("minibatches", 1)
    assert (
        all(torch.allclose(a, b, atol=1e-5) for a, b in zip(agent_mean_gradients, expected, strict=True))
        and agent_mean_gradients[0].norm() > 0.01
    )
    sequence_mean_gradients = gradients(
        lambda batch: LossTerm(values=batch.logprobs * batch.advantages), reduction="sequence_mean"
    )
    assert not torch.allclose(agent_mean_gradients[0], sequence_mean_gradients[0], atol=1e-4)


@pytest.mark.parametrize(
    "name", [name for name in registry.names("losses") if "values" not in registry.load("losses", name).needs]
)
def test_every_loss_gets_its_columns_and_changes_weights(run_and_episodes, name):
    run = run_and_episodes[0]
    loss_names = {"policy_gradient", name}  # some losses only provide weights
    losses_of_learner = [
        WeightedLoss(bound=registry.bind("losses", loss_name), weight=parse(1.0)) for loss_name in sorted(loss_names)
    ]
    learner = Learner(run.model.clone(), LearnerConfig(epochs=2, micro_tokens=60), losses_of_learner, temperature=1.0)
    parameters_before = [p.detach().clone() for p in learner.model.parameters()]
    metrics = update(learner, run_and_episodes)
    assert name == "policy_gradient" or any(key.startswith(f"{name}/") for key in metrics)
    assert all(math.isfinite(value) for value in metrics.values())
    assert any(not torch.equal(a, b) for a, b in zip(parameters_before, learner.model.parameters(), strict=True))


def test_the_reverse_order_updates_the_last_turns_first(run_and_episodes):
    run, data, turns = run_and_episodes
    recorded_turns = []

    def probe(batch):
        recorded_turns.append(turns.turn_index[batch.turn.numpy()][batch.advantages.numpy() != 0].tolist())
        return LossTerm(values=-batch.advantages * batch.logprobs)

    learner = make_learner_with_loss(run, probe, order="reverse_turns", epochs=2)
    update(learner, run_and_episodes, np.ones(len(data.turn_of)))
    assert [set(indices) for indices in recorded_turns] == [{1}, {0}, {1}, {0}]
    assert {int(state["step"]) for state in learner.optimizer.state.values()} == {4}


def test_seeupos_first_update_is_the_policy_gradient_of_last_turns(run_and_episodes):
    def make_learner(name, preset=None):
        losses_of_learner = [WeightedLoss(bound=registry.bind("losses", name, preset=preset), weight=parse(1.0))]
        return Learner(
            run_and_episodes[0].model.clone(), LearnerConfig(order="reverse_turns"), losses_of_learner, temperature=1.0
        )

    seeupo_learner, plain_learner = make_learner("gspo", "seeupo"), make_learner("policy_gradient")
    gradients = []
    for each_learner in (seeupo_learner, plain_learner):
        each_learner._apply_gradient = lambda each_learner=each_learner: (
            gradients.append([p.grad.clone() for p in each_learner.model.parameters()]) or 0.0
        )
        update(each_learner, run_and_episodes, np.ones(len(run_and_episodes[1].turn_of)))
    assert len(gradients) == 4
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(gradients[0], gradients[2], strict=True))


def test_the_weights_of_the_reverse_order_by_hand():
    index, trajectory = np.array([0, 0, 1, 0]), np.array([0, 0, 0, 1])
    table = types.SimpleNamespace(turn_index=index, trajectory=trajectory)
    order = ReverseTurns(table, np.arange(4), np.array([0, 0, 0, 1]))
    advantages_of_tokens = np.array([2.0, 2.0, 2.0, 3.0])
    assert order.indices == [1, 0]
    # one of four tokens is in this turn, so its weight is 4
    assert order.advantages(advantages_of_tokens, 1).tolist() == [0, 0, 8.0, 0]
    order.record_shift(1, np.array([9.0, 9.0, math.log(1.5), 9.0]))  # the probability of the last turn rose by half
    assert order.advantages(advantages_of_tokens, 0) == pytest.approx(np.array([3.0, 3.0, 0.0, 3.0]) * 4 / 3)
    order.record_shift(0, np.full(4, 500.0))
    assert order.advantages(advantages_of_tokens, 0)[0] == pytest.approx(2.0 * math.exp(LOG_RATIO_LIMIT) * 4 / 3)


# sequence 0 has one turn of two tokens, sequence 1 has three: turns 1 and 2 have only tokens of sequence 1
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


@pytest.mark.parametrize(("reduction", "index", "short_weight", "long_weight"), WEIGHTS)
def test_token_weights_of_a_turn_by_hand(reduction, index, short_weight, long_weight):
    turn_of, sequence = np.repeat(np.arange(4), 2), np.array([0] * 2 + [1] * 6)
    table = types.SimpleNamespace(turn_index=np.array([0, 0, 1, 2]), trajectory=np.array([0, 1, 1, 1]))
    order = ReverseTurns(table, turn_of, sequence, reduction, np.array([0, 1]))
    weights = weights_of(order.advantages(np.ones(8), index), sequence, reduction, np.array([0, 1]))
    is_in_turn = table.turn_index[turn_of] == index
    assert weights == pytest.approx(np.where(is_in_turn, np.where(sequence == 0, short_weight, long_weight), 0.0))


def weights_of(advantages, sequence, reduction, episode):
    losses = torch.ones(len(sequence), dtype=torch.float64, requires_grad=True)
    weighted_losses = losses * torch.from_numpy(advantages)
    weight = torch.from_numpy(agent_weights(episode))
    reduce(weighted_losses, torch.from_numpy(sequence), int(sequence.max()) + 1, reduction, 1.0, weight).backward()
    return losses.grad.numpy()


@given(seed=st.integers(0, 500), reduction=st.sampled_from(["token_mean", "sequence_mean", "agent_mean", "constant"]))
def test_an_update_reduces_over_the_tokens_of_its_turn(seed, reduction):
    generator = np.random.Generator(np.random.Philox(seed))
    turn_sizes = [
        generator.integers(1, 4, generator.integers(1, 5)) for _ in range(4)
    ]  # tokens of each turn of each sequence
    sequence = np.repeat(np.arange(4), [sizes.sum() for sizes in turn_sizes])
    index = np.concatenate([np.repeat(np.arange(len(sizes)), sizes) for sizes in turn_sizes])
    episode = np.array([5, 2, 2, 2])
    table = types.SimpleNamespace(turn_index=index, trajectory=sequence)
    order = ReverseTurns(table, np.arange(len(index)), sequence, reduction, episode)
    for turn in order.indices:
        is_in_turn = index == turn
        weights = weights_of(order.advantages(np.ones(len(index)), turn), sequence, reduction, episode)
        sequences, sequence_index = np.unique(sequence[is_in_turn], return_inverse=True)
        expected = weights_of(np.ones(is_in_turn.sum()), sequence_index, reduction, episode[sequences])
        if reduction == "constant":  # the constant is the number of tokens per sequence
            expected = expected * (sequence_index.max() + 1) / 4
        assert weights[is_in_turn] == pytest.approx(expected)
        assert not weights[~is_in_turn].any()


def test_the_order_has_no_effect_in_games_of_one_turn():
    config = {
        "environments": [{"name": "kuhn_poker"}],
        "rollout": {"games_per_step": 16},
        "threads": 1,
        "model": {"hidden_size": 16, "heads": 2},
    }
    engine = LocalEngine(resolve(config))
    episodes = episodes_of(engine)
    for episode in episodes:  # truncate every game after each seat's first turn
        object.__setattr__(episode, "turns", tuple(turn for turn in episode.turns if turn.turn_index == 0))
    data, turns = pack(episodes), turn_table(episodes)

    def train_weights(order):
        learner = make_learner_with_loss(
            engine, lambda batch: LossTerm(values=-batch.advantages * batch.logprobs), (), order=order
        )
        update(learner, (engine, data, turns))
        return weights(learner.model)

    assert torch.allclose(train_weights("together"), train_weights("reverse_turns"), atol=1e-7)


def test_games_that_a_loss_compares_stay_in_one_minibatch(run_and_episodes):
    _, data, turns = run_and_episodes
    rows = np.cumsum(data.tokens) - data.tokens
    group = turns.group[data.turn_of[rows]]
    by_sequence, by_group = (
        minibatches(data, 3, Stream.from_seed(1), table, split="sequences") for table in (None, turns)
    )
    for minibatch_list in (by_sequence, by_group):
        assert sorted(np.concatenate(minibatch_list).tolist()) == list(range(len(data.distinct)))
    assert [set(group[a].tolist()) & set(group[b].tolist()) for a, b in itertools.pairwise(by_group)] == [set(), set()]
    assert set(group[by_sequence[0]].tolist()) & set(group[by_sequence[1]].tolist())
    assert by_group[0].tolist() != minibatches(data, 3, Stream.from_seed(2), turns)[0].tolist()
    assert minibatches(data, 1, Stream.from_seed(1), turns)[0].tolist() == list(range(len(data.distinct)))


@pytest.mark.parametrize("count", [2, 3, 5, 400])
def test_all_seats_of_a_game_are_in_one_minibatch(run_and_episodes, count):
    _, data, turns = run_and_episodes
    rows = np.cumsum(data.tokens) - data.tokens
    assert data.episode.tolist() == turns.episode[data.turn_of[rows]].tolist()
    minibatch_list = minibatches(data, count, Stream.from_seed(1))
    assert len(minibatch_list) == count
    assert sorted(np.concatenate(minibatch_list).tolist()) == list(range(len(data.distinct)))
    episodes_by_minibatch = [set(data.episode[indices].tolist()) for indices in minibatch_list]
    assert all(not a & b for a, b in itertools.combinations(episodes_by_minibatch, 2))
    assert [indices.tolist() for indices in minibatch_list] == [
        indices.tolist() for indices in minibatches(data, count, Stream.from_seed(1))
    ]
    assert any(
        a.tolist() != b.tolist()
        for a, b in zip(minibatch_list, minibatches(data, count, Stream.from_seed(2)), strict=True)
    )
    assert minibatches(data, 1, Stream.from_seed(1))[0].tolist() == list(range(len(data.distinct)))


@pytest.mark.parametrize(("requirements", "together"), [((), "episode"), (("whole",), "group")])
def test_the_learner_keeps_games_in_one_minibatch_by_default(run_and_episodes, requirements, together):
    turns = run_and_episodes[2]

    def episodes_of_minibatches(**config):
        recorded_minibatches = []
        column = getattr(turns, together)
        learner = make_learner_with_loss(
            run_and_episodes[0],
            lambda batch: (
                recorded_minibatches.append(set(column[batch.turn.numpy()].tolist())) or LossTerm(values=batch.logprobs)
            ),
            requirements,
            minibatches=3,
            **config,
        )
        update(learner, run_and_episodes)
        assert len(recorded_minibatches) == 3
        return recorded_minibatches

    assert all(not a & b for a, b in itertools.combinations(episodes_of_minibatches(), 2))
    common_values = [a & b for a, b in itertools.combinations(episodes_of_minibatches(split="sequences"), 2)]
    assert any(common_values) == (not requirements)  # losses that compare games keep them together with any option


def test_the_reverse_order_ignores_the_number_of_minibatches(run_and_episodes):
    def train_weights(**config):
        learner = make_learner_with_loss(
            run_and_episodes[0], lambda batch: LossTerm(values=-batch.advantages * batch.logprobs), (), **config
        )
        update(learner, run_and_episodes)
        return weights(learner.model)

    reverse_order_weights = train_weights(order="reverse_turns")
    assert torch.equal(reverse_order_weights, train_weights(order="reverse_turns", minibatches=3))
    assert torch.equal(reverse_order_weights, train_weights(order="reverse_turns", minibatches=3, split="sequences"))
