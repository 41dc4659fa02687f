# The two commands of a newcomer: make up, make test. Both do their own set-up.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build up test clients tour bench fuzz fresh install uninstall clean

export PATH := $(HOME)/.cargo/bin:$(PATH)

# Debian packages, each with what needs it.
#   gcc libc6-dev                  the linker and C library that rustc links with; the vector loops
#                                  of reed-solomon-erasure are C
#   fuse3                          fusermount3, and the udev rule for /dev/fuse
BUILD_PACKAGES := gcc libc6-dev ca-certificates
UP_PACKAGES    := $(BUILD_PACKAGES) fuse3
#   attr acl                       getfattr, setfacl: extended attributes and ACLs in tests
#   e2fsprogs xfsprogs btrfs-progs file systems for disks that tests fill, stop and take away
#   mount util-linux procps        losetup, findmnt, fallocate, ps
#   passwd                         useradd: pjdfstest acts as users nobody and tests
#   fio                            load for the benchmark and the torture
#   jq                             the tour reads `status --json`
#   libisal-dev                    the other loops of parity, which have to give the same bytes
#   perl                           the tour reads file times to the nanosecond
#   qemu-utils libnbd-bin          qemu-img, qemu-io, nbdcopy, nbdinfo: clients of volumes
#   mariadb-server-core mariadb-client postgresql python3
#                                  databases on volumes; no server is started but those of tests
#   sysbench                       load on MariaDB for the benchmark
#   redis-server                   loads what we write, and writes what we load
#   rsync rclone iproute2          peers of transfers, and the link between network namespaces
#   libclang-dev                   libublk (feature ublk) reads the header of its driver
TEST_PACKAGES  := $(UP_PACKAGES) g++ attr acl e2fsprogs xfsprogs btrfs-progs mount util-linux procps passwd fio jq perl libisal-dev qemu-utils libnbd-bin mariadb-server-core mariadb-client postgresql python3 sysbench rsync rclone iproute2 libclang-dev redis-server

RELEASE  := target/release/holdfast
export HOLDFAST := $(CURDIR)/$(RELEASE)
export HOLDFAST_TOOLS := $(CURDIR)/.cache/tools
PREFIX   ?= /usr/local
DESTDIR  ?=
# Options of `holdfast up`, such as ARGS="--store /mnt/a/store --store /mnt/b/store /srv/data".
ARGS     ?=
SECONDS_PER_TARGET ?= 60
# Encodes everything, at once and in small pieces.
ENCODE_ALL := --encode-percent 90 --encode-load-percent 100 --encode-interval-s 1 --encode-chunk-kb 4 --checkpoint-ms 200

help:
	@printf '%s\n' \
	  'make up       build, and protect /srv/holdfast (ARGS="..." for other options)' \
	  'make test     everything that has to pass before a change goes in' \
	  'make clients  redis-py, node-redis, go-redis and redis-cli on the server of `kv`' \
	  'make tour     the main job end to end on real files, in plain words' \
	  'make bench    our side against the peers, in one run' \
	  'make fuzz     every fuzz target for SECONDS_PER_TARGET (60)' \
	  'make fresh    prove `make up` and `make test` in a new Debian 12' \
	  'make install  binary, completions, man pages and systemd unit below PREFIX (/usr/local)' \
	  'make clean    remove what was built'

build:
	@scripts/packages $(BUILD_PACKAGES)
	cargo build --release --locked --package holdfast

up:
	@scripts/packages $(UP_PACKAGES)
	cargo build --release --locked --package holdfast
	@if [ "$$(id -u)" = 0 ]; then exec $(RELEASE) up $(ARGS); else exec sudo $(RELEASE) up $(ARGS); fi

# In the order of their cost: what fails, fails early.
test:
	@[ "$$(id -u)" = 0 ] || { echo 'make test mounts file systems: run it as root (sudo -E make test)'; exit 1; }
	@scripts/packages $(TEST_PACKAGES)
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked --quiet
	cargo test --workspace --locked
	cargo clippy --package holdfast-parity --features isal --all-targets --locked -- -D warnings
	cargo test --package holdfast-parity --features isal --locked
	cargo clippy --workspace --features ublk --all-targets --locked -- -D warnings
	cargo test --workspace --features ublk --locked --lib --test device -- ublk
	@scripts/tools pjdfstest@0.2.2 fsx@0.3.2
	cargo build --release --locked --package holdfast
	@id tests >/dev/null 2>&1 || useradd --system --no-create-home tests
	scripts/with-mount tests/posix/run-pjdfstest
	scripts/with-mount tests/posix/run-fsx
	UP_FLAGS='$(ENCODE_ALL)' scripts/with-mount tests/posix/with-encoding tests/posix/run-pjdfstest
	UP_FLAGS='$(ENCODE_ALL)' OPERATIONS=4000 scripts/with-mount tests/posix/with-encoding tests/posix/run-fsx
	scripts/with-volume tests/posix/run-pjdfstest
	scripts/with-volume tests/posix/run-fsx
	scripts/with-volume tests/posix/semantics.py
	scripts/with-disk tests/posix/run-fsx
	$(RELEASE) torture redundancy --seed 1 --minutes 1
	$(RELEASE) torture redundancy --seed 1 --minutes 1 --encode
	TOUR_SIZE=small tour/run

# Fetches from the registries of three languages, once, so it is no part of `make test`.
clients:
	@scripts/packages $(TEST_PACKAGES) python3-venv
	cargo build --release --locked --package holdfast
	@scripts/clients
	tests/clients/run

tour: build
	@scripts/packages $(TEST_PACKAGES)
	tour/run

bench: build
	@scripts/packages $(TEST_PACKAGES)
	$(RELEASE) bench redundancy --json target/bench.json $(ARGS)

# What a run finds goes below .cache, so that it leaves the corpus of the repository as it is.
fuzz:
	@scripts/packages $(BUILD_PACKAGES) g++
	@scripts/tools cargo-fuzz@0.13.2
	@for target in $$($(HOLDFAST_TOOLS)/bin/cargo-fuzz fuzz list); do \
	  echo "== $$target"; \
	  mkdir -p ".cache/fuzz/$$target"; \
	  $(HOLDFAST_TOOLS)/bin/cargo-fuzz fuzz run --sanitizer=none "$$target" \
	    ".cache/fuzz/$$target" "fuzz/corpus/$$target" -- -max_total_time=$(SECONDS_PER_TARGET); \
	done

fresh:
	@scripts/packages debootstrap util-linux git
	scripts/fresh

install: build
	scripts/install $(RELEASE) "$(DESTDIR)" "$(PREFIX)"

uninstall:
	scripts/install --remove "$(DESTDIR)" "$(PREFIX)"

clean:
	cargo clean
	rm -rf .cache
