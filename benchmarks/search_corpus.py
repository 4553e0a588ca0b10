"""
A corpus to search: seeded, so that two runs are about the same texts.

Words follow Zipf's law over 200,000 of them: made-up words of Latin letters, identifiers,
numbers, paths, Vietnamese syllables with tones, Chinese and Japanese.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from random import Random

from attrs import frozen

from eventlog import APPEND, Event, SessionHeader

__all__ = ["Corpus", "misspelled"]

LETTERS = "abcdefghijklmnopqrstuvwxyz"
ONSETS = (
    "b c d f g h j k l m n p r s t v w z br ch cl cr dr fr gr pl pr qu sh sl sp st str th tr"
).split()
VOWELS = "a e i o u ai ea ee io oo ou ie".split()
CODAS = ["", "", "", "n", "r", "s", "t", "l", "m", "nd", "nt", "st", "ck", "ng"]
VIETNAMESE_ONSETS = "b c d đ g h kh l m n ng nh ph qu s t th tr v x".split()
VIETNAMESE_RIMES = (
    "a á à ả ã ạ an án ần ẩn ăng ặng ê ế ề ệ iên iến iện"
    " o ó ọ ong ông ống u ú ư ứ ừ ương ường ước ược"
).split()


@frozen
class Corpus:
    """
    Sessions with text.

    Attributes:
        sessions: How many.

        documents: How many in each.

        words: The vocabulary, the most frequent first.
    """

    sessions: int
    documents: int
    words: tuple[str, ...]

    @classmethod
    def make(cls, *, sessions: int, documents: int, words: int = 200_000, seed: int = 7) -> Corpus:
        """Return the corpus of a seed."""
        return cls(sessions, documents, tuple(_vocabulary(words, Random(seed))))

    def headers(self) -> Iterator[SessionHeader]:
        """Yield the headers, the oldest first."""
        for number in range(self.sessions):
            yield SessionHeader(
                f"session-{number:06d}", 1_000_000 + number, cwd=f"/w/{number % 50}"
            )

    def events(self, number: int, *, start: int = 0, count: int | None = None) -> list[Event]:
        """Return the messages of a session."""
        random = Random(f"{number}/{start}")
        cumulative = _zipf(len(self.words))
        events = []
        for seq in range(start, start + (self.documents if count is None else count)):
            length = max(4, min(300, int(random.lognormvariate(3.45, 0.7))))
            text = " ".join(random.choices(self.words, cum_weights=cumulative, k=length))
            content = [{"type": "text", "text": text}]
            data = {"id": f"m{seq}", "role": "user", "content": content, "source": {"kind": "user"}}
            time = 1_000_000 + number * 1_000 + seq
            events.append(Event(seq, time, "user/message", data, surface_op=APPEND))
        return events


def misspelled(word: str, edits: int, random: Random) -> str:
    """Return *word* with so many random edits: a letter dropped, added, changed, two swapped."""
    letters = list(word)
    for _ in range(edits):
        place = random.randrange(len(letters))
        kind = random.choice(("drop", "add", "change", "swap"))
        if kind == "drop":
            del letters[place]
        elif kind == "add":
            letters.insert(place, random.choice(LETTERS))
        elif kind == "change":
            letters[place] = random.choice(LETTERS)
        elif place + 1 < len(letters):
            letters[place], letters[place + 1] = letters[place + 1], letters[place]
    return "".join(letters)


_cumulative: dict[int, list[float]] = {}


def _zipf(count: int) -> list[float]:
    if count not in _cumulative:
        _cumulative[count] = list(accumulate(1 / (rank + 2.7) for rank in range(count)))
    return _cumulative[count]


def _vocabulary(count: int, random: Random) -> list[str]:
    kinds = (
        (0.66, _latin),
        (0.12, _identifier),
        (0.06, _number),
        (0.05, _path),
        (0.05, _vietnamese),
        (0.04, _chinese),
        (0.02, _japanese),
    )
    words: dict[str, None] = {}
    for share, make in kinds:
        wanted = len(words) + int(count * share)
        while len(words) < wanted:
            words[make(random)] = None
    shuffled = list(words)
    random.shuffle(shuffled)
    return shuffled


def _latin(random: Random) -> str:
    syllables = random.choices((1, 2, 3, 4), weights=(0.3, 8, 10, 4))[0]
    return "".join(
        random.choice(ONSETS) + random.choice(VOWELS) + random.choice(CODAS)
        for _ in range(syllables)
    )


def _identifier(random: Random) -> str:
    kind = random.randrange(3)
    if kind == 0:
        return f"{_latin(random)}_{random.randrange(100_000)}"
    if kind == 1:
        return f"{_latin(random)}_{_latin(random)}"
    return f"{random.getrandbits(32):08x}"


def _number(random: Random) -> str:
    return str(random.randrange(10 ** random.randint(1, 7)))


def _path(random: Random) -> str:
    folders = "/".join(_latin(random) for _ in range(random.randint(1, 3)))
    return f"{folders}/{_latin(random)}.{random.choice(('py', 'md', 'json', 'ts'))}"


def _vietnamese(random: Random) -> str:
    return " ".join(
        random.choice(VIETNAMESE_ONSETS) + random.choice(VIETNAMESE_RIMES)
        for _ in range(random.randint(1, 2))
    )


def _chinese(random: Random) -> str:
    return "".join(chr(random.randrange(0x4E00, 0x5E00)) for _ in range(random.randint(2, 6)))


def _japanese(random: Random) -> str:
    kana = "".join(chr(random.randrange(0x3042, 0x3094)) for _ in range(random.randint(2, 4)))
    return chr(random.randrange(0x4E00, 0x5400)) + kana
