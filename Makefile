# The scripts in hack/ provide the pinned tools, the API server and the brokers, outside of the checkout.
SHELL := /usr/bin/env bash -o pipefail
.SHELLFLAGS := -ec
.DEFAULT_GOAL := help

# The image that `image` and `docker-build` build, and that `deploy` runs.
IMG ?= ghcr.io/warren-mq/warren:latest
# The version in the image, and its platforms; see hack/image.sh.
VERSION ?=
PLATFORMS ?=
# Where `release` and `release-push` publish image and chart.
REGISTRY ?= ghcr.io/warren-mq
KUBECTL ?= kubectl
CONTAINER_TOOL ?= docker
TESTFLAGS ?=
FUZZTIME ?= 30s
WARREN_SOAK ?= 2h
STRATEGIES ?= Publish Reject Requeue None
FUZZ_PACKAGES ?= ./internal/... ./consumer/... ./cmd/kubectl-warren/...
# The page to which `bench` writes its results. With BENCH_PHASES or BENCH_MANAGER, it only prints them.
BENCH_PAGE ?= $(if $(BENCH_PHASES)$(BENCH_MANAGER),,docs/benchmarks.md)
# With -trimpath, Go reuses packages that were built in another checkout.
export GOFLAGS := $(GOFLAGS) -trimpath

CONTROLLER_GEN = hack/tool.sh controller-gen
KUSTOMIZE = hack/tool.sh kustomize

##@ Try and test

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN { FS = ":.*## "; print "make TARGET" } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build ## Run the operator with a real API server and a real broker; ONESHOT=1 ends after the tour.
	go build -o bin/quickstart ./hack/quickstart
	hack/with-parts.sh newest -- bin/quickstart

.PHONY: test
test: ## Run the tests that a contributor waits for, on the newest RabbitMQ.
	hack/with-parts.sh apiserver newest manager node -- hack/test.sh quick

.PHONY: test-all
test-all: ## Run all tests: those of `test`, then every RabbitMQ, chaos, clusters, GitOps, the image and a soak of two hours.
	hack/supervise.sh hack/test-all.sh

.PHONY: test-unit
test-unit: ## Run the tests that need neither an API server nor a broker.
	go test -race -shuffle=on $(TESTFLAGS) ./internal/vhost/... ./internal/topology/... ./internal/ownership/... \
		./test/conformance/... ./test/deadline/... ./test/docs/...

.PHONY: test-e2e
test-e2e: ## Run the suite test/e2e alone, with the newest RabbitMQ; TESTFLAGS='-ginkgo.focus "…"' picks specs.
	hack/with-parts.sh apiserver newest -- go test -exec="'$(CURDIR)/hack/run-test.sh'" -race -count=1 -timeout=30m ./test/e2e $(TESTFLAGS)

.PHONY: soak
soak: ## Run a manager for WARREN_SOAK (2h) while resources are created and deleted and brokers fail; its memory must stay flat.
	hack/with-parts.sh newest -- env WARREN_SOAK='$(WARREN_SOAK)' go test ./test/faults -v -run='^TestFaults$$' -count=1 -timeout=0 \
		-ginkgo.label-filter=soak -ginkgo.timeout=24h -ginkgo.v $(TESTFLAGS)

.PHONY: test-image
test-image: ## Run the tests of image and release: the image is the same in two checkouts, the plugin is built for five platforms.
	GOFLAGS= GOWORK=off go -C hack/tools test -count=1 -timeout=30m $(TESTFLAGS) ./image ./release

.PHONY: test-cluster
test-cluster: ## Run the tests on a RabbitMQ cluster of three nodes; VERSION=4.0 uses 4.0 instead of 4.3.
	WARREN_TEST_CLUSTER_VERSION='$(VERSION)' KUBEBUILDER_ASSETS="$$(hack/kubernetes.sh path)" \
		go test -count=1 -timeout=30m ./test/cluster $(TESTFLAGS)

.PHONY: bench
bench: build ## Measure the manager with BENCH_N ConsumerQueues (100 1000 3000) against the bare broker, for docs/benchmarks.md.
	go build -o bin/bench ./test/bench
	KUBEBUILDER_ASSETS="$$(hack/kubernetes.sh path)" bin/bench -page='$(BENCH_PAGE)' $(if $(BENCH_N),-n='$(BENCH_N)') \
		$(if $(BENCH_PHASES),-phases='$(BENCH_PHASES)') $(if $(BENCH_MANAGER),-manager='$(BENCH_MANAGER)') \
		$(if $(BENCH_CRDS),-crds='$(BENCH_CRDS)') $(if $(PROFILE),-profiles='$(PROFILE)') $(BENCH_FLAGS)

.PHONY: bench-consumer
bench-consumer: ## Measure the consumer library against amqp091-go alone, alternately, ten times each.
	hack/with-parts.sh newest -- go test -run='^$$' -bench=Consumer -benchtime=10x -timeout=60m ./test/consumer

.PHONY: chaos-consumer
chaos-consumer: ## Count the messages that the consumer library loses and repeats while connections, consumers and brokers fail; WARREN_CHAOS_MESSAGES=1000000.
	hack/with-parts.sh newest -- go test -run='^$$' -bench=Chaos -benchtime=1x -timeout=12h ./test/consumer

.PHONY: bench-batch
bench-batch: ## Measure inserts into PostgreSQL in batches of 100 against single ones, alternately, ten times each, and test the recipes for databases.
	hack/with-parts.sh newest -- hack/postgres.sh go test -run='Inbox|RowThatIsRefused' -count=1 -bench=Batch -benchtime=10x -timeout=30m ./test/consumer

.PHONY: bench-mover
bench-mover: ## Measure how messages are moved against a bare copy and the Shovel plugin, alternately, three times each, how rates are kept, and how long a dry run takes.
	hack/with-parts.sh brokers -- go test -run='^$$' -bench=Move -benchtime=3x -timeout=60m ./internal/rabbit/mover
	hack/with-parts.sh newest -- go test -run='^$$' -bench=Rate -benchtime=1x ./internal/rabbit/mover
	hack/with-parts.sh brokers -- go test -run='^$$' -bench=DryRun -benchtime=1x -timeout=30m ./internal/rabbit/mover

.PHONY: bench-tenants
bench-tenants: ## Measure how long a ConsumerQueue takes to become Ready beside a tenant whose brokers hang, flap or are slow, in ten rounds with it and ten without it.
	hack/with-parts.sh apiserver brokers manager -- go test -count=1 -timeout=1h ./test/faults -run='^TestFaults$$' \
		-ginkgo.label-filter='bench && tenants' -v $(TESTFLAGS)

.PHONY: bench-recreate
bench-recreate: ## Measure how long recreations take: fences, empty queues, a hundred together, 100,000 messages, a full delay tier; WARREN_CHAOS_SETUPS.
	hack/with-parts.sh apiserver newest manager -- go test -count=1 -timeout=2h ./test/faults -run='^TestFaults$$' \
		-ginkgo.label-filter='bench && recreate' -v $(TESTFLAGS)

.PHONY: bench-memory
bench-memory: ## Measure the memory of a manager during browses, exports, counts, Redrives and Purges of large messages; WARREN_MEMORY_PERCENT=100 of the messages.
	WARREN_MEMORY_PERCENT=$${WARREN_MEMORY_PERCENT:-100} hack/with-parts.sh newest -- go test -count=1 -timeout=1h ./test/faults -run='^TestFaults$$' -ginkgo.label-filter=memory -v

.PHONY: chaos-pairs
chaos-pairs: ## Start two users of dead letters at random moments, in WARREN_PAIRS pairs (500) on each RabbitMQ, and compare their reports.
	WARREN_PAIRS=$${WARREN_PAIRS:-500} hack/with-parts.sh brokers -- go test -count=1 -timeout=3h ./test/e2e -ginkgo.timeout=3h -ginkgo.label-filter=pairs -v

.PHONY: chaos-recreate
chaos-recreate: ## Count the messages that recreations lose and repeat while managers and nodes are killed under load; WARREN_CHAOS_SETUPS="3.10 4.0 4.3 4.3x3".
	WARREN_CHAOS_MESSAGES=$${WARREN_CHAOS_MESSAGES:-250000} WARREN_CHAOS_RATE=$${WARREN_CHAOS_RATE:-2000} \
		WARREN_CHAOS_PAST=$${WARREN_CHAOS_PAST:-20} WARREN_CHAOS_KILLS=$${WARREN_CHAOS_KILLS:-50} \
		hack/with-parts.sh apiserver newest manager -- \
		go test -count=1 -timeout=12h ./test/faults -run='^TestFaults$$' -ginkgo.timeout=12h -ginkgo.label-filter='recreate && !bench' -v $(TESTFLAGS)

.PHONY: chaos-redrive
chaos-redrive: ## Count the messages that a Redrive loses and repeats, and a Purge deletes, while manager, broker and connections fail; WARREN_CHAOS_MESSAGES=1000000 WARREN_CHAOS_FAULTS=20.
	hack/with-parts.sh newest -- go test -count=1 -timeout=3h ./test/faults -run='^TestFaults$$' -ginkgo.timeout=3h -ginkgo.label-filter=redrive -v $(TESTFLAGS)

.PHONY: crashpoints
crashpoints: ## Kill the manager before and after its writes in recreations, deletions, Redrives and Purges, and compare the ends; at most 2 hours.
	hack/with-parts.sh apiserver brokers manager -- go test -count=1 -timeout=2h -parallel=$${WARREN_WORLDS:-12} ./test/crashpoints \
		-run='^TestCrashPoints$$' -v $(TESTFLAGS)

.PHONY: conformance
conformance: ## Test examples/typescript with warren-conformance under each of STRATEGIES.
	hack/conformance.sh $(STRATEGIES)

.PHONY: fuzz
fuzz: ## Run each fuzz target of FUZZ_PACKAGES for FUZZTIME; Go adds a failing input to testdata as a test case.
	@for package in $$(go list $(FUZZ_PACKAGES)); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$package; \
		done; \
	done

.PHONY: fuzz-seeds
fuzz-seeds: ## Run the fuzz targets with their seeds only.
	go test -run='^Fuzz' $$(git grep -l '^func Fuzz' | xargs -n1 dirname | sort -u | sed 's|^|./|')

# A first start of the cluster builds its parts, which takes longer than the tests may take.
.PHONY: e2e-cluster
e2e-cluster: ## Follow docs/getting-started.md; install, upgrade and remove the operator in a real cluster, and recreate a queue of pods there.
	for tool in source-controller kustomize-controller; do hack/tool.sh $$tool --help 2> >(grep '^tool: ' >&2) >/dev/null; done
	hack/cluster.sh run true
	go test -v -count=1 -timeout=30m -run='^TestGettingStarted$$' ./test/incluster
	hack/with-parts.sh newest -- hack/cluster.sh run go test -v -count=1 -timeout=30m -run='^TestInCluster$$' ./test/incluster $(TESTFLAGS)

# Argo CD and Flux run at the same time, each with an API server of its own.
.PHONY: e2e-gitops
e2e-gitops: ## Deliver from a Git repository with the real Argo CD and Flux.
	for tool in argocd source-controller kustomize-controller kustomize; do hack/tool.sh $$tool --help 2> >(grep '^tool: ' >&2) >/dev/null; done
	hack/kubernetes.sh node >/dev/null
	WARREN_TEST_PROCESSES=2 hack/with-parts.sh newest -- go test -exec="'$(CURDIR)/hack/run-test.sh'" -count=1 -timeout=30m \
		./test/gitops $(TESTFLAGS)

.PHONY: fmt
fmt: ## Format the Go code.
	hack/tool.sh gofumpt -w $$(git ls-files '*.go')

.PHONY: vet
vet: ## Run go vet on the modules of the workspace.
	go vet ./... ./consumer/... ./cmd/kubectl-warren/... ./examples/orders/...

# Go ignores folders whose names begin with _.
.PHONY: lint
lint: ## Run the linters, also for the Helm chart and the documentation; FIX=1 corrects what they can.
	hack/tool.sh golangci-lint run $(if $(FIX),--fix)
	cd consumer && ../hack/tool.sh golangci-lint run $(if $(FIX),--fix)
	cd consumer/otelconsumer && GOWORK=off ../../hack/tool.sh golangci-lint run $(if $(FIX),--fix)
	cd cmd/kubectl-warren && ../../hack/tool.sh golangci-lint run $(if $(FIX),--fix)
	git ls-files -z '*.md' '*.go' '*.yaml' | xargs -0 hack/tool.sh vale --config=hack/vale/vale.ini --output=line
	rm -rf bin/_messages
	go run ./hack/messages bin/_messages $$(git ls-files {api,cmd,consumer,examples,internal}/'*.go' ':!*_test.go')
	cd bin/_messages && ../../hack/tool.sh vale --config=../../hack/vale/vale.ini --ext=.html --output=line .
	for helm in helm helm3; do hack/tool.sh $$helm lint --strict --quiet --kube-version=1.37.0 charts/warren; done

##@ Generate

.PHONY: generate
generate: ## Generate deep copies, and the JSON Schemas of the contract and its vectors.
	$(CONTROLLER_GEN) object:headerFile=hack/boilerplate.go.txt paths=./api/...
	GOWORK=off GOFLAGS= go -C hack/tools run ./contract

.PHONY: manifests
manifests: ## Generate the CRDs, the manager's role, for the cluster and for single namespaces, and the settings of Argo CD.
	$(CONTROLLER_GEN) crd rbac:roleName=manager-role paths=./api/v1alpha1 paths=./internal/... paths=./cmd/... \
		output:crd:artifacts:config=config/crd/bases output:rbac:artifacts:config=config/rbac
	go run ./hack/cel api/v1alpha1/rules.cel config/crd/bases/*.yaml
	sed 's/^kind: ClusterRole$$/kind: Role/' config/rbac/role.yaml >config/namespaced/watched/role.yaml
	hack/argocd-cm.sh

.PHONY: docs
docs: ## Generate the reference: API, its JSON schemas, queue arguments, metrics, flags, and the help of kubectl warren.
	@mkdir -p docs/reference
	hack/tool.sh crd-ref-docs --config=hack/crd-ref-docs.yaml --source-path=api --renderer=markdown --log-level=ERROR \
		--templates-dir=hack/crd-ref-docs --output-path=docs/reference/api.md
	go run ./hack/reference arguments >docs/reference/arguments.md
	go run ./hack/reference metrics >docs/reference/metrics.md
	$(KUSTOMIZE) build config/default | go run ./hack/reference flags >docs/reference/flags.md
	go build -o bin/docs/kubectl-warren ./cmd/kubectl-warren
	hack/reference/plugin.sh bin/docs/kubectl-warren >docs/reference/kubectl-warren.md
	go run ./hack/schemas docs/reference/schemas config/crd/bases/*.yaml

.PHONY: site
site: ## Build docs/ as a site in dist/site; fails for a broken link.
	hack/site.sh build

.PHONY: site-serve
site-serve: ## Serve docs/ as a site on http://localhost:1313, and rebuild it after each change.
	hack/site.sh serve

.PHONY: recording
recording: build ## Record a Redrive on real parts for the README, into docs/images/redrive.svg.
	go build -o bin/quickstart ./hack/quickstart
	hack/with-parts.sh newest -- hack/recording/record.sh docs/images/redrive.svg

.PHONY: chart
chart: ## Copy files of config/ into the Helm chart, and generate its README.
	hack/chart.sh

.PHONY: verify
verify: ## Check that generated files are fresh.
	hack/verify.sh

##@ Build

.PHONY: build
build: ## Build the manager and kubectl-warren into bin/.
	go build -ldflags "$$(hack/image.sh flags)" -o bin/manager ./cmd
	go build -ldflags "$$(hack/image.sh flags)" -o bin/kubectl-warren ./cmd/kubectl-warren

.PHONY: image
image: ## Build the image IMG into dist/, for amd64 and arm64, without Docker; PLATFORMS=host is faster.
	IMG='$(IMG)' PLATFORMS='$(PLATFORMS)' VERSION='$(VERSION)' hack/image.sh build

.PHONY: image-push
image-push: ## Push the image that `make image` wrote.
	@IMG='$(IMG)' VERSION='$(VERSION)' hack/image.sh push

.PHONY: docker-build
docker-build: ## Build the image IMG with Docker and the Dockerfile.
	VERSION='$(VERSION)' hack/image.sh arguments | xargs -0 $(CONTAINER_TOOL) build -t $(IMG) .

.PHONY: plugin
plugin: ## Build the archives of kubectl-warren, for five platforms, and the manifest for krew into dist/; PLATFORMS=host is faster.
	PLATFORMS='$(PLATFORMS)' VERSION='$(VERSION)' hack/plugin.sh

.PHONY: build-installer
build-installer: overlay ## Write all manifests with the image IMG into dist/install.yaml.
	@mkdir -p dist
	$(KUSTOMIZE) build bin/overlay >dist/install.yaml

.PHONY: release
release: ## Build the files of release VERSION in dist/: image, chart, install.yaml, plugin, SBOMs, notes, checksums, provenance.
	VERSION='$(VERSION)' REGISTRY='$(REGISTRY)' PLATFORMS='$(PLATFORMS)' hack/release.sh build

.PHONY: release-push
release-push: ## Push the image and the chart that `make release` wrote, to REGISTRY; prints their names with digests.
	@VERSION='$(VERSION)' REGISTRY='$(REGISTRY)' hack/release.sh push

.PHONY: check-modules
check-modules: ## Check that the Go modules of VERSION can be used once they are tagged, and in which order to tag them.
	hack/modules.sh '$(VERSION)'

.PHONY: vulnerabilities
vulnerabilities: ## Search the programs of each Go module of the repository for known vulnerabilities.
	hack/vulnerabilities.sh

##@ Deploy to the cluster of the current kubectl context

.PHONY: install
install: ## Install the CRDs.
	$(KUBECTL) apply --server-side -k config/crd

.PHONY: uninstall
uninstall: ## Remove the CRDs, and every resource of Warren with them; a running manager deletes queues, as their deletionPolicy says.
	$(KUBECTL) delete --ignore-not-found -k config/crd

.PHONY: deploy
deploy: overlay ## Install the CRDs and the operator with the image IMG.
	$(KUBECTL) apply --server-side -k bin/overlay
	@cat hack/deployed.txt

.PHONY: undeploy
undeploy: ## Remove the operator, its CRDs and every resource of Warren; the queues stay at the brokers.
	KUBECTL='$(KUBECTL)' hack/undeploy.sh

# An overlay sets the image, so that deploying changes no file of the checkout.
.PHONY: overlay
overlay:
	@mkdir -p bin/overlay
	@image='$(IMG)' version='newTag: "latest"'; \
	case "$${image##*/}" in \
		*@*) version="digest: $${image##*@}" image="$${image%@*}";; \
		*:*) version="newTag: \"$${image##*:}\"" image="$${image%:*}";; \
	esac; \
	printf '%s\n' 'resources: [../../config/default]' 'images:' \
		"- {name: controller, newName: $$image, $$version}" >bin/overlay/kustomization.yaml

##@ Clean up

.PHONY: clean-env
clean-env: ## Stop the brokers that the scripts started.
	hack/brokers.sh stop
	hack/brokers.sh cluster stop
