//! Frames in memory over an origin, driven by a steward.
