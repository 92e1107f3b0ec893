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
    """Parametrise a test like ``pytest.mark.parametrize``, but as one test. All cases have the same fixtures.

    Args:
        names: names of the arguments that differ between cases: words separated by commas, or a tuple.
        cases: per case, a value for one name, a tuple for several names, or a ``pytest.param`` with an id.
        ids: function that returns the text of a value, or the names of all cases in order.
        parts: number of tests among which the cases are divided; more than 1 if all cases take too long for a quick test.
    """
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    assert 0 < parts <= len(cases), f"{parts} parts of {len(cases)} cases: some would check nothing"
    ids = ids if callable(ids) else list(ids)
    named_cases = [
        _name_and_values(names, case, ids if callable(ids) else ids[number]) for number, case in enumerate(cases)
    ]

    def decorate(check):
        def run_cases(**arguments):
            cases_of_part = named_cases[arguments.pop("part", 0) :: parts]
            breaches = [
                breach for case, values in cases_of_part if (breach := _breach(check, case, {**values, **arguments}))
            ]
            if breaches:
                pytest.fail("\n".join([f"{len(breaches)} of {len(cases_of_part)} cases:", *breaches]), pytrace=False)

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


def _name_and_values(names, case, ids):
    """Return the name of a case and its values by their names."""
    values, name = case, None
    if isinstance(case, type(pytest.param())):
        assert not case.marks, f"{case}: write a separate test for a case with marks"
        values, name = case.values if len(names) > 1 else case.values[0], case.id
    values = dict(zip(names, values, strict=True)) if len(names) > 1 else {names[0]: values}
    if name is None:
        name = "-".join(str(ids(value)) for value in values.values()) if callable(ids) else ids
    return name, values


def _breach(check, case, arguments):
    """Return a failed case's name, error and location; None if the case passes."""
    try:
        check(**arguments)
    except (Exception, pytest.fail.Exception) as error:
        frames = [
            frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(ROOT)
        ]
        location = f"{Path(frames[-1].filename).relative_to(ROOT)}:{frames[-1].lineno}"
        message = "\n".join([str(error) or frames[-1].line, *getattr(error, "__notes__", ())]).replace("\n", "\n    ")
        return f"{case}: {type(error).__name__}: {message} ({location})"
    return None
