"""At the first update everything that is trained has a gradient, or the run stops and says what has none."""

import logging

import pytest
import torch
from torch import nn

from sparring.config import resolve
from sparring.config.plugins.registry import bind
from sparring.core.errors import ModelError
from sparring.core.schedule import parse
from sparring.engine.local import LocalEngine
from sparring.learn.learner import GradientCheck
from sparring.learn.pack import WeightedLoss
from sparring.models import language_model
from sparring.models.gpt2 import Gpt2
from sparring.models.language_model import LanguageModel
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round
from sparring.run.warmup import warm_up

SETTING = {"environments": [{"name": "kuhn_poker"}], "rollout": {"games_per_step": 16}, "steps": 4, "threads": 1}
LORA = {"rank": 2, "targets": ["c_attn"]}
TINY = {"hidden_size": 16, "heads": 2}
CRITIC = {"credit": {"name": "gae"}, "losses": [{"name": "ppo_clip"}, {"name": "value_loss", "weight": 0.5}]}


@pytest.fixture(scope="module")
def gpt2_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny") / "model"
    LocalEngine(resolve({**SETTING, "model": TINY})).learner.policy.save(folder)
    return folder


def engine(folder, **changes):
    model = {"name": str(folder), "device": "cpu", "lora": LORA, **changes.pop("model", {})}
    return LocalEngine(resolve({**SETTING, "model": model, "renderer": {"name": "plain"}, **changes}))


def one_step(run):
    play_round(run.config, run, Methods.of(run.config), RunState())


@pytest.mark.parametrize("changes", [{}, CRITIC, {"warmup": {"updates": 1}}], ids=["policy", "critic", "warm-up"])
def test_adapters_on_an_exported_gpt2_learn(gpt2_folder, changes):
    run = engine(gpt2_folder, learner={"learning_rate": 0.01, "epochs": 2}, **changes)
    before = {name: tensor.clone() for name, tensor in run.model.tensors().items()}
    warm_up(run.config, run)
    one_step(run)
    adapters = [name for name in before if "lora_" in name]
    assert len(adapters) == 4  # two factors in two layers
    assert all(not torch.equal(run.model.tensors()[name], before[name]) for name in adapters)


def test_adapters_on_a_llama_learn(chat_folder):
    run = engine(
        chat_folder,
        model={"lora": {"rank": 2}},
        renderer={"name": "chat"},
        credit={"name": "outcome"},  # all replies are noise and forfeit: only raw returns differ from 0
        learner={"learning_rate": 0.01, "epochs": 2},
    )
    before = {name: tensor.clone() for name, tensor in run.model.tensors().items()}
    one_step(run)
    assert len(before) == 2 * 2 * 7  # two factors of seven layers in two blocks
    assert all(not torch.equal(tensor, before[name]) for name, tensor in run.model.tensors().items())


@pytest.mark.parametrize("changes", [{}, CRITIC, {"warmup": {"updates": 1}}], ids=["policy", "critic", "warm-up"])
def test_adapters_that_the_forward_pass_does_not_call_are_refused(gpt2_folder, monkeypatch, changes):
    monkeypatch.setattr(language_model, "architecture", Gpt2)  # over the weights alone
    run = engine(gpt2_folder, **changes)
    before = {name: tensor.clone() for name, tensor in run.model.tensors().items()}
    with pytest.raises(ModelError, match=r"4 of [46] trained.*c_attn\.lora_A.*and 1 more.*model\.lora\.targets"):
        warm_up(run.config, run)
        one_step(run)
    assert all(torch.equal(tensor, before[name]) for name, tensor in run.model.tensors().items())


def test_one_dead_parameter_among_living_ones_is_named():
    run = LocalEngine(resolve({**SETTING, "model": TINY}))
    run.model.network.register_parameter("spare", nn.Parameter(torch.zeros(3)))
    with pytest.raises(ModelError, match=r"1 of \d+ trained parameters.*network\.spare\. Train adapters"):
        one_step(run)


def test_a_value_head_that_no_loss_reads_is_said_once_and_stops_nothing(caplog, monkeypatch):
    monkeypatch.setattr("sparring.methods.credit.gae.REQUIRES", {})  # as an estimator from outside may leave it out
    run = LocalEngine(resolve({**SETTING, "model": TINY, "credit": {"name": "gae"}}))
    with caplog.at_level(logging.WARNING):
        one_step(run)
        one_step(run)
    assert caplog.text.count("The value head is not trained") == 1


def test_a_value_head_without_targets_is_named():
    network = nn.Linear(2, 2)
    model = type("Model", (), {"value_head": nn.Linear(2, 1)})()
    model.modules = lambda: [("network", network), ("value_head", model.value_head)]
    check = GradientCheck(model, reads_values=True)
    logprobs = network(torch.ones(1, 2)).sum()
    check.backward(logprobs, logprobs)
    check.check(imitating=True)  # imitation fits no critic
    with pytest.raises(ModelError, match=r"value_head\.weight, value_head\.bias\. Take an estimator that fits a critic"):
        check.check()


def test_losses_that_depend_on_nothing_are_refused():
    run = LocalEngine(resolve({**SETTING, "model": TINY}))
    run.learner.losses = [WeightedLoss(bound=bind("losses", "truncated_is"), weight=parse(1.0))]  # resolve refuses such a list
    with pytest.raises(ModelError, match="none of them depends on the model"):
        one_step(run)


def test_what_is_frozen_needs_no_gradient():
    run = LocalEngine(resolve({**SETTING, "model": TINY}))
    run.model.network.transformer.wpe.weight.requires_grad_(False)
    assert isinstance(run.model, LanguageModel)
    one_step(run)
