"""Seconds of advantage estimators: GiGPO and HGPO compared with the loops of their authors' code,
and all critic-free estimators on a million turns.

The loops below reimplement the published algorithms (GiGPO: arXiv 2505.10978,
core_gigpo.py of verl-agent; HGPO: arXiv 2602.22817, its core_hgpo.py; both Apache-2.0):
dictionaries of hashed observations, Python lists, torch scalars, one search of the whole batch per
group. They differ from the authors' code in two ways. Numbers are float64, so that results can be
compared to 1e-6. The loops get the discounted returns for free, for which the authors' code
searches the whole batch once per turn.

With `--quick` it runs on little data.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections import defaultdict

import numpy as np
import torch
from common import median_seconds
from published import record, settings

from sparring.config.plugins import registry
from sparring.core.records import TurnTable
from sparring.core.rng import Stream
from sparring.ops.groups import discounted_returns

parser = argparse.ArgumentParser(description=__doc__)
options = settings(parser)
IS_QUICK = options.quick
TURNS_COMPARED, TURNS_ALONE = (5_000, 20_000) if IS_QUICK else (100_000, 1_000_000)
MEMBERS, POSITIONS = 8, 6
# returns with few binary digits have exact sums, so both codes agree which advantages are zero
GAMMA = 0.5
HISTORY = 2


def random_table(size):
    """Return a table of about ``size`` turns: two roles, groups of 8 games of 1 to 11 turns, few
    views per group, rewards at the end.
    """
    generator = Stream.from_seed(0).generator()
    lengths = generator.integers(1, 12, size // 6)
    count, size = len(lengths), int(lengths.sum())

    def column(values):
        return np.repeat(np.asarray(values, dtype=np.int64), lengths)

    done = np.zeros(size, dtype=bool)
    done[np.cumsum(lengths) - 1] = True
    turn_index = np.arange(size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    reward = np.where(done, generator.integers(0, 2, size), 0.0)
    view = np.minimum(turn_index, 3) * POSITIONS + generator.integers(0, POSITIONS, size)
    optional = [
        field.name for field in dataclasses.fields(TurnTable) if field.type == "FloatArray | None"
    ]
    return TurnTable(
        episode=column(np.arange(count) // 2),
        group=column(np.arange(count) // (2 * MEMBERS)),
        trajectory=column(np.arange(count)),
        game=column(np.zeros(count)),
        role=column(np.arange(count) % 2),
        seat=column(np.arange(count) % 2),
        agent=column(np.zeros(count)),
        turn_index=turn_index,
        reward=reward,
        components={"game": 0.75 * reward, "best_action": 0.25 * reward},
        done=done,
        state_key=view + 4 * POSITIONS * generator.integers(0, 2, size),
        legal=np.ones(size, dtype=bool),
        n_tokens=generator.integers(1, 4, size),
        action=generator.integers(0, 3, size),
        view=view,
        candidate_judged=np.ones(size, dtype=bool),
        **{name: -generator.random(size) for name in optional},
        game_names=("game",),
        role_names=("first", "second"),
        agent_names=("learner",),
        action_names=("a", "b", "c"),
        view_names=tuple(f"position {index}" for index in range(4 * POSITIONS)),
    )


def authors_inputs(turns):
    """Return a table in the format of the authors' code: string arrays per step, and tensors."""
    groups = np.array(
        [f"task-{group}-{role}" for group, role in zip(turns.group, turns.role, strict=True)],
        dtype=object,
    )
    trajectories = np.array([f"game-{number}" for number in turns.trajectory], dtype=object)
    observations = np.array([turns.view_names[view] for view in turns.view], dtype=object)
    trajectory_returns = torch.tensor(
        np.bincount(turns.trajectory, weights=turns.reward)[turns.trajectory]
    )
    returns = torch.tensor(discounted_returns(turns.reward, turns.trajectory, gamma=GAMMA))
    return groups, trajectories, observations, trajectory_returns, returns


def subtract_group_means(scores, index, *, keep_lone):
    """Subtract from every step's score the mean of its group, through lists of torch scalars."""
    scores, lists, means = scores.clone(), defaultdict(list), {}
    for step in range(len(scores)):
        lists[index[step]].append(scores[step])
    for name, members in lists.items():
        lone = keep_lone and len(members) == 1
        means[name] = (
            torch.tensor(0.0) if lone else torch.mean(torch.tensor(members, dtype=torch.float64))
        )
    for step in range(len(scores)):
        scores[step] = scores[step] - means[index[step]]
    return scores


def authors_gigpo(groups, _, observations, trajectory_returns, returns):
    """Compute GiGPO, mode mean_norm: in each group, dictionaries of observations form the step
    groups.
    """
    names, count = np.empty(len(groups), dtype=object), 0
    for group in np.unique(groups):
        clusters = defaultdict(list)
        for step in np.where(groups == group)[0]:
            clusters[observations[step]].append(step)
        for steps in clusters.values():
            count += 1
            for step in steps:
                names[step] = f"step-group-{count}"
    return subtract_group_means(trajectory_returns, groups, keep_lone=True) + subtract_group_means(
        returns, names, keep_lone=False
    )


def steps_by_context(group, groups, trajectories, observations):
    """Return the steps of one group, by (length, last observations)."""
    steps_of, by_context = defaultdict(list), defaultdict(list)
    for step in np.flatnonzero(groups == group):
        steps_of[trajectories[step]].append(step)
    for steps in steps_of.values():
        seen = [observations[step] for step in steps]
        for turn, step in enumerate(steps):
            for length in range(1, min(HISTORY + 1, turn + 1) + 1):
                by_context[length, tuple(seen[turn + 1 - length : turn + 1])].append(step)
    return by_context


def authors_hgpo(groups, trajectories, observations, _, returns, epsilon=1e-6):
    """Compute HGPO, mode mean_std_norm: clusters by observations, then a weighted mean per step."""
    result = torch.zeros(len(groups), dtype=torch.float64)
    for group in np.unique(groups):
        items = defaultdict(list)
        for (length, _), steps in steps_by_context(
            group, groups, trajectories, observations
        ).items():
            if len(steps) < 2:
                continue
            values = torch.stack([returns[step] for step in steps])
            scores = (values - values.mean()) / (values.std(unbiased=False) + epsilon)
            for index, step in enumerate(steps):
                items[step].append((length, scores[index]))
        for step, levels in items.items():
            scores = torch.stack([score for _, score in levels])
            weights = torch.tensor([length + 1.0 for length, _ in levels], dtype=torch.float64)
            valid = scores != 0
            if valid.any():
                share = weights[valid] / (weights[valid].sum() + epsilon)
                result[step] = (share * scores[valid]).sum()
    return result


def compare_with_authors(name, released):
    """Return a row: seconds of our code and of the loops on the same turns; check that both return
    the same advantages.
    """
    turns = random_table(TURNS_COMPARED)
    estimate = registry.bind("credit", name, {"gamma": GAMMA}, preset="as_released")
    ours, inputs = estimate(turns, {}).advantages, authors_inputs(turns)
    began = time.perf_counter()
    theirs = released(*inputs).numpy()
    loops = time.perf_counter() - began
    error = float(np.max(np.abs(ours - theirs) / np.maximum(1.0, np.abs(theirs))))
    if error > 1e-6:
        sys.exit(f"{name}: ours and the released algorithm differ by {error:g}.")
    seconds = median_seconds(lambda: estimate(turns, {}), repeats=5)
    return {
        "estimator": name,
        "turns": len(turns.reward),
        "seconds": seconds,
        "released": loops,
        "ratio": loops / seconds,
        "error": error,
    }


def time_estimator(name, turns):
    """Return a row with the seconds of an estimator on a million turns."""
    estimate = registry.bind("credit", name)
    seconds = median_seconds(lambda: estimate(turns, {}), repeats=3, warm_up=1)
    return {"estimator": name, "turns": len(turns.reward), "seconds": seconds}


torch.set_num_threads(1)
rows = [compare_with_authors("gigpo", authors_gigpo), compare_with_authors("hgpo", authors_hgpo)]
million = random_table(TURNS_ALONE)
million = dataclasses.replace(
    million, attempt=million.turn_index // 4, note=million.turn_index % 4 == 3
)
critic_columns = {"value", "value_after", "token_value"}
critic_free_estimators = [
    name
    for name in registry.names("credit")
    if not registry.load("credit", name).needs & critic_columns
]
rows += [time_estimator(name, million) for name in critic_free_estimators]
record("credit", rows, options)
