# `make` alone lists the targets. Each one builds or fetches what it needs; nothing is expected but Rust and a C compiler.

CARGO ?= cargo
IMAGE ?= winpool:dev
# For `make release`: the name of the image, without a tag. It is set in config/default.
REPOSITORY ?= $(shell sed -n 's/^ *newName: //p' config/default/kustomization.yaml)
ENGINE ?= $(firstword $(foreach engine,podman docker,$(if $(shell command -v $(engine)),$(engine))))

# For `make run` and `make test`: another version of Kubernetes than the pinned one, such as 1.34 or 1.30.14.
KUBERNETES ?=

# Arguments for `make run`.
ARGS ?=

# For `make faults`: the first seed, and how many faults from there on.
SEED ?=
ROUNDS ?=

# For `make windows`: dev builds a larger program in less time.
PROFILE ?= release

# For `make facts`: files with advisories, as JSON.
FEED ?=

# Where cargo puts what it builds.
TARGET := $(or $(CARGO_TARGET_DIR),target)
WINDOWS := x86_64-pc-windows-gnu

.DEFAULT_GOAL := help
.PHONY: help run test test-long lint crds manifests facts bench faults image agent-image release windows packages windows-packages release-packages

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z.-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: packages ## a real control plane with simulated Windows nodes and the operator; ARGS=--once ends when it has converged, ARGS=--windows-node adds a node under Wine
	@CARGO=$(CARGO) KUBERNETES=$(KUBERNETES) e2e/run.sh $(ARGS)

test: packages windows-packages ## everything, with the seconds of each step: lint, unit tests, those on real servers and under Wine
	@CARGO=$(CARGO) KUBERNETES=$(KUBERNETES) e2e/test.sh

test-long: packages windows-packages ## the tests that take long at their full size: a thousand nodes, twenty rounds under Wine
	@CARGO=$(CARGO) KUBERNETES=$(KUBERNETES) e2e/test.sh --long

lint: packages ## formatting, clippy and documentation, without a warning
	@echo "== lint: rustfmt"
	$(CARGO) fmt --all --check
	@echo "== lint: clippy"
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	@echo "== lint: rustdoc"
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items

crds: packages ## write crds/ from the types in crates/api
	$(CARGO) run --quiet --bin winpool -- crds --out crds

manifests: crds ## write what follows from crds/ and config/: install.yaml, and the files of the chart
	$(CARGO) build --quiet --workspace --bin release
	@$(TARGET)/debug/release manifests

facts: ## the newer releases of what the tables in crates/facts/src are compared with; FEED="FILE..." lists the advisories of feeds that no table has (docs/facts.md)
	@$(if $(FEED),$(CARGO) run --quiet -p release -- advisories $(FEED),e2e/facts.sh)

bench: packages ## benchmarks of speed and memory
	$(CARGO) bench -p winpool --bench '*'
	$(CARGO) run --release --quiet -p e2e --bin convergence

faults: packages ## faults of servers, network and replicas, with proofs from the audit log; SEED=N ROUNDS=N repeats some
	@$(CARGO) build --quiet --workspace --bin faults
	@SEED=$(SEED) ROUNDS=$(ROUNDS) $(TARGET)/debug/faults

image: ## a static, non-root container image, named IMAGE
	@[ -n "$(ENGINE)" ] || { echo "make image needs podman or docker"; exit 1; }
	$(ENGINE) build -f Containerfile -t $(IMAGE) .

agent-image: windows ## the agent's image for HostProcess containers, as OCI archive in dist/ with its digest; needs no container engine
	@SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} $(CARGO) run --quiet -p release -- agent-image \
	  --agent $(TARGET)/$(WINDOWS)/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))/winpool-agent.exe --out dist

release: release-packages ## all files of a release in dist/, for an image in REPOSITORY
	PATH="$$(e2e/mingw.sh):$$PATH" SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} CARGO=$(CARGO) \
	  TARGET=$(abspath $(TARGET)) release/build.sh $(REPOSITORY)

windows: windows-packages ## winpool-agent.exe for Windows nodes, and the command line winpool.exe; PROFILE=dev builds them for tests
	PATH="$$(e2e/mingw.sh):$$PATH" $(CARGO) build --target $(WINDOWS) --profile $(PROFILE) -p winpool -p winpool-agent --bins
	@printf '%s\n' $(addprefix $(abspath $(TARGET))/$(WINDOWS)/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))/,winpool-agent.exe winpool.exe)

# A C compiler and linker: the cryptography behind TLS is partly C.
packages:
	@command -v cc >/dev/null || { \
	  command -v apt-get >/dev/null || { echo "cc is missing: install a C compiler and linker"; exit 1; }; \
	  echo "== installing build-essential from Debian"; \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends build-essential; \
	}
	@$(CARGO) fmt --version >/dev/null 2>&1 && $(CARGO) clippy --version >/dev/null 2>&1 || rustup component add rustfmt clippy

# Rust's library for Windows, and the linker.
windows-packages: packages
	@e2e/mingw.sh >/dev/null
	@rustup target list --installed | grep -qx $(WINDOWS) || rustup target add $(WINDOWS)

# Compilers for static programs on amd64 and arm64, and Rust's libraries for them.
release-packages: windows-packages
	@command -v musl-gcc >/dev/null && command -v aarch64-linux-gnu-gcc >/dev/null || { \
	  command -v apt-get >/dev/null || { echo "musl-gcc or aarch64-linux-gnu-gcc is missing: install both"; exit 1; }; \
	  echo "== installing musl-tools and gcc-aarch64-linux-gnu from Debian"; \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends ca-certificates musl-tools gcc-aarch64-linux-gnu libc6-dev-arm64-cross; \
	}
	@rustup target add x86_64-unknown-linux-musl aarch64-unknown-linux-musl
