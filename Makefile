# Everything here forwards to `cargo xtask`, which says what it does and installs what is missing.
.PHONY: all demo test bench ci install dust-full
.DEFAULT_GOAL := all
PREFIX ?= /usr/local

all:
	cargo build --release --package pantler-cli

demo:
	cargo xtask demo

test:
	cargo xtask test

bench:
	cargo xtask bench

ci:
	cargo xtask ci

install:
	cargo xtask install --prefix $(PREFIX)

dust-full:
	cargo run --release --package pantler-dust --example full
