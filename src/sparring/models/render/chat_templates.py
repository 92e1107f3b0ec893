"""Chat templates: named templates, probe conversations, and a sandbox that limits their work.

Named templates are for tokenizers without a usable one. All are prefix-stable. Probe conversations
show how a template writes turns, and whether it writes every turn alike.

Jinja's own sandbox does not limit work. This sandbox has a budget. Every pass of a loop, every
call, and the size of every value that is printed, compared, filtered or joined are counted. Huge
values are refused before they are made. No clock is used, so whether a template renders does
not depend on the machine or its load. Compiling is not counted.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import re
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from datetime import date
from typing import Any, Literal

from jinja2 import TemplateError, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from sparring.core.errors import ModelError

MAX_WORK = 1 << 23  # budget of one rendering; models' templates take less than a hundredth of it
NODE_COST = 16  # cost of each run of a template's node in a loop or macro
MAX_SIZE = 1 << 17  # size of a value: characters, elements, or an integer's absolute value
MAX_PRODUCT = 1 << 24  # product of the sizes of a filter's subject and of its arguments
MAX_CHARACTERS = 1 << 20  # length of a template
_WIDE = re.compile(r"%[^%a-zA-Z]*(?:\*|\d{5,})|\{[^{}]*(?:\d{5,}|\{)")  # formats that pad widely


class ChatTemplate:
    """A compiled chat template.

    Args:
        text: the template in Jinja, with the variables of Hugging Face's chat templates.
        today: the date for ``strftime_now``.

    Raises:
        ModelError: the text cannot be compiled.
    """

    def __init__(self, text: str, today: date) -> None:
        check_template(text)
        self._sandbox = _Sandbox(today)
        try:
            self._compiled = self._sandbox.from_string(text)
        except (TemplateError, RecursionError, SyntaxError, MemoryError) as error:
            raise _refusal(f"it cannot be compiled: {error}") from None

    def render(self, variables: Mapping[str, Any]) -> str:
        """Return the text of the template with these variables.

        Raises:
            ModelError: rendering takes too much work, or makes an enormous value.
        """
        self._sandbox.work = 0
        try:
            return self._compiled.render(variables)
        except RecursionError:
            raise _refusal("rendering a few words takes too deeply nested calls") from None


def check_template(text: str) -> None:
    """Raise ModelError if a template cannot be read, is very long, or computes a power."""
    if len(text) > MAX_CHARACTERS:
        raise _refusal(f"it has {len(text)} characters")
    try:
        tree = _Sandbox(date.min).parse(text)
    except (TemplateError, RecursionError) as error:
        raise _refusal(f"it cannot be read: {error}") from None
    for node in tree.find_all(nodes.Pow):
        raise _refusal(f"line {node.lineno} has a power")


def _refusal(reason: str) -> ModelError:
    return ModelError(
        f"The chat template is not run: {reason}. Write renderer.template=chatml, or another one."
    )


def _size(value: Any) -> int:
    """Return the sum of characters, elements and absolute integers in a value."""
    total, uncounted_items = 0, [value]
    while uncounted_items and total <= MAX_SIZE:  # larger values are refused
        item = uncounted_items.pop()
        total += 1
        if isinstance(item, str | bytes | range):
            total += len(item)
        elif isinstance(item, int) and not isinstance(item, bool):
            total += abs(item)
        elif isinstance(item, Mapping):
            total += len(item)
            uncounted_items += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set | frozenset | KeysView | ValuesView | ItemsView):
            total += len(item)
            uncounted_items += item
        elif isinstance(item, Namespace):
            uncounted_items.append(object.__getattribute__(item, "_Namespace__attrs"))
    return total


class _PublicNamespace(Namespace):
    """A namespace without private names, as in Hugging Face's sandbox."""

    def __init__(*args: Any, **attributes: Any) -> None:
        """Take the first attributes; one of them may be called ``self``."""
        for name in dict(*args[1:], **attributes):
            _check_name(name)
        Namespace.__init__(*args, **attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: Any) -> None:
    if str(name).startswith("_"):
        raise SecurityError(f"a namespace takes no name such as {name!r}")


class _Generation(Extension):
    """The block ``{% generation %}``, which marks replies in templates for training."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


class _Sandbox(ImmutableSandboxedEnvironment):
    """The environment that a template runs in.

    Attributes:
        work: cost of the current rendering so far.

    Args:
        today: the date for ``strftime_now``.
    """

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def __init__(self, today: date) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, loopcontrols],
            finalize=_count_printed,
            optimized=False,
        )
        self.work = 0
        for name in ("random", "urlize"):  # prompts need neither chance nor links
            del self.filters[name]
        del self.globals["lipsum"]
        self.filters["tojson"] = _to_json
        self.filters = {name: self._limit_filter(filter_) for name, filter_ in self.filters.items()}
        # ``_add_counters`` inserts these filters; templates cannot use names with spaces
        self.filters |= {
            "a step": self.count_step,
            "a value": self.count_value,
            "a join": self.join_values,
        }
        self.globals |= {
            "dict": _dictionary,
            "namespace": _PublicNamespace,
            "raise_exception": _raise,
            "strftime_now": today.strftime,
        }

    def _generate(self, source: nodes.Template, *args: Any, **kwargs: Any) -> str:
        return super()._generate(_add_counters(source), *args, **kwargs)

    def count_step(self, cost: int) -> bool:
        """Count the cost of a pass of a loop or of a call; return True."""
        self.work += cost
        if self.work > MAX_WORK:
            raise _refusal(f"rendering a few words takes more than {MAX_WORK} units of work")
        return True

    def count_value(self, value: Any) -> Any:
        """Count a value's size and return the value; an iterator becomes a list."""
        if isinstance(value, Iterator) and not isinstance(value, LoopContext):
            value = list(itertools.islice(value, MAX_SIZE + 1))
        self._count_size(_size(value), MAX_SIZE)
        return value

    def join_values(self, values: list[Any]) -> str:
        return "".join(str(value) for value in self.count_value(values))

    def _count_size(self, size: int, limit: int) -> None:
        if size > limit:
            raise _refusal(f"rendering a few words takes a value of a size beyond {limit}")
        self.count_step(size)

    def _count_call(self, subject: Any, arguments: tuple[Any, ...]) -> None:
        """Count a subject and its arguments; the product of their sizes bounds the result."""
        if isinstance(subject, str) and arguments and _WIDE.search(subject):
            raise _refusal("it has a very wide format")
        sizes = [_size(other) for other in arguments]
        for size in sizes:
            self._count_size(size, MAX_SIZE)
        self._count_size(_size(subject), MAX_SIZE)
        self._count_size(NODE_COST, MAX_SIZE)
        if _size(subject) * (1 + sum(sizes)) > MAX_PRODUCT:
            raise _refusal(f"rendering a few words takes a value of a size beyond {MAX_PRODUCT}")

    def _limit_filter(self, function: Callable[..., Any]) -> Callable[..., Any]:
        num_contexts = int(hasattr(function, "jinja_pass_arg"))

        @functools.wraps(function)
        def call_with_limits(*args: Any, **kwargs: Any) -> Any:
            values = [self.count_value(value) for value in args[num_contexts:]]
            if values and function.__name__ != "do_format":
                self._count_call([values[0]], (*values[1:], *kwargs.values()))
            elif values:
                self._count_call(values[0], (*values[1:], *kwargs.values()))
            return self.count_value(function(*args[:num_contexts], *values, **kwargs))

        return call_with_limits

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "**":
            raise _refusal("it has a power")
        if operator == "%" and isinstance(left, str):
            self._count_call(left, (right,))
        sizes = _size(left), _size(right)
        if operator == "*":
            self._count_size(sizes[0] * sizes[1], 4 * MAX_SIZE)
        else:
            self._count_size(sum(sizes), 4 * MAX_SIZE)
        return self.count_value(super().call_binop(context, operator, left, right))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        values = [__self.count_value(value) for value in args]
        method = inspect.unwrap(__obj)  # the sandbox wraps formats
        subject = getattr(method, "__self__", None)
        is_format = getattr(method, "__name__", "") in ("format", "format_map")
        __self._count_call(subject if is_format else [subject], (*values, *kwargs.values()))
        return __self.count_value(super().call(__context, __obj, *values, **kwargs))


@pass_context
def _count_printed(context: Context, value: Any) -> Any:
    """Count a printed value and return it; ``context`` prevents a call while compiling."""
    environment: Any = context.environment
    return value if isinstance(value, Undefined) else environment.count_value(value)


def _dictionary(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    return dict(*args, **kwargs)


def _raise(message: Any) -> None:
    raise TemplateError(str(message))


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: Any = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    """Return a value as JSON without HTML's escapes, as Hugging Face's filter does."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _filter(node: Any, name: str) -> Any:
    return nodes.Filter(node, name, [], [], None, None).set_lineno(node.lineno)


def _add_counters(node: Any) -> Any:
    cost = 0
    if isinstance(node, nodes.For | nodes.Macro | nodes.CallBlock):
        inner_nodes = [part for child in node.body for part in (child, *child.find_all(nodes.Node))]
        cost = NODE_COST * (1 + len(inner_nodes))
        cost += sum(len(n.data) for n in inner_nodes if isinstance(n, nodes.TemplateData))
    for name in node.fields:
        value = getattr(node, name)
        if isinstance(value, list):
            setattr(
                node,
                name,
                [_add_counters(item) if isinstance(item, nodes.Node) else item for item in value],
            )
        elif isinstance(value, nodes.Node):
            setattr(node, name, _add_counters(value))
    if cost:
        counter = _filter(nodes.Const(cost).set_lineno(node.lineno), "a step")
        node.body.insert(0, nodes.ExprStmt(counter).set_lineno(node.lineno))
        if isinstance(node, nodes.For) and node.test is not None:
            node.test = nodes.And(counter, node.test).set_lineno(node.lineno)
    if isinstance(node, nodes.Concat):
        return _filter(nodes.List(node.nodes).set_lineno(node.lineno), "a join")
    if isinstance(node, nodes.Compare | nodes.Operand):
        node.expr = _filter(node.expr, "a value")
    if isinstance(node, nodes.Test):
        node.node = _filter(node.node, "a value")
        node.args = [_filter(item, "a value") for item in node.args]
    makes_value = isinstance(node, nodes.List | nodes.Dict) or (
        isinstance(node, nodes.Tuple) and node.ctx == "load"
    )
    if makes_value or (isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice)):
        return _filter(node, "a value")
    return node


CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' "
    "}}{% endif %}"
)

GEMMA = (
    "{{ '<bos>' }}{% for message in messages %}{{ '<start_of_turn>' + ('model' if message['role'] "
    "== 'assistant' else 'user') + '\n' + message['content'] + '<end_of_turn>\n' }}{% endfor %}{% "
    "if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)

COMPLETION = (
    "{{ bos_token or '' }}{% for message in messages %}{% if message['role'] == 'assistant' %}"
    "{{ ' ' + message['content'] + eos_token + '\n\n' }}{% elif message['role'] == 'system' %}"
    "{{ message['content'] + '\n\n' }}{% else %}{{ message['content'] + '\n\nAnswer:' }}"
    "{% endif %}{% endfor %}"
)

TEMPLATES = {"chatml": CHATML, "gemma": GEMMA, "completion": COMPLETION}


PROBES = (
    "firstuserprobe",
    "firstreplyprobe",
    "seconduserprobe",
    "secondreplyprobe",
    "thirduserprobe",
)
PROMPT_PROBE = "It is your turn. Legal actions: bet, pass.\n\nPlease choose one of them."
REPLY_PROBE = "bet"
# a function that returns the texts around contents; its second argument is the role of the third
# content and of later ones
Render = Callable[..., list[str]]


def split_pieces(render: Render, remedy: str) -> tuple[str, str, str, str]:
    """Return the scaffold's pieces around messages and replies.

    Args:
        render: returns the texts around contents.
        remedy: advice for the error message.

    Returns:
        The text before the first message, before a reply in the history, between a reply and the
        next message, and between a message and the next reply.

    Raises:
        ModelError: the pieces depend on the length of the conversation: the template is not
            prefix-stable.
    """
    first, ask = render(PROBES[:1])
    second = render(PROBES[:3])  # pieces of the conversation with two messages
    third = render(PROBES)
    expected = [first, second[1], second[2], second[1], second[2], ask]
    if second != [first, second[1], second[2], ask] or third != expected:
        pairs = zip(third, expected, strict=True)
        number = next((n for n, (a, b) in enumerate(pairs) if a != b), 0)
        raise ModelError(
            f"The chat template is not prefix-stable: piece {number} is {third[number]!r} after "
            f"three messages and {expected[number]!r} after two, so the text of earlier turns "
            f"would change later. {remedy} Or set renderer.template to a template that writes "
            "every turn the same way."
        )
    return first, second[1], second[2], ask


def tool_turns(render: Render) -> Literal["stable", "unstable", "none"]:
    """Return whether a longer conversation leaves the text of tools' answers unchanged."""
    try:
        first = render(PROBES[:1])
        second, third = render(PROBES[:3], "tool"), render(PROBES, "tool")
    except ModelError:
        return "none"
    expected = [first[0], second[1], second[2], third[3], second[2], second[3]]
    return "stable" if second[0] == first[0] and third == expected else "unstable"


def split_at_contents(rendered: str, contents: tuple[str, ...], remedy: str) -> list[str]:
    """Return the texts of a rendered conversation before, between and after its contents.

    Args:
        rendered: the conversation.
        contents: messages and replies, in order.
        remedy: advice for the error message.

    Raises:
        ModelError: a content does not occur exactly once.
    """
    texts, remaining = [], rendered
    for text in contents:
        if remaining.count(text) != 1:
            raise ModelError(f"The chat template changes or repeats the text {text!r}. {remedy}")
        piece, _, remaining = remaining.partition(text)
        texts.append(piece)
    return [*texts, remaining]
