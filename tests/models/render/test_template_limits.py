"""Chat templates with endless loops or growth are stopped; templates of real models run.

The limit counts work, so it does not depend on time.
"""

import resource
import sys
import time
from datetime import date

import pytest
from transformers import AutoTokenizer

from sparring.core.errors import ModelError
from sparring.models.render.chat import chat
from sparring.models.render.chat_templates import CHATML, MAX_WORK, ChatTemplate, check_template


@pytest.fixture
def tokenizer(chat_folder):
    def with_template(template):
        tokenizer_copy = AutoTokenizer.from_pretrained(chat_folder)
        tokenizer_copy.chat_template = template
        return tokenizer_copy

    return with_template


RANGE = "{% for a in range(99999) %}"
END = "{% endfor %}"
GROWING = "{% set n = namespace(x=START) %}" + RANGE + "{% set n.x = MORE %}" + END
ENDLESS = [
    RANGE * 3 + "x" + END * 3,
    RANGE * 3 + END * 3 + CHATML,
    RANGE * 2 + "{% for b in range(99999) if false %}" + END * 3,
    "{% macro f(n) %}" + RANGE + "{{ f(n) if a == 99998 else '' }}" + END + "{% endmacro %}{{ f(1) }}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "{% for a in range(9) recursive %}{{ loop(range(9)) }}" + END,
    "{% set x = 'ab' * 60000 %}" + RANGE + "{% if 'aa' in x %}{% endif %}" + END,
    "{% set x = 'a' * 99999 %}" + RANGE + "{% if x is in(x) %}{% endif %}" + END,
    "{% set x = 'ab' * 60000 %}" + RANGE + "{% set y = x[1:] %}" + END,
    "{{ range(99999) | select('in', range(99999) | list) | list }}",
    RANGE + "{% set m = messages * 99 %}" + END,
    "{% set x %}" + RANGE + "b" * 400_000 + END + "{% endset %}",
    *(
        GROWING.replace("START", start).replace("MORE", more)
        for start, more in [
            ("'abcdefgh'", "n.x ~ n.x"),
            ("[1]", "n.x + n.x"),
            ("'ab'", "n.x | replace('a', 'aaaaaaaaa')"),
            ("'ab'", "n.x.replace('a', 'aaaaaaaaa')"),
            ("'ab'", "n.x * 9"),
            ("1", "[n.x, n.x]"),
            ("1", "{'a': n.x, 'b': n.x}"),
            ("1", "dict(a=n.x, b=n.x)"),
        ]
    ),
    "{% set n = namespace(x='a') %}" + RANGE + "{% set n.x %}{{ n.x }}{{ n.x }}{% endset %}" + END,
]
ENORMOUS = [
    "{{ 'x' * 9999999999 }}",
    "{{ 9 ** 99999 ** 9 }}",
    "{{ 'x' * 99999 * 99999 }}",
    "{{ 'x' | center(99999 * 99999) }}",
    "{{ '%99999999999d' % 1 }}",
    "{{ '%*d' % (9999999999, 1) }}",
    "{{ '{:>9999999999}'.format(1) }}",
    "{{ '{:>{w}}'.format(1, w=9999999999) }}",
    "{{ '%9999999999s' | format('x') }}",
    "{{ 'x' | center(9999999999) }}",
    "{% filter center(9999999999) %}x{% endfilter %}",
    "{{ ('x' * 99999) | replace('x', 'y' * 99999) }}",
    "{{ ('x' * 99999).replace('x', 'y' * 99999) }}",
    "{{ range(99999) | map('string') | join('x' * 99999) }}",
    "{{ ('\n' * 99999) | indent(99999) }}",
    "{{ ('\t' * 99999).expandtabs(99999) }}",
    "{{ (99999).to_bytes(9999999999, 'big') }}",
    "{% for",
    "{{ " + "(" * 5000 + ")" * 5000 + " }}",
    "x" * 2_000_000,
]


@pytest.mark.parametrize("template", ENDLESS, ids=range(len(ENDLESS)))
def test_an_endless_template_is_stopped_early_with_little_memory(template, tokenizer):
    start_time, memory_before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelError, match="The chat template is not run: rendering a few words takes"):
        chat(tokenizer(template))
    assert time.process_time() - start_time < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_before < 100 << 10  # kilobytes


@pytest.mark.parametrize("template", ENORMOUS, ids=range(len(ENORMOUS)))
@pytest.mark.parametrize("is_of_model", [True, False])
def test_enormous_values_are_not_created(template, is_of_model, tokenizer):
    with pytest.raises(ModelError, match="The chat template is not run"):
        chat(tokenizer(template)) if is_of_model else chat(tokenizer(CHATML), template=template)


@pytest.mark.parametrize(
    "template",
    [
        CHATML,
        CHATML + "{% generation %}{% endgeneration %}",
        CHATML + "{%- set x = '=' * 20 %}{% for a in [1] %}{% break %}{% endfor %}",
    ],
)
def test_templates_of_real_models_run(template, tokenizer):
    check_template(template)
    chat(tokenizer(template))


# features that templates of current models use: macros, namespaces, loops that skip and end, formats, blocks, dates, raised errors
FEATURES = """
{%- macro shown(text, tags=['think']) -%}
    {%- set ns = namespace(text=text) -%}
    {%- for tag in tags if tag -%}
        {%- set ns.text = ns.text.split('</' ~ tag ~ '>')[-1] | replace('\\n', '\n') -%}
    {%- endfor -%}
    {{- ns.text -}}
{%- endmacro -%}
{%- set today = strftime_now('%d %b %Y') if strftime_now is defined else 'none' -%}
{%- if messages[0].role == 'system' -%}
    {%- set system = messages[0].content | trim -%}{%- set messages = messages[1:] -%}
{%- else -%}{%- set system = '%s %s' % ('Be', "good.") -%}{%- endif -%}
{{- bos_token | default('') + '<|im_start|>system\n' ~ today ~ '\n' + system + '<|im_end|>\n' -}}
{%- set state = namespace(users=0, names=[]) -%}
{%- for message in messages -%}
    {%- if message['content'] is not string or message.get('tool_calls') -%}{%- continue -%}{%- endif -%}
    {%- if loop.index0 % 2 == 1 and message.role not in ['assistant', 'model'] -%}
        {{- raise_exception('roles take turns, not ' ~ message | tojson(indent=2)) -}}
    {%- endif -%}
    {%- set state.users = state.users + 1 -%}{%- set state.names = state.names + [message.role] -%}
    {{- '<|im_start|>' + {'assistant': 'model'}.get(message.role, message.role) + '\n' -}}
    {%- generation -%}{{- shown(message.content) -}}{%- endgeneration -%}
    {{- '<|im_end|>\n' -}}
    {%- if loop.index > 99 -%}{%- break -%}{%- endif -%}
{%- endfor -%}
{%- for name, value in {'a': 1}.items() | sort if name in state.names | unique | map('upper') | list | join(' ') -%}x{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>model\n' -}}{%- endif -%}
"""


@pytest.mark.parametrize("system", ["", "Be brief."])
def test_a_template_renders_as_in_hugging_face_with_little_work(system, tokenizer):
    feature_tokenizer = tokenizer(FEATURES.replace("strftime_now('%d %b %Y')", "'26 Jul 2024'"))
    messages = [{"role": "system", "content": system}] if system else []
    for index in range(5):
        messages.append({"role": ("user", "assistant")[index % 2], "content": f"<think>so</think>say {index}"})
    template = ChatTemplate(FEATURES, date(2024, 7, 26))
    reference_text = template.render(
        {**feature_tokenizer.special_tokens_map, "messages": messages, "add_generation_prompt": True}
    )
    assert reference_text == feature_tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert 0 < template._sandbox.work < MAX_WORK / 100
    assert chat(feature_tokenizer, system=system).prefix_stable


def test_the_limit_does_not_depend_on_time(monkeypatch, tokenizer):
    hours = iter(range(10**9))
    for clock in ("monotonic", "time", "perf_counter", "process_time", "thread_time"):
        monkeypatch.setattr(time, clock, lambda: 3600.0 * next(hours))
    monkeypatch.setattr(sys, "settrace", None)
    assert chat(tokenizer(FEATURES)).prefix_stable


def test_the_work_of_a_template_is_a_fixed_number(tokenizer):
    template = ChatTemplate(FEATURES, date.max)
    work = []
    for _ in range(2):
        template.render({"messages": [{"role": "user", "content": "one"}]})
        work.append(template._sandbox.work)
    assert work[0] == work[1]


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ [3, 1] | random }}", "random"),
        ("{{ lipsum(9) }}", "lipsum"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{% set n = namespace(__class__=1) %}", "takes no name"),
        ("{% set n = namespace() %}{% set n.__class__ = 1 %}", "takes no name"),
    ],
)
def test_random_functions_and_python_internals_are_refused(template, reason, tokenizer):
    with pytest.raises(ModelError, match=reason):
        chat(tokenizer(template + CHATML))


def test_all_of_several_templates_are_checked(tokenizer):
    feature_tokenizer = tokenizer(CHATML)
    feature_tokenizer.chat_template = {"default": CHATML, "other": "{{ 2 ** 99 }}"}
    with pytest.raises(ModelError, match="power"):
        chat(feature_tokenizer)


def test_one_of_several_templates_is_chosen_by_its_name(tokenizer):
    feature_tokenizer = tokenizer(None)
    feature_tokenizer.chat_template = {"rag": CHATML, "tool_use": CHATML}
    with pytest.raises(ModelError, match="no chat template called default, but rag, tool_use"):
        chat(feature_tokenizer)
    assert chat(feature_tokenizer, template="rag").stop_ids == chat(feature_tokenizer, template="chatml").stop_ids


def test_an_unused_template_is_not_checked(tokenizer):
    assert chat(tokenizer("{% for"), template="chatml").prefix_stable
