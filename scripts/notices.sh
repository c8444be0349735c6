#!/usr/bin/env bash
# Writes handler/licenses/notices.txt, which a build for OS/ARCH embeds: scripts/notices.sh OS/ARCH
# The file contains the licences and notices of this program, of Go, and of each linked module, from the directories of their packages.
set -euo pipefail
cd "$(dirname "$0")/.."
out=handler/licenses/notices.txt
new=handler/licenses/.new # builds do not embed this directory

# section adds the files of a directory that contain a licence or a notice.
section() {
  local found
  found=$(find "$2" -maxdepth 1 -type f | grep -iE '/(licen[cs]e|copying|notice|patents)[^/]*$' | grep -v '\.go$' | LC_ALL=C sort) || true
  if [ -z "$found" ]; then
    [ "$3" = maybe ] || { echo "notices.sh: $1 has no licence in $2" >&2; exit 1; }
    return
  fi
  while read -r file; do
    printf '\n==== %s: %s\n\n' "$1" "${file##*/}"
    tr -d '\r' <"$file"
  done <<<"$found"
}

{
  echo "Tablesweep, and what is linked into it."
  section tablesweep . must
  section "Go $(go env GOVERSION)" "$(go env GOROOT)" must
  CGO_ENABLED=0 GOOS=${1%/*} GOARCH=${1#*/} go list -deps \
    -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}} {{$.Dir}}{{end}}{{end}}' ./handler | LC_ALL=C sort -u |
    while read -r path version root dir; do
      if [ "$path" != "${last:-}" ]; then
        last=$path
        section "$path $version" "$root" must
      fi
      [ "$dir" = "$root" ] || section "$path $version, ${dir#"$root/"}" "$dir" maybe
    done
} >"$new"
mv "$new" "$out"
