#!/usr/bin/env bash
# Builds the program for this machine, which func start runs, or for another one: scripts/build.sh [OS/ARCH]
# The function app needs linux/amd64, or linux/arm64 on plans that have it. VERSION is the version that "tablesweep version" prints, and OUT is the file
# to write.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:-$(go env GOOS)/$(go env GOARCH)}
suffix=
[ "${target%/*}" != windows ] || suffix=.exe
out=${OUT:-bin/tablesweep$suffix}
CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} \
  go build -trimpath -ldflags="-s -w -X main.version=${VERSION:-}" -o "$out" ./handler
echo "built $out for $target"
if [ -n "$suffix" ] && [ -z "${OUT:-}" ]; then
  echo 'func start needs this in the Values of local.settings.json:'
  echo '  "AzureFunctionsJobHost__customHandler__description__defaultExecutablePath": "bin/tablesweep.exe"'
fi
