"""One test for many small cases: it checks each of them and reports every breach by the name of its case.

Thousands of cases of a millisecond each cost more to collect and to report than to check. Cases that take longer, say 50 ms each, stay
cases of pytest: these can be told apart, run alone and spread over workers.
"""

import inspect
import traceback
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def every_case(names, cases, *, ids=str, parts=1):
    """Do as ``pytest.mark.parametrize`` would, in one test. The check may use no fixture that must be fresh for every case.

    Args:
        names: of the check's arguments that a case has: words with commas between, or a tuple.
        cases: as parametrize takes them: a value for one name, a tuple for several; a ``pytest.param`` may name its case.
        ids: what names a value, or the names of all cases in order.
        parts: tests that share the cases, where together they take longer than a quick test may.
    """
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    assert 0 < parts <= len(cases), f"{parts} parts of {len(cases)} cases: some would check nothing"
    ids = ids if callable(ids) else list(ids)
    named = [_named(names, case, ids if callable(ids) else ids[number]) for number, case in enumerate(cases)]

    def decorate(check):
        def run_cases(**others):
            mine = named[others.pop("part", 0) :: parts]
            breaches = [breach for case, values in mine if (breach := _breach(check, case, {**values, **others}))]
            if breaches:
                pytest.fail("\n".join([f"{len(breaches)} of {len(mine)} cases:", *breaches]), pytrace=False)

        parameters = [parameter for name, parameter in inspect.signature(check).parameters.items() if name not in names]
        if parts > 1:
            parameters.append(inspect.Parameter("part", inspect.Parameter.POSITIONAL_OR_KEYWORD))
        run_cases.__signature__ = inspect.Signature(parameters)
        run_cases.__name__, run_cases.__qualname__, run_cases.__module__, run_cases.__doc__ = (
            check.__name__,
            check.__qualname__,
            check.__module__,
            check.__doc__,
        )
        run_cases.pytestmark = list(getattr(check, "pytestmark", []))
        if getattr(check, "is_hypothesis_test", False):
            run_cases = pytest.mark.hypothesis(run_cases)
        return pytest.mark.parametrize("part", range(parts))(run_cases) if parts > 1 else run_cases

    return decorate


def _named(names, case, ids):
    """Return the name of a case and its values by their names."""
    values, name = case, None
    if isinstance(case, type(pytest.param())):
        assert not case.marks, f"{case}: a case with marks is a test of its own"
        values, name = case.values if len(names) > 1 else case.values[0], case.id
    values = dict(zip(names, values, strict=True)) if len(names) > 1 else {names[0]: values}
    if name is None:
        name = "-".join(str(ids(value)) for value in values.values()) if callable(ids) else ids
    return name, values


def _breach(check, case, arguments):
    """Return how a case fails, with its name and place; None if it does not."""
    try:
        check(**arguments)
    except (Exception, pytest.fail.Exception) as error:
        frames = [
            frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(ROOT)
        ]
        place = f"{Path(frames[-1].filename).relative_to(ROOT)}:{frames[-1].lineno}"
        what = "\n".join([str(error) or frames[-1].line, *getattr(error, "__notes__", ())]).replace("\n", "\n    ")
        return f"{case}: {type(error).__name__}: {what} ({place})"
    return None
