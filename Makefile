# `make` alone lists the targets. Each one builds what it needs; nothing is expected but Rust on Debian 12, or the
# programs of a control plane in the folder that KUBEBUILDER_ASSETS names.

CARGO ?= cargo
IMAGE ?= winpool:dev
ENGINE ?= $(firstword $(foreach engine,podman docker,$(if $(shell command -v $(engine)),$(engine))))

# Arguments for `make run`.
ARGS ?=

# Where cargo puts what it builds.
PROGRAMS := $(or $(CARGO_TARGET_DIR),target)/debug

.DEFAULT_GOAL := help
.PHONY: help run test lint crds facts bench image packages

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: packages ## a real control plane with simulated Windows nodes and the operator; ARGS=--once ends when it has settled
	$(CARGO) build --workspace --bin winpool --bin demo
	@WINPOOL_BINARY=$(PROGRAMS)/winpool $(PROGRAMS)/demo $(ARGS)

test: packages lint ## everything: lint, then all tests, those on a real control plane too
	@echo "== control plane"
	@if [ -n "$$KUBEBUILDER_ASSETS" ]; then echo "$$KUBEBUILDER_ASSETS (KUBEBUILDER_ASSETS)"; \
	else e2e/control-plane.sh --windows-kubelet --containerd --registry; fi
	@echo "== build"
	$(CARGO) build --workspace --bin winpool
	@echo "== test"
	WINPOOL_BINARY=$(abspath $(PROGRAMS)/winpool) $(CARGO) test --workspace --no-fail-fast

lint: packages ## formatting, clippy and documentation, without a warning
	@echo "== lint: rustfmt"
	$(CARGO) fmt --all --check
	@echo "== lint: clippy"
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	@echo "== lint: rustdoc"
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items

crds: packages ## write crds/ from the types in src/api
	$(CARGO) run --quiet --bin winpool -- crds --out crds

facts: packages ## compare src/facts with files of upstream in the folder DIR; docs/facts.md says where they come from
	@$(CARGO) run --quiet --example facts -- "$(DIR)"

bench: packages ## the figures for speed and memory
	$(CARGO) bench -p winpool -p e2e --bench '*'
	$(CARGO) run --release --quiet -p e2e --bin footprint
	$(CARGO) run --release --quiet -p e2e --bin convergence

image: ## a static, non-root container image, named IMAGE
	@[ -n "$(ENGINE)" ] || { echo "make image needs podman or docker"; exit 1; }
	$(ENGINE) build -f Containerfile -t $(IMAGE) .

# A C compiler and linker: the cryptography behind TLS is partly C.
packages:
	@command -v cc >/dev/null || { \
	  command -v apt-get >/dev/null || { echo "cc is missing: install a C compiler and linker"; exit 1; }; \
	  echo "== installing build-essential from Debian"; \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends build-essential; \
	}
	@$(CARGO) fmt --version >/dev/null 2>&1 && $(CARGO) clippy --version >/dev/null 2>&1 || rustup component add rustfmt clippy
