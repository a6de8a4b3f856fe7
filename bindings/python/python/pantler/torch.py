"""Training epochs: what a loader will read, told before it reads.

>>> from pantler.torch import ListedSampler
>>> order = ListedSampler([2, 0, 1], place=lambda index: None)
>>> list(order), len(order)
([2, 0, 1], 3)

PyTorch itself is not needed: ``DataLoader(data, sampler=ListedSampler(sampler, place))`` takes
anything that has an order and a length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from typing import Generic, TypeVar

from pantler import hints

Index = TypeVar("Index")
#: A file, or a file and the first and the end byte of what is read of it.
Place = hints.File | tuple[hints.File, int, int] | None

#: Samples that are told before they are read: at least as many as all workers have at a time. One
#: call takes as many ranges.
AHEAD = 4096


class ListedSampler(Generic[Index]):
    """A sampler whose order is told as an access list, epoch by epoch.

    ``place`` says where the bytes of a sample are; ``None`` tells nothing of it. The list is told
    up to ``ahead`` samples before they are asked for, neighbours in one file in one call. A refused
    hint ends the telling, never the epoch. A process has one list: of two samplers that take turns,
    give one to this. Workers of a loader read what is told here if all are in one run.
    """

    def __init__(
        self, sampler: Iterable[Index], place: Callable[[Index], Place], ahead: int = AHEAD
    ) -> None:
        self._sampler, self._place, self._ahead = sampler, place, min(max(ahead, 1), AHEAD)
        self._turn = object()

    def __len__(self) -> int:
        return len(self._sampler)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Index]:
        order = list(self._sampler)
        told, follows, at = 0, False, 0
        self._turn = turn = object()
        try:
            for at, index in enumerate(order):
                # In batches: half of what was told is read meanwhile.
                if told - at <= self._ahead // 2 and told < len(order):
                    batch = order[told : at + self._ahead]
                    told, follows = told + len(batch), self._tell(batch, follows)
                    if follows is None:
                        told = len(order)
                yield index
        finally:
            if follows and at + 1 < len(order) and self._turn is turn:
                # The epoch was left, and no other has begun: what is on the list will not be read.
                with suppress(OSError, ValueError):
                    hints.end_list()

    def _tell(self, batch: list[Index], follows: bool) -> bool | None:
        """Tells of some samples. Whether there is a list now; None after a refusal."""
        places = [place for place in map(self._place, batch) if place is not None]
        pairs = [place if isinstance(place, tuple) else (place,) for place in places]
        for (file, is_whole), group in groupby(pairs, key=lambda pair: (pair[0], len(pair) == 1)):
            ranges = [] if is_whole else [(int(first), int(end)) for _, first, end in group]
            try:
                hints.will_read(file, *ranges, follows=follows)
            except (OSError, ValueError, OverflowError):
                return None
            follows = True
        return follows
