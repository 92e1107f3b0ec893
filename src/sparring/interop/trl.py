"""TRL's GRPOTrainer with Sparring's estimators and, optionally, Sparring's losses.

A completion is a trajectory, and the generations of one prompt are a group. Without tools, an
environment or a rollout function, a completion is one turn. With them, every unbroken span of the
model's own tokens (``completion_mask * tool_mask``) is a turn.

The last turn's reward is the weighted sum of the reward functions. Each function is also a reward
component of the same name. Further columns come from the data set or from the extra fields of a
``rollout_func``: ``sparring_role``, ``sparring_view`` and so on (see ``rows.py``). The column
``sparring_turn_reward`` holds a list with one reward per turn, which is added to the turn's.

Only this module imports TRL; tested with 1.16.0.

Legend: B rows, L tokens of a row, N turns, F reward functions.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError, CreditError
from sparring.core.records import FloatArray, IntArray
from sparring.interop.rows import PREFIX, TRL_HINTS, TrainerRows, estimate
from sparring.interop.spans import Spans, spans
from sparring.interop.terms import Terms

HINTS_FOR_LOSSES = {
    "reference_logprobs": (
        "set beta above 0, so that TRL uses a reference (the weight of Sparring's loss counts, not "
        "beta)"
    ),
    "old_logprobs": "set use_vllm, so that TRL keeps the sampler's log-probabilities",
    "values": "GRPOTrainer has no critic",
}
LOSS_TYPES = ("grpo", "bnpo", "dr_grpo", "dapo")
MULTIMODAL = (
    *(
        "pixel_values",
        "image_grid_thw",
        "num_images",
        "pixel_attention_mask",
        "spatial_shapes",
        "num_tiles",
    ),
    *("image_sizes", "token_type_ids", "mm_token_type_ids", "image_position_ids"),
)


def available_fields(trainer: Any) -> frozenset[str]:
    """Return the fields in NEEDS of losses that TRL supplies with these settings."""
    needs = {"whole", "entropy"}
    if trainer.beta != 0.0:
        needs.add("reference_logprobs")
    if trainer.use_vllm and trainer.vllm_importance_sampling_correction:
        needs.add("old_logprobs")
    return frozenset(needs)


def check_losses(trainer: Any, terms: Terms) -> None:
    """Raise ConfigError for settings that only TRL's loss reads or Sparring's losses cannot use."""
    args = trainer.args
    conflicts = {
        "importance_sampling_level": trainer.importance_sampling_level != "token",
        "off_policy_mask_threshold": trainer.off_policy_mask_threshold is not None,
        "top_entropy_quantile": trainer.top_entropy_quantile < 1.0,
        "delta": args.delta is not None,
        "entropy_coef or entropy_target": trainer._entropy_bonus_enabled,
        "router_aux_loss_coef": trainer.aux_loss_enabled,
        "beta": trainer.beta != 0.0 and "reference_logprobs" not in terms.needs,
    }
    for name in (name for name, value in conflicts.items() if value):
        raise ConfigError(
            f"{name} belongs to TRL's own loss, which ``losses`` replaces; leave it out, or "
            "add a loss of Sparring with the same effect."
        )
    if trainer.loss_type not in LOSS_TYPES:
        raise ConfigError(
            f"loss_type {trainer.loss_type!r} is a loss of TRL; with ``losses`` it must be a way "
            f"to average them: {', '.join(LOSS_TYPES)}."
        )
    if "whole" in terms.needs and args.gradient_accumulation_steps > 1:
        raise ConfigError(
            "a loss that looks at the whole minibatch needs gradient_accumulation_steps=1; "
            "raise per_device_train_batch_size."
        )
    terms.check()


TURN_REWARD = "turn_reward"
Record = Mapping[str, Any]
"""The numbers and columns of one completion as plain lists, which processes can exchange."""


def make_records(
    turns: Spans, numbers: Mapping[str, FloatArray], inputs: Sequence[Mapping[str, Any]]
) -> list[Record]:
    """Return this process's completions as records.

    Args:
        turns: positions of the turns.
        numbers: columns of the turn table, by name, [N] each.
        inputs: rows of the data set, with the fields of a rollout function.
    """
    ends, n_tokens = np.cumsum(turns.num_turns), turns.n_tokens
    return [
        {
            "n_tokens": n_tokens[end - count : end].tolist(),
            "numbers": {
                name: values[end - count : end].tolist() for name, values in numbers.items()
            },
            "columns": {
                key.removeprefix(PREFIX): value
                for key, value in row.items()
                if key.startswith(PREFIX)
            },
        }
        for row, count, end in zip(inputs, turns.num_turns.tolist(), ends.tolist(), strict=True)
    ]


def as_rows(
    completions: Sequence[Record],
    weighted_rewards: FloatArray,
    group: Sequence[int],
    functions: Sequence[str],
) -> TrainerRows:
    """Return the completions as a batch for an estimator.

    Args:
        completions: records of all processes.
        weighted_rewards: reward times weight of each function [B, F]; a completion's last turn
            gets their sum.
        group: number of each completion's prompt [B].
        functions: names of the reward functions.

    Raises:
        CreditError: ``sparring_turn_reward`` does not have one entry per turn.
    """
    num_turns = np.array([len(record["n_tokens"]) for record in completions], dtype=np.int64)
    components: dict[str, FloatArray] = {name: np.zeros(int(num_turns.sum())) for name in functions}
    for index, name in enumerate(functions):
        components[name][np.cumsum(num_turns) - 1] += weighted_rewards[:, index]
    columns = {
        name: [record["columns"].get(name) for record in completions]
        for name in completions[0]["columns"]
    }
    reward: FloatArray = np.sum(list(components.values()), axis=0)
    if TURN_REWARD in columns:
        reward = reward + _join_turn_rewards(columns.pop(TURN_REWARD), num_turns)
    return TrainerRows(
        num_turns=num_turns,
        n_tokens=np.array(
            [num_tokens for record in completions for num_tokens in record["n_tokens"]],
            dtype=np.int64,
        ),
        reward=reward,
        group=group,
        columns=columns,
        components=components,
        numbers={
            name: np.array([value for record in completions for value in record["numbers"][name]])
            for name in completions[0]["numbers"]
        },
    )


def outcomes(rows: TrainerRows) -> tuple[list[tuple[Any, Any]], FloatArray]:
    """Return ((prompt, role) of each row, by which losses group rows; return of each row [B])."""
    roles = rows.columns.get("role", [None] * len(rows.num_turns))
    starts = np.cumsum(rows.num_turns) - rows.num_turns
    return list(zip(rows.group, roles, strict=True)), np.add.reduceat(rows.reward, starts)


def _join_turn_rewards(rewards: Sequence[Any], num_turns: IntArray) -> FloatArray:
    for row, (values, count) in enumerate(zip(rewards, num_turns.tolist(), strict=True)):
        if values is None or len(values) != count:
            raise CreditError(
                f"column {PREFIX + TURN_REWARD!r}, row {row}: {values!r} for {count} turns; write "
                f"a list of {count}."
            )
    return np.concatenate([np.asarray(values, dtype=np.float64) for values in rewards])


try:
    GRPOTrainer: Any = importlib.import_module("trl").GRPOTrainer
    accelerate_utils: Any = importlib.import_module("accelerate.utils")
except ImportError as error:
    raise ConfigError(
        f"sparring.interop.trl needs the package trl ({error}); install it with: pip install "
        "trl==1.16.0"
    ) from error

STATE_FILE = "sparring_credit.json"
NUMBERS = {
    "old_per_token_logps": "old_logprob",
    "ref_per_token_logps": "reference_logprob",
    "sampling_per_token_logps": "logprob",
}


class SparringGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer with advantages from one of Sparring's estimators.

    Args:
        args: as in GRPOTrainer; ``scale_rewards`` has no effect.
        credit: name of an estimator; ``sparring list credit`` shows them.
        credit_preset: a preset of the estimator.
        credit_options: options of the estimator.
        losses: losses that replace TRL's: options by name of the loss, with ``weight`` and
            ``preset``. ``loss_type`` then says how they are averaged (grpo, bnpo, dr_grpo or dapo),
            and TRL's ``epsilon`` and ``beta`` have no effect.
        options: as in GRPOTrainer.

    Raises:
        ConfigError: a name or option is unknown, or settings contradict each other.
    """

    def __init__(
        self,
        *args: Any,
        credit: str = "grpo",
        credit_preset: str | None = None,
        credit_options: Mapping[str, Any] | None = None,
        losses: Mapping[str, Mapping[str, Any]] | None = None,
        **options: Any,
    ) -> None:
        self._credit = bind("credit", credit, credit_options, preset=credit_preset)
        if self._credit.schedules:
            raise ConfigError(
                f"credit {credit!r}: write numbers, not "
                f"schedules: {sorted(self._credit.schedules)}."
            )
        self._terms: Terms | None = None
        self._rewards_by_function: Tensor | None = None
        self._rows: Sequence[Mapping[str, Any]] = ()
        self.credit_state: dict[str, Any] = {}
        super().__init__(*args, **options)
        if self.multi_objective_aggregation != "sum_then_normalize":
            raise ConfigError(
                "credit works on the sum of the rewards; leave multi_objective_aggregation at "
                "'sum_then_normalize'."
            )
        if losses is not None:
            self._terms = Terms(
                losses, trainer="TRL", available=available_fields(self), hints=HINTS_FOR_LOSSES
            )
            check_losses(self, self._terms)

    def _calculate_rewards(
        self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any
    ) -> Tensor:
        rewards: Tensor = super()._calculate_rewards(
            inputs, prompts, completions, completion_ids_list
        )
        self._rewards_by_function, self._rows = rewards, inputs
        return rewards

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        """Replace TRL's advantages by the estimator's: [B], or [B, L] if tokens of a row differ."""
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        assert self._rewards_by_function is not None
        mask = output["completion_mask"] * output.get("tool_mask", 1)
        turns = spans(mask.cpu().numpy().astype(bool))
        numbers = {
            name: turns.sum_over_sampled(_to_float64(output[key]))
            for key, name in NUMBERS.items()
            if output.get(key) is not None
        }
        if "old_logprob" in numbers:
            numbers.setdefault("logprob", numbers["old_logprob"])
        all_records = accelerate_utils.gather_object(make_records(turns, numbers, self._rows))
        by_row, per_row = self._advantages(all_records, _to_float64(self._rewards_by_function))
        start, template = self.accelerator.process_index * len(mask), output["advantages"]
        local_rows = by_row[start : start + len(mask)]
        if all(len(record["n_tokens"]) == 1 for record in all_records) and all(
            (row == row[:1]).all() for row in by_row
        ):
            per_completion = [float(row[0]) if len(row) else 0.0 for row in local_rows]
            output["advantages"] = torch.tensor(
                per_completion, device=template.device, dtype=template.dtype
            )
        else:
            per_token = torch.zeros(mask.shape, device=template.device, dtype=template.dtype)
            per_token[mask.bool()] = torch.from_numpy(np.concatenate(local_rows)).to(
                template.device, template.dtype
            )
            output["advantages"] = per_token
        if self._terms is not None and "whole" in self._terms.needs:
            for name, values in per_row.items():
                output[PREFIX + name] = torch.from_numpy(values[start : start + len(mask)]).to(
                    template.device
                )
        log = self._logs["advantages"]
        for _ in range(min(len(all_records), len(log))):
            log.pop()
        log.extend(float(row.mean()) if len(row) else 0.0 for row in by_row)
        return output

    def _advantages(
        self, completions: Sequence[Record], rewards: FloatArray
    ) -> tuple[list[FloatArray], dict[str, Any]]:
        """Return (advantages of the sampled tokens of each row, group and outcome of the rows).

        A row without any reward has advantages of 0 and is alone in its group.
        """
        is_training = bool(self.model.training)
        group_size = self.num_generations if is_training else self.num_generations_eval
        indices = np.flatnonzero(~np.isnan(rewards).all(axis=1))
        advantages = [np.zeros(sum(record["n_tokens"])) for record in completions]
        num_rows = len(completions)
        group, outcome = -1 - np.arange(num_rows), np.zeros(num_rows, dtype=np.float32)
        if not len(indices):
            return advantages, {"group": group, "outcome": outcome}
        weighted = np.nan_to_num(rewards * _to_float64(self.reward_weights))[indices]
        records = [completions[row] for row in indices.tolist()]
        rows = as_rows(records, weighted, (indices // group_size).tolist(), self.reward_func_names)
        result = estimate(self._credit, rows, self.credit_state, TRL_HINTS)
        if is_training:
            self.credit_state = result.credit.state
        for name, value in result.credit.metrics.items():
            self._metrics["train" if is_training else "eval"][
                f"{self._credit.plugin.name}/{name}"
            ].append(float(value))
        ends = np.cumsum([len(advantages[row]) for row in indices.tolist()])
        for row, values in zip(
            indices.tolist(), np.split(result.advantages, ends[:-1]), strict=True
        ):
            advantages[row] = values
        group_keys, outcome[indices] = outcomes(rows)
        group_numbers = {key: index for index, key in enumerate(dict.fromkeys(group_keys))}
        group[indices] = [group_numbers[key] for key in group_keys]
        return advantages, {"group": group, "outcome": outcome}

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        if self._terms is None:
            loss: Tensor = super()._compute_loss(model, inputs)
            return loss
        mode = "train" if self.model.training else "eval"
        mask = (inputs["completion_mask"] * inputs.get("tool_mask", 1)).bool()
        logprobs, entropies, _ = self._get_per_token_logps_and_entropies(
            model,
            torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1),
            torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1),
            inputs["completion_ids"].size(1),
            compute_entropy=True,
            compute_aux_loss=False,
            **{name: inputs[name] for name in MULTIMODAL if name in inputs},
        )
        if not bool(mask.any()):
            zero: Tensor = (logprobs * 0.0).sum()
            return zero
        advantages, old_logprobs = inputs["advantages"], inputs.get("old_per_token_logps")
        columns = {
            "logprobs": logprobs,
            "old_logprobs": logprobs.detach() if old_logprobs is None else old_logprobs,
            "advantages": (advantages[:, None] if advantages.dim() == 1 else advantages).expand_as(
                logprobs
            ),
            "entropy": entropies,
        }
        if "ref_per_token_logps" in inputs:
            columns["reference_logprobs"] = inputs["ref_per_token_logps"]
        per_row = {
            name: inputs[PREFIX + name] for name in ("group", "outcome") if PREFIX + name in inputs
        }
        batch = self._terms.batch(
            mask, columns, sampler=inputs.get("sampling_per_token_logps"), per_row=per_row
        )
        ratios = (
            inputs.get("importance_sampling_ratio")
            if "old_logprobs" not in self._terms.needs
            else None
        )
        combined = self._terms(
            batch, factor=None if ratios is None else ratios.expand_as(logprobs)[mask]
        )
        for name, value in {
            **combined.metrics,
            "entropy": float(entropies.detach()[mask].mean()),
        }.items():
            self._metrics[mode][name].append(value)
        per_token = torch.zeros_like(logprobs).masked_scatter(
            mask, combined.values.to(logprobs.dtype)
        )
        steps = self.current_gradient_accumulation_steps if mode == "train" else 1.0
        return self._average_by_loss_type(per_token, mask, inputs, steps) + combined.summed / steps

    def _average_by_loss_type(
        self, per_token: Tensor, mask: Tensor, inputs: Mapping[str, Any], steps: float
    ) -> Tensor:
        if self.loss_type == "grpo":
            return (per_token.sum(-1) / mask.sum(-1).clamp(min=1)).mean() / steps
        if self.loss_type == "bnpo":
            return per_token.sum() / mask.sum() / steps
        if self.loss_type == "dr_grpo":
            max_length = int(self.max_completion_length)
            return per_token.sum() / (len(per_token) * max_length) / steps
        normaliser = inputs["num_items_in_batch"].clamp(min=1.0) / self.accelerator.num_processes
        if self.model.training:  # one generated batch is used for several updates
            normaliser = (
                normaliser
                * self.current_gradient_accumulation_steps
                / self.args.steps_per_generation
            )
        loss: Tensor = per_token.sum() / normaliser
        return loss

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        if self.args.should_save:
            folder = (
                Path(self._get_output_dir(trial=trial)) / f"checkpoint-{self.state.global_step}"
            )
            (folder / STATE_FILE).write_text(json.dumps(self.credit_state))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        file = None if checkpoint is None else Path(checkpoint) / STATE_FILE
        if file is not None and file.is_file():
            self.credit_state = json.loads(file.read_text())


def _to_float64(tensor: Tensor) -> FloatArray:
    numbers: FloatArray = tensor.detach().double().cpu().numpy()
    return numbers
