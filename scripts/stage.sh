#!/usr/bin/env bash
# Copies the function app, and nothing else, into a directory: scripts/stage.sh DIR
# The app is for linux/amd64. If this directory is a release's archive, the app is already built. Otherwise, Go builds it from the source.
set -euo pipefail
mkdir -p "$1/bin"
dir=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
cp host.json "$dir/"
for file in */function.json; do
  mkdir "$dir/${file%/*}"
  cp "$file" "$dir/$file"
done
if [ -d handler ]; then
  OUT=$dir/bin/tablesweep scripts/build.sh linux/amd64
else
  cp bin/tablesweep "$dir/bin/"
fi
chmod 755 "$dir/bin/tablesweep"
