"""Reads a file five times, and says before that it is read in cycles."""

import sys

from pantler import hints

hints.set_policy("mru")
for _ in range(5):
    with open(sys.argv[1], "rb", buffering=0) as file:
        while file.read(65536):
            pass
