# Everything here forwards to `cargo xtask`, which says what it does and installs what is missing.
.PHONY: all pictures demo test test-python bench bench-sim kernels machine papers rivals endure fuzz ci install packages dust-full
.DEFAULT_GOAL := all
PREFIX ?= /usr/local

all:
	cargo build --release --package pantler-cli

# In one build: what `cargo xtask` compiles for tests is of no use here.
demo:
	cargo build --profile demo --package pantler-cli --package xtask --no-default-features
	target/demo/xtask demo

# Lints come with the build: xtask/src/shell.rs.
test:
	RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__ cargo xtask test

test-python:
	cargo xtask test-python

bench:
	cargo xtask bench

# KERNELS names some: 6.1, 6.12, newest. arm64, with pages of 64 KiB, is tried only if it is named.
kernels:
	cargo xtask kernels $(KERNELS)

# The first paper's experiments, with real programs; needs root.
machine:
	cargo xtask machine

# The five papers' tables and figures beside the papers' numbers; `cargo xtask papers --list` names them.
papers:
	cargo xtask papers

# Real programs by what else keeps files in memory, and by Pantler; needs root.
rivals:
	cargo xtask rivals

# Pictures in docs/, of what a test looks at in Chromium; needs root.
pictures:
	PANTLER_NO_SKIP=1 PANTLER_PICTURES=$(CURDIR)/docs cargo test --package pantler-cli --test admin

# Runs that join a daemon and leave it, with kills of all, for ten minutes; needs root.
endure:
	cargo xtask endure

# FUZZ_SECONDS for each target.
FUZZ_SECONDS ?= 60
fuzz:
	cargo xtask fuzz $(FUZZ_SECONDS)

bench-sim:
	cargo xtask bench-sim

ci:
	cargo xtask ci

install:
	cargo xtask install --prefix $(PREFIX)

# KINDS names some: deb, rpm, wheel.
packages:
	cargo xtask package $(KINDS)

dust-full:
	cargo run --release --package pantler-dust --example full
