#!/usr/bin/env bash
# Changes the module's path, in go.mod and in all imports: scripts/module.sh example.com/you/tablesweep
set -euo pipefail
cd "$(dirname "$0")/.."
new=${1:-}
if ! [[ $new =~ ^[A-Za-z0-9._~/-]+$ ]]; then
  echo "usage: scripts/module.sh PATH" >&2
  exit 2
fi
old=$(go list -m)
go mod edit -module "$new"
grep -rl --include='*.go' "\"$old/" handler internal docs | xargs sed -i -E "s#^(import |\t)([a-z]+ )?\"$old/#\1\2\"$new/#"
gofmt -w handler internal docs
go build ./...
