"""Credit: implicit step rewards beside the episode's outcome (OPRL, iStar)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sparring.core.records import Credit, FloatArray, IntArray, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, start_groups, trajectory_returns
from sparring.ops.groups import leave_one_out_mean, standardise

NEEDS = {"old_logprob"}
NEEDS_BY = {"model": {"process": {"process_logprob"}, "policy": {"reference_logprob"}}}
PRESETS = {"policy": {"model": "policy"}}
# columns of the newer and the older model, whose log-probabilities make the step reward
COMPARED_COLUMNS = {
    "process": ("process_logprob", "old_logprob"),
    "policy": ("old_logprob", "reference_logprob"),
}


def oprl(
    turns: TurnTable,
    *,
    model: Literal["process", "policy"] = "process",
    beta: Annotated[float, Field(gt=0)] = 0.05,
    alpha: Annotated[float, Field(ge=0)] = 1.0,
    form: Literal["rloo", "grpo"] = "rloo",
) -> Credit:
    """Add the advantage of step rewards from a model that learns from pairs of episodes.

    What: A reward model, at first a copy of the policy, is trained at every step before credit. The
    model learns which of two episodes of one initial state and role has the better outcome. The
    step reward of a turn is the scaled log-ratio of its probabilities under the reward model and
    the policy.
    When to use: one reward at the end of many turns, and several episodes per initial state.
    Mathematics:
        r_t = beta (log pi_phi(turn t) - log pi_old(turn t))
    summed over the turn's tokens. pi_old is the policy before its update. pi_phi minimises the mean
    over pairs of episodes of
        -log sigmoid(Q_better - Q_worse)
    with Q the mean of r_t over the game's turns.
        A_E = R_i against the other trajectories of the (group, role)
        A_S = r_t against all other turns of the (group, role)
        A = A_E + alpha A_S
    "Against" means: minus the mean of the others ("rloo"), or (x - mean) / (sample deviation +
    1e-6) ("grpo").
    Shapes: advantages [N].
    Pitfalls:
        - The reward model doubles the memory of the trained weights; with adapters this is little.
        - The better episode is the one with the higher return; ties give no pair. With graded
          payoffs the best is paired with the worst, the second best with the second worst.
        - Groups of equal returns, and groups of one, have no pair.
        - The model learns from complete episodes. So turns after the decisive turn get a share of
          the credit, which grows with training. Their share is largest if unplayed replies can
          absorb the probability that the worse episodes lose: warm up first.
        - With beta 0.05, published for a step size of 1e-6, the loss stays near log 2 and the model
          keeps changing. Tiny models have larger steps and need a beta near 1.
        - The policy moves away from the process model's first weights. So r_t contains a part that
          no pair has trained.
        - A group of one trajectory, or of equal values, gives 0.
        - A_S depends on the turn itself, which biases the gradient.
        - The paper has step size 1e-6 for the reward model and 5e-7 for the policy; here both are
          equal, unless ``process.learning_rate`` is set.
        - The authors' code says that pairs are one to one, but uses every pair. To use every pair
          here, write ``process.pairs: all``.
        - With "policy", r_t starts at 0 and then rewards any change by training, right or wrong, so
          keep alpha small.
        - Only a run trains a reward model; in the credit lab, verl and TRL use "policy".
    Reference: Liu et al., 2025 (arXiv 2509.19199); Rafailov et al., 2024 (arXiv 2404.12358) for the
    policy's own ratio.
    Verified by: tests/methods/credit/test_judged_turns.py, tests/learn/test_process.py.

    Args:
        model: where the step reward comes from. "process" (default): the published reward model;
            its step size, updates and pairs are the recipe's section ``process``. "policy" (preset
            ``policy``) trains no second model: r_t = beta (log pi_old - log pi_ref), the ratio of
            the policy to the initial policy.
        beta: scale of step rewards, and the beta in the reward model's loss, above 0. "grpo"
            removes the scale. The default 0.05 is published for a step size of 1e-6.
        alpha: weight of the step term A_S, at least 0. 0 is ``rloo`` or ``grpo`` on returns; 1
            (default) counts both terms equally.
        form: how values are compared: "rloo" (default) subtracts the mean of the others, "grpo"
            subtracts the mean and divides by the sample deviation.
    """
    newer_column, older_column = COMPARED_COLUMNS[model]
    returns, first_rows = trajectory_returns(turns)
    groups, num_groups = start_groups(turns)
    step_rewards = beta * (turns.column(newer_column) - turns.column(older_column))
    trajectory_advantages = _relative_to_group(returns, groups[first_rows], num_groups, form)
    episode_advantages = broadcast_to_turns(trajectory_advantages, turns)
    step_advantages = _relative_to_group(step_rewards, groups, num_groups, form)
    metrics = {}
    if len(step_rewards):
        mean, deviation = float(step_rewards.mean()), float(step_rewards.std())
        metrics = {"step_reward_mean": mean, "step_reward_std": deviation}
    return Credit(advantages=episode_advantages + alpha * step_advantages, metrics=metrics)


def _relative_to_group(
    values: FloatArray, ids: IntArray, num_groups: int, form: Literal["rloo", "grpo"]
) -> FloatArray:
    if form == "rloo":
        return values - leave_one_out_mean(values, ids, num_groups)
    return standardise(values, ids, num_groups)
