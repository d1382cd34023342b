# SPDX-License-Identifier: Apache-2.0
#
# A short front for meson and ninja. `make help` lists the targets.

BUILD  ?= build
PREFIX ?= /usr/local
# Where settings are: with the rest, but for packages.
SYSCONFDIR ?= $(if $(filter /usr,$(PREFIX)),/etc,$(PREFIX)/etc)
SEED   ?=
SEEDS  ?= 1..2000

# What bounds processor time and memory, of which a sanitizer takes several times as much.
MEASURED = artifact_memory.test.js loop.test.js messages_memory.test.js unread.test.js

.PHONY: all demo demo-kubernetes demo-builds test test-unit test-http test-kubernetes test-crash \
	test-crash-long test-builds test-packaging test-asan lint docs bench sim fuzz install deb clean help \
	bench-peers bench-growth bench-report test-bench
.DEFAULT_GOAL := all

## all: build build/tenax (the default)
all: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

$(BUILD)/build.ninja: meson.build meson_options.txt
	@tools/setup build
	@test -f $@ || meson setup $(BUILD) -Dprefix=$(PREFIX)
	@touch $@

## demo: a server, a worker, real commands, a SIGKILL in the middle, Taskcluster's tasks; 30 s
demo: all
	@demo/run $(BUILD)/tenax
	@demo/taskcluster $(BUILD)/tenax

## demo-kubernetes: jobs as pods that succeed, find no node or no image, need memory, are preempted
demo-kubernetes: all
	@tools/setup demo
	@demo/kubernetes $(BUILD)/tenax

## demo-builds: Screwdriver's builds over a RabbitMQ of its own, as pods; 40 s
demo-builds: all
	@tools/setup demo-builds
	@demo/builds $(BUILD)/tenax

## test: everything, from unit tests to crashes and sanitizers
test: all
	@tools/setup test
	@tools/setup packaging
	@$(MAKE) --no-print-directory -j2 --output-sync=target test-waiting test-working
	@echo "make test: all of it passed"

# Side by side: suites that mostly wait for others, and those that need the processor.
.PHONY: test-waiting test-working
test-waiting:
	@$(MAKE) --no-print-directory test-builds
	@$(MAKE) --no-print-directory test-kubernetes

test-working:
	@$(MAKE) --no-print-directory test-unit
	@$(MAKE) --no-print-directory test-http
	@$(MAKE) --no-print-directory test-crash
	@$(MAKE) --no-print-directory test-packaging
	@$(MAKE) --no-print-directory test-bench
	@$(MAKE) --no-print-directory test-asan

test-unit: all
	@tools/setup test
	meson test -C $(BUILD) --no-rebuild --print-errorlogs

test-http: all
	@tools/setup test
	TENAX_BIN=$(BUILD)/tenax node --test --test-concurrency=1 $(wildcard tests/http/*.test.js)

## test-builds: what needs a RabbitMQ; each test starts a node of its own
test-builds: all
	@tools/setup test
	TENAX_BIN=$(BUILD)/tenax node --test --test-concurrency=1 $(wildcard tests/amqp/*.test.js tests/bridge/*.test.js tests/builds/*.test.js)

## test-kubernetes: pods end to end, against the double or the API server of TENAX_TEST_KUBECONFIG
test-kubernetes: all
	@tools/setup test
	TENAX_BIN=$(BUILD)/tenax node --test --test-concurrency=1 $(wildcard tests/kubernetes/*.test.js)

test-crash: all
	@tools/setup test
	TENAX_BIN=$(BUILD)/tenax node --test --test-concurrency=1 $(wildcard tests/crash/*.test.js)

## test-crash-long: a thousand kills and three hundred power cuts under load, for half an hour or more
test-crash-long: all
	@tools/setup test
	KILLS=1000 TENAX_BIN=$(BUILD)/tenax node --test tests/crash/crash.test.js
	CUTS=300 TENAX_BIN=$(BUILD)/tenax node --test tests/crash/powercut.test.js

test-packaging: all
	@tools/setup test
	@tools/setup packaging
	TENAX_BIN=$(BUILD)/tenax node --test --test-concurrency=1 $(wildcard tests/packaging/*.test.js)

## test-bench: the generators of the benchmarks against the real servers, in short form
test-bench: all
	@tools/setup test
	TENAX_BIN=$(BUILD)/tenax node --test --test-concurrency=1 $(wildcard tests/bench/*.test.js)

## test-asan: the unit and HTTP tests with AddressSanitizer and UBSan
test-asan:
	@tools/setup test
	@test -f $(BUILD)-asan/build.ninja || \
		meson setup $(BUILD)-asan -Db_sanitize=address,undefined -Db_lundef=false
	@ninja -C $(BUILD)-asan
	meson test -C $(BUILD)-asan --no-rebuild --print-errorlogs --timeout-multiplier 5 \
		--suite unit --suite fuzz
	$(BUILD)-asan/sim/sim --seeds 1..200
	TENAX_BIN=$(BUILD)-asan/tenax node --test --test-concurrency=1 \
		$(filter-out $(addprefix tests/http/,$(MEASURED)),$(wildcard tests/http/*.test.js))

## lint: layers, purity, format, cppcheck, clang-tidy, generated documents
lint: all
	@tools/setup lint
	tools/lint $(BUILD)

## docs: generate the documents that come from tables
docs: all
	tools/gen-docs $(BUILD)

## bench: the benchmark report; close everything else first
bench: all
	@tools/setup bench
	bench/run.sh $(BUILD)/tenax $(BUILD)/bench/load --json $(BUILD)/bench-run.json

## bench-peers: Tenax beside Redis, beanstalkd and RabbitMQ, with the ratios
bench-peers: all
	@tools/setup bench-peers
	bench/peers.js $(BUILD)/tenax $(BUILD)/bench/load --json $(BUILD)/bench-peers.json

## bench-growth: what a job costs with up to 30 million of them, 10,000 queues, 10,000 connections
bench-growth: all
	@tools/setup bench
	bench/growth.js $(BUILD)/tenax $(BUILD)/bench/load --json $(BUILD)/bench-growth.json

## bench-report: what these three have measured, into docs/performance.md
bench-report:
	bench/report.js --into docs/performance.md $(wildcard $(BUILD)/bench-*.json)

## sim: the simulator; SEED=n repeats one seed with its trace, SEEDS=a..b runs many
sim: all
	$(BUILD)/sim/sim $(if $(SEED),--seed $(SEED) --trace,--seeds $(SEEDS))

## fuzz: a minute of fuzzing for every parser
fuzz:
	@tools/setup fuzz
	@test -f $(BUILD)-fuzz/build.ninja || CC=clang meson setup $(BUILD)-fuzz -Dfuzz=true
	@ninja -C $(BUILD)-fuzz
	tools/fuzz $(BUILD)-fuzz $(or $(SECONDS),60)

## install: binary, manual, completions, service; to PREFIX (/usr/local), DESTDIR is heeded
install: all
	@meson configure $(BUILD) -Dprefix=$(PREFIX) -Dsysconfdir=$(SYSCONFDIR)
	@ninja -C $(BUILD) >/dev/null
	meson install -C $(BUILD) --no-rebuild --tags runtime

## deb: the Debian package, in build/deb
deb:
	@tools/setup deb
	tools/deb $(BUILD)

## clean: forget what was built
clean:
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-fuzz

## help: this list
help:
	@sed -n 's/^## //p' Makefile | awk -F': ' '{ printf "  make %-16s %s\n", $$1, $$2 }'
