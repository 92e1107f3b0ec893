import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.methods.losses.dpo import dpo
from sparring.methods.losses.minibatch import pair_metrics
from sparring.methods.losses.turn_dpo import turn_dpo

# a token: its reply, and its log-probabilities now, under the reference and before the step; a reply: its prompt and value
TOKENS = st.lists(st.tuples(st.integers(0, 4), *[st.floats(-3, 0)] * 3), min_size=1, max_size=14)
REPLIES = st.lists(st.tuples(st.integers(0, 1), st.integers(-1, 1)), min_size=5, max_size=5)
OPTION_SETS = [
    (labels, pairs, reference)
    for labels in ("hard", "soft")
    for pairs in ("best_worst", "all")
    for reference in ("start", "step")
]


def minibatch_of(make_minibatch, tokens, replies, splits=()):
    """Return the minibatch of these tokens; each reply is the only turn of a trajectory."""
    replies_with_tokens = sorted({token[0] for token in tokens})
    tokens = sorted(tokens)
    return make_minibatch(
        [t[1] for t in tokens],
        reference_logprobs=[t[2] for t in tokens],
        old_logprobs=[t[3] for t in tokens],
        trajectory=[replies_with_tokens.index(t[0]) for t in tokens],
        prompt=[40 + replies[t[0]][0] for t in tokens],
        advantages=[float(replies[t[0]][1]) for t in tokens],
        splits=[c for c in splits if c < len(tokens)],
    )


def loss_by_loops(minibatch, leaf, beta, labels, pairs, reference, smoothing):
    logprobs_of_reference = minibatch.old_logprobs if reference == "step" else minibatch.reference_logprobs
    replies = sorted(set(minibatch.trajectory.tolist()))
    masks = [minibatch.trajectory == i for i in replies]
    log_ratios, values, prompts = (
        [(leaf - logprobs_of_reference)[mask].sum() for mask in masks],
        [minibatch.advantages[mask][0].item() for mask in masks],
        [minibatch.prompt[mask][0].item() for mask in masks],
    )
    terms = []
    for prompt in sorted(set(prompts)):
        replies_of_prompt = [i for i in replies if prompts[i] == prompt]
        losses = []
        for i in replies_of_prompt:
            for j in replies_of_prompt:
                is_tie = labels == "soft" and values[i] == values[j] and i < j
                if not (values[i] > values[j] or is_tie):
                    continue
                if pairs == "best_worst" and (
                    values[i] < max(values[k] for k in replies_of_prompt)
                    or values[j] > min(values[k] for k in replies_of_prompt)
                ):
                    continue
                label = 1 / (1 + math.exp(-beta * (values[i] - values[j]))) if labels == "soft" else 1 - smoothing
                probability = torch.sigmoid(beta * (log_ratios[i] - log_ratios[j]))
                losses.append(-label * probability.log() - (1 - label) * (1 - probability).log())
        terms += losses if pairs == "all" or not losses else [sum(losses) / len(losses)]
    return sum(terms) / len(terms) if terms else 0.0 * leaf.sum()


def test_by_hand(make_minibatch, gradient_of):
    """The better reply (two tokens) has the log-ratio 1 and the worse -0.5, so the margin is 0.1 * 1.5."""
    batches, leaf = make_minibatch(
        [-1.0, -1.0, -2.0],
        reference_logprobs=[-1.5, -1.5, -1.5],
        trajectory=[0, 0, 1],
        prompt=[7, 7, 7],
        advantages=[3.0, 3.0, 2.0],
    )
    term = turn_dpo(batches[0])
    assert term.level == "sum"
    assert term.values.sum().item() == pytest.approx(math.log(1 + math.exp(-0.15)))
    slope = 0.1 / (1 + math.exp(0.15))
    assert gradient_of(turn_dpo, batches, leaf).tolist() == pytest.approx([-slope, -slope, slope])
    assert (term.metrics["pairs"], term.metrics["accuracy"].item()) == (1.0, 1.0)
    assert term.metrics["margin"].item() == pytest.approx(0.15)
    # before an update the policy is its own reference, so the loss is log 2 for any label
    with_soft_labels = turn_dpo(batches[0], labels="soft", reference="step")
    assert with_soft_labels.values.sum().item() == pytest.approx(math.log(2))
    probability = 1 / (1 + math.exp(-0.1))
    gradient = gradient_of(lambda batch: turn_dpo(batch, labels="soft", reference="step"), batches, leaf)
    assert gradient.tolist() == pytest.approx([-0.1 * (probability - 0.5)] * 2 + [0.1 * (probability - 0.5)])


@pytest.mark.parametrize(("labels", "pairs", "reference"), OPTION_SETS)
@given(
    tokens=TOKENS,
    replies=REPLIES,
    beta=st.floats(0.05, 2),
    smoothing=st.sampled_from([0.0, 0.2]),
    split=st.integers(1, 13),
)
def test_the_gradient_is_that_of_the_formula_for_any_split(
    make_minibatch, gradient_of, labels, pairs, reference, tokens, replies, beta, smoothing, split
):
    batches, leaf = minibatch_of(make_minibatch, tokens, replies, splits=(split,))

    def loss(batch):
        return turn_dpo(batch, beta=beta, labels=labels, pairs=pairs, reference=reference, label_smoothing=smoothing)

    expected_loss = loss_by_loops(batches[0].whole, leaf, beta, labels, pairs, reference, smoothing)
    assert sum(loss(batch).values.sum() for batch in batches).item() == pytest.approx(
        expected_loss.item(), rel=1e-5, abs=1e-5
    )
    assert torch.allclose(gradient_of(loss, batches, leaf), torch.autograd.grad(expected_loss, leaf)[0])


@given(
    tokens=TOKENS,
    replies=REPLIES,
    pairs=st.sampled_from(["best_worst", "all"]),
    beta=st.floats(0.05, 2),
    smoothing=st.sampled_from([0.0, 0.2]),
)
def test_with_one_turn_per_game_turn_dpo_is_dpo(make_minibatch, gradient_of, tokens, replies, pairs, beta, smoothing):
    batches, leaf = minibatch_of(make_minibatch, tokens, replies)
    replies_with_tokens = sorted({token[0] for token in tokens})
    games, same_leaf = make_minibatch(
        leaf.tolist(),
        reference_logprobs=batches[0].whole.reference_logprobs.tolist(),
        trajectory=batches[0].whole.trajectory.tolist(),
        group=[replies[i][0] for i in replies_with_tokens],
        outcome=[float(replies[i][1]) for i in replies_with_tokens],
    )
    options = {"beta": beta, "pairs": pairs, "label_smoothing": smoothing}
    gradient = gradient_of(lambda batch: turn_dpo(batch, **options), batches, leaf)
    assert torch.allclose(gradient, gradient_of(lambda batch: dpo(batch, **options), games, same_leaf))


def test_replies_to_different_turns_are_not_compared(make_minibatch, gradient_of):
    """The game has two turns with one more candidate reply each."""
    batches, leaf = make_minibatch(
        [-1.0] * 4,
        reference_logprobs=[-1.0] * 4,
        trajectory=[0, 0, 1, 2],
        turn_index=[0, 1, 0, 1],
        prompt=[0, 1, 0, 1],
        advantages=[1.0, 9.0, 2.0, 8.0],
    )
    assert turn_dpo(batches[0]).metrics["pairs"] == 2.0
    assert gradient_of(turn_dpo, batches, leaf).sign().tolist() == [1.0, -1.0, -1.0, 1.0]


@pytest.mark.parametrize("pairs", ["best_worst", "all"])
def test_the_minimum_with_soft_labels_is_the_reweighted_reference(make_minibatch, pairs):
    """Three replies of one token: descent on the logits ends at pi_ref exp(A), normalised."""
    reference_logprobs, advantages = (
        torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64),
        torch.tensor([-0.7, 0.2, 1.5], dtype=torch.float64),
    )
    logits = reference_logprobs.log().clone().requires_grad_(True)
    optimizer = torch.optim.LBFGS([logits], max_iter=200, tolerance_grad=1e-12, tolerance_change=0)

    def closure():
        optimizer.zero_grad()
        logprobs = logits.log_softmax(0)
        total = 0.0
        for pair in ((0, 1), (1, 2), (0, 2)):  # so best_worst also compares every pair
            batches, leaf = make_minibatch(
                logprobs[list(pair)].tolist(),
                old_logprobs=reference_logprobs[list(pair)].log().tolist(),
                trajectory=[0, 1],
                prompt=[0, 0],
                advantages=advantages[list(pair)].tolist(),
            )
            value = turn_dpo(batches[0], labels="soft", beta=1.0, pairs=pairs, reference="step").values.sum()
            (grad,) = torch.autograd.grad(value, leaf)
            (logprobs[list(pair)] * grad).sum().backward(retain_graph=True)
            total = total + value.detach()
        return total

    optimizer.step(closure)
    reweighted = reference_logprobs * advantages.exp()
    assert torch.allclose(logits.softmax(0), reweighted / reweighted.sum(), atol=1e-6)


def test_extreme_margins_and_advantages_stay_finite(make_minibatch, gradient_of):
    batches, leaf = make_minibatch(
        [-1e9, 0.0],
        old_logprobs=[0.0, -1e9],
        reference_logprobs=[0.0, -1e9],
        trajectory=[0, 1],
        prompt=[0, 0],
        advantages=[1e9, -1e9],
    )
    for loss in (partial(turn_dpo, beta=1.0), partial(turn_dpo, beta=1.0, labels="soft")):
        assert loss(batches[0]).values.sum().item() == pytest.approx(2e9)
        assert gradient_of(loss, batches, leaf).tolist() == pytest.approx([-1.0, 1.0])


def test_the_runs_reference_is_required_only_if_the_loss_uses_it():
    assert bind("losses", "turn_dpo").needs == {"whole", "reference_logprobs"}
    assert bind("losses", "turn_dpo", {"reference": "step"}).needs == {"whole"}
    assert bind("losses", "turn_dpo", preset="lspo").needs == {"whole"}


def test_accuracy_counts_pairs_with_different_values():
    margins, weight = torch.tensor([1.0, -1.0, 5.0]), torch.full((3,), 1 / 3)
    assert pair_metrics(margins, weight, torch.tensor([True, True, False]))["accuracy"].item() == pytest.approx(0.5)
    assert pair_metrics(margins, weight)["accuracy"].item() == pytest.approx(2 / 3)
    assert pair_metrics(margins, weight, torch.tensor([False] * 3))["accuracy"].item() == 0.0
