"""Tests with the released verl: `make interop` runs them in a separate environment; elsewhere they are skipped."""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
import pytest
import torch

pytest.importorskip("verl")

from omegaconf import OmegaConf
from verl.trainer.config import AlgoConfig
from verl.trainer.ppo import core_algos
from verl.workers.config import ActorConfig

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, CreditError
from sparring.core.records import TurnTable
from sparring.interop import verl as bridge
from sparring.interop.rows import VERL_HINTS

SCHEDULE = {"schedule": "linear", "start": 0.9, "end": 0.5}
UNAVAILABLE_COLUMNS = {
    "value_after",
    "action_value",
    "process_logprob",
    "playout",
    "playout_before",
    "state_group",
    "committed",
    "candidate_value",
    "candidate_judged",
    "failed",
    "wideseek_turns",
}


def make_batch(seed=0, rows=12, length=14, groups=3, turns=True):
    """Return rewards, mask and uid; rows of one to three turns, one turn if ``turns`` is false."""
    generator = np.random.Generator(np.random.Philox(seed))
    mask = np.zeros((rows, length), dtype=np.int64)
    for row in range(rows):
        begin = 0
        for _ in range(generator.integers(1, 4) if turns else 1):
            end = begin + generator.integers(1, 4)
            mask[row, begin:end] = 1
            begin = end + generator.integers(1, 3)
    rewards = generator.normal(size=mask.shape) * mask
    uid = np.array([f"prompt-{row % groups}" for row in range(rows)], dtype=object)
    return torch.tensor(rewards, dtype=torch.float32), torch.tensor(mask), uid


def random_tensors_and_columns(rewards, mask, seed=1):
    generator = np.random.Generator(np.random.Philox(seed))
    tensors = {
        name: torch.tensor(-generator.random(size=tuple(mask.shape)), dtype=torch.float32)
        for name in ("values", "old_log_probs", "rollout_log_probs", "ref_log_prob")
    }
    spans_of_rows = [turn_spans(row) for row in mask.numpy()]
    columns = {
        "sparring_role": np.array([("first", "second")[row % 2] for row in range(len(mask))], dtype=object),
        "sparring_episode": np.array([row // 2 for row in range(len(mask))], dtype=object),
    }
    for name in ("state", "view", "action"):
        columns[f"sparring_{name}"] = np.empty(len(mask), dtype=object)
        for row, row_spans in enumerate(spans_of_rows):
            columns[f"sparring_{name}"][row] = generator.integers(0, 3, len(row_spans)).tolist()
    columns["sparring_component_best_action"] = np.empty(len(mask), dtype=object)
    for row, row_spans in enumerate(spans_of_rows):
        columns["sparring_component_best_action"][row] = generator.normal(size=len(row_spans)).tolist()
    return tensors, columns


def turn_spans(row):
    """Return (begin, end) of each turn of a row: each run of ones in its mask."""
    spans, begin = [], None
    for index, is_sampled in enumerate([*row.tolist(), 0]):
        if is_sampled and begin is None:
            begin = index
        if not is_sampled and begin is not None:
            spans.append((begin, index))
            begin = None
    return spans


class TokenTurn(NamedTuple):
    """A turn of the expected table: its row of the batch, its index in the row, its tokens and its reward."""

    row: int
    turn_index: int
    begin: int
    end: int
    reward: float


def expected_table(rewards, mask, uid, tensors, columns):
    turns = []
    for row in range(len(mask)):
        row_spans = turn_spans(mask[row].numpy())
        for index, (begin, end) in enumerate(row_spans):
            reward_begin = 0 if index == 0 else begin
            reward_end = row_spans[index + 1][0] if index + 1 < len(row_spans) else mask.shape[1]
            turns.append(TokenTurn(row, index, begin, end, float(rewards[row, reward_begin:reward_end].double().sum())))
    role = columns.get("sparring_role", ["player"] * len(mask))
    roles = sorted(set(role))
    episode = columns.get("sparring_episode", range(len(mask)))
    prompts = sorted(set(uid))
    seats = [roles.index(name) if "sparring_episode" in columns else 0 for name in role]
    turns.sort(key=lambda turn: (int(episode[turn.row]), seats[turn.row], turn.row, turn.turn_index))

    def ints(values):
        return np.array(list(values), dtype=np.int64)

    def sum_over_tokens(name):
        return (
            np.array([float(tensors[name][row, begin:end].double().sum()) for row, _, begin, end, _ in turns])
            if tensors
            else None
        )

    def read_turns(name):
        return [columns[f"sparring_{name}"][turn.row][turn.turn_index] for turn in turns] if columns else None

    reward = np.array([turn.reward for turn in turns])
    component_values = np.array(read_turns("component_best_action")) if columns else None
    groups_and_roles = sorted({(uid[turn.row], role[turn.row]) for turn in turns})
    states_without_columns = [
        groups_and_roles.index((uid[turn.row], role[turn.row])) if turn.turn_index == 0 else 1000 + index
        for index, turn in enumerate(turns)
    ]
    trajectory = ints(turn.row for turn in turns)
    table = TurnTable(
        episode=ints(int(episode[turn.row]) for turn in turns),
        group=ints(prompts.index(uid[turn.row]) for turn in turns),
        trajectory=np.cumsum(np.diff(trajectory, prepend=trajectory[0]) != 0),
        game=ints(0 for _ in turns),
        role=ints(roles.index(role[turn.row]) for turn in turns),
        seat=ints(seats[turn.row] for turn in turns),
        agent=ints(0 for _ in turns),
        turn_index=ints(turn.turn_index for turn in turns),
        reward=reward,
        done=np.append(np.diff(trajectory) != 0, True),
        state_key=ints(read_turns("state") if columns else states_without_columns),
        legal=np.ones(len(turns), dtype=bool),
        n_tokens=ints(turn.end - turn.begin for turn in turns),
        action=ints(read_turns("action")) if columns else None,
        view=ints(read_turns("view")) if columns else None,
        components={"best_action": component_values, "game": reward - component_values} if columns else {},
        logprob=sum_over_tokens("rollout_log_probs"),
        old_logprob=sum_over_tokens("old_log_probs"),
        reference_logprob=sum_over_tokens("ref_log_prob"),
        value=np.array([float(tensors["values"][row, begin]) for row, _, begin, _, _ in turns]) if tensors else None,
        token_value=np.concatenate(
            [tensors["values"][row, begin:end].double().numpy() for row, _, begin, end, _ in turns]
        )
        if tensors
        else None,
        game_names=("game",),
        role_names=tuple(roles),
        agent_names=("learner",),
        action_names=("0", "1", "2") if columns else (),
        view_names=("0", "1", "2") if columns else (),
    )
    return table, [(row, begin, end) for row, _, begin, end, _ in turns]


def values_on_tokens(values, turns, shape, level):
    token_values, token_index = torch.zeros(shape), 0
    for turn, (row, begin, end) in enumerate(turns):
        for token in range(begin, end):
            token_values[row, token] = values[turn] if level == "turn" else values[token_index]
            token_index += 1
    return token_values


ESTIMATOR_NAMES = sorted(bridge.ESTIMATORS)


@pytest.mark.parametrize("name", ESTIMATOR_NAMES)
def test_every_estimator_gives_the_advantages_of_the_library(name):
    estimator = bridge.ESTIMATORS[name]
    assert core_algos.get_adv_estimator_fn(name) is estimator
    estimator.load_state({})
    rewards, mask, uid = make_batch(3)
    tensors, columns = random_tensors_and_columns(rewards, mask)

    def call():
        return estimator(rewards, mask, index=uid, config=AlgoConfig(), non_tensor_batch=columns, **tensors)

    missing_columns = registry.bind("credit", estimator.name, preset=estimator.preset).needs & UNAVAILABLE_COLUMNS
    if missing_columns:
        with pytest.raises(CreditError) as error:
            call()
        assert any(VERL_HINTS[column] in str(error.value) for column in missing_columns), error.value
        return
    table, positions = expected_table(rewards, mask, uid, tensors, columns)
    bound_estimator = registry.bind("credit", estimator.name, preset=estimator.preset)
    first_credit = bound_estimator(table, {})
    for credit in (first_credit, bound_estimator(table, first_credit.state)):
        advantages, returns = call()
        expected = values_on_tokens(credit.advantages, positions, mask.shape, credit.level)
        torch.testing.assert_close(advantages, expected, rtol=1e-6, atol=1e-6)
        assert advantages.dtype == torch.float32
        if credit.value_targets is None:
            torch.testing.assert_close(returns, advantages)
        else:
            level = "token" if "token_value" in bound_estimator.plugin.needs else "turn"
            torch.testing.assert_close(
                returns, values_on_tokens(credit.value_targets, positions, mask.shape, level), rtol=1e-6, atol=1e-6
            )
        assert estimator.state() == credit.state


@pytest.mark.parametrize("turns", [False, True])
@pytest.mark.parametrize(
    ("name", "verl_name"), [("grpo", "grpo"), ("rloo", "rloo"), ("rloo", "rloo_vectorized"), ("grpo_dr_grpo", "grpo")]
)
def test_advantages_equal_those_of_verl(name, verl_name, turns):
    for seed in range(5):
        rewards, mask, uid = make_batch(seed, turns=turns)
        config = AlgoConfig()
        options = {"norm_adv_by_std_in_grpo": False} if "dr_grpo" in name else {}
        expected, _ = core_algos.get_adv_estimator_fn(verl_name)(
            token_level_rewards=rewards, response_mask=mask, index=uid, config=config, **options
        )
        advantages, _ = core_algos.get_adv_estimator_fn("sparring_" + name)(
            token_level_rewards=rewards, response_mask=mask, index=uid, config=config
        )
        torch.testing.assert_close(advantages, expected, rtol=1e-5, atol=1e-5)


def test_rows_of_a_game_are_joined_and_empty_ones_count():
    rewards, mask, _ = make_batch(0)
    separate_groups = np.array([str(row) for row in range(len(mask))], dtype=object)
    verl_advantages, _ = core_algos.get_adv_estimator_fn("rloo")(rewards, mask, separate_groups)
    assert (bridge.ESTIMATORS["sparring_rloo"](rewards, mask, separate_groups)[0] == 0).all()
    assert (verl_advantages != 0).any()
    rewards, mask, uid = make_batch(0, turns=False)
    mask[0], rewards[0], rewards[0, 2] = 0, 0.0, 5.0
    expected, _ = core_algos.get_adv_estimator_fn("grpo")(rewards, mask, uid)
    torch.testing.assert_close(
        bridge.ESTIMATORS["sparring_grpo"](rewards, mask, uid)[0], expected, rtol=1e-5, atol=1e-5
    )
    mask = torch.tensor([[0, 1, 1, 0, 0, 1, 0]])
    rewards = torch.tensor([[1.0, 0.0, 2.0, 4.0, 8.0, 16.0, 32.0]])
    row_spans = bridge.spans(mask.numpy().astype(bool))
    assert row_spans.sum_by_turn(rewards.numpy()).tolist() == [15.0, 48.0]
    assert row_spans.n_tokens.tolist() == [2, 1]
    mask, uid = torch.tensor([[1, 1], [1, 0], [1, 1], [1, 0]]), np.array(["p"] * 4, dtype=object)
    rewards = torch.tensor([[0.0, 1.0], [4.0, 0.0], [0.0, 2.0], [8.0, 0.0]])
    columns = {"sparring_episode": np.array([7, 7, 9, 9]), "sparring_turn": np.array([1, 0, 0, 1])}
    advantages, _ = bridge.ESTIMATORS["sparring_rloo"](rewards, mask, uid, non_tensor_batch=columns)
    assert advantages.tolist() == [[-5.0, -5.0], [-5.0, 0.0], [5.0, 5.0], [5.0, 0.0]]
    mixed_columns = {
        **columns,
        "sparring_role": np.array(["a", "b", "a", "a"]),
        "sparring_seat": np.array([0, 0, 0, 0]),
    }
    with pytest.raises(CreditError, match="different roles"):
        bridge.ESTIMATORS["sparring_rloo"](rewards, mask, uid, non_tensor_batch=mixed_columns)


def test_options_are_checked_and_missing_columns_are_named():
    rewards, mask, uid = make_batch(0)
    estimator = bridge.ESTIMATORS["sparring_grpo"]
    advantages, _ = bridge.ESTIMATORS["sparring_grpo_dr_grpo"](rewards, mask, uid)
    options = OmegaConf.create({"gamma": 1.0, "sparring": {"divide_by_std": False}})
    torch.testing.assert_close(estimator(rewards, mask, uid, config=options)[0], advantages)
    with pytest.raises(ConfigError, match="divide_by_sdt"):
        estimator(rewards, mask, uid, config={"sparring": {"divide_by_sdt": False}})
    with pytest.raises(ConfigError, match="report the progress"):
        bridge.ESTIMATORS["sparring_rae"](rewards, mask, uid, config={"sparring": {"decay": SCHEDULE}})
    rewards, mask, uid = make_batch(0)
    with pytest.raises(CreditError, match="uid"):
        bridge.ESTIMATORS["sparring_grpo"](rewards, mask)
    with pytest.raises(CreditError, match="sparring_view"):
        bridge.ESTIMATORS["sparring_gigpo"](rewards, mask, uid)
    with pytest.raises(CreditError, match=r"critic\.enable"):
        bridge.ESTIMATORS["sparring_gae"](rewards, mask, uid)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"sparring_rule": ["a"] * 12}, "is unknown; the columns are"),
        ({"sparring_role": ["a"] * 3}, "3 entries for a batch of 12"),
        ({"sparring_view": [["a"] * 9] * 12}, "9 values for"),
    ],
)
def test_wrong_columns_are_refused(columns, message):
    with pytest.raises(CreditError, match=message):
        bridge.ESTIMATORS["sparring_grpo"](*make_batch(0), non_tensor_batch=columns)


def test_running_state_is_kept_and_restored():
    rewards, mask, uid = make_batch(0)
    rae = bridge.ESTIMATORS["sparring_rae"]
    bridge.load_state({})
    first_advantages, _ = rae(rewards, mask, uid)
    saved_state = bridge.state()
    second_advantages, _ = rae(rewards, mask, uid)
    assert not torch.equal(first_advantages, second_advantages)
    bridge.load_state(saved_state)
    torch.testing.assert_close(rae(rewards, mask, uid)[0], second_advantages)
    bridge.load_state({})
    torch.testing.assert_close(rae(rewards, mask, uid)[0], first_advantages)


def test_the_trainer_passes_columns_after_pass_columns():
    from verl import DataProto
    from verl.trainer.ppo import ray_trainer as trainer

    rewards, mask, uid = make_batch(3)
    tensors, columns = random_tensors_and_columns(rewards, mask)
    data = DataProto.from_dict(
        tensors={"token_level_rewards": rewards, "response_mask": mask, **tensors}, non_tensors={"uid": uid, **columns}
    )
    config = OmegaConf.create({"adv_estimator": "sparring_gigpo"})
    original_compute_advantage = trainer.compute_advantage
    try:
        with pytest.raises(CreditError, match="pass_columns"):
            trainer.compute_advantage(data, adv_estimator="sparring_gigpo", config=config)
        bridge.pass_columns()
        bridge.pass_columns()
        assert trainer.compute_advantage.__wrapped__ is original_compute_advantage
        advantages = trainer.compute_advantage(data, adv_estimator="sparring_gigpo", config=config).batch["advantages"]
    finally:
        trainer.compute_advantage = original_compute_advantage
    expected, _ = bridge.ESTIMATORS["sparring_gigpo"](rewards, mask, uid, non_tensor_batch=columns, **tensors)
    torch.testing.assert_close(advantages, expected)


def make_loss_tensors(seed=0, deviation=0.3):
    _, mask, _ = make_batch(seed)
    generator = np.random.Generator(np.random.Philox(seed + 100))
    old_logprobs = torch.tensor(-generator.random(size=tuple(mask.shape)), dtype=torch.float32)
    logprobs = (
        old_logprobs + torch.tensor(generator.normal(size=tuple(mask.shape)) * deviation, dtype=torch.float32)
    ).requires_grad_(True)
    advantages = torch.tensor(generator.normal(size=tuple(mask.shape)), dtype=torch.float32) * mask
    return old_logprobs, logprobs, advantages, mask.bool()


def actor_config(**changes):
    settings = {"strategy": "fsdp", "rollout_n": 1, "ppo_micro_batch_size_per_gpu": 1, "use_dynamic_bsz": False}
    names = {field.name for field in dataclasses.fields(ActorConfig)}
    config = ActorConfig(
        **{key: value for key, value in {**settings, **changes}.items() if key in names and key != "global_batch_info"}
    )
    if "global_batch_info" in changes:
        config.global_batch_info.update(changes["global_batch_info"])
    return config


AGGREGATIONS = ["token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]


@pytest.mark.parametrize("info", [{}, {"dp_size": 2, "batch_num_tokens": 300, "global_batch_size": 40}])
@pytest.mark.parametrize("mode", AGGREGATIONS)
@pytest.mark.parametrize("weights", [False, True])
def test_ppo_clip_equals_vanilla(mode, info, weights):
    for seed in range(3):
        results = []
        for name in ("vanilla", "sparring_ppo_clip_dual_clip"):
            old_logprobs, logprobs, advantages, mask = make_loss_tensors(seed, deviation=1.5)
            factor = torch.rand(mask.shape, generator=torch.Generator().manual_seed(seed)) if weights else None
            loss, _ = core_algos.get_policy_loss_fn(name)(
                old_log_prob=old_logprobs,
                log_prob=logprobs,
                advantages=advantages,
                response_mask=mask,
                loss_agg_mode=mode,
                config=actor_config(global_batch_info=info),
                rollout_is_weights=factor,
            )
            (gradient,) = torch.autograd.grad(loss, logprobs)
            results.append((loss.detach(), gradient))
        torch.testing.assert_close(results[1][0], results[0][0], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(results[1][1], results[0][1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", sorted(bridge.LOSSES))
def test_every_loss_is_registered_and_works_or_names_missing_columns(name):
    old_logprobs, logprobs, advantages, mask = make_loss_tensors()
    loss = core_algos.get_policy_loss_fn(name)
    assert loss is bridge.LOSSES[name]
    arguments = dict(
        old_log_prob=old_logprobs,
        log_prob=logprobs,
        advantages=advantages,
        response_mask=mask,
        loss_agg_mode="token-mean",
        config=actor_config(),
    )
    try:
        value, metrics = loss(**arguments)
    except ConfigError as error:
        assert "which verl does not pass to losses" in str(error) or "only weighs other losses" in str(error)
        return
    assert value.ndim == 0 and math.isfinite(value.item())
    (gradient,) = torch.autograd.grad(value, logprobs)
    assert gradient.isfinite().all() and (gradient[~mask] == 0).all() and (gradient != 0).any()
    assert all(key.startswith("actor/") and isinstance(figure, float) for key, figure in metrics.items())


def test_most_losses_work_and_gspo_is_by_row_or_by_turn():
    num_working = 0
    for loss in bridge.LOSSES.values():
        old_logprobs, logprobs, advantages, mask = make_loss_tensors()
        try:
            loss(old_logprobs, logprobs, advantages, mask)
        except ConfigError:
            continue
        num_working += 1
    assert num_working >= 12
    old_logprobs, logprobs, advantages, mask = make_loss_tensors()
    verl_loss = core_algos.get_policy_loss_fn("gspo")(
        old_logprobs,
        logprobs,
        advantages,
        mask,
        loss_agg_mode="seq-mean-token-mean",
        config=actor_config(clip_ratio_low=3e-4, clip_ratio_high=4e-4),
    )[0]
    torch.testing.assert_close(
        bridge.LOSSES["sparring_gspo"](old_logprobs, logprobs, advantages, mask, "seq-mean-token-mean")[0],
        verl_loss,
        rtol=1e-5,
        atol=1e-5,
    )
    loss_by_turn = bridge.register_loss("gspo_by_turn", {"gspo": {"level": "turn"}})(
        old_logprobs, logprobs, advantages, mask, "seq-mean-token-mean"
    )[0]
    assert not torch.allclose(loss_by_turn, verl_loss)


def test_weighted_sums_of_losses():
    old_logprobs, logprobs, advantages, mask = make_loss_tensors()
    doubled_loss = bridge.register_loss("twice", {"ppo_clip": {"weight": 2.0, "clip_high": 0.28}})
    assert core_algos.get_policy_loss_fn("twice") is doubled_loss
    dapo = bridge.LOSSES["sparring_ppo_clip_dapo"](old_logprobs, logprobs, advantages, mask)[0]
    torch.testing.assert_close(doubled_loss(old_logprobs, logprobs, advantages, mask)[0], 2.0 * dapo)
    with pytest.raises(ConfigError, match="clip_hihg"):
        bridge.register_loss("wrong", {"ppo_clip": {"clip_hihg": 0.28}})
    with pytest.raises(ConfigError, match="not schedules"):
        bridge.register_loss("wrong", {"ppo_clip": {"clip_high": SCHEDULE}})
    masked_loss = bridge.register_loss("masked", {"ppo_clip": {}, "probability_mask": {}})
    assert math.isfinite(masked_loss(old_logprobs, logprobs, advantages, mask)[0].item())


def test_an_empty_micro_batch_works_and_skipped_losses_have_a_reason():
    old_logprobs, logprobs, advantages, mask = make_loss_tensors()
    value, metrics = bridge.LOSSES["sparring_ppo_clip"](
        old_logprobs, logprobs, advantages, torch.zeros_like(mask), config=actor_config()
    )
    assert value.item() == 0.0 and metrics == {}
    value.backward()
    old_logprobs, logprobs, advantages, mask = make_loss_tensors()
    for name, hint in {
        "entropy_bonus": "entropy_coeff",
        "kl_penalty": "use_kl_loss",
        "truncated_is": "rollout_correction",
        "etr": "group|outcome",
    }.items():
        with pytest.raises(ConfigError, match=hint):
            bridge.LOSSES["sparring_" + name](old_logprobs, logprobs, advantages, mask)
