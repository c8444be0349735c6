#!/usr/bin/env bash
# Runs the checks that only read the source: format, vet, staticcheck, dead code, this project's own rules.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n== %s\n' "$*"; }

say "gofmt"
found=$(gofmt -l handler internal)
[ -z "$found" ] || { echo "not formatted: $found" >&2; exit 1; }

say "go vet"
go vet -tags lint ./...

say "staticcheck"
go tool staticcheck -tags lint ./...

say "deadcode: no function that neither main nor a test reaches"
found=$(go tool deadcode -test ./...)
[ -z "$found" ] || { echo "$found" >&2; exit 1; }

say "this project's own rules"
go test -vet=off -tags lint ./internal/proof/lint
