//! FUSE file system over an origin with application-controlled caching.
