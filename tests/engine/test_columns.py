"""The columns that estimators ask for by NEEDS."""

import numpy as np
import pytest
import torch

from sparring.config import resolve
from sparring.core.errors import TooLargeError
from sparring.core.records import Credit
from sparring.engine.local import LocalEngine
from sparring.league.seating import starts
from sparring.learn.pack import pack
from sparring.measure.exploitability import ask
from sparring.measure.info_states import enumerate_info_states, exact_values
from sparring.play.turn_table import ordered_turns
from tests.hugging_face import hugging_face

KUHN = {"name": "kuhn_poker", "illegal": {"rule": "forfeit", "penalty": 1.0}}


def engine_that_needs(*needs, game=KUHN, **changes):
    config = resolve({"environments": [game], "rollout": {"games_per_step": 64}, "model": {"hidden_size": 16, "heads": 2}, **changes})
    plugin = config.credit.bind("credit").plugin.module
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugin, "NEEDS", set(needs), raising=False)
        return LocalEngine(config)


def batch(run):
    specs = starts(
        0, games=run.environments, rollout=run.config.rollout, matchmaker=run.config.matchmaker.bind("league.matchmakers"), members=(), root=run.root,
        progress=0.0,
    )
    episodes = run.play(specs).episodes
    return episodes, run.batch(episodes, progress=0.0).turns


def test_nothing_is_computed_that_nobody_needs():
    _, turns = batch(engine_that_needs())
    assert [turns.value, turns.value_after, turns.token_value, turns.old_logprob, turns.reference_logprob, turns.action_value] == [None] * 6
    assert turns.process_logprob is None


def test_a_turn_table_that_is_there_is_not_made_again(monkeypatch):
    run = engine_that_needs()
    episodes, turns = batch(run)
    monkeypatch.setattr("sparring.engine.local.turn_table", None)
    assert run.batch(episodes, progress=0.0, turns=turns).turns is turns


def test_the_learners_and_the_references_log_probabilities_are_the_samplers_until_the_first_update():
    run = engine_that_needs("old_logprob", "reference_logprob")
    episodes, turns = batch(run)
    assert turns.old_logprob == pytest.approx(turns.logprob, abs=1e-4)
    assert turns.reference_logprob == pytest.approx(turns.logprob, abs=1e-4)
    learned = run.batch(episodes, progress=0.0)
    run.learn(learned, Credit(advantages=np.ones(len(turns.reward))), step=0, progress=0.0)
    again = run.batch(episodes, progress=0.0).turns
    assert again.old_logprob != pytest.approx(turns.logprob, abs=1e-4)
    assert again.reference_logprob == pytest.approx(turns.logprob, abs=1e-4)


def test_values_are_read_before_a_turn_after_it_and_before_each_token():
    run = engine_that_needs("value", "value_after", "token_value", rollout={"games_per_step": 64, "max_new_tokens": 3})
    with torch.no_grad():
        run.model.value_head.weight.normal_(generator=torch.Generator().manual_seed(0))
    episodes, turns = batch(run)
    data = pack(episodes)
    lengths = np.bincount(data.turn_of)
    begin = np.cumsum(lengths) - lengths
    assert max(lengths) > 1
    assert len(turns.token_value) == len(data.turn_of)
    for row in range(0, len(turns.reward), 11):
        sequence, asked = data.ask[row]
        ids = data.sequences[sequence]
        assert turns.token_value[begin[row]] == turns.value[row]
        last = turns.token_value[begin[row] + lengths[row] - 1]
        for value, end in ((turns.value[row], asked), (last, asked + lengths[row] - 1), (turns.value_after[row], asked + lengths[row])):
            with torch.no_grad():
                output = hugging_face(run.model.network)(torch.tensor([ids[: end + 1]]), output_hidden_states=True).hidden_states[-1][0, -1:]
                assert value == pytest.approx(run.model.values(output).item(), abs=1e-4)


def test_action_values_are_those_of_the_policy_that_plays():
    run = engine_that_needs("action_value", "state_value", "default_value")
    episodes, turns = batch(run)
    game = run.environments[0][0]
    states = enumerate_info_states(game)
    values = exact_values(states, ask(run.agent("learner"), states)[0])
    number = {(query.seat, query.key): index for index, query in enumerate(states.queries)}
    seen = set()
    for row, (_, turn) in enumerate(ordered_turns(episodes)):
        index = number[turn.seat, turn.state_key]
        assert turns.state_value[row] == pytest.approx(values.state[index])
        assert turns.default_value[row] == pytest.approx(values.action[index].mean())
        if turn.action is None:
            assert turns.action_value[row] == turns.reward[row]
        else:
            choice = states.queries[index].legal_actions.index(turn.action)
            assert turns.action_value[row] == pytest.approx(values.action[index][choice])
        seen.add(turn.action)
    assert len(seen) > 1


def test_action_values_of_a_game_too_large_are_refused_at_once():
    with pytest.raises(TooLargeError, match="connect_four"):
        engine_that_needs("action_value", "state_value", "default_value", game={"name": "connect_four"})


@pytest.mark.parametrize("needs", [("value",), ("value_after",), ("token_value",), ("value", "value_after")])
def test_the_critic_is_fitted_where_the_estimator_reads_it(needs):
    """The gradient is that of half the mean squared error of the values read there."""
    losses = [{"name": "policy_gradient", "weight": 0.0}, {"name": "value_loss"}]
    learner = {"gradient_norm": 1e9, "micro_tokens": 60}
    run = engine_that_needs(*needs, rollout={"games_per_step": 16, "max_new_tokens": 3}, losses=losses, learner=learner, credit={"name": "gae"})
    episodes, turns = batch(run)
    data = pack(episodes)
    read = turns.value if "value" in needs else turns.value_after if "value_after" in needs else turns.token_value
    targets = np.random.Generator(np.random.Philox(0)).normal(size=len(read))
    lengths = np.bincount(data.turn_of)
    begin = np.cumsum(lengths) - lengths
    total = 0.0
    for row, (sequence, asked) in enumerate(data.ask):
        ids = torch.tensor([data.sequences[sequence]])
        values = run.model.values(hugging_face(run.model.network)(ids, output_hidden_states=True).hidden_states[-1][0])
        if "value" in needs or "value_after" in needs:
            at, of = [asked if "value" in needs else asked + lengths[row]], [row]
        else:
            at, of = range(asked, asked + lengths[row]), range(begin[row], begin[row] + lengths[row])
        total = total + ((values[list(at)] - torch.tensor(targets[list(of)])) ** 2).sum() / 2
    (expected,) = torch.autograd.grad(total / len(read), run.model.value_head.weight)
    found = []
    run.learner._apply = lambda: found.append(run.model.value_head.weight.grad.clone()) or 0.0
    run.learner.update(data, np.zeros(len(data.turn_of)), targets, progress=0.0, stream=run.root)
    assert found[0].numpy() == pytest.approx(expected.float().numpy(), rel=1e-3, abs=1e-6)
