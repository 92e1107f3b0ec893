"""The index of studies/log: a row for each entry, from the entries themselves."""

import re

from measured import ROOT, markdown
from pymdownx.slugs import slugify

LOG = ROOT / "studies" / "log"
COMMIT = re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,8}\b")
SEEDS = re.compile(
    r"\b(one|two|three|four|five|ten|[1-9]\d?) seeds?\b|^.*Seeds: ([^.\n]+)", re.MULTILINE
)


def entries():
    """Return the entries of all months, newest first: month's file name, heading, text."""
    parts = []
    for path in sorted(LOG.glob("20*.md"), reverse=True):
        for entry in re.split(r"(?m)^## ", path.read_text(encoding="utf-8"))[1:]:
            heading, _, text = entry.partition("\n")
            parts.append((path.name, heading.strip(), text.strip()))
    return parts


def first_sentence(text):
    """Return the first sentence of a text, at most 160 letters of it."""
    sentence = re.split(r"(?<=[^.\d])[.:;](?=\s)|\n\n", text, maxsplit=1)[0]
    sentence = " ".join(sentence.split()).rstrip(".")
    return sentence if len(sentence) <= 160 else sentence[:157].rsplit(" ", 1)[0] + " ..."


anchor = slugify(case="lower")  # as mkdocs.yml has it for the site


def index():
    """Return a row for each entry: date, what was tried, verdict, seeds, commit."""
    rows = []
    for name, heading, text in entries():
        date, _, title = heading.partition(" ")
        verdict = text.partition("\nVerdict: ")[2]
        seeds, commit = SEEDS.search(text), COMMIT.search(text)
        seeds_text = " ".join(filter(None, seeds.groups())) if seeds else "-"
        link = f"[{title}]({name}#{anchor(heading, '-')})"
        rows.append((date, link, first_sentence(verdict), seeds_text, commit[0] if commit else "-"))
    return markdown(("date", "what was tried", "verdict", "seeds", "commit"), rows)


MARKERS = {"log": index}
