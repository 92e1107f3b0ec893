"""The process reward model: loss and gradient by hand, separation from the policy, and learned rewards."""

import math
import types

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config import resolve
from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.engine.local import LocalEngine
from sparring.learn.reward_model import gradient, mean_scores
from sparring.methods.credit.rloo import rloo
from sparring.play.turn_table import ordered_turns
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round
from sparring.run.warmup import warm_up
from tests.engine.builders import episodes_of, weights
from tests.hugging_face import hugging_face

BASE = {
    "steps": 4,
    "threads": 1,
    "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}],
    "rollout": {"games_per_step": 32, "group_size": 8},
    "model": {"hidden_size": 16, "layers": 1, "heads": 2},
    "credit": {"name": "oprl"},
    "learner": {"learning_rate": 0.01},
}
CHAIN = {
    "environments": [{"name": "needle_chain", "options": {"length": 4, "needle": 2}, "illegal": {"rule": "random"}}],
    "rollout": {"games_per_step": 64, "group_size": 64},
    "warmup": {"updates": 150, "games": 16, "learning_rate": 0.005},
}


def make_engine(**changes):
    return LocalEngine(resolve({**BASE, **changes}))


def rows_of(trajectory, old_logprobs):
    return types.SimpleNamespace(trajectory=np.array(trajectory), old_logprob=np.array(old_logprobs))


def test_the_loss_of_a_pair_by_hand():
    """The better game has two turns of log-ratios 2 and 1, the worse one turn of -1: Q are 0.75 and -0.5 at beta 0.5."""
    turns = rows_of([0, 0, 1], [-3.0, -1.0, -2.0])
    means = mean_scores(np.array([-1.0, 0.0, -3.0]), turns, 0.5)
    assert means == pytest.approx([0.75, -0.5])
    slopes = gradient(means[[0]] - means[[1]], np.array([0]), np.array([1]), turns, 0.5)
    slope = 1 / (1 + math.exp(1.25))  # sigmoid(-1.25)
    assert slopes == pytest.approx([-slope * 0.5 / 2, -slope * 0.5 / 2, slope * 0.5])


@given(st.integers(0, 10**6), st.permutations(range(6)))
def test_the_gradient_is_that_of_the_loss_for_any_order_of_pairs(seed, order):
    generator = np.random.Generator(np.random.Philox(seed))
    turns = rows_of(np.repeat(np.arange(5), [1, 3, 2, 1, 4]), generator.normal(size=11))
    better, worse, logprobs = (
        generator.integers(0, 5, 6),
        generator.integers(0, 5, 6),
        torch.tensor(generator.normal(size=11)),
    )
    logprobs.requires_grad_(True)
    scores = 0.3 * (logprobs - torch.tensor(turns.old_logprob))
    means = torch.stack([scores[torch.tensor(turns.trajectory == index)].mean() for index in range(5)])
    (expected,) = torch.autograd.grad(-torch.nn.functional.logsigmoid(means[better] - means[worse]).mean(), logprobs)
    mean = mean_scores(logprobs.detach().numpy(), turns, 0.3)
    assert mean == pytest.approx(means.detach().numpy())
    order = list(order)
    for better_indices, worse_indices in ((better, worse), (better[order], worse[order])):
        assert gradient(
            mean[better_indices] - mean[worse_indices], better_indices, worse_indices, turns, 0.3
        ) == pytest.approx(expected.numpy(), abs=1e-12)


def test_extreme_margins_stay_finite():
    turns, pair = rows_of([0, 1], [0.0, 0.0]), (np.array([0]), np.array([1]))
    with np.errstate(over="raise", invalid="raise"):
        assert gradient(np.array([1e6]), *pair, turns, 1.0).tolist() == [0.0, 0.0]
        assert gradient(np.array([-1e6]), *pair, turns, 1.0).tolist() == [-1.0, 1.0]


@pytest.mark.parametrize("pairs", ["one_to_one", "all"])
def test_the_gradient_of_the_weights_equals_plain_loops(pairs):
    learner_options = {"learning_rate": 0.0, "micro_tokens": 60, "gradient_norm": 1e9}
    run = make_engine(learner=learner_options, process={"pairs": pairs}, credit={"name": "oprl", "beta": 0.7})
    with torch.no_grad():
        for parameter in run.policies["main"].process.model.parameters():
            parameter.mul_(1.1)  # otherwise all Q are 0
    episodes = episodes_of(run)
    batch = run.batch(episodes, progress=0.0)  # with learning rate 0 no weight changes
    data, turns = batch.pack, batch.turns
    ids_of_player, turn_scores = {}, {}
    for row, (episode, turn) in enumerate(ordered_turns(episodes)):
        ids, score = ids_of_player.setdefault((episode.episode_id, turn.seat), []), 0.0
        for segment in turn.segments:
            for token in segment.ids:
                if segment.kind == "sampled":
                    logits = hugging_face(run.policies["main"].process.model.network)(torch.tensor([ids])).logits[0, -1]
                    score = score + logits.log_softmax(-1)[token]
                ids.append(token)
        turn_scores.setdefault(turns.trajectory[row], []).append(0.7 * (score - turns.old_logprob[row]))
    group_keys = {
        number: (turns.group[row], turns.role[row])
        for row, number in reversed(list(enumerate(turns.trajectory.tolist())))
    }
    returns = {number: round(turns.reward[turns.trajectory == number].sum(), 9) for number in group_keys}
    if pairs == "all":
        compared_pairs = [
            (a, b) for a in group_keys for b in group_keys if group_keys[a] == group_keys[b] and returns[a] > returns[b]
        ]
    else:
        compared_pairs = []
        for group_and_role in set(group_keys.values()):
            members = sorted(
                (number for number in group_keys if group_keys[number] == group_and_role),
                key=lambda number: (returns[number], number),
            )
            compared_pairs += [
                (members[-1 - k], members[k])
                for k in range(len(members) // 2)
                if returns[members[-1 - k]] > returns[members[k]]
            ]
    means = {number: sum(scores) / len(scores) for number, scores in turn_scores.items()}
    loss = sum(-torch.nn.functional.logsigmoid(means[a] - means[b]) for a, b in compared_pairs) / len(compared_pairs)
    expected = torch.autograd.grad(loss, run.policies["main"].process.model.parameters())
    gradients = []
    run.policies["main"].process._apply_gradient = lambda: (
        gradients.extend(p.grad.clone() for p in run.policies["main"].process.model.parameters()) or 0.0
    )
    metrics = run.policies["main"].process.fit(data, turns, progress=0.0)
    assert metrics["process/pairs"] == len(compared_pairs)
    assert metrics["process/loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert metrics["process/accuracy"] == pytest.approx(
        np.mean([float(means[a] > means[b]) for a, b in compared_pairs]), abs=0.1
    )
    for actual_gradient, expected_gradient in zip(gradients, expected, strict=True):
        torch.testing.assert_close(actual_gradient, expected_gradient, rtol=1e-3, atol=1e-6)


def test_an_untrained_process_model_equals_the_policy_and_adds_nothing():
    engine = make_engine(process={"learning_rate": 0.0})
    engine.imitate(episodes_of(engine))
    assert torch.equal(weights(engine.policies["main"].process.model), weights(engine.model))
    outcome = engine.batch(episodes_of(engine), progress=0.0)
    turns, metrics = outcome.turns, outcome.metrics
    assert metrics["process/pairs"] > 0
    assert (metrics["process/loss"], metrics["process/accuracy"]) == (pytest.approx(math.log(2)), 0.5)
    assert np.array_equal(turns.process_logprob, turns.old_logprob)
    assert np.array_equal(bind("credit", "oprl")(turns, {}).advantages, rloo(turns).advantages)


def test_training_the_process_model_keeps_the_policy_and_ranks_wins_higher():
    engine = make_engine()
    episodes = episodes_of(engine)
    weights_before = weights(engine.model).clone()
    for _ in range(5):
        outcome = engine.batch(episodes, progress=0.0)
    metrics = outcome.metrics
    assert torch.equal(weights(engine.model), weights_before)
    assert metrics["process/accuracy"] > 0.6
    assert metrics["process/loss"] < math.log(2)
    assert not np.array_equal(outcome.turns.process_logprob, outcome.turns.old_logprob)


def test_without_pairs_the_process_model_is_unchanged():
    engine = make_engine(rollout={"games_per_step": 8, "group_size": 1})
    weights_before = weights(engine.policies["main"].process.model).clone()
    outcome = engine.batch(episodes_of(engine), progress=0.0)
    turns = outcome.turns
    groups = len(set(zip(turns.group, turns.role, strict=True)))
    assert outcome.metrics == {"process/pairs": 0.0, "process/unpaired_groups": float(groups)}
    assert torch.equal(weights(engine.policies["main"].process.model), weights_before)
    assert not engine.policies["main"].process.optimizer.state
    assert np.array_equal(turns.process_logprob, turns.old_logprob)
    assert not bind("credit", "oprl")(turns, {}).advantages.any()
    outcome = engine.batch([], progress=0.0)
    assert (len(outcome.turns.process_logprob), outcome.metrics["process/pairs"]) == (0, 0.0)


def test_the_process_model_has_separate_updates_and_learning_rate():
    schedule = {"schedule": "linear", "start": 0.002, "end": 0.0}
    changes_by_name = {}
    for name, process in {
        "plain": {},
        "same": {"learning_rate": 0.01},
        "twice": {"updates": 2},
        "slow": {"learning_rate": 0.001},
        "schedule": {"learning_rate": schedule},
    }.items():
        engine = make_engine(process=process)
        episodes = episodes_of(engine)
        weights_before = weights(engine.policies["main"].process.model).clone()
        engine.batch(episodes, progress=0.5)
        changes_by_name[name] = (weights(engine.policies["main"].process.model) - weights_before).norm().item()
    assert changes_by_name["plain"] == changes_by_name["same"]
    assert changes_by_name["twice"] > 1.2 * changes_by_name["plain"]
    assert changes_by_name["slow"] == pytest.approx(changes_by_name["schedule"], rel=1e-3)
    assert changes_by_name["slow"] == pytest.approx(changes_by_name["plain"] / 10, rel=1e-2)


def test_a_run_has_a_process_model_only_if_its_estimator_uses_one(saved):
    assert make_engine(credit={"name": "oprl", "preset": "policy"}).policies["main"].process is None
    engine = make_engine(credit={"name": "rloo"})
    outcome = engine.batch(episodes_of(engine), progress=0.0)
    assert engine.policies["main"].process is None
    assert (outcome.turns.process_logprob, outcome.metrics) == (None, {})
    assert "process.safetensors" not in saved(engine)


def test_an_estimator_without_beta_is_refused():
    plugin = bind("credit", "rloo").plugin.module
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugin, "NEEDS", {"process_logprob"}, raising=False)
        with pytest.raises(ConfigError, match="'rloo' NEEDS 'process_logprob' but has no option beta"):
            make_engine(credit={"name": "rloo"})


def test_with_adapters_the_process_model_is_a_second_set_in_checkpoints(chat_folder, tmp_path):
    changes = {
        "model": {"name": str(chat_folder), "device": "cpu", "lora": {"rank": 2}},
        "renderer": {"name": "chat"},
        "environments": [
            {"name": "needle_chain", "options": {"length": 2, "needle": 1}, "illegal": {"rule": "random"}}
        ],
        "rollout": {"games_per_step": 8, "group_size": 8, "max_new_tokens": 2},
    }
    engine = make_engine(**changes)
    pairs = list(
        zip(engine.model.network.parameters(), engine.policies["main"].process.model.network.parameters(), strict=True)
    )
    assert all((a is b) == (not a.requires_grad) for a, b in pairs)
    methods = Methods.of(engine.config)
    outcome = play_round(engine.config, engine, methods, RunState())
    assert outcome.metrics["process/pairs"] > 0
    assert not torch.equal(weights(engine.model), weights(engine.policies["main"].process.model))
    engine.save(tmp_path)
    restored_engine = make_engine(**changes)
    restored_engine.restore(tmp_path)
    assert torch.equal(
        weights(restored_engine.policies["main"].process.model), weights(engine.policies["main"].process.model)
    )
    metrics, restored_metrics = (
        play_round(either.config, either, methods, RunState(step=1)) for either in (engine, restored_engine)
    )
    assert metrics.metrics == restored_metrics.metrics
    assert torch.equal(
        weights(restored_engine.policies["main"].process.model), weights(engine.policies["main"].process.model)
    )


def test_in_a_chain_the_process_model_learns_the_decisive_step():
    engine = make_engine(**CHAIN, process={"updates": 2, "learning_rate": 0.003}, credit={"name": "oprl", "beta": 1.0})
    warm_up(engine.config, engine)
    for step in range(8):
        episodes = episodes_of(engine, step)
        outcome = engine.batch(episodes, progress=0.0)
    turns, metrics = outcome.turns, outcome.metrics
    is_won = np.array([episode.returns[0] > 0 for episode in episodes])[turns.trajectory]
    reward = turns.process_logprob - turns.old_logprob
    rewards_by_step = np.array(
        [[reward[mask & (turns.turn_index == step)].mean() for step in range(4)] for mask in (is_won, ~is_won)]
    )
    assert (rewards_by_step[0].argmax(), rewards_by_step[1].argmin()) == (1, 1), (
        rewards_by_step
    )  # the decisive step has index 1 (needle=2 counts from 1)
    gap = rewards_by_step[0] - rewards_by_step[1]
    assert gap[1] > 3 * np.abs(gap[[0, 2, 3]]).max(), rewards_by_step
    assert metrics["process/accuracy"] > 0.8
