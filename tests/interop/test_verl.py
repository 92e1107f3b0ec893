"""Tests with the released verl: `make interop` runs them in a separate environment; elsewhere they are skipped."""

import dataclasses
import math

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
NEVER = {
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


def batch(seed=0, rows=12, length=14, groups=3, turns=True):
    """Return rewards, mask and uid; rows of one to three turns, one turn if ``turns`` is false."""
    draw = np.random.Generator(np.random.Philox(seed))
    mask = np.zeros((rows, length), dtype=np.int64)
    for row in range(rows):
        start = 0
        for _ in range(draw.integers(1, 4) if turns else 1):
            stop = start + draw.integers(1, 4)
            mask[row, start:stop] = 1
            start = stop + draw.integers(1, 3)
    rewards = draw.normal(size=mask.shape) * mask
    uid = np.array([f"prompt-{row % groups}" for row in range(rows)], dtype=object)
    return torch.tensor(rewards, dtype=torch.float32), torch.tensor(mask), uid


def everything(rewards, mask, seed=1):
    draw = np.random.Generator(np.random.Philox(seed))
    tensors = {
        name: torch.tensor(-draw.random(size=tuple(mask.shape)), dtype=torch.float32)
        for name in ("values", "old_log_probs", "rollout_log_probs", "ref_log_prob")
    }
    runs = [runs_of(row) for row in mask.numpy()]
    columns = {
        "sparring_role": np.array([("first", "second")[row % 2] for row in range(len(mask))], dtype=object),
        "sparring_episode": np.array([row // 2 for row in range(len(mask))], dtype=object),
    }
    for name in ("state", "view", "action"):
        columns[f"sparring_{name}"] = np.empty(len(mask), dtype=object)
        for row, places in enumerate(runs):
            columns[f"sparring_{name}"][row] = draw.integers(0, 3, len(places)).tolist()
    columns["sparring_component_best_action"] = np.empty(len(mask), dtype=object)
    for row, places in enumerate(runs):
        columns["sparring_component_best_action"][row] = draw.normal(size=len(places)).tolist()
    return tensors, columns


def runs_of(row):
    run, start = [], None
    for index, is_on in enumerate([*row.tolist(), 0]):
        if is_on and start is None:
            start = index
        if not is_on and start is not None:
            run.append((start, index))
            start = None
    return run


def by_hand(rewards, mask, uid, tensors, columns):
    lines = []
    for row in range(len(mask)):
        runs = runs_of(mask[row].numpy())
        for index, (start, stop) in enumerate(runs):
            first = 0 if index == 0 else start
            last = runs[index + 1][0] if index + 1 < len(runs) else mask.shape[1]
            lines.append((row, index, start, stop, float(rewards[row, first:last].double().sum())))
    role = columns.get("sparring_role", ["player"] * len(mask))
    roles = sorted(set(role))
    episode = columns.get("sparring_episode", range(len(mask)))
    prompts = sorted(set(uid))
    seats = [roles.index(r) if "sparring_episode" in columns else 0 for r in role]
    lines.sort(key=lambda line: (int(episode[line[0]]), seats[line[0]], line[0], line[1]))

    def ints(values):
        return np.array(list(values), dtype=np.int64)

    def summed(name):
        return (
            np.array([float(tensors[name][row, start:stop].double().sum()) for row, _, start, stop, _ in lines])
            if tensors
            else None
        )

    def turn(name):
        return [columns[f"sparring_{name}"][line[0]][line[1]] for line in lines] if columns else None

    reward = np.array([line[4] for line in lines])
    component_values = np.array(turn("component_best_action")) if columns else None
    group_role = sorted({(uid[line[0]], role[line[0]]) for line in lines})
    plain_states = [
        group_role.index((uid[line[0]], role[line[0]])) if line[1] == 0 else 1000 + index
        for index, line in enumerate(lines)
    ]
    trajectory = ints(line[0] for line in lines)
    table = TurnTable(
        episode=ints(int(episode[line[0]]) for line in lines),
        group=ints(prompts.index(uid[line[0]]) for line in lines),
        trajectory=np.cumsum(np.diff(trajectory, prepend=trajectory[0]) != 0),
        game=ints(0 for _ in lines),
        role=ints(roles.index(role[line[0]]) for line in lines),
        seat=ints(seats[line[0]] for line in lines),
        agent=ints(0 for _ in lines),
        turn_index=ints(line[1] for line in lines),
        reward=reward,
        done=np.append(np.diff(trajectory) != 0, True),
        state_key=ints(turn("state") if columns else plain_states),
        legal=np.ones(len(lines), dtype=bool),
        n_tokens=ints(line[3] - line[2] for line in lines),
        action=ints(turn("action")) if columns else None,
        view=ints(turn("view")) if columns else None,
        components={"best_action": component_values, "game": reward - component_values} if columns else {},
        logprob=summed("rollout_log_probs"),
        old_logprob=summed("old_log_probs"),
        reference_logprob=summed("ref_log_prob"),
        value=np.array([float(tensors["values"][row, start]) for row, _, start, _, _ in lines]) if tensors else None,
        token_value=np.concatenate(
            [tensors["values"][row, start:stop].double().numpy() for row, _, start, stop, _ in lines]
        )
        if tensors
        else None,
        game_names=("game",),
        role_names=tuple(roles),
        agent_names=("learner",),
        action_names=("0", "1", "2") if columns else (),
        view_names=("0", "1", "2") if columns else (),
    )
    return table, [(row, start, stop) for row, _, start, stop, _ in lines]


def placed(values, places, shape, level):
    out, number = torch.zeros(shape), 0
    for turn, (row, start, stop) in enumerate(places):
        for token in range(start, stop):
            out[row, token] = values[turn] if level == "turn" else values[number]
            number += 1
    return out


VARIANTS = sorted(bridge.ESTIMATORS)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_estimator_gives_what_our_library_gives(name):
    estimator = bridge.ESTIMATORS[name]
    assert core_algos.get_adv_estimator_fn(name) is estimator
    estimator.load_state({})
    rewards, mask, uid = batch(3)
    tensors, columns = everything(rewards, mask)

    def call():
        return estimator(rewards, mask, index=uid, config=AlgoConfig(), non_tensor_batch=columns, **tensors)

    missing = registry.bind("credit", estimator.name, preset=estimator.preset).needs & NEVER
    if missing:
        with pytest.raises(CreditError) as error:
            call()
        assert any(VERL_HINTS[column] in str(error.value) for column in missing), error.value
        return
    table, places = by_hand(rewards, mask, uid, tensors, columns)
    bound = registry.bind("credit", estimator.name, preset=estimator.preset)
    first = bound(table, {})
    for credit in (first, bound(table, first.state)):
        advantages, returns = call()
        expected = placed(credit.advantages, places, mask.shape, credit.level)
        torch.testing.assert_close(advantages, expected, rtol=1e-6, atol=1e-6)
        assert advantages.dtype == torch.float32
        if credit.value_targets is None:
            torch.testing.assert_close(returns, advantages)
        else:
            level = "token" if "token_value" in bound.plugin.needs else "turn"
            torch.testing.assert_close(
                returns, placed(credit.value_targets, places, mask.shape, level), rtol=1e-6, atol=1e-6
            )
        assert estimator.state() == credit.state


@pytest.mark.parametrize("turns", [False, True])
@pytest.mark.parametrize(
    ("ours", "theirs"), [("grpo", "grpo"), ("rloo", "rloo"), ("rloo", "rloo_vectorized"), ("grpo_dr_grpo", "grpo")]
)
def test_equals_verls_own(ours, theirs, turns):
    for seed in range(5):
        rewards, mask, uid = batch(seed, turns=turns)
        config = AlgoConfig()
        options = {"norm_adv_by_std_in_grpo": False} if "dr_grpo" in ours else {}
        expected, _ = core_algos.get_adv_estimator_fn(theirs)(
            token_level_rewards=rewards, response_mask=mask, index=uid, config=config, **options
        )
        got, _ = core_algos.get_adv_estimator_fn("sparring_" + ours)(
            token_level_rewards=rewards, response_mask=mask, index=uid, config=config
        )
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


def test_rows_of_a_game_are_joined_and_empty_ones_count():
    rewards, mask, _ = batch(0)
    separate_groups = np.array([str(row) for row in range(len(mask))], dtype=object)
    verl_advantages, _ = core_algos.get_adv_estimator_fn("rloo")(rewards, mask, separate_groups)
    assert (bridge.ESTIMATORS["sparring_rloo"](rewards, mask, separate_groups)[0] == 0).all()
    assert (verl_advantages != 0).any()
    rewards, mask, uid = batch(0, turns=False)
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
    rewards, mask, uid = batch(0)
    estimator = bridge.ESTIMATORS["sparring_grpo"]
    advantages, _ = bridge.ESTIMATORS["sparring_grpo_dr_grpo"](rewards, mask, uid)
    options = OmegaConf.create({"gamma": 1.0, "sparring": {"divide_by_std": False}})
    torch.testing.assert_close(estimator(rewards, mask, uid, config=options)[0], advantages)
    with pytest.raises(ConfigError, match="divide_by_sdt"):
        estimator(rewards, mask, uid, config={"sparring": {"divide_by_sdt": False}})
    with pytest.raises(ConfigError, match="report the progress"):
        bridge.ESTIMATORS["sparring_rae"](rewards, mask, uid, config={"sparring": {"decay": SCHEDULE}})
    rewards, mask, uid = batch(0)
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
        bridge.ESTIMATORS["sparring_grpo"](*batch(0), non_tensor_batch=columns)


def test_running_state_is_kept_and_restored():
    rewards, mask, uid = batch(0)
    rae = bridge.ESTIMATORS["sparring_rae"]
    bridge.load_state({})
    first, _ = rae(rewards, mask, uid)
    saved_state = bridge.state()
    second, _ = rae(rewards, mask, uid)
    assert not torch.equal(first, second)
    bridge.load_state(saved_state)
    torch.testing.assert_close(rae(rewards, mask, uid)[0], second)
    bridge.load_state({})
    torch.testing.assert_close(rae(rewards, mask, uid)[0], first)


def test_the_trainer_passes_columns_once_wrapped():
    from verl import DataProto
    from verl.trainer.ppo import ray_trainer as trainer

    rewards, mask, uid = batch(3)
    tensors, columns = everything(rewards, mask)
    data = DataProto.from_dict(
        tensors={"token_level_rewards": rewards, "response_mask": mask, **tensors}, non_tensors={"uid": uid, **columns}
    )
    config = OmegaConf.create({"adv_estimator": "sparring_gigpo"})
    original = trainer.compute_advantage
    try:
        with pytest.raises(CreditError, match="pass_columns"):
            trainer.compute_advantage(data, adv_estimator="sparring_gigpo", config=config)
        bridge.pass_columns()
        bridge.pass_columns()
        assert trainer.compute_advantage.__wrapped__ is original
        advantages = trainer.compute_advantage(data, adv_estimator="sparring_gigpo", config=config).batch["advantages"]
    finally:
        trainer.compute_advantage = original
    expected, _ = bridge.ESTIMATORS["sparring_gigpo"](rewards, mask, uid, non_tensor_batch=columns, **tensors)
    torch.testing.assert_close(advantages, expected)


def tensors_of(seed=0, spread=0.3):
    _, mask, _ = batch(seed)
    draw = np.random.Generator(np.random.Philox(seed + 100))
    old = torch.tensor(-draw.random(size=tuple(mask.shape)), dtype=torch.float32)
    logprobs = (old + torch.tensor(draw.normal(size=tuple(mask.shape)) * spread, dtype=torch.float32)).requires_grad_(
        True
    )
    advantages = torch.tensor(draw.normal(size=tuple(mask.shape)), dtype=torch.float32) * mask
    return old, logprobs, advantages, mask.bool()


def actor(**changes):
    settings = {"strategy": "fsdp", "rollout_n": 1, "ppo_micro_batch_size_per_gpu": 1, "use_dynamic_bsz": False}
    names = {field.name for field in dataclasses.fields(ActorConfig)}
    config = ActorConfig(
        **{key: value for key, value in {**settings, **changes}.items() if key in names and key != "global_batch_info"}
    )
    if "global_batch_info" in changes:
        config.global_batch_info.update(changes["global_batch_info"])
    return config


MODES = ["token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]


@pytest.mark.parametrize("info", [{}, {"dp_size": 2, "batch_num_tokens": 300, "global_batch_size": 40}])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("weights", [False, True])
def test_ppo_clip_equals_vanilla(mode, info, weights):
    for seed in range(3):
        results = []
        for name in ("vanilla", "sparring_ppo_clip_dual_clip"):
            old, now, advantages, mask = tensors_of(seed, spread=1.5)
            factor = torch.rand(mask.shape, generator=torch.Generator().manual_seed(seed)) if weights else None
            loss, _ = core_algos.get_policy_loss_fn(name)(
                old_log_prob=old,
                log_prob=now,
                advantages=advantages,
                response_mask=mask,
                loss_agg_mode=mode,
                config=actor(global_batch_info=info),
                rollout_is_weights=factor,
            )
            (gradient,) = torch.autograd.grad(loss, now)
            results.append((loss.detach(), gradient))
        torch.testing.assert_close(results[1][0], results[0][0], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(results[1][1], results[0][1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", sorted(bridge.LOSSES))
def test_every_loss_is_registered_and_works_or_names_missing_columns(name):
    old, now, advantages, mask = tensors_of()
    loss = core_algos.get_policy_loss_fn(name)
    assert loss is bridge.LOSSES[name]
    arguments = dict(
        old_log_prob=old,
        log_prob=now,
        advantages=advantages,
        response_mask=mask,
        loss_agg_mode="token-mean",
        config=actor(),
    )
    try:
        value, metrics = loss(**arguments)
    except ConfigError as error:
        assert "which verl does not pass to losses" in str(error) or "only weighs other losses" in str(error)
        return
    assert value.ndim == 0 and math.isfinite(value.item())
    (gradient,) = torch.autograd.grad(value, now)
    assert gradient.isfinite().all() and (gradient[~mask] == 0).all() and (gradient != 0).any()
    assert all(key.startswith("actor/") and isinstance(figure, float) for key, figure in metrics.items())


def test_most_losses_work_and_see_rows_or_runs():
    working = 0
    for loss in bridge.LOSSES.values():
        old, now, advantages, mask = tensors_of()
        try:
            loss(old, now, advantages, mask)
        except ConfigError:
            continue
        working += 1
    assert working >= 12
    old, now, advantages, mask = tensors_of()
    by_row = core_algos.get_policy_loss_fn("gspo")(
        old,
        now,
        advantages,
        mask,
        loss_agg_mode="seq-mean-token-mean",
        config=actor(clip_ratio_low=3e-4, clip_ratio_high=4e-4),
    )[0]
    torch.testing.assert_close(
        bridge.LOSSES["sparring_gspo"](old, now, advantages, mask, "seq-mean-token-mean")[0],
        by_row,
        rtol=1e-5,
        atol=1e-5,
    )
    by_turn = bridge.register_loss("gspo_by_turn", {"gspo": {"level": "turn"}})(
        old, now, advantages, mask, "seq-mean-token-mean"
    )[0]
    assert not torch.allclose(by_turn, by_row)


def test_weighted_sums_of_losses():
    old, now, advantages, mask = tensors_of()
    twice = bridge.register_loss("twice", {"ppo_clip": {"weight": 2.0, "clip_high": 0.28}})
    assert core_algos.get_policy_loss_fn("twice") is twice
    dapo = bridge.LOSSES["sparring_ppo_clip_dapo"](old, now, advantages, mask)[0]
    torch.testing.assert_close(twice(old, now, advantages, mask)[0], 2.0 * dapo)
    with pytest.raises(ConfigError, match="clip_hihg"):
        bridge.register_loss("wrong", {"ppo_clip": {"clip_hihg": 0.28}})
    with pytest.raises(ConfigError, match="not schedules"):
        bridge.register_loss("wrong", {"ppo_clip": {"clip_high": SCHEDULE}})
    masked = bridge.register_loss("masked", {"ppo_clip": {}, "probability_mask": {}})
    assert math.isfinite(masked(old, now, advantages, mask)[0].item())


def test_an_empty_micro_batch_works_and_skipped_losses_have_a_reason():
    old, now, advantages, mask = tensors_of()
    value, metrics = bridge.LOSSES["sparring_ppo_clip"](old, now, advantages, torch.zeros_like(mask), config=actor())
    assert value.item() == 0.0 and metrics == {}
    value.backward()
    old, now, advantages, mask = tensors_of()
    for name, hint in {
        "entropy_bonus": "entropy_coeff",
        "kl_penalty": "use_kl_loss",
        "truncated_is": "rollout_correction",
        "etr": "group|outcome",
    }.items():
        with pytest.raises(ConfigError, match=hint):
            bridge.LOSSES["sparring_" + name](old, now, advantages, mask)
