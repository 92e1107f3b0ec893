import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.small_runs import config_of

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.core.records import Credit
from sparring.engine.local import LocalEngine
from sparring.league.seating import step_specs
from sparring.learn.pack import LegalReplies, legal_replies, make_magnet
from sparring.measure.exploitability import query_policy
from sparring.measure.info_states import enumerate_info_states
from sparring.methods.features.entropy import entropy
from sparring.methods.losses.entropy_bonus import entropy_bonus
from sparring.methods.losses.kl_penalty import kl_penalty
from sparring.methods.losses.legal_magnet import legal_magnet
from sparring.methods.losses.value_loss import value_loss


def test_the_entropy_bonus_is_minus_the_entropy(make_batch):
    term = entropy_bonus(make_batch([0.0, 0.0], entropy=torch.tensor([1.0, 3.0])))
    assert term.values.tolist() == [-1.0, -3.0]
    assert term.metrics["entropy"].item() == 2.0
    assert not term.weighted


LOGITS = st.integers(2, 6).flatmap(
    lambda width: st.lists(st.lists(st.floats(-20, 20), min_size=width, max_size=width), min_size=1, max_size=5)
)


@given(LOGITS)
def test_the_entropy_is_the_sum_written_out(rows):
    for row, value in zip(rows, entropy(torch.tensor(rows, dtype=torch.float64)).tolist(), strict=True):
        largest = max(row)
        weights = [math.exp(x - largest) for x in row]
        shares = [w / sum(weights) for w in weights]
        assert value == pytest.approx(-sum(p * math.log(p) for p in shares if p > 0), abs=1e-9)


@pytest.mark.parametrize(("estimator", "value"), [("k1", 0.5), ("k2", 0.125), ("k3", math.exp(-0.5) + 0.5 - 1)])
def test_kl_penalty_values_by_hand(make_batch, estimator, value):
    batch = make_batch([-1.0], reference_logprobs=torch.tensor([-1.5], dtype=torch.float64))
    assert kl_penalty(batch, estimator=estimator).values.item() == pytest.approx(value)


def test_kl_penalty_extreme_differences_stay_finite(make_batch):
    term = kl_penalty(make_batch([-1000.0, 0.0], reference_logprobs=torch.tensor([0.0, -1000.0], dtype=torch.float64)))
    assert term.values.abs().max().item() <= 20.0


PAIRS = st.lists(st.tuples(st.floats(-2, 0), st.floats(-2, 0)), min_size=1, max_size=6)


def penalty(make_batch, pairs, estimator):
    """Return the values for pairs of log-probabilities, of the policy and of the reference."""
    batch = make_batch(
        [logprob for logprob, _ in pairs],
        reference_logprobs=torch.tensor([reference for _, reference in pairs], dtype=torch.float64),
    )
    return kl_penalty(batch, estimator=estimator).values


@given(PAIRS)
def test_k2_and_k3_are_never_negative_and_swapping_flips_the_sign_of_k1(make_batch, pairs):
    swapped_pairs = [(reference, logprob) for logprob, reference in pairs]
    assert (penalty(make_batch, pairs, "k2") >= 0).all()
    assert (penalty(make_batch, pairs, "k3") >= -1e-15).all()
    assert torch.equal(penalty(make_batch, pairs, "k1"), -penalty(make_batch, swapped_pairs, "k1"))
    assert torch.equal(penalty(make_batch, pairs, "k2"), penalty(make_batch, swapped_pairs, "k2"))


@given(st.lists(st.tuples(st.floats(-0.5, 0.5), st.floats(-0.5, 0.5)), min_size=2, max_size=5))
def test_kl_penalty_summed_over_the_policy_k3_is_the_divergence_and_k2_has_its_gradient(make_batch, rows):
    logits = torch.tensor([row[0] for row in rows], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([row[1] for row in rows], dtype=torch.float64).log_softmax(-1)
    log_p = logits.log_softmax(-1)
    divergence = (log_p.exp() * (log_p - reference)).sum()
    probabilities = log_p.detach().exp()
    batch = make_batch(log_p.tolist(), reference_logprobs=reference)
    assert (probabilities * kl_penalty(batch, estimator="k3").values).sum().item() == pytest.approx(
        divergence.item(), abs=1e-9
    )
    (probabilities * kl_penalty(batch, estimator="k2").values).sum().backward()
    (logit_gradient,) = torch.autograd.grad(log_p, logits, batch.logprobs.grad, retain_graph=True)
    assert torch.allclose(logit_gradient, torch.autograd.grad(divergence, logits)[0], atol=1e-9)


@given(st.sampled_from(["k1", "k2", "k3"]), PAIRS)
def test_kl_penalty_gradients_by_hand(make_batch, estimator, pairs):
    """With d = log pi_ref - log pi: 1, -d and 1 - exp(d)."""
    batch = make_batch(
        [logprob for logprob, _ in pairs],
        reference_logprobs=torch.tensor([reference for _, reference in pairs], dtype=torch.float64),
    )
    (gradient,) = torch.autograd.grad(kl_penalty(batch, estimator=estimator).values.sum(), batch.logprobs)
    slope_of_difference = {"k1": lambda d: 1.0, "k2": lambda d: -d, "k3": lambda d: 1.0 - math.exp(d)}[estimator]
    assert gradient.tolist() == pytest.approx(
        [slope_of_difference(reference - logprob) for logprob, reference in pairs], abs=1e-12
    )


def test_kl_penalty_clamped_token_has_no_gradient(make_batch):
    """exp(d) - d - 1 passes 10 at d = 2.6."""
    batch = make_batch([-2.4, -2.7, -3.0], reference_logprobs=torch.zeros(3, dtype=torch.float64))
    term = kl_penalty(batch)
    assert (term.values == 10.0).tolist() == [False, True, True]
    term.values.sum().backward()
    assert (batch.logprobs.grad == 0.0).tolist() == [False, True, True]


WORDS = {"pass": (1, 9), "bet": (2, 9), "bet all": (2, 3, 9), "fold": (4, 9)}


def next_tokens(ids, *legal):
    return LegalReplies(WORDS.__getitem__).next_tokens(legal, ids)


def divergences(distributions, logits):
    logprobs = torch.tensor(logits, dtype=torch.float64).log_softmax(-1)
    return make_magnet(distributions).divergences(logprobs, torch.arange(len(logits)))


def test_next_token_probabilities_are_those_of_a_uniform_legal_reply():
    assert next_tokens((2, 9), "pass", "bet", "bet all", "fold") == (
        ((1, 0.25), (2, 0.5), (4, 0.25)),
        ((3, 0.5), (9, 0.5)),
    )


def test_prefixes_of_no_legal_reply_have_no_next_token():
    assert next_tokens((7, 9, 1), "pass", "bet") == (((1, 0.5), (2, 0.5)), (), ())
    assert next_tokens((1, 9, 9), "pass") == (((1, 1.0),), ((9, 1.0),), ())  # tokens after the end of the reply
    assert next_tokens((1,)) == ((),)  # nothing is legal


@given(st.lists(st.sampled_from(sorted(WORDS)), min_size=1, unique=True), st.lists(st.integers(1, 9), max_size=4))
def test_next_token_distributions_multiply_to_the_share_of_a_reply(legal, ids):
    for options in next_tokens(tuple(ids), *legal):
        assert not options or sum(share for _, share in options) == pytest.approx(1)
    for action in legal:
        shares = [
            dict(options)[token]
            for options, token in zip(next_tokens(WORDS[action], *legal), WORDS[action], strict=True)
        ]
        assert math.prod(shares) == pytest.approx(1 / len(legal))


def test_legal_magnet_by_hand():
    logits = [[math.log(0.7), math.log(0.1), math.log(0.2)]]
    values = divergences([((0, 0.5), (1, 0.5))], logits)
    assert values["forward"].item() == pytest.approx(0.5 * math.log(0.5 / 0.7) + 0.5 * math.log(0.5 / 0.1))
    legal = [0.875, 0.125]
    assert values["reverse"].item() == pytest.approx(sum(p * math.log(p / 0.5) for p in legal))


def test_the_forward_gradient_is_the_policy_less_the_magnet_and_does_not_vanish():
    logits = torch.tensor(
        [[50.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True
    )  # the second token has probability almost 0
    values = make_magnet([((0, 0.5), (1, 0.5))]).divergences(logits.log_softmax(-1), torch.tensor([0]))
    (gradient,) = torch.autograd.grad(values["forward"].sum(), logits, retain_graph=True)
    assert gradient[0].tolist() == pytest.approx([0.5, -0.5, 0.0], abs=1e-12)
    (gradient,) = torch.autograd.grad(values["reverse"].sum(), logits)
    assert gradient.abs().max().item() < 1e-12


@given(st.lists(st.floats(-700, 700), min_size=4, max_size=4))
def test_both_divergences_are_nonnegative_and_reduce_to_known_forms(logits):
    values = divergences([((0, 0.25), (1, 0.25), (2, 0.25), (3, 0.25)), (), ((2, 1.0),)], [logits] * 3)
    assert torch.isfinite(torch.stack([*values.values()])).all()
    assert (values["forward"] >= -1e-9).all() and (values["reverse"] >= -1e-9).all()
    log_p = torch.tensor(logits, dtype=torch.float64).log_softmax(-1)
    entropy = -(log_p.exp() * log_p).sum()
    assert values["reverse"][0].item() == pytest.approx((math.log(4) - entropy).item(), abs=1e-9)  # an entropy bonus
    assert values["forward"][2].item() == pytest.approx(-log_p[2].item(), abs=1e-9)  # imitation of the only legal reply
    assert values["forward"][1].item() == values["reverse"][1].item() == values["reverse"][2].item() == 0.0


@pytest.mark.parametrize("divergence", ["forward", "reverse"])
def test_legal_magnet_loss_is_the_divergence_at_each_token(make_batch, divergence):
    legal = {"forward": torch.tensor([1.0, 3.0]), "reverse": torch.tensor([0.0, 0.5])}
    term = legal_magnet(make_batch([0.0, 0.0], legal=legal), divergence=divergence)
    assert term.values.tolist() == legal[divergence].tolist()
    assert term.metrics["divergence"] == legal[divergence].mean()
    assert not term.weighted and term.level == "token"


@pytest.mark.parametrize("rollout", [{}, {"top_k": 3}, {"temperature": 1.5}], ids=str)
def test_training_with_only_the_magnet_gives_uniform_legal_replies(rollout):
    environment = {"name": "kuhn_poker", "illegal": {"penalty": 1.0}}
    changes = {"losses": [{"name": "legal_magnet"}], "learner": {"learning_rate": 0.03}}
    model = {"hidden_size": 16, "layers": 1, "heads": 2}
    engine = LocalEngine(config_of(environment, model=model, rollout={"games_per_step": 64, **rollout}, **changes))
    for step in range(40):
        specs = step_specs(step, games=engine.environments, rollout=engine.config.rollout, matchmaker=bind("league.matchmakers", "mirror"),
                       members=(), root=engine.root, progress=0.0)  # fmt: skip
        batch = engine.batch(engine.play(specs).episodes, progress=0.0)
        zero_credit = Credit(advantages=np.zeros(len(batch.turns.reward)))
        metrics = engine.learn(batch, zero_credit, step=step, progress=0.0)
    assert metrics["legal_magnet/divergence"] < 0.05
    policy, illegal_mass = query_policy(engine.agents["learner"], enumerate_info_states(engine.environments[0][0]))
    assert illegal_mass.max() < 0.05
    assert max(abs(row - 0.5).max() for row in policy) < 0.15


def test_a_renderer_with_reasoning_text_is_refused():
    class ThinkingRenderer:
        scorable = False

    with pytest.raises(ConfigError, match=r"renderer\.thinking=false"):
        legal_replies({"legal_replies"}, ThinkingRenderer())


def test_value_loss_by_hand(make_batch):
    values = torch.tensor([1.0, 2.0], requires_grad=True)
    term = value_loss(make_batch([0.0], values=values, value_targets=torch.tensor([0.0, 4.0])))
    assert term.level == "turn"
    assert term.values.tolist() == [0.5, 2.0]
    term.values.sum().backward()
    assert values.grad.tolist() == [1.0, -2.0]
    assert term.metrics["error"].item() == 1.5


def test_value_loss_explained_variance(make_batch):
    targets = torch.tensor([0.0, 2.0, 4.0])
    perfect = value_loss(make_batch([0.0], values=targets, value_targets=targets))
    assert perfect.metrics["explained_variance"].item() == pytest.approx(1.0)
    constant_values = value_loss(make_batch([0.0], values=torch.full((3,), 2.0), value_targets=targets))
    assert constant_values.metrics["explained_variance"].item() == pytest.approx(0.0)
    equal_targets = value_loss(make_batch([0.0], values=torch.ones(3), value_targets=torch.ones(3)))
    assert torch.isfinite(equal_targets.metrics["explained_variance"])


ROWS = st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=1, max_size=6)


def term_of(make_batch, rows, shift=0.0):
    """Return the loss for pairs of value and target, both moved by ``shift``."""
    values, targets = (torch.tensor([row[index] + shift for row in rows], dtype=torch.float64) for index in (0, 1))
    return value_loss(make_batch([0.0], values=values.requires_grad_(True), value_targets=targets)), values


@given(ROWS)
def test_the_value_loss_is_half_the_square_and_its_gradient_the_difference(make_batch, rows):
    term, values = term_of(make_batch, rows)
    assert term.values.tolist() == pytest.approx([(value - target) ** 2 / 2 for value, target in rows])
    assert (term.values >= 0).all()
    term.values.sum().backward()
    assert values.grad.tolist() == pytest.approx([value - target for value, target in rows])
