#!/usr/bin/env bash
# Every check there is: format, vet, staticcheck, tests under the race detector, against
# embedded storage and Azurite, a short run of each fuzz test, and the benchmarks'
# claims. FUZZ_TIME=1m fuzzes longer. Needs Go; with Node and npm, Azurite is installed
# into .azurite, Microsoft's JavaScript SDKs into scripts/jssdk, and what drives a browser
# into scripts/browser. The browser is Chromium, which root on Debian gets from apt. The script
# ends with a list of what it had to skip. If CI is set, a skipped check is a failure.
set -euo pipefail
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
cd "$(dirname "$0")/.."

azurite_version=3.35.0 # runs on Node 20; later ones want 22
# A number of runs, since go takes the end of a given time for a failure now and then.
fuzz_time=${FUZZ_TIME:-10000x}
skipped=()

say() { printf '\n== %d:%02d %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }

start_azurite() {
  if ! command -v npm >/dev/null; then
    skipped+=("everything that compares with Azurite: npm is not installed")
    return
  fi
  say "azurite $azurite_version"
  local binary=.azurite/node_modules/.bin/azurite
  if [ ! -x "$binary" ] || [ "$(cat .azurite/version 2>/dev/null)" != "$azurite_version" ]; then
    mkdir -p .azurite
    if ! npm install --no-audit --no-fund --loglevel=error --prefix .azurite "azurite@$azurite_version"; then
      skipped+=("everything that compares with Azurite: npm could not install it")
      return
    fi
    echo "$azurite_version" >.azurite/version
  fi
  local port=$((20000 + RANDOM % 20000))
  "$binary" --inMemoryPersistence --skipApiVersionCheck --disableTelemetry --silent \
    --blobPort "$port" --queuePort $((port + 1)) --tablePort $((port + 2)) >.azurite/log 2>&1 &
  for _ in $(seq 150); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$((port + 2))") 2>/dev/null; then
      # The key that every storage emulator has; it protects nothing.
      local key='Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='
      export TABLESWEEP_AZURITE="DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=$key;TableEndpoint=http://127.0.0.1:$((port + 2))/devstoreaccount1;QueueEndpoint=http://127.0.0.1:$((port + 1))/devstoreaccount1"
      return
    fi
    sleep 0.2
  done
  echo "azurite does not answer; its log:" >&2
  cat .azurite/log >&2
  exit 1
}

# Somebody else's clients: they share no mistake with ours.
check_jssdk() {
  if ! command -v npm >/dev/null; then
    skipped+=("Microsoft's JavaScript SDKs: npm is not installed")
    return
  fi
  say "Microsoft's JavaScript SDKs against embedded storage"
  if ! npm install --no-package-lock --no-audit --no-fund --loglevel=error --prefix scripts/jssdk; then
    skipped+=("Microsoft's JavaScript SDKs: npm could not install them")
    return
  fi
  local dir connection=""
  dir=$(mktemp -d)
  go build -o "$dir/handler" ./handler
  "$dir/handler" emulator --table-addr 127.0.0.1:0 --queue-addr 127.0.0.1:0 >"$dir/out" &
  local emulator=$!
  for _ in $(seq 100); do
    connection=$(head -n 1 "$dir/out")
    [ -z "$connection" ] || break
    sleep 0.1
  done
  node --no-deprecation scripts/jssdk/check.mjs "$connection"
  kill "$emulator"
  rm -r "$dir"
}

# browser prints where Chromium is, having installed it where that takes no questions.
browser() {
  local name
  for name in chromium chromium-browser google-chrome; do
    command -v "$name" && return
  done
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >&2 && apt-get install -qq --no-install-recommends chromium >&2 && command -v chromium && return
  fi
  return 1
}

# The console as people see it.
check_console() {
  if ! command -v npm >/dev/null; then
    skipped+=("the console in a browser: npm is not installed")
    return
  fi
  local executable dir
  if ! executable=$(browser); then
    skipped+=("the console in a browser: Chromium is not installed")
    return
  fi
  say "the console in $executable"
  if ! npm install --no-package-lock --no-audit --no-fund --loglevel=error --prefix scripts/browser; then
    skipped+=("the console in a browser: npm could not install playwright-core")
    return
  fi
  dir=$(mktemp -d)
  go build -o "$dir/handler" ./handler
  node scripts/browser/check.mjs "$dir/handler" "$executable"
  rm -r "$dir"
}

say "gofmt"
unformatted=$(gofmt -l handler internal)
if [ -n "$unformatted" ]; then
  echo "not formatted: $unformatted" >&2
  exit 1
fi

say "go vet"
go vet ./...

say "staticcheck"
go tool staticcheck ./...

say "deadcode: no function that neither main nor a test reaches"
dead=$(go tool deadcode -test ./...)
if [ -n "$dead" ]; then
  echo "$dead" >&2
  exit 1
fi

start_azurite

# go vet has run, so no other step repeats it.
say "go test -race"
go test -vet=off -race ./...

check_jssdk
check_console

# The demonstration's tests mostly wait for what was killed to be found missing.
demo_log=$(mktemp)
go test -vet=off ./internal/demo >"$demo_log" 2>&1 &
demo=$!

say "simulation of crashes and faults: 2,000 seeds, every crash point, planted bugs"
go test -vet=off ./internal/sim -seeds=2000
go test -vet=off -run '^TestEveryCrashPoint$|^TestBusyPartition$|^TestRetention$|^TestRetryCrashPoints$' ./internal/engine

say "in full what the race detector slows down: random tables, comparisons, order"
go test -vet=off ./internal/scan/adaptive ./internal/scan/steal ./internal/sweep/verify
go test -vet=off -run '^TestOrderedReadsAhead$' ./internal/sweep

say "catalog: 8 writers, clocks that disagree, crashes at any request: 1,000 seeds, planted bugs"
go test -vet=off -run '^TestBugsAreFound$|Dies$|^TestEveryCrashPoint$' ./internal/catalog
model=$(mktemp)
go test -vet=off -c -o "$model" ./internal/catalog
seq 1 250 751 | xargs -P "$(getconf _NPROCESSORS_ONLN)" -I{} "$model" -test.run '^TestModel$' -first={} -seeds=250
rm "$model"

say "the demonstration; the same on Azurite; processes killed (ran beside the above)"
demo_failed=0
wait "$demo" || demo_failed=1
cat "$demo_log"
rm "$demo_log"
[ "$demo_failed" = 0 ]

# Lines of "directory function" for the tests whose names start with the prefix.
functions() {
  grep -roE "^func $1[A-Za-z0-9_]*" --include='*_test.go' handler internal |
    sed -E 's|^(.*)/[^/]*:func |./\1 |' | sort
}

say "fuzz tests, $fuzz_time each, one a processor"
functions Fuzz | xargs -P "$(getconf _NPROCESSORS_ONLN)" -n 2 sh -c \
  'go test -vet=off -run "^$" -fuzz "^$2\$" -fuzztime "$0" -fuzzminimizetime 1x -parallel 1 "$1"' "$fuzz_time"

say "benchmarks: they fail where a claim does not hold"
functions Benchmark | cut -d' ' -f1 | uniq | xargs go test -vet=off -run '^$' -bench . -benchtime 1x

if [ ${#skipped[@]} -gt 0 ]; then
  printf '\n!! SKIPPED: %s\n' "${skipped[@]}"
  [ -z "${CI:-}" ] || exit 1
else
  printf '\nall checks passed, nothing skipped\n'
fi
