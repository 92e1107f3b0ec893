"""Agents as text, and labels that keep two of one kind apart."""

import pytest

from sparring.core.errors import ConfigError, UnknownNameError
from sparring.measure.agent_spec import AgentSpec, labels, parse_agent


def test_a_name_and_options_are_read_as_yaml():
    assert parse_agent("random") == ("random", {})
    assert parse_agent("mcts simulations=1000 uct_c=1.5 solve=true") == ("mcts", {"simulations": 1000, "uct_c": 1.5, "solve": True})
    spec = parse_agent("endpoint model=m base_url=http://127.0.0.1:8000/v1 system='You play games.' temperature=null")
    assert spec.options == {"model": "m", "base_url": "http://127.0.0.1:8000/v1", "system": "You play games.", "temperature": None}
    assert parse_agent("mcts simulations=7").make().simulations == 7


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("mtcs", UnknownNameError, "Did you mean 'mcts'"),
        ("mcts simulatons=3", UnknownNameError, "Did you mean 'simulations'"),
        ("mcts simulations=many", ConfigError, "option 'simulations'"),
        ("mcts 1000", ConfigError, "write key=value"),
        ("mcts simulations=[", ConfigError, "no value for 'simulations'"),
        ("", ConfigError, "cannot be read"),
        ("mcts simulations='3", ConfigError, "cannot be read"),
        ("endpoint", ConfigError, "option 'model'"),
    ],
)
def test_bad_text_gets_one_clear_line(text, error, message):
    with pytest.raises(error) as caught:
        parse_agent(text)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_labels_are_plain_until_two_agents_are_of_one_kind():
    one, more = AgentSpec("mcts", {"simulations": 100, "uct_c": 2.0}), AgentSpec("mcts", {"simulations": 1000, "uct_c": 2.0})
    assert labels([one, AgentSpec("random", {})]) == ["mcts", "random"]
    assert labels([one, more, AgentSpec("random", {})]) == ["mcts(simulations=100)", "mcts(simulations=1000)", "random"]
    assert labels([AgentSpec("mcts", {}), more]) == ["mcts", "mcts(simulations=1000,uct_c=2.0)"]


def test_labels_can_stand_in_metric_names():
    urls = [AgentSpec("endpoint", {"model": "m", "base_url": f"http://{host}/v1"}) for host in "ab"]
    assert labels(urls) == ["endpoint(base_url=http:_a_v1)", "endpoint(base_url=http:_b_v1)"]


def test_two_equal_agents_are_refused():
    with pytest.raises(ConfigError, match="'mcts\\(simulations=3\\)' is named twice"):
        labels([AgentSpec("mcts", {"simulations": 3})] * 2 + [AgentSpec("mcts", {})])
