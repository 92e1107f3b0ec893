import itertools
from collections import defaultdict

import numpy as np
import pytest
import torch

from sparring.config import LearnerConfig, resolve
from sparring.config.plugins.registry import bind
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import make_game
from sparring.learn.learner import Learner
from sparring.learn.pack import WeightedLoss, pack
from sparring.methods.credit.branch_grpo import branch_grpo
from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.mars2 import mars2
from sparring.methods.credit.spo_tree import spo_tree
from sparring.play.turn_table import ordered_turns, turn_table
from tests.hugging_face import hugging_face
from tests.play.plans.planned import ScriptedWalker, plan_of, play_by_plan, walk_by_plan
from tests.play.plays import make_specs

MOVES = ["red", "green", "red", "red", "red", "red", "green", "green", "green", "green"]


def test_the_credit_of_a_tree_by_hand():
    """The walks are r r r, g r r, and from their first turns r g g and g g g; green at the second step pays 1."""
    game = make_game("needle_chain", options={"length": 3, "needle": 2})
    specs = make_specs(game, 4, name="reader", group_size=4)
    episodes, _, _ = play_by_plan(
        plan_of("tree", branching=(2, 2)), specs, {"reader": ScriptedWalker(MOVES)}, group_size=4
    )
    turns = turn_table(episodes)
    assert [episode.returns[0] for episode in episodes] == [0.0, 0.0, 1.0, 1.0]
    # the value is 1/2 at the start and after the first step, so only the second step has credit
    assert spo_tree(turns).advantages.tolist() == [0, -0.5, 0, 0, -0.5, 0, 0, 0.5, 0, 0, 0.5, 0]
    # leaves have -1/2, -1/2, 1/2, 1/2; each first turn is shared by one of each sign, so it has 0
    assert branch_grpo(turns, divide_by_std=False).advantages.tolist() == [
        0,
        -0.5,
        -0.5,
        0,
        -0.5,
        -0.5,
        0,
        0.5,
        0.5,
        0,
        0.5,
        0.5,
    ]
    # r + 0.3 * (r - (parent + sibling) / 2) minus the mean 1/2: r = 1 has parent 1/2 and sibling 0
    node_reward = 0.5 + 0.3 * (1.0 - 0.25)
    assert mars2(turns, divide_by_std=False).advantages[[0, 1, 7]].tolist() == pytest.approx(
        [0.0, -node_reward, node_reward]
    )


def expected_gradient(estimate, plan, needle_step, green_probability, group_size=4):
    """Return the expected gradient per game of the logit of green, for each step, over all walks of two steps."""
    game = make_game("needle_chain", options={"length": 2, "needle": needle_step})
    gradient = np.zeros(2)
    num_sampled = 6 if plan == TREE_PLAN else 2 * group_size
    for colours in itertools.product((0, 1), repeat=num_sampled):
        specs = make_specs(game, group_size, name="reader", group_size=group_size)
        reader = ScriptedWalker(("red", "green")[colour] for colour in colours)
        episodes, _, _ = play_by_plan(plan, specs, {"reader": reader}, group_size=group_size)
        assert next(reader.moves, None) is None
        turns = turn_table(episodes)
        is_green = np.array([turns.action_names[action] == "green" for action in turns.action])
        probability = np.prod([green_probability if colour else 1 - green_probability for colour in colours])
        weighted_scores = estimate(turns) * (is_green - green_probability)
        gradient += (
            probability * np.array([weighted_scores[turns.turn_index == step].sum() for step in (0, 1)]) / group_size
        )
    return gradient


TREE_PLAN, NO_PLAN = plan_of("tree", branching=(2, 2)), plan_of("none")
GREEN_PROBABILITY = 0.3
EXACT_GRADIENT = GREEN_PROBABILITY * (1 - GREEN_PROBABILITY)
# the share of the exact gradient that is estimated, with four leaves of which two share each first turn
SECOND_STEP_SHARE = (
    3 / 4 - 2 * EXACT_GRADIENT / 4
)  # a node has three other leaves if both first turns are equal, otherwise one


@pytest.mark.always
@pytest.mark.parametrize(
    ("estimate", "plan", "shares"),
    [
        (lambda turns: spo_tree(turns).advantages, TREE_PLAN, (1 / 2, SECOND_STEP_SHARE)),
        (lambda turns: branch_grpo(turns, divide_by_std=False).advantages, TREE_PLAN, (1 / 2, 3 / 4)),
        (lambda turns: grpo(turns, divide_by_std=False).advantages, TREE_PLAN, (1 / 2, 3 / 4)),
        (lambda turns: branch_grpo(turns, divide_by_std=False).advantages, NO_PLAN, (3 / 4, 3 / 4)),
    ],
    ids=["spo_tree", "branch_grpo", "grpo", "branch_grpo without a plan"],
)
def test_the_estimated_share_of_the_exact_gradient(estimate, plan, shares):
    """With the needle at one step, the exact gradient is P (1 - P) at this step and 0 at the other."""
    assert expected_gradient(estimate, plan, 1, GREEN_PROBABILITY) == pytest.approx(
        [shares[0] * EXACT_GRADIENT, 0.0], abs=1e-12
    )
    assert expected_gradient(estimate, plan, 2, GREEN_PROBABILITY) == pytest.approx(
        [0.0, shares[1] * EXACT_GRADIENT], abs=1e-12
    )


def test_a_first_turn_shared_by_the_whole_group_has_no_advantage():
    game = make_game("needle_chain", options={"length": 2, "needle": 1})
    assert walk_by_plan(game, plan_of("tree", branching=(1, 4)), ["green", "red", "green", "red", "red"], group_size=4)[
        0
    ] == [
        "g r",
        "g g",
        "g r",
        "g r",
    ]
    specs = make_specs(game, 4, name="reader", group_size=4)
    agents = {"reader": ScriptedWalker(["green", "red", "green", "red", "red"])}
    turns = turn_table(play_by_plan(plan_of("tree", branching=(1, 4)), specs, agents, group_size=4)[0])
    assert not branch_grpo(turns).advantages.any() and not spo_tree(turns).advantages.any()


@pytest.mark.always
@pytest.mark.parametrize(
    "plan", [plan_of("tree", branching=(2, 2, 2)), plan_of("branch", threshold=0.8)], ids=["tree", "branch"]
)
def test_the_gradient_weight_of_a_shared_turn_is_the_sum_over_its_copies(plan):
    """The update equals one over distinct turns, each weighted by the advantages of all leaves below it."""
    sizes = {"hidden_size": 16, "layers": 1, "heads": 2, "context": 96}
    engine = LocalEngine(resolve({"environments": [{"name": "tic_tac_toe"}], "threads": 1, "model": sizes}))
    # the demonstrator's replies and actions correspond one to one
    specs = make_specs(engine.environments[0][0], 16, name="demonstrator", group_size=8)
    episodes, figures, _ = play_by_plan(plan, specs, {"demonstrator": engine.agent("demonstrator")}, group_size=8)
    assert figures["shared_turns"] > 0.05
    turns, num_copies = turn_table(episodes), defaultdict(int)
    branch_advantages, leaf_advantages = branch_grpo(turns).advantages, grpo(turns).advantages
    branch_weights, leaf_weights, num_tokens, ids_by_seat = defaultdict(float), defaultdict(float), 0, {}
    for row, (episode, turn) in enumerate(ordered_turns(episodes)):
        context_ids = ids_by_seat.setdefault((episode.episode_id, turn.seat), [])
        for segment in turn.segments:
            for token in segment.ids:
                if segment.kind == "sampled":
                    key = (episode.group_id, turn.seat, tuple(context_ids), token)
                    branch_weights[key] += branch_advantages[row]
                    leaf_weights[key] += leaf_advantages[row]
                    num_copies[key] += 1
                    num_tokens += 1
                context_ids.append(token)
    assert max(num_copies.values()) >= 3
    assert all(branch_weights[key] == pytest.approx(leaf_weights[key], abs=1e-9) for key in branch_weights)
    loss = 0.0
    for (_, _, context_ids, token), weight in branch_weights.items():
        inputs = torch.tensor([context_ids])
        logprobs = (
            hugging_face(engine.model.network)(inputs, attention_mask=torch.ones_like(inputs))
            .logits[0, -1]
            .log_softmax(-1)
        )
        loss = loss - weight * logprobs[token]
    (loss / num_tokens).backward()
    expected = {name: parameter.grad.clone() for name, parameter in engine.model.network.named_parameters()}
    engine.model.network.zero_grad()
    batch = pack(episodes)
    losses = [WeightedLoss(bound=bind("losses", "policy_gradient"), weight=lambda progress: 1.0)]
    learner = Learner(engine.model, LearnerConfig(gradient_norm=1e9), losses, temperature=1.0)
    learner.update(batch, branch_advantages[batch.turn_of], None, turns=turns, progress=0.0, stream=Stream.from_seed(0))
    for name, parameter in engine.model.network.named_parameters():
        assert torch.allclose(parameter.grad, expected[name], atol=1e-5), name
