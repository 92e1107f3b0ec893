"""The reward model: its loss and gradient by hand, what it may and may not change, and that it learns which turn decides."""

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
from sparring.league.seating import starts
from sparring.learn.reward_model import gradient, mean_scores
from sparring.methods.credit.rloo import rloo
from sparring.play.turn_table import ordered_turns
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round
from sparring.run.warmup import warm_up
from tests.hugging_face import hugging_face

BASE = {
    "steps": 4, "threads": 1, "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}], "rollout": {"games_per_step": 32, "group_size": 8},
    "model": {"hidden_size": 16, "layers": 1, "heads": 2}, "credit": {"name": "oprl"}, "learner": {"learning_rate": 0.01},
}
CHAIN = {
    "environments": [{"name": "needle_chain", "options": {"length": 4, "needle": 2}, "illegal": {"rule": "random"}}],
    "rollout": {"games_per_step": 64, "group_size": 64}, "warmup": {"updates": 150, "games": 16, "learning_rate": 0.005},
}


def engine(**changes):
    return LocalEngine(resolve({**BASE, **changes}))


def batch(run, step=0):
    matchmaker = run.config.matchmaker.bind("league.matchmakers")
    rollout = run.config.rollout
    specs = starts(step, games=run.environments, rollout=rollout, matchmaker=matchmaker, members=(), root=run.root, progress=0.0)
    return run.play(specs).episodes


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def rows_of(trajectory, old):
    return types.SimpleNamespace(trajectory=np.array(trajectory), old_logprob=np.array(old))


# -- the loss


def test_a_pair_by_hand():
    """The better game has two turns of log-ratios 2 and 1, the worse one turn of -1: Q are 0.75 and -0.5 at beta 0.5."""
    turns = rows_of([0, 0, 1], [-3.0, -1.0, -2.0])
    means = mean_scores(np.array([-1.0, 0.0, -3.0]), turns, 0.5)
    assert means == pytest.approx([0.75, -0.5])
    slopes = gradient(means[[0]] - means[[1]], np.array([0]), np.array([1]), turns, 0.5)
    slope = 1 / (1 + math.exp(1.25))  # sigmoid(-1.25)
    assert slopes == pytest.approx([-slope * 0.5 / 2, -slope * 0.5 / 2, slope * 0.5])


@given(st.integers(0, 10**6), st.permutations(range(6)))
def test_the_gradient_is_that_of_the_loss_and_the_order_of_pairs_is_irrelevant(seed, order):
    generator = np.random.Generator(np.random.Philox(seed))
    turns = rows_of(np.repeat(np.arange(5), [1, 3, 2, 1, 4]), generator.normal(size=11))
    better, worse, free = generator.integers(0, 5, 6), generator.integers(0, 5, 6), torch.tensor(generator.normal(size=11))
    free.requires_grad_(True)
    scores = 0.3 * (free - torch.tensor(turns.old_logprob))
    means = torch.stack([scores[torch.tensor(turns.trajectory == number)].mean() for number in range(5)])
    (expected,) = torch.autograd.grad(-torch.nn.functional.logsigmoid(means[better] - means[worse]).mean(), free)
    found = mean_scores(free.detach().numpy(), turns, 0.3)
    assert found == pytest.approx(means.detach().numpy())
    order = list(order)
    for a, b in ((better, worse), (better[order], worse[order])):
        assert gradient(found[a] - found[b], a, b, turns, 0.3) == pytest.approx(expected.numpy(), abs=1e-12)


def test_margins_beyond_any_exponential_are_no_error():
    turns, pair = rows_of([0, 1], [0.0, 0.0]), (np.array([0]), np.array([1]))
    with np.errstate(over="raise", invalid="raise"):
        assert gradient(np.array([1e6]), *pair, turns, 1.0).tolist() == [0.0, 0.0]
        assert gradient(np.array([-1e6]), *pair, turns, 1.0).tolist() == [-1.0, 1.0]


@pytest.mark.parametrize("pairs", ["one_to_one", "all"])
def test_the_gradient_of_the_weights_is_that_of_plain_loops(pairs):
    """One forward of the network itself per seat and game, and the pairs by two loops."""
    micro = {"learning_rate": 0.0, "micro_tokens": 60, "gradient_norm": 1e9}
    run = engine(learner=micro, process={"pairs": pairs}, credit={"name": "oprl", "beta": 0.7})
    with torch.no_grad():
        for parameter in run.policies["main"].process.model.parameters():
            parameter.mul_(1.1)  # else all Q are 0
    episodes = batch(run)
    asked = run.batch(episodes, progress=0.0)  # at a step size of 0: no weight moves
    data, turns = asked.pack, asked.turns
    spoken, told = {}, {}
    for row, (episode, turn) in enumerate(ordered_turns(episodes)):
        ids, score = spoken.setdefault((episode.episode_id, turn.seat), []), 0.0
        for segment in turn.segments:
            for token in segment.ids:
                if segment.kind == "sampled":
                    logits = hugging_face(run.policies["main"].process.model.network)(torch.tensor([ids])).logits[0, -1]
                    score = score + logits.log_softmax(-1)[token]
                ids.append(token)
        told.setdefault(turns.trajectory[row], []).append(0.7 * (score - turns.old_logprob[row]))
    key = {number: (turns.group[row], turns.role[row]) for row, number in reversed(list(enumerate(turns.trajectory.tolist())))}
    paid = {number: round(turns.reward[turns.trajectory == number].sum(), 9) for number in key}
    if pairs == "all":
        chosen = [(a, b) for a in key for b in key if key[a] == key[b] and paid[a] > paid[b]]
    else:
        chosen = []
        for start in set(key.values()):
            own = sorted((number for number in key if key[number] == start), key=lambda number: (paid[number], number))
            chosen += [(own[-1 - k], own[k]) for k in range(len(own) // 2) if paid[own[-1 - k]] > paid[own[k]]]
    means = {number: sum(scores) / len(scores) for number, scores in told.items()}
    loss = sum(-torch.nn.functional.logsigmoid(means[a] - means[b]) for a, b in chosen) / len(chosen)
    expected = torch.autograd.grad(loss, run.policies["main"].process.model.parameters())
    found = []
    run.policies["main"].process._apply = lambda: found.extend(p.grad.clone() for p in run.policies["main"].process.model.parameters()) or 0.0
    metrics = run.policies["main"].process.fit(data, turns, progress=0.0)
    assert metrics["process/pairs"] == len(chosen)
    assert metrics["process/loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert metrics["process/accuracy"] == pytest.approx(np.mean([float(means[a] > means[b]) for a, b in chosen]), abs=0.1)
    for mine, plain in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, plain, rtol=1e-3, atol=1e-6)


# -- beside the policy


def test_it_starts_as_the_policy_and_then_the_estimator_is_the_plain_one():
    """Also after a warm-up; with a step size of 0 it stays so, and every step reward is 0 to the bit."""
    run = engine(process={"learning_rate": 0.0})
    run.imitate(batch(run))
    assert torch.equal(weights(run.policies["main"].process.model), weights(run.model))
    found = run.batch(batch(run), progress=0.0)
    turns, metrics = found.turns, found.metrics
    assert metrics["process/pairs"] > 0
    assert (metrics["process/loss"], metrics["process/accuracy"]) == (pytest.approx(math.log(2)), 0.5)
    assert np.array_equal(turns.process_logprob, turns.old_logprob)
    assert np.array_equal(bind("credit", "oprl")(turns, {}).advantages, rloo(turns).advantages)


def test_training_it_leaves_the_policy_alone_and_raises_what_won():
    run = engine()
    episodes = batch(run)
    before = weights(run.model).clone()
    for _ in range(5):
        found = run.batch(episodes, progress=0.0)
    metrics = found.metrics
    assert torch.equal(weights(run.model), before)
    assert metrics["process/accuracy"] > 0.6
    assert metrics["process/loss"] < math.log(2)
    assert not np.array_equal(found.turns.process_logprob, found.turns.old_logprob)


def test_nothing_to_compare_changes_nothing():
    """Groups of one have no pair; that is counted, and neither weights nor optimiser move."""
    run = engine(rollout={"games_per_step": 8, "group_size": 1})
    before = weights(run.policies["main"].process.model).clone()
    found = run.batch(batch(run), progress=0.0)
    after = found.turns
    groups = len(set(zip(after.group, after.role, strict=True)))
    assert found.metrics == {"process/pairs": 0.0, "process/unpaired_groups": float(groups)}
    assert torch.equal(weights(run.policies["main"].process.model), before)
    assert not run.policies["main"].process.optimizer.state
    assert np.array_equal(after.process_logprob, after.old_logprob)
    assert not bind("credit", "oprl")(after, {}).advantages.any()


def test_no_games_are_no_error():
    run = engine()
    found = run.batch([], progress=0.0)
    assert (len(found.turns.process_logprob), found.metrics["process/pairs"]) == (0, 0.0)


def test_updates_and_step_size_are_its_own():
    schedule = {"schedule": "linear", "start": 0.002, "end": 0.0}
    moved = {}
    for name, process in {
        "plain": {}, "same": {"learning_rate": 0.01}, "twice": {"updates": 2}, "slow": {"learning_rate": 0.001}, "schedule": {"learning_rate": schedule},
    }.items():
        run = engine(process=process)
        episodes = batch(run)
        before = weights(run.policies["main"].process.model).clone()
        run.batch(episodes, progress=0.5)
        moved[name] = (weights(run.policies["main"].process.model) - before).norm().item()
    assert moved["plain"] == moved["same"]
    assert moved["twice"] > 1.2 * moved["plain"]
    assert moved["slow"] == pytest.approx(moved["schedule"], rel=1e-3)
    assert moved["slow"] == pytest.approx(moved["plain"] / 10, rel=1e-2)


def test_who_needs_none_has_none(saved):
    assert engine(credit={"name": "oprl", "preset": "policy"}).policies["main"].process is None
    run = engine(credit={"name": "rloo"})
    found = run.batch(batch(run), progress=0.0)
    assert run.policies["main"].process is None
    assert (found.turns.process_logprob, found.metrics) == (None, {})
    assert "process.safetensors" not in saved(run)


def test_an_estimator_without_a_beta_is_told_so():
    plugin = bind("credit", "rloo").plugin.module
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugin, "NEEDS", {"process_logprob"}, raising=False)
        with pytest.raises(ConfigError, match="'rloo' NEEDS 'process_logprob' but has no option beta"):
            engine(credit={"name": "rloo"})


# -- adapters


def test_with_adapters_it_is_a_second_set_on_the_same_base_and_a_checkpoint_brings_it_back(chat_folder, tmp_path):
    changes = {
        "model": {"name": str(chat_folder), "device": "cpu", "lora": {"rank": 2}}, "renderer": {"name": "chat"},
        "environments": [{"name": "needle_chain", "options": {"length": 2, "needle": 1}, "illegal": {"rule": "random"}}],
        "rollout": {"games_per_step": 8, "group_size": 8, "max_new_tokens": 2},
    }
    run = engine(**changes)
    pairs = list(zip(run.model.network.parameters(), run.policies["main"].process.model.network.parameters(), strict=True))
    assert all((a is b) == (not a.requires_grad) for a, b in pairs)
    methods = Methods.of(run.config)
    outcome = play_round(run.config, run, methods, RunState())
    assert outcome.metrics["process/pairs"] > 0
    assert not torch.equal(weights(run.model), weights(run.policies["main"].process.model))
    run.save(tmp_path)
    again = engine(**changes)
    again.restore(tmp_path)
    assert torch.equal(weights(again.policies["main"].process.model), weights(run.policies["main"].process.model))
    first, second = (play_round(it.config, it, methods, RunState(step=1)) for it in (run, again))
    assert first.metrics == second.metrics
    assert torch.equal(weights(again.policies["main"].process.model), weights(run.policies["main"].process.model))


# -- learning


def test_of_a_chain_it_learns_which_step_decides():
    """The policy plays at random and stays as it is; the pairs of won and lost walks are all that tells the steps apart."""
    run = engine(**CHAIN, process={"updates": 2, "learning_rate": 0.003}, credit={"name": "oprl", "beta": 1.0})
    warm_up(run.config, run)
    for step in range(8):
        episodes = batch(run, step)
        found = run.batch(episodes, progress=0.0)
    turns, metrics = found.turns, found.metrics
    won = np.array([episode.returns[0] > 0 for episode in episodes])[turns.trajectory]
    reward = turns.process_logprob - turns.old_logprob
    told = np.array([[reward[which & (turns.turn_index == step)].mean() for step in range(4)] for which in (won, ~won)])
    assert (told[0].argmax(), told[1].argmin()) == (1, 1), told  # the needle is step 2
    gap = told[0] - told[1]
    assert gap[1] > 3 * np.abs(gap[[0, 2, 3]]).max(), told
    assert metrics["process/accuracy"] > 0.8
