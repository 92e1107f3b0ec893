"""Tests with the released TRL: `make interop` runs them in a separate environment; elsewhere they are skipped."""

import json

import numpy as np
import pytest
import torch

pytest.importorskip("trl")

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, CreditError, UnknownNameError
from sparring.core.records import TurnTable
from sparring.interop.trl import SparringGRPOTrainer

WORDS = ["[PAD]", "[EOS]", *(f"w{number}" for number in range(14))]
PROMPTS = ["w0 w1", "w2", "w3 w4 w5", "w6 w7"]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    torch.set_num_threads(1)


def make_tokenizer():
    word_tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[PAD]"))
    word_tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=word_tokenizer, pad_token="[PAD]", eos_token="[EOS]", padding_side="left"
    )


def make_model(folder):
    """Return a small random model from a folder, as TRL reloads it as the reference."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(WORDS),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return Qwen2ForCausalLM.from_pretrained(folder)


def evenness(completions, **_):
    """Return a reward that depends on the words: the mean of their numbers, scaled."""
    return [sum(int(word[1:]) for word in text.split() if word.startswith("w")) / 20.0 for text in completions]


def shortness(completions, **_):
    return [-0.1 * len(text.split()) for text in completions]


def make_trainer(folder, trainer_class=SparringGRPOTrainer, *, funcs=None, columns=None, arguments=None, **options):
    settings = dict(
        output_dir=str(folder),
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=6,
        max_steps=2,
        learning_rate=0.3,
        optim="sgd",
        report_to="none",
        use_cpu=True,
        save_strategy="no",
        logging_steps=1,
        disable_tqdm=True,
        seed=3,
        bf16=False,
    )
    data = Dataset.from_dict({"prompt": PROMPTS * 4, **{key: value * 4 for key, value in (columns or {}).items()}})
    return trainer_class(
        model=make_model(f"{folder}/model"),
        reward_funcs=funcs or [evenness],
        args=GRPOConfig(**{**settings, **(arguments or {})}),
        train_dataset=data,
        processing_class=make_tokenizer(),
        **options,
    )


def weights(trained_trainer):
    return torch.cat([parameter.detach().flatten() for parameter in trained_trainer.model.parameters()])


def train(folder, *args, **options):
    trained_trainer = make_trainer(folder, *args, **options)
    trained_trainer.train()
    return trained_trainer


def record_generations(sparring_trainer):
    """Make a trainer record each generation as (rewards, rows, output), and return the list."""
    generations, original_function = [], sparring_trainer._generate_and_score_completions

    def generate_and_record(inputs):
        output = original_function(inputs)
        generations.append(
            (
                sparring_trainer._rewards_by_function.clone(),
                list(sparring_trainer._rows),
                {key: value.clone() for key, value in output.items() if isinstance(value, torch.Tensor)},
            )
        )
        return output

    sparring_trainer._generate_and_score_completions = generate_and_record
    return generations


def test_grpo_gives_the_weights_of_trl_with_and_without_scaling(tmp_path):
    trl_trainer = train(tmp_path / "a", GRPOTrainer)
    sparring_trainer = train(tmp_path / "b", credit="grpo", credit_options={"epsilon": 1e-4})
    assert (weights(trl_trainer) - weights(make_trainer(tmp_path / "c"))).abs().max() > 1e-3
    torch.testing.assert_close(weights(sparring_trainer), weights(trl_trainer), rtol=1e-5, atol=1e-6)
    assert list(sparring_trainer._logs["advantages"]) == pytest.approx(list(trl_trainer._logs["advantages"]), abs=1e-5)
    trl_trainer = train(tmp_path / "d", GRPOTrainer, arguments={"scale_rewards": "none"})
    sparring_trainer = train(tmp_path / "e", credit="grpo", credit_preset="dr_grpo")
    torch.testing.assert_close(weights(sparring_trainer), weights(trl_trainer), rtol=1e-5, atol=1e-6)
    assert not torch.allclose(weights(sparring_trainer), weights(train(tmp_path / "f", credit="rloo")), atol=1e-4)


@pytest.mark.parametrize("loss_type", ["grpo", "bnpo", "dr_grpo", "dapo"])
def test_ppo_clip_gives_the_weights_of_trls_loss(tmp_path, loss_type):
    arguments = {
        "loss_type": loss_type,
        "num_iterations": 2,
        "max_steps": 4,
        "gradient_accumulation_steps": 2,
        "epsilon": 0.02,
    }
    trl_trainer = train(tmp_path / "a", GRPOTrainer, arguments=arguments)
    sparring_trainer = train(
        tmp_path / "b",
        credit_options={"epsilon": 1e-4},
        losses={"ppo_clip": {"clip_low": 0.02, "clip_high": 0.02}},
        arguments=arguments,
    )
    torch.testing.assert_close(weights(sparring_trainer), weights(trl_trainer), rtol=1e-5, atol=1e-6)
    assert "ppo_clip/clip_fraction" in sparring_trainer.state.log_history[0]


def test_a_kl_penalty_equals_trls(tmp_path):
    arguments = {"beta": 0.5, "num_iterations": 2, "max_steps": 4, "use_bias_correction_kl": False}
    trl_trainer = train(tmp_path / "a", GRPOTrainer, arguments=arguments)
    trainer_without_penalty = train(tmp_path / "b", GRPOTrainer, arguments={**arguments, "beta": 0.0})
    losses = {"ppo_clip": {}, "kl_penalty": {"weight": 0.5}}
    sparring_trainer = train(tmp_path / "c", credit_options={"epsilon": 1e-4}, losses=losses, arguments=arguments)
    assert (weights(trl_trainer) - weights(trainer_without_penalty)).abs().max() > 1e-4
    torch.testing.assert_close(weights(sparring_trainer), weights(trl_trainer), rtol=1e-4, atol=1e-5)


CRITIC_FREE = (
    "rloo",
    "mars",
    "rae",
    "outcome",
    "rebn",
    "reinforce_plus_plus",
    "mc_grpo",
    "ngrpo",
    "a_grae",
    "loop",
    "opo",
    "at_grpo",
    "marti",
)


@pytest.mark.parametrize("name", CRITIC_FREE)
def test_estimators_get_the_rewards_of_the_generations(tmp_path, name):
    sparring_trainer = make_trainer(
        tmp_path, credit=name, funcs=[evenness, shortness], arguments={"reward_weights": [1.0, 0.5]}
    )
    generations = record_generations(sparring_trainer)
    sparring_trainer.train()
    state = {}
    for rewards, _, output in generations:
        total_rewards = (rewards * torch.tensor([1.0, 0.5])).sum(dim=1).double().numpy()
        table = table_of(
            [[reward] for reward in total_rewards], output["completion_mask"].sum(dim=1, keepdim=True).tolist(), size=4
        )
        credit = registry.bind("credit", name)(table, state)
        state = credit.state
        if credit.level == "turn":
            advantages = output["advantages"]
            np.testing.assert_allclose(
                advantages.numpy() if advantages.dim() == 1 else advantages[:, 0].numpy(),
                credit.advantages,
                rtol=1e-5,
                atol=1e-6,
            )
    assert leaves(sparring_trainer.credit_state) == pytest.approx(leaves(state), rel=1e-6)


def leaves(tree):
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in leaves(tree[key])]
    return [leaf for subtree in tree for leaf in leaves(subtree)] if isinstance(tree, list) else [tree]


def table_of(rewards, tokens, size):
    lengths = [len(turns) for turns in rewards]
    rows, count = np.repeat(np.arange(len(rewards)), lengths), sum(lengths)
    turn_index = np.concatenate([np.arange(length) for length in lengths])
    zeros = np.zeros(count, dtype=np.int64)
    return TurnTable(
        episode=rows,
        group=rows // size,
        trajectory=rows,
        game=zeros,
        role=zeros,
        seat=zeros,
        agent=zeros,
        turn_index=turn_index,
        reward=np.array([reward for turns in rewards for reward in turns]),
        done=np.append(np.diff(rows) != 0, True),
        state_key=np.where(turn_index == 0, rows // size, 1000 + np.arange(count)),
        legal=np.ones(count, dtype=bool),
        n_tokens=np.array([number for turns in tokens for number in turns], dtype=np.int64),
        game_names=("game",),
        role_names=("player",),
        agent_names=("learner",),
    )


@pytest.mark.parametrize("name", ["match_tir", "rebn", "mars"])
def test_each_turn_gets_a_separate_advantage(tmp_path, monkeypatch, name):
    """Token 1 of every completion is masked as the environment's, so a completion of three or more tokens has two turns."""
    original_function = GRPOTrainer._generate_and_score_completions

    def split(self, inputs):
        output = original_function(self, inputs)
        output["tool_mask"] = torch.ones_like(output["completion_mask"])
        output["tool_mask"][:, 1] = 0
        return output

    monkeypatch.setattr(GRPOTrainer, "_generate_and_score_completions", split)
    columns = {"sparring_turn_reward": [[1.0, 0.0], [0.0, 2.0], [3.0, 1.0], [0.5, 0.5]]}
    sparring_trainer = make_trainer(tmp_path, credit=name, columns=columns, arguments={"max_steps": 1})
    sparring_trainer.generation_config.suppress_tokens = [1]  # without an end token every completion has six tokens
    generations = record_generations(sparring_trainer)
    sparring_trainer.train()
    ((generation_rewards, rows, output),) = generations
    rewards = [
        [row["sparring_turn_reward"][0], row["sparring_turn_reward"][1] + float(total)]
        for row, total in zip(rows, generation_rewards[:, 0], strict=True)
    ]
    credit = registry.bind("credit", name)(table_of(rewards, [[1, 4]] * 8, size=4), {})
    expected = np.zeros((8, 6))
    expected[:, 0], expected[:, 2:] = credit.advantages[::2], credit.advantages[1::2, None]
    np.testing.assert_allclose(output["advantages"].numpy(), expected, rtol=1e-5, atol=1e-6)
    monkeypatch.setitem(columns, "sparring_turn_reward", [[1.0]] * 4)
    with pytest.raises(CreditError, match="write a list of 2"):
        one_turn_trainer = make_trainer(tmp_path, credit=name, columns=columns, arguments={"max_steps": 1})
        one_turn_trainer.generation_config.suppress_tokens = [1]
        one_turn_trainer.train()


def test_roles_split_a_group_and_unscored_completions_get_zero(tmp_path):
    columns = {"sparring_role": ["white", "black", "white", "black"]}
    sparring_trainer = make_trainer(tmp_path, credit="rae", columns=columns)
    sparring_trainer.train()
    assert sorted(sparring_trainer.credit_state) == ["game/black", "game/white"]

    def partial_reward(completions, **_):
        return [None if index % 4 == 0 else float(index) for index in range(len(completions))]

    sparring_trainer = make_trainer(tmp_path / "b", credit="rloo", funcs=[partial_reward])
    generations = record_generations(sparring_trainer)
    sparring_trainer.train()
    advantages = generations[0][2]["advantages"]
    assert advantages[0] == 0 and advantages[4] == 0
    assert advantages[1:4].tolist() == pytest.approx([-1.5, 0.0, 1.5])


def test_running_state_is_saved_and_loaded(tmp_path):
    arguments = {"save_strategy": "steps", "save_steps": 1, "max_steps": 3}
    uninterrupted_trainer = train(tmp_path, credit="rae", arguments=arguments)
    assert (
        json.loads((tmp_path / "checkpoint-3" / "sparring_credit.json").read_text())
        == uninterrupted_trainer.credit_state
    )
    early_state = json.loads((tmp_path / "checkpoint-1" / "sparring_credit.json").read_text())
    assert early_state != uninterrupted_trainer.credit_state
    resumed_trainer = make_trainer(tmp_path, credit="rae", arguments=arguments)
    resumed_trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
    assert leaves(resumed_trainer.credit_state) == pytest.approx(leaves(uninterrupted_trainer.credit_state))
    torch.testing.assert_close(weights(resumed_trainer), weights(uninterrupted_trainer))


@pytest.mark.parametrize("name", registry.names("losses"))
def test_every_loss_trains_or_names_its_missing_columns(tmp_path, name):
    needed_columns = registry.bind("losses", name).needs
    losses = {"ppo_clip": {}, name: {}} if name in ("probability_mask", "d3s_tokens", "kl_penalty") else {name: {}}
    arguments = {"beta": 0.1 if "reference_logprobs" in needed_columns else 0.0, "num_iterations": 2}
    if needed_columns & {"values", "old_logprobs", "legal_replies"} or needed_columns & set(
        registry.names("features")
    ) - {"entropy"}:
        with pytest.raises(ConfigError, match="which TRL does not pass"):
            make_trainer(tmp_path, losses=losses, arguments=arguments)
        return
    if name == "turn_dpo":
        with pytest.raises(ConfigError, match="by their prompt, which TRL does not pass"):
            train(tmp_path, losses=losses, arguments=arguments)
        return
    trained_trainer = train(tmp_path, losses=losses, arguments=arguments)
    assert weights(trained_trainer).isfinite().all()
    assert (weights(trained_trainer) - weights(make_trainer(tmp_path / "new"))).abs().max() > 1e-4


@pytest.mark.parametrize(
    ("options", "arguments", "error", "message"),
    [
        ({"credit": "gpro"}, {}, UnknownNameError, "gpro"),
        ({"losses": {"ppo_clip": {}}}, {"beta": 0.1}, ConfigError, "beta"),
        ({"losses": {"ppo_clip": {}}}, {"loss_type": "sapo"}, ConfigError, "loss_type"),
        (
            {"losses": {"ppo_clip": {}}},
            {"importance_sampling_level": "sequence"},
            ConfigError,
            "importance_sampling_level",
        ),
        ({"losses": {"clip_cov": {}}}, {"gradient_accumulation_steps": 2}, ConfigError, "gradient_accumulation_steps"),
        ({"losses": {"kl_penalty": {}}}, {}, ConfigError, "beta above 0"),
        ({}, {"multi_objective_aggregation": "normalize_then_sum"}, ConfigError, "sum_then_normalize"),
    ],
)
def test_contradictions_are_refused(tmp_path, options, arguments, error, message):
    with pytest.raises(error, match=message):
        make_trainer(tmp_path, arguments=arguments, **options)


@pytest.mark.parametrize(
    ("name", "message"), [("gae", "no critic"), ("gigpo", "sparring_view"), ("oprl", "Make TRL compute it")]
)
def test_missing_columns_are_named(tmp_path, name, message):
    with pytest.raises(CreditError, match=message):
        train(tmp_path, credit=name)


def test_evaluation_logs_advantages_and_keeps_the_state(tmp_path):
    sparring_trainer = make_trainer(tmp_path, credit="rae", arguments={"per_device_eval_batch_size": 4})
    sparring_trainer.credit_state = {"game/player": 100.0}
    sparring_trainer.evaluate(sparring_trainer.train_dataset.select([0]))
    logged = list(sparring_trainer._logs["advantages"])
    assert len(logged) == 4 and max(logged) < -50.0
    assert sparring_trainer.credit_state == {"game/player": 100.0}
