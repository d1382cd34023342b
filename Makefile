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
MEASURED = artifact_memory.test.js loop.test.js messages_memory.test.js request_memory.test.js \
	unread.test.js

# What sanitizers see of HTTP: the readers of requests, and what begins and ends connections, streams,
# leases and servers. make test-long has them see all.
ASAN_HTTP  = access_identities armada audit batch body claim cron damage depend entries events failures \
	filter gang http2 idempotency msgpack mutations operations origin policy protocol query restart take \
	taskcluster taskcluster_content taskcluster_messages taskcluster_refusals tls trace workers
ASAN_FILES = $(ASAN_HTTP:%=tests/http/%.test.js)
ASAN_SEEDS = 1..20

.PHONY: all check debug asan demo demo-kubernetes demo-builds test test-unit test-http test-console test-kubernetes test-crash \
	test-crash-long test-builds test-clients test-postgres test-postgres-long test-failover test-packaging test-asan test-mutants test-long soak lint docs bench sim fuzz install deb packages clean help \
	bench-peers bench-clients bench-growth bench-postgres bench-report test-bench
.DEFAULT_GOAL := all

## all: build build/tenax (the default)
all: $(BUILD)/build.ninja
	@$(ALONE) ninja -C $(BUILD)

# One at a time in the build folder, when several makes run side by side.
ALONE = flock $(BUILD)/.make-lock

$(BUILD)/build.ninja: meson.build meson_options.txt
	@tools/setup build
	@test -f $@ || meson setup $(BUILD) -Dprefix=$(PREFIX) -Dsysconfdir=$(SYSCONFDIR)
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

# Says where it is, and ends what hangs.
SUITE = TENAX_BIN=$(BUILD)/tenax tools/suite

## check: for every commit, unit tests, and lint of what has changed; 3 min
check: all
	@tools/setup test
	@tools/setup lint
	@tools/check $(BUILD)

ifdef T
test: all
	@tools/setup test
	@tools/one $(BUILD) $(T)
else
## test: what every change must pass, from unit tests to crashes and sanitizers; half an hour
##   T=core/retry runs one test alone; T=http/claim, T=sim/1..40 or T="core/retry http/claim" likewise
test: all
	@tools/setup test
	@tools/setup packaging
	@rm -rf $(BUILD)/test-run
	@export TEST_RUN=$(BUILD)/test-run; $(MAKE) --no-print-directory -j2 test-waiting test-working || \
		{ tools/suite --failed; exit 1; }
	@echo "make test: all of it passed"
endif

# Side by side: suites that mostly wait for others, and those that need the processor. Each suite
# begins only if none has failed.
.PHONY: test-waiting test-working
test-waiting:
	@$(MAKE) --no-print-directory test-builds
	@$(MAKE) --no-print-directory test-console
	@$(MAKE) --no-print-directory test-kubernetes
	@$(MAKE) --no-print-directory test-clients
	@$(MAKE) --no-print-directory test-postgres
	@$(MAKE) --no-print-directory test-packaging
	@$(MAKE) --no-print-directory test-crash

test-working:
	@$(MAKE) --no-print-directory test-unit
	@$(MAKE) --no-print-directory test-http
	@$(MAKE) --no-print-directory test-io-threads
	@$(MAKE) --no-print-directory test-bench
	@$(MAKE) --no-print-directory test-asan

test-unit: all
	@tools/setup test
	@$(SUITE) unit --limit 2700 -- meson test -C $(BUILD) --no-rebuild --print-errorlogs \
		--timeout-multiplier 10

test-http: all
	@tools/setup test
	@$(SUITE) http $(wildcard tests/http/*.test.js)

# What a connection can do, when threads of their own serve connections.
IO_THREADED = backup claim enqueue events http2 msgpack protocol restart take taskcluster_content \
	taskcluster_poll tls

## test-io-threads: a part of the HTTP tests with connections on two threads
test-io-threads: all
	@tools/setup test
	@TEST_IO_THREADS=2 $(SUITE) io-threads $(IO_THREADED:%=tests/http/%.test.js)

## test-builds: what needs a RabbitMQ; each test starts a node of its own
test-builds: all
	@tools/setup test
	@$(SUITE) builds $(wildcard tests/amqp/*.test.js tests/bridge/*.test.js tests/builds/*.test.js)

# What jobs can do, when they are kept in PostgreSQL: asked of the owner, and of a standby.
IN_POSTGRES = batch claim cron enqueue filter gang http2 idempotency report take taskcluster undo

## test-postgres: what needs a PostgreSQL; each test starts one of its own
test-postgres: all
	@tools/setup test
	@$(SUITE) postgres $(wildcard tests/postgres/*.test.js)
	@TEST_POSTGRES=owner $(SUITE) postgres-owner $(IN_POSTGRES:%=tests/http/%.test.js)
	@TEST_POSTGRES=standby $(SUITE) postgres-standby $(IN_POSTGRES:%=tests/http/%.test.js)

# What is about a root directory or its tables; and what compares answers, or counts turns, connections
# or options, that are others where there is a PostgreSQL. All else says test by test what is not for it.
NOT_IN_POSTGRES = $(MEASURED) backup.test.js damage.test.js index_snapshots.test.js landing.test.js \
	migrate.test.js msgpack.test.js protocol.test.js query.test.js settings.test.js
LONG_IN_POSTGRES = $(filter-out $(NOT_IN_POSTGRES:%=tests/http/%),$(wildcard tests/http/*.test.js))
# A standby passes bodies on whole, of at most --max-body; and what it passes on may reach the owner
# before that has had a turn since the clock leapt.
NOT_BY_STANDBY = taskcluster_artifacts_stream.test.js taskcluster_clock.test.js

## test-postgres-long: HTTP tests on PostgreSQL, by the owner and by a standby; 1 h
test-postgres-long: all
	@tools/setup test
	@TEST_POSTGRES=owner $(SUITE) postgres-owner-long $(LONG_IN_POSTGRES)
	@TEST_POSTGRES=standby $(SUITE) postgres-standby-long \
		$(filter-out $(NOT_BY_STANDBY:%=tests/http/%),$(LONG_IN_POSTGRES))

## test-failover: 200 blows to several servers, their PostgreSQL, its standby and the network; 25 min
test-failover: all
	@tools/setup test
	FAILOVERS=200 TENAX_BIN=$(BUILD)/tenax node --test tests/postgres/failover.test.js

## test-console: the web console in Debian's chromium
test-console: all
	@tools/setup test
	@$(SUITE) console $(wildcard tests/console/*.test.js)

## test-kubernetes: pods end to end, against the double or the API server of TENAX_TEST_KUBECONFIG
test-kubernetes: all
	@tools/setup test
	@$(SUITE) kubernetes $(wildcard tests/kubernetes/*.test.js)

## test-clients: the clients for Python, Node, Go and Ruby, each by its language's own test runner
test-clients: all
	@tools/setup test
	@$(SUITE) clients $(wildcard tests/clients/*.test.js)

test-crash: all
	@tools/setup test
	@$(SUITE) crash --limit 1800 $(wildcard tests/crash/*.test.js)

## test-crash-long: a thousand kills and three hundred power cuts under load, for half an hour or more
test-crash-long: all
	@tools/setup test
	KILLS=1000 TENAX_BIN=$(BUILD)/tenax node --test tests/crash/crash.test.js
	CUTS=300 TENAX_BIN=$(BUILD)/tenax node --test tests/crash/powercut.test.js

## soak: every fault of docs/grey-faults.md under load, for SOAK_MINUTES (30)
soak: all
	@tools/setup test
	TENAX_BIN=$(BUILD)/tenax node --test tests/soak/soak.test.js

test-packaging: all
	@tools/setup test
	@tools/setup packaging
	@$(SUITE) packaging $(wildcard tests/packaging/*.test.js)

## test-bench: the generators of the benchmarks against the real servers, in short form
test-bench: all
	@tools/setup test
	@$(SUITE) bench $(wildcard tests/bench/*.test.js)

# Lines in stack traces are all that is needed of debugging information: a build of half the time.
ASAN_OPTIONS_OF_BUILD = -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 \
	-Ddebug=false -Dc_args=-g1

## test-asan: unit tests, and what reads requests, with AddressSanitizer and UBSan
test-asan:
	@tools/setup test
	@test -f $(BUILD)-asan/build.ninja || meson setup $(BUILD)-asan $(ASAN_OPTIONS_OF_BUILD)
	@tools/suite asan-build --limit 3600 -- ninja -C $(BUILD)-asan
	@tools/suite asan-unit --limit 2700 -- meson test -C $(BUILD)-asan --no-rebuild --print-errorlogs \
		--timeout-multiplier 10 --suite unit --suite fuzz
	@tools/suite asan-sim --limit 2700 -- $(BUILD)-asan/sim/sim --seeds $(ASAN_SEEDS)
	@tools/suite asan-tenants --limit 600 -- $(BUILD)-asan/sim/sim --tenants --seeds $(ASAN_SEEDS)
	@TENAX_BIN=$(BUILD)-asan/tenax tools/suite asan-http $(ASAN_FILES)

## test-long: longer searches by the simulator and of crashes, all HTTP tests with sanitizers, planted faults; hours
test-long: all
	@tools/setup test
	$(MAKE) test-mutants
	$(MAKE) sim SEEDS=1..10000
	$(MAKE) sim SEEDS=1..10000 SIM_ARGS=--tenants
	MOMENTS=all KILLS=300 $(SUITE) crash --limit 7200 tests/crash/executor.test.js
	$(MAKE) test-asan ASAN_SEEDS=1..1000 \
		ASAN_FILES="$(filter-out $(addprefix tests/http/,$(MEASURED)),$(wildcard tests/http/*.test.js))"

## test-mutants: faults planted one at a time, each of which a test must catch; 10 min
test-mutants: all
	@tools/setup test
	tools/mutant run $(MUTANTS)

## debug: a build to be stepped through, in build-debug
debug:
	@tools/setup build
	@test -f $(BUILD)-debug/build.ninja || meson setup $(BUILD)-debug -Dbuildtype=debug
	@ninja -C $(BUILD)-debug

## asan: the build with sanitizers that make test-asan uses, in build-asan
asan:
	@tools/setup build
	@test -f $(BUILD)-asan/build.ninja || meson setup $(BUILD)-asan $(ASAN_OPTIONS_OF_BUILD)
	@ninja -C $(BUILD)-asan

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

## bench-postgres: Tenax on a PostgreSQL beside a queue of SELECT ... FOR UPDATE SKIP LOCKED; 2 min
bench-postgres: all
	@tools/setup test
	bench/postgres.js $(BUILD)/tenax $(BUILD)/bench/load

## bench-clients: what the clients of each language do in a second, BEFORE=OTHER/clients beside those of another checkout; 2 min
bench-clients: all
	bench/clients.js $(BUILD)/tenax $(if $(BEFORE),--before $(BEFORE))

## bench-growth: what a job costs with up to 30 million of them, 10,000 queues, 10,000 connections
bench-growth: all
	@tools/setup bench
	bench/growth.js $(BUILD)/tenax $(BUILD)/bench/load --json $(BUILD)/bench-growth.json

## bench-report: what these three have measured, into docs/performance.md
bench-report:
	bench/report.js --into docs/performance.md $(wildcard $(BUILD)/bench-*.json)

## sim: the simulator; SEED=n repeats one seed with its trace, SEEDS=a..b runs many
sim: all
	$(BUILD)/sim/sim $(if $(SEED),--seed $(SEED) --trace,--seeds $(SEEDS)) $(SIM_ARGS)

## fuzz: a minute of fuzzing for every parser
fuzz:
	@tools/setup fuzz
	@test -f $(BUILD)-fuzz/build.ninja || CC=clang meson setup $(BUILD)-fuzz -Dfuzz=true
	@ninja -C $(BUILD)-fuzz
	tools/fuzz $(BUILD)-fuzz $(or $(SECONDS),60)

## install: binary, manual, completions, service; to PREFIX (/usr/local), DESTDIR is heeded
install: all
	@$(ALONE) tools/configure $(BUILD) prefix=$(PREFIX) sysconfdir=$(SYSCONFDIR)
	@$(ALONE) ninja -C $(BUILD) >/dev/null
	$(ALONE) meson install -C $(BUILD) --no-rebuild --tags runtime

## packages: the clients for npm, pip, gem and go get, in build/packages, with checksums
packages:
	@tools/setup packages
	@tools/packages $(BUILD)/packages

## deb: the Debian package, in build/deb
deb:
	@tools/setup deb
	tools/deb $(BUILD)

## clean: forget what was built
clean:
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-debug $(BUILD)-fuzz

## help: this list
help:
	@sed -n 's/^## //p' Makefile | awk -F': ' '/^ / { printf "  %-21s  %s\n", "", $$0; next } { printf "  make %-16s %s\n", $$1, $$2 }'
