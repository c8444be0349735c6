.PHONY: help demo test lint long
.DEFAULT_GOAL := help

help: ## say what there is
	@sed -nE 's/^([a-z]+): ## (.*)/make \1\t\2/p' Makefile

demo: ## copy 63,666 real rows through the function app, on this machine
	go run ./handler demo

test: ## the tests that need only Go: minutes
	go test ./...

lint: ## format, vet, staticcheck, dead code, this project's own rules
	scripts/lint.sh

long: ## every check there is, and more of each: hours
	scripts/test.sh --long
