//! The words of control: hints, requests and answers between programs and bodies, and profiles.
