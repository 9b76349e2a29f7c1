# SPDX-License-Identifier: Apache-2.0
# One command for each habit. `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: help build test

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## configure and build everything (build-release/)
	@cmake --preset release
	@cmake --build --preset release

test: build ## build, then run every test
	@ctest --preset release --progress
