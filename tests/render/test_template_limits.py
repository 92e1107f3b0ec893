"""Chat templates that never end, or grow without end, are stopped; those that models have are not."""

import sys
import time

import pytest
from transformers import AutoTokenizer

from sparring.errors import ModelError
from sparring.render.chat import chat
from sparring.render.template_limits import check_template, limited
from sparring.render.templates import CHATML


@pytest.fixture
def tokenizer(chat_folder):
    """Return a function that gives a tokenizer with a template."""

    def with_template(template):
        made = AutoTokenizer.from_pretrained(chat_folder)
        made.chat_template = template
        return made

    return with_template


RANGE = "{% for a in range(99999) %}"
ENDLESS = [
    RANGE * 3 + "x" + "{% endfor %}" * 3,
    RANGE * 3 + "{% endfor %}" * 3 + CHATML,
    "{% macro f(n) %}" + RANGE + "{{ f(n) if a == 99998 else '' }}" + "{% endfor %}{% endmacro %}{{ f(1) }}",
    "{% set n = namespace(x='abcdefgh') %}" + RANGE + "{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x | length }}",
    "{% set n = namespace(x=[1]) %}" + RANGE + "{% set n.x = n.x + n.x %}{% endfor %}",
    "{% set n = namespace(x='ab') %}" + RANGE + "{% set n.x = n.x | replace('a', 'aaaaaaaaa') %}{% endfor %}",
]
ENORMOUS = [
    "{{ 'x' * 9999999999 }}",
    "{{ 9 ** 99999 ** 9 }}",
    "{{ 'x' * 99999 * 99999 }}",
    "{{ '%99999999999d' % 1 }}",
    "{{ '{:>9999999999}'.format(1) }}",
    "{{ '%9999999999s' | format('x') }}",
    "{{ 'x' | center(9999999999) }}",
    "{% for",
    "{{ " + "(" * 5000 + ")" * 5000 + " }}",
    "x" * 2_000_000,
]


@pytest.mark.parametrize("template", ENDLESS, ids=range(len(ENDLESS)))
def test_a_template_without_end_is_stopped(template, monkeypatch, tokenizer):
    monkeypatch.setattr("sparring.render.chat.limited", lambda: limited(seconds=0.5, memory=64 << 20))
    began = time.monotonic()
    with pytest.raises(ModelError, match="The chat template is not run: rendering a few words takes"):
        chat(tokenizer(template))
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("template", ENORMOUS, ids=range(len(ENORMOUS)))
@pytest.mark.parametrize("own", [True, False])
def test_what_no_clock_can_stop_is_not_run(template, own, tokenizer):
    with pytest.raises(ModelError, match="The chat template is not run"):
        chat(tokenizer(template)) if own else chat(tokenizer(CHATML), template=template)


@pytest.mark.parametrize(
    "template",
    [CHATML, CHATML + "{% generation %}{% endgeneration %}", CHATML + "{%- set x = '=' * 20 %}{% for a in [1] %}{% break %}{% endfor %}"],
)
def test_templates_that_models_have_are_run(template, tokenizer):
    check_template(template)
    chat(tokenizer(template))


def test_whoever_traced_before_goes_on(tokenizer):
    before = sys.gettrace()
    with limited():
        assert sys.gettrace() is not before
    assert sys.gettrace() is before
    chat(tokenizer(CHATML))
    assert sys.gettrace() is before


def test_of_several_templates_all_are_looked_at(tokenizer):
    made = tokenizer(CHATML)
    made.chat_template = {"default": CHATML, "other": "{{ 2 ** 99 }}"}
    with pytest.raises(ModelError, match="power"):
        chat(made)
