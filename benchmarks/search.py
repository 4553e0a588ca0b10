"""
Full-text search: what a query costs and what it finds.

    python benchmarks/search.py --quick          30,000 documents, about a minute
    python benchmarks/search.py                  300,000 documents
    python benchmarks/search.py --logs FOLDER    and recorded logs

A whole call of ``SessionQuery`` is the look for what changed, the ranking, and 20 hits read
from the store with their excerpts. A page that the exact matches do not fill is filled with
weaker ones; "the best hit" is a page of one. Time on a core is what counts where others use
the machine, too.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from random import Random

from common import print_machine, print_table, timed
from search_corpus import Corpus, misspelled

from eventlog import Event, EventStore, Replace, SessionHeader, open_store
from eventlog.codec import decode_line
from eventlog.query import SessionQuery
from eventlog.query.search.analyzer import analyze
from eventlog.query.search.engines import store_index
from eventlog.query.search.narrowing import DocumentScope, SessionScope
from eventlog.query.search.parsing import is_fuzzy_word, parse
from eventlog.query.search.provider import CorpusRequest
from eventlog.vocabulary import DEFAULT_VOCABULARY

QUERIES = 60


def main() -> None:
    """Run everything and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the documents")
    parser.add_argument("--folder", type=Path, help="keep store and index here, and reuse them")
    parser.add_argument("--logs", type=Path, help="a folder of recorded logs, searched too")
    options = parser.parse_args()
    print_machine()
    corpus = Corpus.make(sessions=300 if options.quick else 3_000, documents=100)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        os.environ["EVENTLOG_CACHE"] = str(folder / "cache")
        with open_store(f"lmdb:{folder / 'store'}") as store:
            run(corpus, store)
        if options.logs is not None:
            print_table(
                "Recorded logs", ("what", "figure", ""), list(recorded(options.logs, folder))
            )


def recorded(logs: Path, folder: Path) -> Iterable[Sequence[object]]:
    """Index logs of DeepSeek Harness that have ids of their own, and search them."""
    with open_store(f"lmdb:{folder / 'recorded'}") as store:
        text_bytes = documents = 0
        words: Counter[str] = Counter()
        for path in sorted(logs.glob("*.jsonl")):
            header, *rest = [decode_line(line) for line in path.read_bytes().splitlines()]
            assert isinstance(header, SessionHeader)
            events = [event for record in rest for event in _events(record)]
            store.append(header, events)
            for event in events:
                text = DEFAULT_VOCABULARY.text(event)
                text_bytes += len(text.encode())
                documents += bool(text)
                words.update(set(analyze(text)))
        index = store_index(store, DEFAULT_VOCABULARY)
        began = time.perf_counter()
        index.update(store)
        seconds = time.perf_counter() - began
        size_bytes = index.status().size_bytes
        index.close()
        query = SessionQuery(store=store)
        asked = [word for word, _ in words.most_common(2_000)]
        Random(4).shuffle(asked)
        timing = timed(lambda n: query.search_sessions(asked[n % len(asked)]), 300)
        query.engines.close()
    yield "text", f"{text_bytes / 1e6:.1f} MB in {documents:,} documents", ""
    yield "documents/s", f"{documents / seconds:,.0f}", ""
    yield "index / text", f"{size_bytes / text_bytes:.2f}", ""
    yield "a word, p50", f"{timing.median_us / 1000:.2f} ms", ""


def _events(record: SessionHeader | Event | list[Event]) -> list[Event]:
    """The events of a line, which may be a packed row."""
    if isinstance(record, Event):
        return [record]
    assert isinstance(record, list)
    return record


def run(corpus: Corpus, store: EventStore) -> None:
    """Fill *store* where it is empty, index it, and measure."""
    began = time.perf_counter()
    text_bytes = 0
    frequencies: Counter[str] = Counter()
    for number, header in enumerate(corpus.headers()):
        events = corpus.events(number)
        if store.head(header.id) is None:
            store.append(header, events)
        for event in events:
            text = DEFAULT_VOCABULARY.text(event)
            text_bytes += len(text.encode())
            frequencies.update(set(analyze(text)))
    print(f"store filled in {time.perf_counter() - began:.0f} s", flush=True)
    documents = corpus.sessions * corpus.documents
    index = store_index(store, DEFAULT_VOCABULARY)
    began, core = time.perf_counter(), time.process_time()
    index.rebuild(store)
    seconds, core = time.perf_counter() - began, time.process_time() - core
    status = index.status()
    print_table(
        f"Building: {documents:,} documents, {text_bytes / 1e6:.0f} MB of text, "
        f"{len(frequencies):,} words",
        ("what", "figure", "aim"),
        [
            ("documents/s", f"{documents / seconds:,.0f}", "10,000"),
            ("documents/s of a core", f"{documents / core:,.0f}", ""),
            ("index / text", f"{status.size_bytes / text_bytes:.2f}", "0.80"),
        ],
    )
    index.close()
    query = SessionQuery(store=store)
    query.search_sessions("warm")
    query.search_events(next(corpus.headers()).id, "warm")
    print_table(
        "Queries, p50",
        ("query", "whole call, ms", "on a core, ms", "ranking on a core, ms", "aim, ms"),
        list(latencies(corpus, store, query, frequencies)),
    )
    print_table(
        "What is found", ("queries", "found", "share", "aim"), list(quality(query, frequencies))
    )
    print_table(
        "Changes, p50",
        ("change", "ms", "on a core, ms", "aim, ms"),
        list(changes(corpus, store, query)),
    )


def latencies(
    corpus: Corpus, store: EventStore, query: SessionQuery, frequencies: Counter[str]
) -> Iterable[Sequence[object]]:
    """Time one kind of query after the other: the whole call, and the ranking of 20 alone."""
    random = Random(1)
    scale = corpus.sessions * corpus.documents / 300_000
    rare = sample(frequencies, 20, 60, random)
    # 1,000 of 300,000 documents are a middle word's; a tenth of that in a tenth of them.
    middle = sample(frequencies, int(900 * scale), int(2_000 * scale), random)
    common = [word for word, _ in frequencies.most_common(40)]
    pairs, phrases, inside = [], [], []
    for _ in range(QUERIES):
        session_id = f"session-{random.randrange(corpus.sessions):06d}"
        seq = random.randrange(corpus.documents)
        (event,) = store.snapshot(session_id).read(seq, seq + 1)
        words = DEFAULT_VOCABULARY.text(event).split()
        place = random.randrange(max(1, len(words) - 3))
        phrases.append(" ".join(words[place : place + 3]))
        inside.append((session_id, random.choice(words)))
        telling = [word for word in dict.fromkeys(words) if 1 < frequencies[word] <= 2_000]
        pairs.append(" ".join((telling or words)[:2]))
    chinese = [run for run in frequencies if len(run) == 2 and "\u4e00" <= run[0] <= "\u9fff"]
    long = [word for word in sample(frequencies, 20, 2_000, random, 500) if is_fuzzy_word(word)]
    typos = [misspelled(word, 1, random) for word in long if len(word) > 4][:QUERIES]
    index = query.engines.stored(store)

    def whole(words: Sequence[str], limit: int = 20) -> Callable[[int], object]:
        return lambda number: query.search_sessions(words[number % len(words)], limit=limit)

    def ranking(words: Sequence[str]) -> Callable[[int], object]:
        def rank(number: int) -> object:
            request = CorpusRequest(
                parse(words[number % len(words)]), DocumentScope(), SessionScope()
            )
            return list(islice(index.search_corpus(store, request).matches, 20))

        return rank

    kinds: tuple[tuple[str, Sequence[str], str], ...] = (
        ("rare word (20–60 documents)", rare, "2"),
        ("middle word", middle, ""),
        ("common word, newest matches", common, "8"),
        ("two words, and what is close", pairs, "4"),
        ("phrase of three, and what is close", phrases, "4"),
        ("one Chinese character", [run[0] for run in chinese[:QUERIES]], ""),
        ("two Chinese characters", chinese[:QUERIES], ""),
        ("typo of a word", typos, "10"),
    )
    for name, asked, aim in kinds:
        yield name, *costs(whole(asked)), costs(ranking(asked))[1], aim
    yield "phrase of three, the best hit", *costs(whole(phrases, 1)), "", "4"
    yield "two words, the best hit", *costs(whole(pairs, 1)), "", "4"
    within = costs(lambda number: query.search_events(*inside[number % QUERIES]))
    yield "one session", *within, "", "1"
    one = costs(lambda number: query.search_events(*inside[number % QUERIES], limit=1))
    yield "one session, the best hit", *one, "", "1"


def costs(call: Callable[[int], object], repeats: int = QUERIES) -> tuple[str, str]:
    """The medians of a call's time, and of its time on a core, in ms."""
    gc.collect()
    walls, cores = [], []
    for number in range(repeats):
        wall, core = time.perf_counter(), time.process_time()
        call(number)
        cores.append(time.process_time() - core)
        walls.append(time.perf_counter() - wall)
    return f"{statistics.median(walls) * 1000:.2f}", f"{statistics.median(cores) * 1000:.2f}"


def quality(query: SessionQuery, frequencies: Counter[str]) -> Iterable[Sequence[object]]:
    """Count how often the first ten answers have what was meant."""
    random = Random(2)

    def recall(name: str, pairs: Sequence[tuple[str, str]], aim: str) -> Sequence[object]:
        found = sum(has(query, typed, meant) for typed, meant in pairs)
        return name, f"{found} of {len(pairs)}", f"{found / max(len(pairs), 1):.3f}", aim

    meant = [word for word in sample(frequencies, 5, 100_000, random, 400) if is_fuzzy_word(word)]
    meant = [word for word in meant if 5 <= len(word) <= 14 and word.isascii()]
    for edits, aim in ((1, "0.97"), (2, "0.88")):
        pairs: list[tuple[str, str]] = []
        for word in meant:
            typed = misspelled(word, edits, random)
            if typed != word and typed not in frequencies and len(pairs) < 200:
                pairs.append((typed, word))
        yield recall(f"words with {edits} random edits", pairs, aim)
    real: list[tuple[str, str]] = []
    for word in sample(frequencies, 20, 100_000, random, 20_000):
        if is_fuzzy_word(word) and word.isascii() and 5 <= len(word) <= 14:
            for _ in range(20):
                typed = misspelled(word, 1, random)
                # With ten documents of its own a word fills the page: it is what was meant.
                if 0 < frequencies[typed] < 6 and is_fuzzy_word(typed) and len(real) < 100:
                    real.append((typed, word))
                    break
    yield recall("typos that are rarer words", real, "0.95")
    vietnamese = [word for word in frequencies if word.isascii() and 3 <= frequencies[word] < 500]
    accents = [(word.replace("a", "á").replace("e", "é"), word) for word in vietnamese[:200]]
    yield recall("accents, composed or not", accents, "1.0")
    runs = [run for run in frequencies if "\u4e00" <= run[0] <= "\u9fff"][:200]
    yield recall("Chinese, 1–2 characters", [(run, run) for run in runs], "1.0")
    numbers = [word for word in sample(frequencies, 1, 50, random, 3_000) if word.isdigit()]
    absent = [n for n in (f"{word}7" for word in numbers) if n not in frequencies][:200]
    wrong = sum(bool(query.search_sessions(number, limit=5).items) for number in absent)
    yield "absent numbers that found something", f"{wrong} of {len(absent)}", "", "0"


def changes(corpus: Corpus, store: EventStore, query: SessionQuery) -> Iterable[Sequence[object]]:
    """Time how long a change takes to be seen."""
    headers = list(corpus.headers())
    lengths: dict[str, int] = {}
    for header in headers:
        head = store.head(header.id)
        assert head is not None
        lengths[header.id] = head.length

    def add_one(number: int) -> None:
        header = headers[number % 50]
        events = corpus.events(number, start=lengths[header.id], count=1)
        store.append(header, events)
        lengths[header.id] += 1

    def seen(number: int) -> None:
        query.search_sessions("zzqqxx9")

    appended = costs(add_one, 100)
    query.search_sessions("zzqqxx9")
    yield "append one event: the store's own cost", *appended, ""
    yield "a search that finds nothing, nothing changed", *costs(seen, 100), ""

    def add_and_see(number: int) -> None:
        add_one(number)
        seen(number)

    yield "append one event and search", *costs(add_and_see, 100), "2"
    shadowing = []
    for number in range(10):
        header = headers[100 + number]
        events = corpus.events(5_000 + number, start=lengths[header.id], count=201)
        store.append(header, events)
        query.search_sessions("zzqqxx9")
        nodes = store.snapshot(header.id).nodes()[:200]
        length = lengths[header.id] + 201
        (event,) = corpus.events(9_000 + number, start=length, count=1)
        replaced = type(event)(
            event.seq,
            event.time,
            event.type,
            event.data,
            surface_op=Replace(nodes[0], nodes[-1]),
            source_event_seqs=nodes,
        )
        store.append(header, [replaced])
        shadowing.append(costs(seen, 1))
    walls, cores = (sorted(map(float, taken)) for taken in zip(*shadowing, strict=True))
    yield "shadow 200 events and search", f"{walls[5]:.2f}", f"{cores[5]:.2f}", "5"


def has(query: SessionQuery, typed: str, meant: str) -> bool:
    """Whether one of the first ten sessions for *typed* has *meant*."""
    for hit in query.search_sessions(typed, limit=10).items:
        best = hit.best_match
        text = query.read_event(best.session_id, best.seq).target
        words = analyze(DEFAULT_VOCABULARY.text(text))
        if meant in words or (not meant.isascii() and any(meant in word for word in words)):
            return True
    return False


def sample(
    frequencies: Counter[str], least: int, most: int, random: Random, count: int = QUERIES
) -> list[str]:
    """Return random words that stand in *least* to *most* documents."""
    fitting = sorted(word for word, n in frequencies.items() if least <= n <= most)
    return random.sample(fitting, min(count, len(fitting)))


if __name__ == "__main__":
    main()
