"""Build the documentation's site in build/site: the pages of the project and the reference made from the code.

mkdocs.yml says how the site looks. A link to a file that is no page leads to a copy of that file, so
every link of the project works in the site too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import generate

ROOT = generate.ROOT
PAGES = ROOT / "build" / "pages"
LINK = re.compile(r"\]\(([^)#\s]+)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def linked_files(text: str, folder: Path) -> list[Path]:
    """Return the files of the project that a page links or shows, and that are no pages.

    Args:
        text: the page.
        folder: the page's folder in the project.

    Raises:
        ValueError: a link leads to a folder, which a site cannot show.
    """
    targets = [target for target in LINK.findall(CODE.sub("", text)) if "://" not in target]
    paths = [(folder / target).resolve() for target in targets]
    if folders := [path for path in paths if path.is_dir()]:
        raise ValueError(f"A page of {folder} links the folder {folders[0]}; link a file in it.")
    return [path for path in paths if path.is_file() and path.suffix != ".md"]


def search_settings(name: str) -> str:
    """Return a page's head for the search: guides come first, and the log of experiments is left out."""
    is_guide = name.startswith("docs/") and name.count("/") == 1
    setting = (
        "exclude: true" if name.startswith("studies/log/20") else f"boost: {3 if is_guide else 1}"
    )
    return f"---\nsearch:\n  {setting}\n---\n\n"


def collect() -> None:
    """Write the pages of the site and the files that they link into build/pages."""
    shutil.rmtree(PAGES, ignore_errors=True)
    texts = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in generate.committed_pages()
    }
    texts |= generate.reference_pages()
    for name, text in texts.items():
        target = PAGES / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(search_settings(name) + text, encoding="utf-8")
        for path in linked_files(text, (ROOT / name).parent):
            copy = PAGES / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)


def main() -> None:
    """Build the site; a link that leads nowhere fails."""
    collect()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    sys.exit(
        subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}).returncode
    )


if __name__ == "__main__":
    main()
