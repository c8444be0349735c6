#!/usr/bin/env bash
# Builds bin/handler, the static linux/amd64 binary that Azure runs.
set -euo pipefail
cd "$(dirname "$0")/.."
CGO_ENABLED=0 GOOS=linux GOARCH=amd64 go build -trimpath -ldflags='-s -w' -o bin/handler ./handler
