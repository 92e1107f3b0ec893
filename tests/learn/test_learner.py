"""The learner deduplicates sequences; its updates equal those with one row per game."""

import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from sparring.config import LearnerConfig, resolve
from sparring.config.plugins.registry import bind
from sparring.core.errors import ModelError
from sparring.core.rng import Stream
from sparring.core.schedule import parse
from sparring.engine.local import LocalEngine
from sparring.learn.gradient_step import ratio_tails
from sparring.learn.learner import GradientCheck, Learner
from sparring.learn.pack import WeightedLoss, chunks, pack
from sparring.models import language_model
from sparring.models.language_model import LanguageModel
from sparring.models.tiny import Gpt2
from sparring.play.turn_table import ordered_turns, turn_table
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round
from sparring.run.warmup import warm_up
from tests.engine.builders import episodes_of, specs_of
from tests.hugging_face import hugging_face

BASE = {
    "environments": [{"name": "kuhn_poker", "illegal": {"penalty": 1.0}}],
    "rollout": {"games_per_step": 48},
    "steps": 10,
}


def make_engine(**changes):
    return LocalEngine(resolve({**BASE, "threads": 1, **changes}))


def update(run, data, advantages, *, step, progress):
    stream = run.root.child("update").child(step)
    return run.learner.update(data, advantages, None, progress=progress, stream=stream)


def losses(*specs):
    return [WeightedLoss(bound=bind("losses", name, options), weight=parse(weight)) for name, weight, options in specs]


def gradient_by_loops(model, episodes, advantages, temperature=1.0):
    """Return the gradient of the policy-gradient token mean by one Hugging Face forward per seat of each game."""
    model.network.zero_grad()
    rows, total, count = list(ordered_turns(episodes)), 0.0, 0
    sequences = {}
    for row, (episode, turn) in enumerate(rows):
        sequences.setdefault((episode.episode_id, turn.seat), []).append((row, turn))
    for turns in sequences.values():
        ids, samples = [], []
        for row, turn in turns:
            for segment in turn.segments:
                if segment.kind == "sampled":
                    samples += [(len(ids) + i, token, row) for i, token in enumerate(segment.ids)]
                ids += segment.ids
        tokens = torch.tensor([ids])
        log_p = (
            hugging_face(model.network)(tokens, attention_mask=torch.ones_like(tokens)).logits[0] / temperature
        ).log_softmax(-1)
        for position, token, row in samples:
            total = total - advantages[row] * log_p[position - 1, token]
            count += 1
    (total / count).backward()
    return {name: p.grad.clone() for name, p in model.network.named_parameters()}


@pytest.mark.parametrize("micro_tokens", [32768, 40])
def test_update_equals_one_row_per_game(micro_tokens):
    engine = make_engine()
    episodes = episodes_of(engine)
    data, rows = pack(episodes), len(turn_table(episodes).reward)
    assert len(data.sequences) < len(data.distinct)  # some games are equal
    advantages = np.random.Generator(np.random.Philox(0)).normal(size=rows)
    expected = gradient_by_loops(engine.model, episodes, advantages)
    learner = Learner(
        engine.model,
        LearnerConfig(gradient_norm=1e9, micro_tokens=micro_tokens),
        losses(("policy_gradient", 1.0, {})),
        temperature=1.0,
    )
    metrics = learner.update(data, advantages[data.turn_of], None, progress=0.0, stream=Stream.from_seed(0))
    for name, parameter in engine.model.network.named_parameters():
        assert torch.allclose(parameter.grad, expected[name], atol=1e-5), name
    assert metrics["logprob_difference_max"] < 1e-5


def test_logprobs_use_the_token_sets_of_each_episode():
    engine = make_engine(rollout={"games_per_step": 24, "top_p": 0.7, "temperature": 1.3})
    episodes = episodes_of(engine)
    unlimited_sets = [with_token_sets(episode, 100 + episode.episode_id, lambda token: ()) for episode in episodes]
    single_token_sets = [
        with_token_sets(episode, 200 + episode.episode_id, lambda token: ((token,),)) for episode in episodes
    ]
    data = pack([*episodes, *unlimited_sets, *single_token_sets])
    logprobs, count = engine.learner._logprobs(data, engine.model), len(data.turn_of) // 3
    assert logprobs[:count] == pytest.approx(data.logprobs[:count], abs=1e-5)
    assert logprobs[2 * count :] == pytest.approx(np.zeros(count), abs=1e-6)  # each set has one token
    unlimited_logprobs = engine.learner._logprobs(pack(unlimited_sets), engine.model)
    assert logprobs[count : 2 * count] == pytest.approx(unlimited_logprobs, abs=1e-6)
    assert (logprobs[:count] - unlimited_logprobs).min() > 0.01  # a smaller set raises log-probabilities


def with_token_sets(episode, number, sets):
    def changed(segment):
        if segment.kind != "sampled":
            return segment
        return segment._replace(support=tuple(ids for token in segment.ids for ids in sets(token)))

    turns = [turn._replace(segments=tuple(map(changed, turn.segments))) for turn in episode.turns]
    return replace(episode, episode_id=number, turns=tuple(turns))


def test_new_games_keep_the_samplers_log_probs_if_older_games_are_in_the_batch():
    engine = make_engine(
        environments=[{"name": "kuhn_poker", "illegal": {"rule": "random"}}],
        rollout={"games_per_step": 64, "top_p": 0.5},
        learner={"learning_rate": 0.03},
    )
    old_episodes = episodes_of(engine)
    data = pack(old_episodes)
    update(engine, data, np.where(data.turn_of % 2, 1.0, -1.0), step=0, progress=0.0)
    fresh_episodes = [replace(episode, episode_id=1000 + episode.episode_id) for episode in episodes_of(engine, 1)]
    data = pack([*old_episodes, *fresh_episodes])
    is_fresh = np.repeat(data.episode, data.tokens) >= 1000
    logprobs = engine.learner._logprobs(data, engine.model)
    assert logprobs[is_fresh] == pytest.approx(data.logprobs[is_fresh], abs=1e-5)
    assert np.abs(logprobs - data.logprobs)[~is_fresh].max() > 0.1  # the weights have moved


def test_the_number_of_updates_is_minibatches_times_epochs():
    engine = make_engine(learner={"minibatches": 3, "epochs": 2})
    data = pack(episodes_of(engine))
    update(engine, data, np.ones(len(data.turn_of)), step=0, progress=0.0)
    steps = {int(state["step"]) for state in engine.learner.optimizer.state.values()}
    assert steps == {6}
    assert engine.model.version == 1


def test_the_learning_rate_follows_its_schedule():
    engine = make_engine(learner={"learning_rate": {"schedule": "linear", "start": 0.1, "end": 0.0}})
    data = pack(episodes_of(engine))
    assert update(engine, data, np.ones(len(data.turn_of)), step=5, progress=0.5)["learning_rate"] == pytest.approx(
        0.05
    )


def test_a_loss_weight_of_zero_removes_the_term():
    def trained(terms):
        engine = make_engine(losses=terms)
        data = pack(episodes_of(engine))
        update(engine, data, np.linspace(-1, 1, len(data.turn_of)), step=0, progress=0.0)
        return torch.cat([p.detach().flatten() for p in engine.model.parameters()])

    without_term = trained([{"name": "ppo_clip"}])
    assert torch.equal(without_term, trained([{"name": "ppo_clip"}, {"name": "entropy_bonus", "weight": 0.0}]))
    assert not torch.equal(without_term, trained([{"name": "ppo_clip"}, {"name": "entropy_bonus", "weight": 1.0}]))


def test_importance_weights_multiply_the_policy_loss_in_any_order():
    def gradient(terms):
        engine = make_engine(losses=terms)
        data = pack(episodes_of(engine))
        object.__setattr__(
            data, "logprobs", data.logprobs + np.log(2.0)
        )  # the probabilities of the sampler are twice the correct ones
        update(engine, data, np.ones(len(data.turn_of)), step=0, progress=0.0)
        return torch.cat([p.grad.flatten() for p in engine.model.parameters()])

    weighted_losses = [{"name": "policy_gradient"}, {"name": "truncated_is"}]
    assert torch.allclose(gradient(weighted_losses), gradient(weighted_losses[::-1]), atol=1e-7)


def test_imitation_lowers_the_loss():
    engine = make_engine(warmup={"updates": 1, "games": 32})
    demonstrations = engine.play([replace(spec, seats=("demonstrator",) * 2) for spec in specs_of(engine)]).episodes
    losses = [engine.imitate(demonstrations) for _ in range(8)]
    assert losses[-1] < 0.6 * losses[0]
    warm_up(engine.config, engine)
    assert engine.model.version == 9


def test_a_vocabulary_feature_is_read_at_the_sampled_token():
    engine = make_engine()
    episodes = episodes_of(engine)
    data = pack(episodes)
    learner = Learner(engine.model, LearnerConfig(), losses(("neurd", 1.0, None)), temperature=1.0)
    (part,) = learner._slices(data, np.arange(len(data.distinct)))
    with torch.no_grad():
        logprobs, extra = learner._forward(engine.model, part)
        logits = engine.model.logits(engine.model.hidden(part.tree).index_select(0, part.prefixes)).float()
    for index, (position, token) in enumerate(zip(part.prefix_index.tolist(), part.target.tolist(), strict=True)):
        assert extra["centred_logit"][index].item() == pytest.approx(
            (logits[position, token] - logits[position].mean()).item(), abs=1e-5
        )
    assert logprobs.shape == extra["centred_logit"].shape == (len(part.target),)


def test_ratio_tails_by_hand():
    """Of 200 ratios, 3, 4 and 5 are outside [0.5, 2]; the 99th percentile lies between 3 and 4."""
    log_ratios = np.zeros(200)
    log_ratios[:4] = np.log([2.0, 3.0, 4.0, 5.0])
    tails = ratio_tails(log_ratios)
    assert tails["ratio_tail"] == 3 / 200
    assert 3.0 <= tails["ratio_p99"] <= 4.0
    assert ratio_tails(np.full(3, 900.0)) == {"ratio_tail": 1.0, "ratio_p99": pytest.approx(np.exp(20.0))}


def test_ratio_tails_cover_all_updates_and_both_directions():
    one_update = play_round((engine := make_engine()).config, engine, Methods.of(engine.config), RunState()).metrics
    assert one_update["ratio_tail"] == 0.0 and one_update["ratio_p99"] == pytest.approx(1.0, abs=1e-4)
    engine = make_engine(learner={"epochs": 4, "learning_rate": 0.05})
    several_epochs = play_round(engine.config, engine, Methods.of(engine.config), RunState()).metrics
    assert 0.0 < several_epochs["ratio_tail"] < 1.0 and several_epochs["ratio_p99"] > 2.0


def test_without_shared_prefixes_padded_chunks_stay_within_the_limit():
    run = make_engine()
    data = pack(episodes_of(run))
    rows, max_length = np.arange(len(data.sequences)), max(map(len, data.sequences))
    for chunk in chunks(data, rows, 3 * max_length, padded=1):
        assert len(chunk) * max(len(data.sequences[row]) for row in chunk) <= 3 * max_length
    assert sorted(row for chunk in chunks(data, rows, 3 * max_length, padded=1) for row in chunk) == rows.tolist()
    run.learner.model.forward.shares_prefixes = False
    assert run.learner._max_padding == 1


def update_with_mask(run, data, advantages, is_trained):
    stream = run.root.child("update").child(0)
    return run.learner.update(data, advantages, None, trained=is_trained, progress=0.0, stream=stream)


@pytest.mark.parametrize("reduction", ["token_mean", "sequence_mean"])
def test_masked_tokens_are_in_no_gradient_and_in_no_mean(reduction):
    losses = [{"name": "ppo_clip"}, {"name": "kl_penalty", "weight": 0.1}]
    runs = [make_engine(losses=losses, learner={"reduction": reduction, "minibatches": 2}) for _ in range(3)]
    episodes = episodes_of(runs[0])
    data = pack(episodes)
    rng = np.random.default_rng(0)
    advantages = rng.normal(size=len(data.turn_of))
    is_trained = rng.random(len(advantages)) < 0.5
    masked_metrics = update_with_mask(runs[0], data, advantages, is_trained)
    other_metrics = update_with_mask(runs[1], data, np.where(is_trained, advantages, 1e3), is_trained)
    assert masked_metrics == other_metrics  # advantages of masked tokens have no effect
    weights, other_weights = runs[0].model.tensors(), runs[1].model.tensors()
    assert all(weights[name].equal(other_weights[name]) for name in weights)
    unmasked_metrics = update(runs[2], data, np.where(is_trained, advantages, 0.0), step=0, progress=0.0)
    assert unmasked_metrics["loss"] != masked_metrics["loss"]  # zeros count in the means


def test_the_mean_of_the_loss_is_over_unmasked_tokens():
    engine = make_engine(losses=[{"name": "policy_gradient"}])
    data = pack(episodes_of(engine))
    rng = np.random.default_rng(1)
    advantages, is_trained = rng.normal(size=len(data.turn_of)), rng.random(len(data.turn_of)) < 0.3
    sums = -(advantages * data.logprobs)[is_trained].mean()
    assert update_with_mask(engine, data, advantages, is_trained)["loss"] == pytest.approx(sums, abs=1e-4)


def test_masking_whole_games_equals_removing_them():
    runs = [make_engine() for _ in range(2)]
    episodes = episodes_of(runs[0])
    data = pack(episodes)
    advantages = np.random.default_rng(2).normal(size=len(data.turn_of))
    remaining = [episode for episode in episodes if episode.episode_id % 3]
    number = np.array([episode.episode_id for episode, _ in ordered_turns(episodes)])
    is_trained = (number % 3 > 0)[data.turn_of]
    update_with_mask(runs[0], data, advantages, is_trained)
    update(runs[1], pack(remaining), advantages[is_trained], step=0, progress=0.0)
    masked_weights, weights_without = runs[0].model.tensors(), runs[1].model.tensors()
    assert all(torch.allclose(masked_weights[name], weights_without[name], atol=1e-6) for name in masked_weights)


# a run stops at the first update if a trained parameter has no gradient, and names the parameter
SMALL_RUN = {"environments": [{"name": "kuhn_poker"}], "rollout": {"games_per_step": 16}, "steps": 4, "threads": 1}
LORA = {"rank": 2, "targets": ["c_attn"]}
TINY = {"hidden_size": 16, "heads": 2}
CRITIC = {"credit": {"name": "gae"}, "losses": [{"name": "ppo_clip"}, {"name": "value_loss", "weight": 0.5}]}


@pytest.fixture(scope="module")
def gpt2_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny") / "model"
    LocalEngine(resolve({**SMALL_RUN, "model": TINY})).learner.policy.save(folder)
    return folder


def make_engine_with_adapters(folder, **changes):
    model = {"name": str(folder), "device": "cpu", "lora": LORA, **changes.pop("model", {})}
    return LocalEngine(resolve({**SMALL_RUN, "model": model, "renderer": {"name": "plain"}, **changes}))


def one_step(run):
    play_round(run.config, run, Methods.of(run.config), RunState())


@pytest.mark.parametrize("changes", [{}, CRITIC, {"warmup": {"updates": 1}}], ids=["policy", "critic", "warm-up"])
def test_adapters_on_an_exported_gpt2_learn(gpt2_folder, changes):
    run = make_engine_with_adapters(gpt2_folder, learner={"learning_rate": 0.01, "epochs": 2}, **changes)
    tensors_before = {name: tensor.clone() for name, tensor in run.model.tensors().items()}
    warm_up(run.config, run)
    one_step(run)
    adapters = [name for name in tensors_before if "lora_" in name]
    assert len(adapters) == 4  # two factors in two layers
    assert all(not torch.equal(run.model.tensors()[name], tensors_before[name]) for name in adapters)


@pytest.mark.parametrize("changes", [{}, CRITIC, {"warmup": {"updates": 1}}], ids=["policy", "critic", "warm-up"])
def test_adapters_that_the_forward_pass_ignores_are_refused(gpt2_folder, monkeypatch, changes):
    monkeypatch.setattr(language_model, "architecture", Gpt2)  # a forward pass that uses only the base weights
    run = make_engine_with_adapters(gpt2_folder, **changes)
    tensors_before = {name: tensor.clone() for name, tensor in run.model.tensors().items()}
    with pytest.raises(ModelError, match=r"4 of [46] trained.*c_attn\.lora_A.*and 1 more.*model\.lora\.targets"):
        warm_up(run.config, run)
        one_step(run)
    assert all(torch.equal(tensor, tensors_before[name]) for name, tensor in run.model.tensors().items())


def test_a_parameter_without_gradient_is_named():
    engine = LocalEngine(resolve({**SMALL_RUN, "model": TINY}))
    engine.model.network.register_parameter("spare", nn.Parameter(torch.zeros(3)))
    with pytest.raises(ModelError, match=r"1 of \d+ trained parameters.*network\.spare\. Train adapters"):
        one_step(engine)


def test_an_unused_value_head_is_reported_once_and_the_run_continues(caplog, monkeypatch):
    monkeypatch.setattr("sparring.methods.credit.gae.REQUIRES", {})  # an external estimator may omit this column
    engine = LocalEngine(resolve({**SMALL_RUN, "model": TINY, "credit": {"name": "gae"}}))
    with caplog.at_level(logging.WARNING):
        one_step(engine)
        one_step(engine)
    assert caplog.text.count("The value head is not trained") == 1


def test_a_value_head_without_targets_is_named():
    network = nn.Linear(2, 2)
    model = type("Model", (), {"value_head": nn.Linear(2, 1)})()
    model.modules = lambda: [("network", network), ("value_head", model.value_head)]
    check = GradientCheck(model, reads_values=True)
    logprobs = network(torch.ones(1, 2)).sum()
    check.backward(logprobs, logprobs)
    check.check(imitating=True)  # imitation does not train a critic
    with pytest.raises(ModelError, match=r"value_head\.weight, value_head\.bias\. Use an estimator that fits a critic"):
        check.check()


def test_losses_that_depend_on_no_parameter_are_refused():
    run = LocalEngine(resolve({**SMALL_RUN, "model": TINY}))
    run.learner.losses = [
        WeightedLoss(bound=bind("losses", "truncated_is"), weight=parse(1.0))
    ]  # resolve refuses such a list
    with pytest.raises(ModelError, match="no loss depends on the model"):
        one_step(run)


def test_frozen_parameters_need_no_gradient():
    engine = LocalEngine(resolve({**SMALL_RUN, "model": TINY}))
    engine.model.network.transformer.wpe.weight.requires_grad_(False)
    assert isinstance(engine.model, LanguageModel)
    one_step(engine)
