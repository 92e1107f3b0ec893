"""The files of docs/your-own.md: what `sparring new` writes."""

from functools import partial
from pathlib import Path

from sparring.cli.scaffold import file_of

EXAMPLES = Path(__file__).parents[2] / "examples"

NAMES = {
    "reward": "short_replies",
    "estimator": "per_role",
    "matchmaker": "newest_past",
    "context": "newest_words",
    "environment": "heap",
}


def scaffold_file(kind, test=False):
    """Return a file of `sparring new KIND NAME` as a block of code, the plug-in or its test."""
    name = NAMES[kind]
    text = file_of(kind, name, f"test_{name}.py" if test else f"{name}.py")
    return f"```python\n{text.rstrip()}\n```"


def example(name):
    """Return an example as a block of code."""
    return f"```python\n{(EXAMPLES / f'{name}.py').read_text(encoding='utf-8').rstrip()}\n```"


MARKERS = {
    "smallest environment": partial(example, "matching"),
    "free text environment": partial(example, "sums"),
    "picture of an environment": partial(example, "matching_drawn"),
    **{f"new {kind}": partial(scaffold_file, kind) for kind in NAMES},
    "new reward test": partial(scaffold_file, "reward", test=True),
}
