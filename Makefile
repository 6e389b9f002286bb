# Every target works on a fresh machine that has Go and Debian.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME ?= 5s
STEPS ?= 10000000
SOAK ?= 60s
DRILL_HTML ?= drill.html
RUNS ?= 1000
SIZES ?=
# Modules of their own, so that their dependencies never reach a user.
NESTED := $(patsubst %/go.mod,%,$(wildcard interop/go.mod bench/go.mod examples/go.mod discovery/zookeeper/go.mod))
GOFILES = $(shell find . -name '*.go' -not -path './.*' -not -path '*/testdata/*')

# Flags of go test; ci turns off its vet, as vet has been there before.
TESTFLAGS ?=
# Packages whose tests take longest begin first, so that none is alone at the end.
SLOW := . ./cmd/ringcache ./internal/drill ./internal/clustertest ./internal/handoff ./internal/engine ./internal/server
SLOW_RACE := ./internal/engine ./internal/server . ./internal/clustertest ./internal/membership ./internal/handoff
# Rooms that start no goroutine, in their tests neither: nothing for the race detector.
ALONE := acl|glob|lint|operate|register|resp|ring

.PHONY: help setup build test race race-all vet lint check fuzz soak-model soak-diff soak-memory bench bench-hitratio bench-memory bench-engine bench-restart bench-pair drill drill-all drill-soak drill-clients sim-evictions sim-scale docs fmt fmt-check ci

help: ## print the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what the tests need and the machine lacks (apt-get, as root)
	@scripts/setup.sh

build: ## build the binary into bin/ringcache
	go build -o bin/ringcache ./cmd/ringcache

test: setup ## run all tests, those against real Redis clients and servers included
	@(failed=0; for dir in $(NESTED); do echo "module $$dir"; (cd $$dir && go test $(TESTFLAGS) ./...) || failed=1; done; exit $$failed) & nested=$$!; \
		status=0; go test $(TESTFLAGS) $(SLOW) ./... || status=$$?; \
		wait $$nested || status=$$?; exit $$status

race: ## run the tests with the race detector, but for long ones of one goroutine
	@scripts/setup.sh --race
	@rooms=$$(go list ./... | grep -vE '/internal/($(ALONE))$$'); \
		go test -tags heaparena -gcflags=-d=checkptr $(TESTFLAGS) ./internal/engine & heap=$$!; \
		status=0; RINGCACHE_DIFF_COMMANDS=10000 go test -race -short -timeout 15m $(TESTFLAGS) $(SLOW_RACE) $$rooms || status=$$?; \
		wait $$heap || status=$$?; exit $$status

race-all: ## run every test with the race detector, those of models and simulated clusters in full
	@scripts/setup.sh --race
	go test -race -timeout 2h ./...

vet: ## go vet in all modules, and staticcheck
	go vet ./...
	@for dir in $(NESTED); do echo "go vet in $$dir"; (cd $$dir && go vet ./...); done
	go run $(STATICCHECK) ./...

lint: ## floors, names, lengths and words (internal/lint)
	go test -count=1 ./internal/lint

check: fmt-check vet lint race fuzz ## vet, staticcheck, lint, race tests, every fuzz target for a while

fuzz: ## run every fuzz target for FUZZTIME (5s), as many at a time as there are processors
	scripts/fuzz.sh $(FUZZTIME)

soak-model: ## compare the engine with its model for STEPS operations (10000000), plain and with the race detector
	RINGCACHE_MODEL_STEPS=$(STEPS) go test -count=1 -timeout 4h -v -run='^TestModel$$' ./internal/engine
	RINGCACHE_MODEL_STEPS=$(STEPS) go test -race -count=1 -timeout 4h -v -run='^TestModel$$' ./internal/engine

bench: ## run the benchmarks
	go test -run='^$$' -bench=. -benchmem ./...

bench-hitratio: ## hit ratios on traces and Zipf beside other caches (ARGS=-quick)
	@cd bench && go run ./hitratio $(ARGS)

bench-memory: ## bytes per item beside redis-server and memcached
	@scripts/setup.sh --bench
	@cd bench && go run ./memory $(ARGS)

bench-engine: ## operations per second and GC pauses beside other Go caches
	@cd bench && go run ./engine $(ARGS)

soak-diff: ## random histories that nobody has seen, STEPS commands each, against redis-server
	RINGCACHE_DIFF_SEED=random RINGCACHE_DIFF_COMMANDS=$(STEPS) go test -count=1 -timeout 4h -v -run='^Test(Differential|Transactions|PubSub)AgainstRedis$$' .

soak-memory: ## resident memory of real processes under bad loads, SOAK (60s) each
	RINGCACHE_SOAK=$(SOAK) go test -count=1 -timeout 30m -run='^TestMemoryBound$$' -v ./cmd/ringcache

bench-restart: ## a real process with 5 million entries, stopped and started again
	RINGCACHE_RESTART_ITEMS=5000000 go test -run='^$$' -bench=BenchmarkWarmRestart -benchtime=1x -timeout=30m ./cmd/ringcache

bench-pair: ## server CPU per request beside redis-server (ARGS='-pipeline 32')
	@scripts/setup.sh --bench
	@go build -o bench/ringcache-pair ./cmd/ringcache && cd bench && \
		go run ./pair -a './ringcache-pair serve --addr 127.0.0.1:{port} --max-memory 256mb' $(ARGS); \
		status=$$?; rm -f ringcache-pair; exit $$status

drill: build ## a quick drill of every scenario with real processes (ARGS='-v')
	bin/ringcache drill --scenario all --quick $(ARGS)

drill-all: build ## every scenario on every target at full length, with a page (DRILL_HTML)
	@scripts/setup.sh
	bin/ringcache drill --scenario all --target ringcache,modulo,ketama,redis-cluster --html $(DRILL_HTML) $(ARGS)

drill-soak: build ## 200 faults and more than 10 million checked reads (ARGS='--seed 7')
	bin/ringcache drill --scenario mixed --faults 200 --duration 48m --keys 1000000 --value 64 --html $(DRILL_HTML) $(ARGS)

drill-clients: ## the drill with go-redis and rueidis
	cd interop && INTEROP_DRILL=join,leave,kill,pause go test -count=1 -timeout 60m -v -run='^TestDrillWithStockClients$$' .

sim-evictions: ## RUNS (1000) pauses and outages in simulation, beside memberlist alone; prints a table
	RINGCACHE_SIM_EVICTIONS=$(RUNS) RINGCACHE_SIM_SIZES="$(SIZES)" go test -count=1 -timeout 2h -run='^TestSimEvictions$$' -v ./internal/membership

sim-scale: ## clusters of SIZES (10,30,100,300) nodes in simulation, and what a View of up to 1000 costs
	RINGCACHE_SIM_SCALE=1 RINGCACHE_SIM_SIZES="$(SIZES)" go test -count=1 -timeout 2h -run='^TestSimScale' -v ./internal/membership ./internal/node

docs: ## regenerate docs/configuration.md, docs/commands.md and docs/metrics.md
	go test -count=1 -run='^TestDocsCurrent$$' ./internal/config -update
	go test -count=1 -run='Docs' ./internal/command -update
	go test -count=1 -run='^TestDocsCurrent$$' ./internal/admin -update

fmt: ## format the code
	gofmt -w $(GOFILES)

fmt-check: ## fail if a file is not formatted
	@bad=$$(gofmt -l $(GOFILES)); [ -z "$$bad" ] || { echo "gofmt: run make fmt; not formatted: $$bad" >&2; exit 1; }

ci: ## everything, in the order of a merge: build, check, test
	$(MAKE) --no-print-directory build
	$(MAKE) --no-print-directory check TESTFLAGS=-vet=off
	$(MAKE) --no-print-directory test TESTFLAGS=-vet=off
