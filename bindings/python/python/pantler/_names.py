"""Names of policies and generators."""

from __future__ import annotations

from typing import NamedTuple

from pantler import _core


class Parameter(NamedTuple):
    """A parameter of a policy: ``name=value`` after the colon."""

    name: str
    meaning: str
    range: str
    default: str


class Policy(NamedTuple):
    """A policy: its name, one line about it, and its parameters."""

    name: str
    summary: str
    parameters: tuple[Parameter, ...]


class Generator(NamedTuple):
    """A generator of traces: ``name:parameter=value,...`` where a trace is expected."""

    name: str
    parameters: str
    meaning: str


def policies() -> list[Policy]:
    """All policies, as ``pantler sim --policy help`` lists them."""
    return [
        Policy(name, summary, tuple(Parameter(*parameter) for parameter in parameters))
        for name, summary, parameters in _core.policies()
    ]


def generators() -> list[Generator]:
    """All generators of traces."""
    return [Generator(*generator) for generator in _core.generators()]
