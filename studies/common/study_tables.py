"""Files that `sparring reproduce` writes for a study, and the comparison with published results."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sparring.core.errors import ConfigError
from sparring.core.files import disk_errors, parse_json, write_bytes_atomic
from studies.common.result_figures import Results, Row, interval, interval_text, markdown
from studies.common.results_file import as_text, errors_of
from studies.common.study import FOLDER, QUICK_NOTE, Study, folder_of, published_path

RESULTS, TABLES = "results.json", "tables.md"
ROOT = FOLDER.parent
LABEL_TYPES = (str, int, float)  # types of labels; maps and lists are figures
TIME_FIGURES = {"seconds"}  # figures that differ when a study is run again


def write(name: str, document: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write results.json, tables.md and the charts of a study into a folder; return the files.

    Args:
        name: name of the study.
        document: the content of its results file.
        folder: folder in which the files are written.

    Raises:
        RunError: the files cannot be written.
    """
    results = Results(document, str(folder / RESULTS))
    files = {RESULTS: as_text(document), TABLES: tables_page(name, results)}
    files |= {f"images/{image}": f"{svg}\n" for image, svg in charts(name, results).items()}
    return _write_files(folder, files)


def _write_files(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Write files into a folder and return their paths."""
    for path, content in files.items():
        with disk_errors(folder / path):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
        write_bytes_atomic(folder / path, content.encode())
    return [folder / path for path in files]


def tables_page(name: str, results: Results) -> str:
    """Return the tables and verdicts of a study as a page in Markdown."""
    module = module_of(name)
    if hasattr(module, "page"):
        page: Callable[[Results], str] = module.page
        return page(results)
    lines = [f"# {name}", "", results.source(), ""]
    for heading, make in getattr(module, "SECTIONS", {"All figures": table_of_all_figures}).items():
        table = (module.MARKERS[make] if isinstance(make, str) else make)(results)
        lines += [f"## {heading}", "", table, ""]
    lines += [f"![{image}](images/{image})\n" for image in charts(name, results)]
    return "\n".join(lines).rstrip() + "\n"


def charts(name: str, results: Results) -> dict[str, str]:
    """Return the charts of a study by file name, each an <svg> element."""
    draw: Callable[[Results], dict[str, str]] = getattr(module_of(name), "charts", lambda of: {})
    return draw(results)


def module_of(name: str) -> Any:
    """Return the module with the tables of a study, or None if the study has no such module."""
    folder = folder_of(name)
    if not (FOLDER / folder / "tables.py").is_file():
        return None
    return importlib.import_module(f"studies.{folder}.tables")


def table_of_all_figures(results: Results) -> str:
    """Return every figure of every row, with its interval over seeds."""
    lines = [
        (
            ", ".join(map(str, labels_of(row).values())),
            figure,
            interval_text(interval(row, figure), 3),
        )
        for row in results.rows()
        for figure in row.get("values", {})
    ]
    return markdown(("row", "figure", "mean"), lines)


def labels_of(row: Row) -> dict[str, Any]:
    """Return the labels that identify a row."""
    return {name: value for name, value in row.items() if isinstance(value, LABEL_TYPES)}


def check_publishable(study: Study, setting: Mapping[str, Any]) -> None:
    """Check that the results of a setting may replace the published ones.

    Raises:
        ConfigError: the setting is not the published one.
    """
    if setting != study.setting:
        raise ConfigError(
            "--publish replaces the figures of the repository's pages, so it needs the published "
            f"setting, which this run does not have. Omit --quick ({study.hours:g} hours on two "
            "cores), or omit --publish: results.json and tables.md are written in any case."
        )


def publish_results(name: str, document: Mapping[str, Any]) -> list[Path]:
    """Replace the published results and charts of a study; return the files.

    Raises:
        ConfigError: the document does not have the format of a published file.
    """
    if errors := errors_of(document):
        raise ConfigError(f"These results cannot be published: {' '.join(errors)}")
    images = charts(name, Results(document))
    files = {_place(published_path(name)): as_text(document)}
    files |= {f"docs/images/{image}": f"{svg}\n" for image, svg in images.items()}
    return _write_files(ROOT, files)


def compare_with_published(name: str, document: Mapping[str, Any]) -> list[str]:
    """Return a few lines that compare the results with the published ones."""
    path = published_path(name)
    if not path.is_file():
        return ["No figures of this study are published yet; none compared."]
    results = parse_json(path.read_bytes())
    commit = (results["commit"] or "")[:7]
    head = f"Beside the published figures ({_place(path)} of {results['date']}, commit {commit}):"
    if document.get("note") == QUICK_NOTE:
        return [f"{head} none compared, as a quick run's figures measure nothing."]
    return [head, *_differences(document, results)]


def _place(path: Path) -> str:
    """Return a path relative to the root of the repository."""
    return path.relative_to(ROOT).as_posix()


def _differences(document: Mapping[str, Any], published: Mapping[str, Any]) -> Iterator[str]:
    """Yield the number of values equal to the published ones, and the largest differences."""
    pairs = list(pair_values(document, published))
    if not pairs:
        yield "Both files have no value in common."
        return
    different = [pair for pair in pairs if pair[2] != pair[3]]
    yield f"{len(pairs) - len(different)} of {len(pairs)} values per seed are equal to the digit."
    by_distance = sorted(different, key=lambda pair: abs(pair[2] - pair[3]), reverse=True)
    for row, figure, own_value, published_value in by_distance[:5]:
        yield f"{row}: {figure} {own_value:.4g}, published {published_value:.4g}"


def pair_values(
    document: Mapping[str, Any], published: Mapping[str, Any]
) -> Iterator[tuple[str, str, float, float]]:
    """Yield (row, figure and seed, new value, published value) for every value in both files."""
    published_values = {_key(row): row.get("values", {}) for row in published["rows"]}
    for row in document["rows"]:
        values_of_row = published_values.get(_key(row), {})
        for figure, by_seed in row.get("values", {}).items():
            for seed, value in by_seed.items():
                published_value = values_of_row.get(figure, {}).get(seed)
                if figure not in TIME_FIGURES and value is not None and published_value is not None:
                    yield ", ".join(_key(row)), f"{figure} (seed {seed})", value, published_value


def _key(row: Row) -> tuple[str, ...]:
    """Return a row's labels as text."""
    return tuple(str(value) for value in labels_of(row).values())
