import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.errors import ConfigError
from sparring.learn.pack import LegalReplies, legal_replies, magnet
from sparring.methods.losses.legal_magnet import legal_magnet

WORDS = {"pass": (1, 9), "bet": (2, 9), "bet all": (2, 3, 9), "fold": (4, 9)}


def next_tokens(said, *legal):
    return LegalReplies(WORDS.__getitem__).next_tokens(legal, said)


def divergences(distributions, logits):
    logprobs = torch.tensor(logits, dtype=torch.float64).log_softmax(-1)
    return magnet(distributions).divergences(logprobs, torch.arange(len(logits)))


# -- what a legal reply would say


def test_the_next_token_is_that_of_a_reply_drawn_uniformly():
    assert next_tokens((2, 9), "pass", "bet", "bet all", "fold") == (((1, 0.25), (2, 0.5), (4, 0.25)), ((3, 0.5), (9, 0.5)))


def test_where_no_legal_reply_begins_so_there_is_nothing():
    assert next_tokens((7, 9, 1), "pass", "bet") == (((1, 0.5), (2, 0.5)), (), ())
    assert next_tokens((1, 9, 9), "pass") == (((1, 1.0),), ((9, 1.0),), ())  # said on after its end
    assert next_tokens((1,)) == ((),)  # nothing is legal


@given(st.lists(st.sampled_from(sorted(WORDS)), min_size=1, unique=True), st.lists(st.integers(1, 9), max_size=4))
def test_each_is_a_distribution_and_the_product_along_a_reply_is_its_share(legal, said):
    for found in next_tokens(tuple(said), *legal):
        assert not found or sum(share for _, share in found) == pytest.approx(1)
    for action in legal:
        shares = [dict(found)[token] for found, token in zip(next_tokens(WORDS[action], *legal), WORDS[action], strict=True)]
        assert math.prod(shares) == pytest.approx(1 / len(legal))


# -- the divergences


def test_by_hand():
    logits = [[math.log(0.7), math.log(0.1), math.log(0.2)]]
    found = divergences([((0, 0.5), (1, 0.5))], logits)
    assert found["forward"].item() == pytest.approx(0.5 * math.log(0.5 / 0.7) + 0.5 * math.log(0.5 / 0.1))
    legal = [0.875, 0.125]
    assert found["reverse"].item() == pytest.approx(sum(p * math.log(p / 0.5) for p in legal))


def test_the_forward_gradient_is_the_policy_less_the_magnet_and_does_not_vanish():
    logits = torch.tensor([[50.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)  # the second is as good as gone
    found = magnet([((0, 0.5), (1, 0.5))]).divergences(logits.log_softmax(-1), torch.tensor([0]))
    (gradient,) = torch.autograd.grad(found["forward"].sum(), logits, retain_graph=True)
    assert gradient[0].tolist() == pytest.approx([0.5, -0.5, 0.0], abs=1e-12)
    (gradient,) = torch.autograd.grad(found["reverse"].sum(), logits)
    assert gradient.abs().max().item() < 1e-12


def test_illegal_tokens_are_pushed_down_by_the_forward_form_alone():
    logits = torch.zeros(1, 3, dtype=torch.float64, requires_grad=True)
    found = magnet([((0, 0.5), (1, 0.5))]).divergences(logits.log_softmax(-1), torch.tensor([0]))
    forward, reverse = (torch.autograd.grad(found[name].sum(), logits, retain_graph=True)[0][0, 2] for name in found)
    assert forward.item() == pytest.approx(1 / 3)
    assert reverse.item() == 0.0


@given(st.lists(st.floats(-700, 700), min_size=4, max_size=4))
def test_both_are_divergences_and_reduce_to_known_forms(logits):
    found = divergences([((0, 0.25), (1, 0.25), (2, 0.25), (3, 0.25)), (), ((2, 1.0),)], [logits] * 3)
    assert torch.isfinite(torch.stack([*found.values()])).all()
    assert (found["forward"] >= -1e-9).all() and (found["reverse"] >= -1e-9).all()
    log_p = torch.tensor(logits, dtype=torch.float64).log_softmax(-1)
    entropy = -(log_p.exp() * log_p).sum()
    assert found["reverse"][0].item() == pytest.approx((math.log(4) - entropy).item(), abs=1e-9)  # an entropy bonus
    assert found["forward"][2].item() == pytest.approx(-log_p[2].item(), abs=1e-9)  # imitation of the only legal reply
    assert found["forward"][1].item() == found["reverse"][1].item() == found["reverse"][2].item() == 0.0


@pytest.mark.parametrize("divergence", ["forward", "reverse"])
def test_the_loss_is_the_divergence_at_each_token(make_batch, divergence):
    legal = {"forward": torch.tensor([1.0, 3.0]), "reverse": torch.tensor([0.0, 0.5])}
    term = legal_magnet(make_batch([0.0, 0.0], legal=legal), divergence=divergence)
    assert term.values.tolist() == legal[divergence].tolist()
    assert term.metrics["divergence"] == legal[divergence].mean()
    assert not term.weighted and term.level == "token"


# -- in a run


def learner_of(**changes):
    from sparring.config import resolve
    from sparring.engine.local import LocalEngine

    base = {
        "environments": [{"name": "kuhn_poker", "illegal": {"penalty": 1.0}}],
        "rollout": {"games_per_step": 32},
        "threads": 1,
        "model": {"hidden_size": 16, "layers": 1, "heads": 2},
        "losses": [{"name": "legal_magnet"}],
        "learner": {"learning_rate": 0.03},
    }
    return LocalEngine(resolve({**base, **changes}))


@pytest.mark.parametrize("rollout", [{}, {"top_k": 3}, {"temperature": 1.5}], ids=str)
def test_by_itself_it_teaches_uniform_legal_play(rollout):
    import numpy as np

    from sparring.config.plugins.registry import bind
    from sparring.core.records import Credit
    from sparring.league.seating import starts
    from sparring.measure.exploitability import ask
    from sparring.measure.info_states import enumerate_info_states
    from sparring.play.players.policy import PolicyAgent

    run = learner_of(rollout={"games_per_step": 64, **rollout})
    for step in range(40):
        specs = starts(step, games=run.environments, rollout=run.config.rollout, matchmaker=bind("league.matchmakers", "mirror"),
                       members=(), root=run.root, progress=0.0)  # fmt: skip
        batch = run.batch(run.play(specs).episodes, progress=0.0)
        nothing = Credit(advantages=np.zeros(len(batch.turns.reward)))
        metrics = run.learn(batch, nothing, step=step, progress=0.0)
    assert metrics["legal_magnet/divergence"] < 0.05
    player = run.agents["learner"]
    assert isinstance(player, PolicyAgent)
    policy, illegal = ask(player, enumerate_info_states(run.environments[0][0]))
    assert illegal.max() < 0.05
    assert max(abs(row - 0.5).max() for row in policy) < 0.15


def test_thoughts_are_refused():
    class Thinks:
        scorable = False

    with pytest.raises(ConfigError, match=r"renderer\.thinking=false"):
        legal_replies({"legal_replies"}, Thinks())
