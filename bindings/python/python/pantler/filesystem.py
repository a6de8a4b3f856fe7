"""Files through ``fsspec``, with hints: ``pandas.read_parquet("pantler:///data/x.parquet")``.

It is the local file system of ``fsspec``, which must be installed. What is given as
``storage_options``, or to ``open``, is said about each file that is opened to read:
``priority``, and ``reads``, the ranges of bytes that will be read, in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from pantler import hints

_SCHEME = "pantler://"


class PantlerFileSystem(LocalFileSystem):  # type: ignore[misc]
    """The local file system; files that are opened to read come with hints."""

    protocol = "pantler"

    def __init__(self, *, priority: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._priority = priority

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]  # type: ignore[return-value]
        return super()._strip_protocol(str(path).removeprefix(_SCHEME))

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        *,
        priority: int | None = None,
        reads: Iterable[tuple[int, int]] | None = None,
        **options: Any,
    ) -> Any:
        opened = super()._open(path, mode=mode, block_size=block_size, **options)
        wanted = self._priority if priority is None else priority
        try:
            if "r" in mode and wanted is not None:
                hints.set_priority(opened, wanted)
            if "r" in mode and reads is not None:
                hints.will_read(opened, *reads)
        except BaseException:
            opened.close()
            raise
        return opened
