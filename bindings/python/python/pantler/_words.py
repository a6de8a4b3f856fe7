"""From arguments to the words of the command line, which Rust checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict


class Options(TypedDict):
    """Options of runs, as ``Trace.run`` takes them."""

    warm_up_count: int | None
    warm_up_share: float | None


def policy_list(policies: str | Iterable[str]) -> list[str]:
    """One policy, or several. A text is one: its commas belong to its parameters."""
    names = [policies] if isinstance(policies, str) else list(policies)
    if not names:
        raise ValueError("policies []: expected at least one, such as 'lru'")
    return names


def size_list(sizes: int | str | Iterable[int | str]) -> str:
    """The sizes as one text."""
    several = [sizes] if isinstance(sizes, (int, str)) else list(sizes)
    if not several:
        raise ValueError("sizes []: expected at least one, such as 1000 or '10%'")
    return ",".join(str(size) for size in several)


def options(warm_up: float | None) -> Options:
    """Tells a warm-up in references (``int``) from one as a share (``float``)."""
    count = share = None
    if isinstance(warm_up, float):
        share = warm_up
    elif warm_up is not None:
        count = warm_up
        if isinstance(warm_up, bool) or count < 0:
            raise ValueError(f"warm_up {warm_up}: expected references such as 10000, or a share such as 0.1")
    return {"warm_up_count": count, "warm_up_share": share}
