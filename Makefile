# SPDX-License-Identifier: Apache-2.0
# One command for each habit; `make` lists them. Settings: BUILD (preset), PREFIX (of install), PROMPT and MODEL (of demo),
# TIDY (of lint: --all for every file), FUZZ_SECONDS, FUZZ_RUNS (the same inputs each time) and FUZZ_TARGETS (of fuzz), NEON_TESTS (of test-neon: programs; all), PEERS (of bench-peers: options of bench/peers/compare.py), ARCHS and NVRTC (of kernels and wheel: architectures by commas; libnvrtc files or folders).
BUILD ?= release
PREFIX ?= /usr/local
PROMPT ?= Why do language models keep a cache of keys and values?

DIR := build-$(BUILD)
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?=
NEON_TESTS ?=
PEERS ?=
MODEL ?= models/SmolLM2-135M-Instruct.Q4_1.gguf
JOBS := $(shell nproc)
ARCHS ?= 90a
NVRTC ?= default $(wildcard .cache/nvrtc-12)
KERNEL_TABLE := results/kernel-resources.tsv
BUNDLE = $(DIR)/bin/fovea_bundle $(foreach place,$(NVRTC),--nvrtc $(place))

.DEFAULT_GOAL := help
.PHONY: help packages bundle-tool build model demo test test-gpu test-neon fuzz python test-torch wheel bench bench-gpu bench-peers kernels kernels-all kernels-check kernel-table mutants format lint docs extending install clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(DIR)/build.ninja ## let a small language model answer PROMPT
	@cmake --build $(DIR) --target fovea_cli
	@[ -f $(MODEL) ] || tools/fetch_model.py
	@$(DIR)/bin/fovea generate --model $(MODEL) --chat --prompt "$(PROMPT)" -n 48

build: $(DIR)/build.ninja ## compile everything
	@cmake --build $(DIR)

test: build ## compile everything and run every test
	@[ -f $(MODEL) ] || tools/fetch_model.py || echo "Tests that need the model are skipped."
	@ctest --test-dir $(DIR) --output-on-failure --no-tests=error -j $(JOBS) --progress
	@tools/test_gpu.py --age
	@! grep -qs FOVEA_BUILD_PYTHON:BOOL=ON $(DIR)/CMakeCache.txt || echo "Python tests that need PyTorch were left out: make test-torch runs them."

test-gpu: ## run the tests on this machine's CUDA card and write results/gpu-conformance-<card>.json
	@tools/test_gpu.py --probe
	@$(MAKE) build
	@tools/test_gpu.py --bin $(DIR)/bin
	@if python3 -c "import torch, numpy, pytest, nanobind_backend" 2>/dev/null; then \
		export PYTHONPATH=$(DIR)/python && python3 tests/python/gpu_checks.py && \
		FOVEA_TEST_DEVICE=cuda python3 -m pytest -q -rs tests/python/test_transformers.py; \
	else echo "The Python package is not tested: python3 has not torch, numpy, pytest and nanobind-backend."; fi

test-neon: ## compile library and NEON_TESTS (all) for arm64 and run them under qemu-user
	@tools/install_packages.sh build neon
	@tools/fetch_arm64.sh
	@cmake --preset neon
	@cmake --build --preset neon $(if $(NEON_TESTS),--target $(NEON_TESTS))
	@tools/test_neon.sh build-neon/bin $(NEON_TESTS)

fuzz: packages ## fuzz FUZZ_TARGETS (all) for FUZZ_SECONDS (60) each: libFuzzer, AddressSanitizer, UndefinedBehaviorSanitizer
	@tools/install_packages.sh fuzz
	@[ -f $(MODEL) ] || tools/fetch_model.py || echo "Seeds are written without a model."
	@cmake --preset fuzz
	@cmake --build --preset fuzz
	@tools/fuzz.py --seconds $(FUZZ_SECONDS) $(if $(FUZZ_RUNS),--runs $(FUZZ_RUNS)) $(FUZZ_TARGETS)

bench: build ## run the benchmarks
	@for program in $(DIR)/bin/bench_*; do $$program || exit 1; done

bench-gpu: kernels ## time the CUDA operations beside the card's limits, and FlashAttention-2 where PyTorch is installed
	@cmake --build $(DIR) --target fovea_cli
	@tools/bench_gpu.py $(DIR)/bin/fovea

bench-peers: $(DIR)/build.ninja ## time attention beside PyTorch and FlashInfer on the card (else on the CPU, beside PyTorch), and write docs/peers.md
	@cmake --build $(DIR) --target _core
	@bench/peers/run.sh $(DIR) $(PEERS)

kernels: bundle-tool ## compile the CUDA kernels of ARCHS (90a, or 80,90a) ahead of time; needs NVRTC, but no device
	@$(BUNDLE) --archs $(ARCHS) --output $(DIR)/kernels

kernels-all: bundle-tool ## compile every CUDA kernel for every architecture anew, with a second NVRTC for Volta, and record it
	@tools/fetch_nvrtc.sh
	@$(BUNDLE) --nvrtc .cache/nvrtc-12 --archs all --fresh --output $(DIR)/kernels --table $(KERNEL_TABLE) --record results/kernels-all.json

kernels-check: bundle-tool ## compile one CUDA kernel of each operation and family: none may spill more than results/ says
	@tools/fetch_nvrtc.sh || echo "Kernels for Volta are left out: there is no NVRTC 12.9."
	@$(BUNDLE) $$([ ! -d .cache/nvrtc-12 ] || echo --nvrtc .cache/nvrtc-12) --archs all --sample \
		--output $(DIR)/kernels-sample --check $(KERNEL_TABLE)

kernel-table: bundle-tool ## write registers and memory of the kernels of ARCHS (all: of every architecture) into results/
	@$(BUNDLE) --archs $(ARCHS) --output $(DIR)/kernels --table $(KERNEL_TABLE)

python: $(DIR)/build.ninja ## build the Python package into build-release/python and run its tests
	@cmake --build $(DIR) --target _core
	@ctest --test-dir $(DIR) --output-on-failure --no-tests=error -L python

test-torch: $(DIR)/build.ninja ## fovea.torch and fovea.transformers with PyTorch's CPU kernels from PyPI (540 MB to fetch)
	@cmake --build $(DIR) --target _core
	@python=$$(bench/peers/setup_torch.py) && \
		$$python -m pip install --quiet --disable-pip-version-check nanobind-backend numpy pytest "transformers>=5,<6" && \
		PYTHONPATH=$(DIR)/python $$python -m pytest -q -rs tests/python

wheel: ## build a manylinux wheel with the CUDA kernels of ARCHS (90a; empty: none) into dist/, check it and print its size
	@NVRTC="$(NVRTC)" $$(tools/setup_python.sh) tools/make_wheel.py "$(ARCHS)"

mutants: packages ## break the code on purpose, line by line: each time a test must fail
	@tools/mutants.py

format: ## format every C and C++ file
	@tools/install_packages.sh lint
	@tools/format.sh

lint: packages ## check formatting and includes, and run clang-tidy on what changed since main
	@tools/install_packages.sh lint
	@tools/format.sh --check
	@tools/lint_includes.py
	@tools/tidy.sh $(TIDY)

docs: build ## write the support tables, compile and run every example of README.md and docs/
	@tools/support_docs.py $(DIR)/bin/fovea
	@ctest --test-dir $(DIR) --output-on-failure --no-tests=error -j $(JOBS) -L docs

extending: packages ## make the edits of docs/extending.md in a copy of the tree, build it and run the page's tests
	@tools/extending.py --jobs $(JOBS)

install: build ## install into PREFIX (/usr/local)
	@cmake --install $(DIR) --prefix $(PREFIX)

clean: ## remove every build folder
	@rm -rf build-*

bundle-tool: $(DIR)/build.ninja
	@cmake --build $(DIR) --target fovea_bundle

packages:
	@tools/install_packages.sh build

# The Python package is a part of the release build.
$(DIR)/build.ninja: CMakePresets.json tools/setup_python.sh | packages
	@cmake --preset $(BUILD) $(if $(filter release,$(BUILD)),$$(tools/setup_python.sh --settings))
	@touch $@
