"""A lead that calls workers, who search for the cells of a table at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.errors import ConfigError, GameError, TooLargeError, quoted
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.bank import BANKS, Bank
from sparring.environments.base import ConversationEnd
from sparring.environments.drawing.canvas import Canvas, PaintedPlay
from sparring.environments.drawing.pieces import heading, paragraph, seats, table
from sparring.environments.reply import listed_reply
from sparring.environments.wide_search import searching
from sparring.environments.wide_search.library import RESULTS
from sparring.environments.wide_search.scoring import (
    EMPTY,
    FIGURES,
    NEXT,
    NONE,
    Table,
    TableScore,
    critical_steps,
    plain,
    read_table,
    sample_table,
    score,
    total_steps,
    wave_figures,
    written_table,
)
from sparring.environments.wide_search.searching import Cell, SearchCall, SharedNotes
from sparring.environments.wide_search.world import (
    COLUMNS,
    NAMES,
    VALUES,
    World,
    questions,
    real_world,
    world,
)

WORDS = (  # of every brief wording; then of the search by words, and of a written table
    *("lead", "single", "worker", "items", "workers", "waves", "find", "of", "left", "back"),
    *("call", "finish", "open", "note", "done", "noted", "page"),
)
SEARCHED = ("search", "found", "nothing", "list", "news")
WRITTEN = ("write", NEXT, EMPTY, NONE)


def lead_observation(play: WideSearchPlay) -> Observation:
    """Return the observation of the lead: first the task, then the results of waves."""
    rules, start = play.rules, play.start
    brief = rules.brief
    key = f"lead {_asked(play)} | {' | '.join(_waves(play))}{play.written}"
    if play.wave_texts:
        text = play.wave_texts[-1]
    elif brief:
        text = (
            f"lead items {rules.items} find {' '.join(start.columns)} workers {rules.workers} "
            f"waves {rules.waves}"
        )
    else:
        scope = f"of all {start.kind} {start.asked}, {len(start.names)} of them,"
        scope = scope if start.asked else f"of {rules.items} items"
        answer = "that you write at the end" if rules.writes else "that was noted"
        text = (
            f"You lead {rules.workers} workers. A table {scope} has "
            f"the columns {', '.join(start.columns)}, and its cells are to be found. When you call "
            "workers, the items that lack a cell are shared out among them evenly, they search at "
            f"once, and each has {rules.turns} turns. You may call {rules.waves} times. The result "
            f"of all is item F1 of the table {answer}."
        )
    ask = "" if brief else "Reply call N, with a number of workers, or finish."
    return Observation(prompt=text, ask=ask, key=key, view=text)


def _asked(play: WideSearchPlay) -> str:
    start = play.start
    return f"{start.asked}: {', '.join(start.columns)}" if start.asked else f"{play.rules.items}"


def _waves(play: WideSearchPlay) -> tuple[str, ...]:
    pairs = zip(play.waves, play.wave_texts, strict=True)
    return tuple(f"{len(wave)}: {text}" for wave, text in pairs)


def wave_text(play: WideSearchPlay) -> str:
    """Return the prompt after a wave: counts of cells and rows; a writing lead sees the cells."""
    cells, empty, brief = len(play.notes), len(play.open_items()), play.rules.brief
    total = len(play.start.names) * play.rules.columns
    text = (
        f"back noted {cells} left {empty}"
        if brief
        else f"The workers are back. {cells} of {total} cells are noted; {empty} items lack a cell."
    )
    new = play.noted(play.num_before) if play.rules.writes else {}
    if brief:
        rows = (f"{name} {' '.join(map(' '.join, row.items()))}" for name, row in new.items())
        return " ".join((text, *rows))
    rows = (
        f"- {name}: {'; '.join(f'{column} {value}' for column, value in row.items())}"
        for name, row in new.items()
    )
    return "\n".join((text, *rows))


def writer_observation(play: WideSearchPlay) -> Observation:
    """Return the observation of the seat that writes the table: the news and the form."""
    rules, start = play.rules, play.start
    news = play.wave_texts[play.num_answered :] if rules.workers else ()
    key = f"{rules.roles[0]} writes {_asked(play)} | {' | '.join((*_waves(play), *play.past))}"
    if rules.brief:
        text = " ".join((*news, "write"))
        return Observation(prompt=text, key=key, view=text)
    text = "\n".join((*news, "The search is over. Write the table."))
    header = written_table({}, start, brief=False)
    ask = (
        f"Reply with a markdown table that begins with these two lines, and has a line for each "
        f"of the {start.kind}; leave empty what you do not know.\n\n{header}"
    )
    return Observation(prompt=text, ask=ask, key=key, view=text)


def worker_observation(play: WideSearchPlay, seat: int, call: SearchCall) -> Observation:
    """Return the observation of a worker: first its items, then the result of its last action."""
    rules, start, brief = play.rules, play.start, play.rules.brief
    fresh = not call.log
    role = rules.roles[seat]
    if fresh:
        names = [start.names[item] for item in call.items]
        if brief:
            text = f"{role} find {' '.join(start.columns)} of {' '.join(names)}"
        else:
            pages = "Search for pages, and open them." if rules.by_words else "Each has a page."
            scope = f" ({start.kind} {start.asked})" * bool(start.asked)
            text = (
                f"You are {role}. Find {' and '.join(start.columns)} of {', '.join(names)}{scope}. "
                f"{pages} What you note is kept; nobody sees anything else of your work."
            )
    else:
        text = searching.result_text(play, call)
    gap = "\n\n" if rules.by_words else " "
    text = f"{text} left {call.turns}" if brief else f"{text}{gap}Turns left: {call.turns}."
    ask = "" if brief else searching.forms(start.columns, fresh, by_words=rules.by_words)
    key = f"{role} {call.items} | {' | '.join((*call.log, text))}"
    return Observation(prompt=text, ask=ask, key=key, view=text, fresh=fresh)


LEAD = 0
FINISH, CALL = "finish", "call"
ROWS = 12  # most rows in the drawing


class WideSearchPlay(PaintedPlay, SharedNotes):
    """One episode.

    Attributes:
        num_due: number of cells that each seat was called for, over all its calls.
        calls: current calls, by the worker's seat.
        waves: for each wave the steps of each of its workers, in order of their seats.
        ended: whether the episode is over.
        wave_texts: the prompt of the lead after each wave.
        num_answered: number of these prompts that the lead has answered.
        writing: whether the lead writes the table now.
        written: the text of the table that the lead wrote.
        past: the conversation of a seat that works alone, once its search is over.
        ends: how the latest call of each seat ended, by seat.
    """

    def __init__(self, rules: WideSearch, start: World) -> None:
        # all of these are replaced when they change, so that a copy may share them
        self.rules, self.start, self.ended = rules, start, False
        self.brief, self.by_words = rules.brief, rules.by_words
        self.distractors = rules.distractors
        self.notes: dict[Cell, str] = {}
        self.by: dict[Cell, int] = {}
        self.num_due: dict[int, int] = {}
        self.calls: dict[int, SearchCall] = {}
        self.waves: tuple[tuple[int, ...], ...] = ()
        self.steps: dict[int, int] = {}  # steps of each worker in this wave
        self.wave_texts: tuple[str, ...] = ()
        self.num_before = 0  # cells noted before this wave
        self.num_answered, self.writing, self.written = 0, False, ""
        self.past: tuple[str, ...] = ()
        self.ends: dict[int, ConversationEnd] = {}
        self.lead_steps = 0
        self.useful: frozenset[tuple[int, int]] = frozenset()  # wave and seat with a right cell
        if not rules.workers:
            self._begin({LEAD: tuple(self.open_items())})

    @property
    def done(self) -> bool:
        return self.ended

    @property
    def returns(self) -> tuple[float, ...]:
        """Item F1 of the answer, for every seat; 0 before the end."""
        value = self.score.item_f1 if self.ended else 0.0
        return (value,) * self.rules.num_seats

    @property
    def answer(self) -> Table | None:
        """The table of the notes, or the written table, None if malformed."""
        if self.rules.writes:
            return read_table(self.written, self.start, brief=self.brief)
        return self.noted()

    def noted(self, first: int = 0) -> Table:
        """Return the table of the notes from number ``first`` on."""
        return self._table([*self.notes][first:])

    def _table(self, cells: Sequence[Cell]) -> Table:
        rows: Table = {}
        for item, column in sorted(cells):
            row = rows.setdefault(self.start.names[item], {})
            row[self.start.columns[column]] = self.notes[item, column]
        return rows

    @property
    def score(self) -> TableScore:
        """The score of the answer; a malformed answer counts as empty."""
        return score(self.start.rows(), self.answer or {}, self.rules.columns)

    @property
    def critical_steps(self) -> int:
        """The lead's steps plus those of the slowest worker of each wave."""
        return critical_steps(self.lead_steps, (*self.waves, tuple(self.steps.values())))

    @property
    def total_steps(self) -> int:
        """The steps of all seats."""
        return total_steps(self.lead_steps, (*self.waves, tuple(self.steps.values())))

    def closed(self, seat: int) -> ConversationEnd | None:
        """Return how a seat's latest conversation ended, None for the lead before the end."""
        return self.ends.get(seat) if self.ended or seat != LEAD else None

    def open_items(self, items: Sequence[int] | None = None) -> list[int]:
        """Return the rows that lack a cell, of ``items`` or of all."""
        rows, columns = range(len(self.start.names)), range(self.rules.columns)
        lacks = [any((row, column) not in self.notes for column in columns) for row in rows]
        return [row for row in (rows if items is None else items) if lacks[row]]

    def parts(self) -> tuple[int, ...]:
        """Return the seats that were called for cells, none where the answer is written."""
        return () if self.rules.writes else tuple(sorted(self.num_due))

    def worth(self, seats: Collection[int]) -> float:
        """Return item F1 of the table of the notes of these seats only."""
        cells = [cell for cell, seat in self.by.items() if seat in seats]
        return score(self.start.rows(), self._table(cells), self.rules.columns).item_f1

    def own_share(self, seat: int) -> float:
        """Return the right cells of a seat, divided by the cells that it was called for."""
        return self.figures()["found"][seat] / max(self.num_due[seat], 1)

    def due(self) -> tuple[int, ...]:
        if self.ended:
            return ()
        return tuple(sorted(self.calls)) or (LEAD,)

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return the legal replies of a seat, none where it is not due; None for any text."""
        if seat not in self.due():
            return ()
        if self.writing or (seat in self.calls and self.rules.free):
            return None
        if seat not in self.calls:
            largest = min(self.rules.workers, len(self.open_items()))
            return (*(f"{CALL} {width}" for width in range(1, largest + 1)), FINISH)
        return searching.actions(self, self.calls[seat])

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the action in a reply; a written table is the reply itself."""
        legal = self.legal(seat)
        if legal is not None:
            return listed_reply(legal, reply, exact)
        if self.writing:
            return reply
        return searching.read_action(self, self.calls[seat], reply, exact)

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a random reply in the required form, where any text is allowed."""
        if self.writing:
            return sample_table(self.noted(), self.start, stream, brief=self.brief)
        return searching.sample(self, self.calls[seat], stream)

    def observe(self, seat: int) -> Observation:
        """Return the observation of a seat; each call starts a worker's conversation anew."""
        if seat in self.calls:
            return worker_observation(self, seat, self.calls[seat])
        if self.writing and seat == LEAD:
            return writer_observation(self)
        if self.rules.leads(seat):
            return lead_observation(self)
        notes = self.written if seat == LEAD else ""
        return Observation(prompt="", key=f"{self.rules.roles[seat]} idle{notes}")

    def step(self, replies: Mapping[int, str]) -> None:
        for seat, reply in replies.items():
            legal = self.legal(seat)
            is_valid = reply in legal if legal is not None else self.read(seat, reply, True)
            if is_valid is False or is_valid is None:
                raise GameError(f"wide_search: {quoted(reply)} is illegal for seat {seat} now.")
        if self.writing:
            self.lead_steps += 1
            self.written, self.writing, self.ended = replies[LEAD], False, True
            self.ends = {**self.ends, LEAD: "malformed" if self.answer is None else "answered"}
        elif not self.calls:
            self._lead(replies[LEAD])
        else:
            self._work(replies)
        limit = self.rules.critical
        if limit and self.critical_steps >= limit and not (self.ended or self.writing):
            self._close()
            self._end()

    def _lead(self, reply: str) -> None:
        """Finish, or call workers and split the open rows evenly among them in order."""
        self.lead_steps += 1
        self.num_answered = len(self.waves)
        if reply == FINISH:
            self.ends = {**self.ends, LEAD: "answered"}
            self._end()
            return
        width, items = int(reply.split()[1]), self.open_items()
        cuts = [len(items) * number // width for number in range(width + 1)]
        shares = enumerate(pairwise(cuts), start=1)
        self._begin({seat: tuple(items[begin:end]) for seat, (begin, end) in shares})

    def _begin(self, shares: Mapping[int, tuple[int, ...]]) -> None:
        columns = range(self.rules.columns)
        self.num_due = dict(self.num_due)
        for seat, items in shares.items():
            num_open = sum((item, column) not in self.notes for item in items for column in columns)
            self.num_due[seat] = self.num_due.get(seat, 0) + num_open
        self.calls = {seat: SearchCall(items, self.rules.turns) for seat, items in shares.items()}
        self.ends = {seat: how for seat, how in self.ends.items() if seat not in shares}
        self.steps, self.num_before = dict.fromkeys(shares, 0), len(self.notes)

    def _end(self) -> None:
        self.writing = self.rules.writes
        self.ended = not self.writing

    def _work(self, replies: Mapping[int, str]) -> None:
        self.notes, self.by = dict(self.notes), dict(self.by)
        self.calls, self.steps = dict(self.calls), dict(self.steps)
        for seat, reply in sorted(replies.items()):
            prompt = self.observe(seat).prompt
            action = (self.read(seat, reply, True) or reply) if self.rules.free else reply
            call = self.calls[seat]
            call = replace(call, turns=call.turns - 1, log=(*call.log, prompt, action))
            self.steps[seat] += 1
            self.calls[seat] = call = searching.after_action(self, seat, call, action)
            if action == searching.DONE or not call.turns:
                short = action != searching.DONE and self.open_items(call.items)
                self.ends = {**self.ends, seat: "turns" if short else "answered"}
                del self.calls[seat]
                self.past = call.log if seat == LEAD else ()
        if not self.calls:
            self._close()
            if not self.rules.workers or len(self.waves) == self.rules.waves:
                self._end()

    def _close(self) -> None:
        """End a wave and write the next prompt of the lead."""
        if any(self.steps.values()):
            new = filter(self._is_right, [*self.notes][self.num_before :])
            self.useful |= {(len(self.waves), self.by[cell]) for cell in new}
            self.waves = (*self.waves, tuple(self.steps.values()))
            self.wave_texts = (*self.wave_texts, wave_text(self))
        call = self.calls.get(LEAD)  # still at work if the limit of critical steps ends the wave
        self.past = call.log if call is not None else self.past
        self.ends = {**self.ends, **dict.fromkeys(self.calls, "limit")}
        self.calls, self.steps = {}, {}

    def _is_right(self, cell: Cell) -> bool:
        return plain(self.notes[cell]) == plain(self.start.values[cell[0]][cell[1]])

    def figures(self) -> dict[str, tuple[float, ...]]:
        """Return the figures of the answer and of the work of a finished episode."""
        seats = self.rules.num_seats
        work = wave_figures(self.lead_steps, self.waves, len(self.useful), self.rules.workers)
        of_all: dict[str, float] = {**asdict(self.score), **work}
        right = [0.0] * seats
        for cell, seat in self.by.items():
            right[seat] += self._is_right(cell)
        if self.rules.writes:
            of_all["malformed"] = self.answer is None
        return {
            **{name: (float(value),) * seats for name, value in of_all.items()},
            "found": tuple(right),
        }

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        rules, start, due = self.rules, self.start, self.due()
        seats(canvas, rules.roles, due if seat is None else tuple({seat} & {*due}))
        if seat is not None and not rules.leads(seat):
            call = self.calls.get(seat)
            if call is not None:
                heading(canvas, "Items")
                paragraph(canvas, ", ".join(start.names[item] for item in call.items))
                if call.open >= 0:
                    _page(canvas, self, call.open)
        elif seat is None:
            rows: list[tuple[str, ...]] = [("", *start.columns)]
            for item in range(min(len(start.names), ROWS)):
                cells = (_cell(self, item, column) for column in range(rules.columns))
                rows.append((start.names[item], *cells))
            heading(canvas, "Table", "noted / right")
            table(canvas, rows)
        if self.written and seat in (None, 0):
            heading(canvas, "Answer", "malformed" if self.answer is None else "")
            for line in self.written.splitlines()[:ROWS]:
                paragraph(canvas, line, most=2)
        paragraph(canvas, self.described(seat), colour="dim")

    def described(self, seat: int | None) -> str:
        rules = self.rules
        if seat is None:
            over = f" Item F1: {self.returns[0]:.3f}." if self.done else ""
            cells = f"Cells noted: {len(self.notes)} of {len(self.start.names) * rules.columns}."
            return f"{cells} Waves so far: {len(self.waves)}.{over}"
        if not rules.leads(seat):
            call = self.calls.get(seat)
            if call is None:
                return f"{rules.roles[seat]} is not at work."
            names = ", ".join(self.start.names[item] for item in call.items)
            return f"{rules.roles[seat]} searches for {names}; {call.turns} turns left."
        text = self.wave_texts[-1] if self.wave_texts else "No worker was called yet."
        return f"{' '.join(text.split())} Waves so far: {len(self.waves)}."

    def clone(self) -> WideSearchPlay:
        twin = object.__new__(WideSearchPlay)
        twin.__dict__.update(self.__dict__)
        return twin


def _page(canvas: Canvas, play: WideSearchPlay, number: int) -> None:
    if play.rules.by_words:
        page = searching.pages(play)[number]
        heading(canvas, page.title)
        for line in page.text.splitlines()[:ROWS]:
            paragraph(canvas, line, most=2)
        return
    row = play.start.row(number)
    heading(canvas, play.start.names[number])
    table(canvas, [tuple(row), tuple(row.values())])


def _cell(play: WideSearchPlay, item: int, column: int) -> str:
    noted, right = play.notes.get((item, column)), play.start.values[item][column]
    if noted is None:
        return f"- / {right}"
    return noted if noted == right else f"{noted} / {right}"


ALONE = "single"
MOST_OPENINGS = 1000  # most worlds for exact figures
SCORED = tuple(field.name for field in fields(TableScore))


@dataclass(kw_only=True, eq=False)
class WideSearch(Bank):
    """A team fills a table: a lead calls workers, who read pages in parallel and note cells.

    What: a world of things with invented names has a page for each. The lead says how many workers
    it calls; the rows that lack a cell are split evenly among them, and they search in parallel. A
    worker starts a fresh conversation at every call, opens pages and notes values until it is done
    or has no turns left. Then the lead learns how many cells are noted, and calls again or
    finishes. The answer is the table of the notes.

    With ``search: words`` workers find pages by full-text search, at most three a search, best
    first: a page for each thing, a list of things for each value, and ``distractors``. A worker
    replies ``search ardan colour``, ``open 2``, ``note ardan colour red`` or ``done``. In full
    style it may reply any text, and the first valid command is the action. With ``answer: written``
    the lead sees the noted cells and writes the table after the search: markdown in full style,
    ``ardan red ; bemir -`` in brief style. With ``tables`` a question about a real table replaces
    the invented world, such as all countries whose subregion is Western Europe, with some columns.
    When to use: to train teams that choose their own size (WideSeek-R1; Agent Swarm, with frozen
    workers), and to compare them with a single agent: ``workers: 0`` has one seat, with ``turns``
    turns in all.
    Mathematics: the return of every seat is item F1, of E true rows, M rows of the answer and A
    columns beside the name:

        TP = sum over rows of the answer of 1 + its right cells
        P = TP / (M (1 + A)),    R = TP / (E (1 + A)),    item F1 = 2 P R / (P + R)

        critical steps = the lead's turns + sum over waves of the turns of its slowest worker

    Comparisons of cells ignore case, white space and commas between thousands.

    Figures: item_f1, precision, recall, non_key_f1, row_f1, success, waves, width (of the widest
    wave), critical_steps, total_steps, called (number of calls of a worker), finished (calls with a
    right cell), parallel (width as a share of the possible, 0 for one worker), finished_share (of
    the calls), and found, the right cells of each seat; with ``answer: written`` also malformed, 1
    for an unparsable answer, which scores 0.
    Pitfalls: names of rows in the answer count as right cells, so a row with wrong values still has
    some value; non_key_f1 leaves names out. Two workers never share a row, so they cannot disagree,
    and they know its name: no one searches for names. The lead sees no cell unless it writes the
    answer, so it decides by counts only. A model may have memorised real tables, whose content
    depends on the package's version. One filter in five of a real table is held out for banks from
    2^30 on, which measure skill; a row may pass filters of both kinds.
    Reference: WideSeek-R1 (arXiv 2602.04634); Kimi K2.5's critical steps (arXiv 2602.02276).
    Verified by: tests/environments/test_wide_search.py.

    Args:
        items: rows of the table, 1 to 48; for a real table the most rows, at least 4.
        columns: cells of a row besides its name, 1 to 4: colour, size, food, place.
        workers: most workers in a call, 0 to 16; 0: one seat, "single", works alone.
        turns: turns of a worker at each call, 1 to 1000. A row takes one turn to open and one for
            each cell, and with ``search: words`` one more to search.
        waves: calls of the lead, 1 to 100.
        critical: critical steps after which the search ends; 0 (default): no limit.
        worlds: worlds in the bank, 1 to 10,000,000.
        bank: number of the bank, below 2^31; another bank has other worlds.
        style: "brief" (default): words for a tiny model. "full": sentences for a language model.
        search: "names" (default): workers open the pages of their rows by name. "words": they
            search for pages by words.
        distractors: irrelevant pages, 0 to 1000, where search is "words": news about two things, or
            for a real table pages of other rows.
        answer: "merged" (default): the table of the notes. "written": a table that the lead, or the
            single seat, writes.
        tables: "invented" (default), or a real table: "countries", "elements" or "airports", which
            need the extra ``tables``, style "full" and search "words".

    Raises:
        ConfigError: incompatible options, or a missing or broken package of ``tables``.
    """

    items: Annotated[int, Field(ge=1, le=len(NAMES))] = 8
    columns: Annotated[int, Field(ge=1, le=len(COLUMNS))] = 2
    workers: Annotated[int, Field(ge=0, le=16)] = 4
    turns: Annotated[int, Field(ge=1, le=1000)] = 6
    waves: Annotated[int, Field(ge=1, le=100)] = 2
    critical: Annotated[int, Field(ge=0, le=100_000)] = 0
    worlds: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0
    style: Literal["brief", "full"] = "brief"
    search: Literal["names", "words"] = "names"
    distractors: Annotated[int, Field(ge=0, le=1000)] = 0
    answer: Literal["merged", "written"] = "merged"
    tables: Literal["invented", "countries", "elements", "airports"] = "invented"

    name, counted = "wide_search", "worlds"
    min_utility, max_utility, utility_sum = 0.0, 1.0, None
    zero_sum, cooperative = False, True

    def __post_init__(self) -> None:
        search, answer, tables = self.search, self.answer, self.tables
        if self.distractors and search == "names":
            raise ConfigError(
                f"wide_search: distractors={self.distractors} are pages that a search by words may "
                "find; write search=words, or distractors=0."
            )
        if tables != "invented" and (self.style, search) != ("full", "words"):
            raise ConfigError(
                f"wide_search: tables={tables} has too many values to choose from; write "
                "style=full and search=words, or tables=invented."
            )
        self.brief, workers = self.style == "brief", self.workers
        self.figures: tuple[str, ...] = (*SCORED, *FIGURES, "found")
        self.roles = (
            ("lead", *(f"worker {number}" for number in range(1, workers + 1)))
            if workers
            else (ALONE,)
        )
        self.num_seats = len(self.roles)
        turns = self.turns
        self.max_turns = self.waves * (1 + workers * turns) + 1 if workers else turns
        self.by_words = search == "words"
        self.free, self.writes = self.by_words and not self.brief, answer == "written"
        self.max_turns += self.writes
        if self.writes:
            self.figures = (*self.figures, "malformed")
        self.invented = tables == "invented"
        if not self.invented:
            questions(tables, self.items, False)  # raises ConfigError at once if there are none

    def leads(self, seat: int) -> bool:
        """Return whether a seat is the lead, which calls workers."""
        return seat == LEAD and self.workers > 0

    def start(self, number: int) -> World:
        """Return a world of the bank."""
        stream = self.bank_stream(number)
        if self.invented:
            return world(stream, self.items, self.columns)
        other = self.bank >= BANKS // 2
        return real_world(stream, self.tables, self.items, self.columns, other)

    def vocabulary(self) -> tuple[str, ...]:
        largest = max(
            self.items * self.columns, self.turns, self.waves, self.workers, self.distractors
        )
        largest = max(largest, RESULTS * self.by_words)
        extra = {*(SEARCHED * self.by_words), *(WRITTEN * self.writes)}
        values = {value for options in VALUES.values() for value in options}
        numbers = map(str, range(largest + 1))
        return tuple(sorted({*WORDS, *extra, *NAMES, *VALUES, *values, *numbers}))

    def openings(self) -> tuple[tuple[float, WideSearchPlay], ...]:
        """Return (probability, episode) of every world of the bank, for exact figures.

        Raises:
            TooLargeError: the bank has too many worlds.
        """
        if self.worlds > MOST_OPENINGS:
            raise TooLargeError(
                f"wide_search: exact figures are for at most {MOST_OPENINGS} worlds and the bank "
                f"has {self.worlds:,}; write worlds: 4, with few items and turns."
            )
        starts = (self.start(number) for number in range(self.worlds))
        return tuple((1 / self.worlds, WideSearchPlay(self, start)) for start in starts)

    def reset(self, stream: Stream) -> WideSearchPlay:
        start = self.draw_start(stream)
        assert isinstance(start, World)
        return WideSearchPlay(self, start)


wide_search = WideSearch
