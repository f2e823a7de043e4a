SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VERSION ?= 0.1.0
IMAGE := ghcr.io/candor-dev/candor
IMG ?= $(IMAGE):v$(VERSION)
SCORECARD_IMG ?= $(IMAGE)-scorecard:v$(VERSION)
FAKEFLEET_IMG ?= $(IMAGE)-fakefleet:v$(VERSION)
# OLM's channels of the bundle, the version that it replaces, and where it is written.
CHANNELS ?= stable
DEFAULT_CHANNEL ?= stable
PREVIOUS_VERSION ?=
BUNDLE ?= bundle
BUNDLE_IMG ?= $(IMAGE)-bundle:v$(VERSION)
# The bundles of the catalog, folders or images, in the order of their versions, and where it is written.
BUNDLES ?= $(BUNDLE)
CATALOG ?= dist/catalog
CATALOG_IMG ?= $(IMAGE)-catalog:v$(VERSION)
# Where the scorecard runs, and more flags for it, such as -s for a ServiceAccount.
SCORECARD_NAMESPACE ?= default
SCORECARD_FLAGS ?=
PLATFORMS ?= linux/amd64,linux/arm64
CONTAINER_TOOL ?= docker
KUBECTL ?= kubectl
# The folder of config/ that deploy, undeploy and build-installer take: default, default-certmanager, signals or fleet.
VARIANT ?= default
TESTFLAGS ?= -timeout 30m

GO_BUILD := CGO_ENABLED=0 go build -trimpath -buildvcs=false

# A tool is pinned by hack/tools/<tool>/go.mod and built once, outside the checkout.
TOOLS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/candor/tools
tool_version = $(shell awk '$$1 == "tool" { tool = $$2 "/" } tool && index(tool, $$1 "/") == 1 { print $$2 }' hack/tools/$1/go.mod)
tool = $(TOOLS)/$1-$(call tool_version,$1)/$1
CONTROLLER_GEN := $(call tool,controller-gen)
KUSTOMIZE := $(call tool,kustomize)
GOLANGCI_LINT := $(call tool,golangci-lint)
GOVULNCHECK := $(call tool,govulncheck)
OPERATOR_SDK := $(call tool,operator-sdk)
SCORECARD_TEST := $(call tool,scorecard-test)
OPM := $(call tool,opm)
PROMTOOL := $(call tool,promtool)
ALERTMANAGER := $(call tool,alertmanager)

# Built as dependencies, the tools cannot read their own version from the build.
SDK_VERSION := github.com/operator-framework/operator-sdk/internal/version
LDFLAGS_controller-gen = -X sigs.k8s.io/controller-tools/pkg/version.version=$(call tool_version,$(@F))
LDFLAGS_golangci-lint = -X main.version=$(call tool_version,$(@F))
LDFLAGS_operator-sdk = $(foreach v,Version GitVersion ImageVersion,-X $(SDK_VERSION).$v=$(call tool_version,$(@F)))

# What these leave out: C code for the signatures of images, and the clients of clouds that Prometheus scrapes.
TAGS_operator-sdk = containers_image_openpgp
TAGS_scorecard-test = containers_image_openpgp
TAGS_opm = containers_image_openpgp
TAGS_promtool = remove_all_sd

render = $(KUSTOMIZE) build config/$1 | sed 's|image: $(IMAGE):.*|image: $(IMG)|'
control_plane = KUBEBUILDER_ASSETS=$${KUBEBUILDER_ASSETS:-$$(go run -C test/controlplane . | tail -n 1)}; export KUBEBUILDER_ASSETS

e2e = E2E_IMG=$${E2E_IMG:-$(IMG)} E2E_SCORECARD_IMG=$${E2E_SCORECARD_IMG:-$(SCORECARD_IMG)} KUBECTL=$(KUBECTL) \
	go test -tags e2e -count=1 -v $(TESTFLAGS) ./test/e2e -ginkgo.v

.PHONY: help
help: ## Show the targets
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } /^[a-z0-9%-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Develop

.PHONY: manifests
manifests: $(CONTROLLER_GEN) ## Generate CRDs, the manager's ClusterRole, the webhook configuration and the variants that run one half
	$(CONTROLLER_GEN) crd paths=./api/... output:dir=config/crd/bases
	$(CONTROLLER_GEN) rbac:roleName=manager-role webhook paths=./internal/...
	go run ./hack/variants

.PHONY: generate
generate: $(CONTROLLER_GEN) ## Generate the deepcopy methods
	$(CONTROLLER_GEN) object:headerFile=hack/boilerplate.go.txt paths=./api/...

.PHONY: docs
docs: ## Generate docs/reference
	go run ./hack/docgen

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## Format the code
	$(GOLANGCI_LINT) fmt

.PHONY: vet
vet: ## Run go vet
	go vet ./...

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Check style, layers and file lengths
	hack/file-length.sh
	$(GOLANGCI_LINT) run ./...

.PHONY: vulncheck
vulncheck: $(GOVULNCHECK) ## Look for known vulnerabilities in what the code calls
	$(GOVULNCHECK) ./...

.PHONY: verify
verify: generate manifests docs bundle ## Fail where a generated file or a go.mod is not up to date
	@git ls-files -z '*go.mod' | xargs -0 -n 1 dirname | while read -r module; do echo "go mod tidy: $$module"; (cd "$$module" && go mod tidy); done
	@changed=$$(git status --porcelain --untracked-files=all); \
	if [ -n "$$changed" ]; then git --no-pager diff; printf 'make verify: these files differ from the commit:\n%s\n' "$$changed"; exit 1; fi

##@ Test

.PHONY: test
test: $(PROMTOOL) $(ALERTMANAGER) ## Run every test, with a real etcd and API server
	@$(control_plane); log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
	{ go test -C test/controlplane $(TESTFLAGS) ./... && PROMTOOL=$(PROMTOOL) ALERTMANAGER=$(ALERTMANAGER) go test $(TESTFLAGS) ./...; } 2>&1 | tee "$$log" || { printf '\nmake test: FAILED\n'; grep -E '^(FAIL\s|panic:|\s*--- FAIL)' "$$log"; exit 1; }

.PHONY: bench
bench: ## Run the cost and scale benchmarks
	@$(control_plane); go run ./test/bench

.PHONY: e2e
e2e: build fakefleet-build ## Install Candor on the cluster of $KUBECONFIG and test it; test/e2e says how
	$(e2e) -ginkgo.label-filter='!trivy'

.PHONY: e2e-trivy
e2e-trivy: build ## The same beside a real Trivy Operator, which that cluster must have
	$(e2e) -ginkgo.label-filter=trivy

.PHONY: controlplane
controlplane: ## Start an API server with the CRDs, without the manager
	@$(control_plane); go build -o bin/demo ./test/demo; exec bin/demo -controlplane-only

.PHONY: demo
demo: ## Show Candor at work on an API server of its own
	@$(control_plane); go build -o bin/demo ./test/demo; exec bin/demo

##@ Build

.PHONY: build
build: ## Build bin/manager
	$(GO_BUILD) -ldflags '-s -w -X github.com/candor-dev/candor/internal/app.Version=$(VERSION)' -o bin/manager ./cmd

.PHONY: scorecard-build
scorecard-build: ## Build bin/candor-scorecard, our own checks of the bundle
	$(GO_BUILD) -ldflags '-s -w' -o bin/candor-scorecard ./test/scorecard

.PHONY: fakefleet-build
fakefleet-build: ## Build bin/fakefleet, a Fleet Management for the end-to-end tests
	$(GO_BUILD) -ldflags '-s -w' -o bin/fakefleet ./test/e2e/fakefleet

.PHONY: run
run: ## Run the manager here, against the cluster of $KUBECONFIG
	go run ./cmd

.PHONY: docker-build
docker-build: ## Build the image for this machine
	$(CONTAINER_TOOL) build --build-arg VERSION=$(VERSION) --tag $(IMG) .

.PHONY: docker-buildx
docker-buildx: ## Build and push the image for all PLATFORMS
	$(CONTAINER_TOOL) buildx build --push --platform $(PLATFORMS) --build-arg VERSION=$(VERSION) --tag $(IMG) .

.PHONY: build-installer
build-installer: $(KUSTOMIZE) ## Write dist/install.yaml
	@mkdir -p dist
	$(call render,$(VARIANT)) > dist/install.yaml

##@ Package

.PHONY: bundle
bundle: manifests $(KUSTOMIZE) $(OPERATOR_SDK) ## Write the OLM bundle of VERSION and IMG into BUNDLE
	$(OPERATOR_SDK) generate kustomize manifests -q --interactive=false --package candor
	KUSTOMIZE=$(KUSTOMIZE) OPERATOR_SDK=$(OPERATOR_SDK) VERSION=$(VERSION) IMG=$(IMG) SCORECARD_IMG=$(SCORECARD_IMG) \
		CHANNELS=$(CHANNELS) DEFAULT_CHANNEL=$(DEFAULT_CHANNEL) PREVIOUS_VERSION=$(PREVIOUS_VERSION) hack/bundle.sh $(BUNDLE)

.PHONY: bundle-validate
bundle-validate: $(OPERATOR_SDK) $(SCORECARD_TEST) ## Check BUNDLE, without a cluster: Operator SDK must have nothing to say, and every scorecard test passes
	BUNDLE_DIR=$(abspath $(BUNDLE)) OPERATOR_SDK=$(OPERATOR_SDK) SCORECARD_TEST=$(SCORECARD_TEST) go test -count=1 ./test/scorecard/...

.PHONY: bundle-build
bundle-build: ## Build the image of BUNDLE
	$(CONTAINER_TOOL) build --file $(BUNDLE:/=).Dockerfile --tag $(BUNDLE_IMG) $(dir $(BUNDLE:/=))

.PHONY: scorecard
scorecard: $(OPERATOR_SDK) ## Run the scorecard over BUNDLE in pods on the cluster of $KUBECONFIG
	$(OPERATOR_SDK) scorecard $(BUNDLE) --namespace $(SCORECARD_NAMESPACE) --pod-security restricted --wait-time 3m $(SCORECARD_FLAGS)

.PHONY: docker-build-scorecard
docker-build-scorecard: scorecard-build ## Build the image of our own scorecard checks
	$(CONTAINER_TOOL) build --file test/scorecard/Dockerfile --tag $(SCORECARD_IMG) .

.PHONY: docker-build-fakefleet
docker-build-fakefleet: fakefleet-build ## Build the image of the Fleet Management for the end-to-end tests
	$(CONTAINER_TOOL) build --file test/e2e/fakefleet/Dockerfile --tag $(FAKEFLEET_IMG) .

.PHONY: catalog
catalog: $(OPM) ## Write a file-based catalog of BUNDLES into CATALOG
	OPM=$(OPM) OPM_VERSION=$(call tool_version,opm) CHANNEL=$(DEFAULT_CHANNEL) PREVIOUS_VERSION=$(PREVIOUS_VERSION) hack/catalog.sh $(CATALOG) $(BUNDLES)

.PHONY: catalog-build
catalog-build: ## Build the image of CATALOG
	$(CONTAINER_TOOL) build --file $(CATALOG:/=).Dockerfile --tag $(CATALOG_IMG) $(dir $(CATALOG:/=))

##@ Deploy

.PHONY: install
install: $(KUSTOMIZE) ## Install the CRDs
	$(KUSTOMIZE) build config/crd | $(KUBECTL) apply --server-side --force-conflicts -f -

.PHONY: uninstall
uninstall: $(KUSTOMIZE) ## Remove the CRDs, and every object of them
	$(KUSTOMIZE) build config/crd | $(KUBECTL) delete --ignore-not-found -f -

.PHONY: deploy
deploy: $(KUSTOMIZE) ## Install the CRDs and the manager
	$(call render,$(VARIANT)) | $(KUBECTL) apply --server-side --force-conflicts -f -

.PHONY: undeploy
undeploy: uninstall ## Remove the CRDs, every object of them, and then the manager, which some of these objects need to go
	$(call render,$(VARIANT)) | $(KUBECTL) delete --ignore-not-found -f -

##@ Tools

tool-%: ## Build hack/tools/% and print its path
	@$(MAKE) --no-print-directory -s $(call tool,$*) && echo $(call tool,$*)

$(TOOLS)/%:
	@echo "building $(@F), once for this version" >&2
	@cd hack/tools/$(@F) && $(GO_BUILD) -tags '$(TAGS_$(@F))' -ldflags '-s -w $(LDFLAGS_$(@F))' \
		-o $@.new $$(awk '$$1 == "tool" { print $$2 }' go.mod) && mv $@.new $@
