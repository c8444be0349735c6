#!/usr/bin/env bash
# Builds the app and deploys it: scripts/publish.sh APP
set -euo pipefail
if [ $# -ne 1 ]; then
  echo "usage: scripts/publish.sh APP, APP being the function app's name" >&2
  exit 2
fi
cd "$(dirname "$0")/.."
scripts/build.sh linux/amd64
func azure functionapp publish "$1" --custom
