//! The decisions: owners, managers, LRU-SP, rooms. Pure: no I/O, no clock, no randomness.
