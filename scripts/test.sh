#!/usr/bin/env bash
# Runs every check: format, vet, staticcheck, dead code, this project's own rules, and the tests under the race detector and in full, against embedded
# storage and Azurite. Other checks are Microsoft's other clients, the console in a browser, the deployment scripts, and the benchmarks that documents
# name, except the longest.
# --long adds planted bugs, fuzzing, the other benchmarks, and all work of the slowest tests. Each fuzz test takes a minute, or with FUZZ_TIME=10m ten
# minutes.
# Needs Go. With Node and npm, it installs Azurite into scripts/azurite, Microsoft's SDKs into scripts/jssdk, the browser's driver into scripts/browser,
# DuckDB into scripts/duckdb, and the parsers of infra/ into scripts/infra. For root on Debian, it installs Chromium and Microsoft's Python clients with
# apt, and with --long also Azure CLI, which takes a minute.
# At the end, the script lists the checks that it skipped, and those for which it had only a substitute of the real tool. If CI is set, a skipped check
# is a failure.
set -euo pipefail
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "${notes-}" "${bin-}"' EXIT
cd "$(dirname "$0")/.."
export GOFLAGS="${GOFLAGS:-} -trimpath" # most packages are in the cache of another clone on this machine

case "$*" in
"") long= ;;
--long) long=full ;;
*)
  echo "usage: scripts/test.sh [--long]" >&2
  exit 2
  ;;
esac
export fuzz_time=${FUZZ_TIME:-1m}
# The lists of skipped checks and of checks without the real tool, one a line. Steps that run concurrently also write to them.
notes=$(mktemp -d)
touch "$notes/skipped" "$notes/weaker"
skip() { echo "$*" >>"$notes/skipped"; }
weaken() { echo "$*" >>"$notes/weaker"; }

say() { printf '\n== %d:%02d %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }

# fetch_tools installs tools of other projects, as far as they are available. The checks then search for these tools.
fetch_tools() {
  set +e
  if command -v npm >/dev/null; then
    local at
    for at in azurite jssdk browser openapi duckdb infra; do
      local flags=(--no-audit --no-fund --loglevel=error)
      [ $at != infra ] || flags+=(--legacy-peer-deps --ignore-scripts) # without the peer dependency, a parser that would have to be compiled
      # A tool that was installed from the same lock file is not installed again.
      [ "scripts/$at/node_modules/.package-lock.json" -nt "scripts/$at/package-lock.json" ] || npm ci "${flags[@]}" --prefix "scripts/$at" &
    done
    wait
  fi
  local packages=()
  browser || packages+=(chromium)
  pysdk || packages+=(python3-azure-cosmosdb-table python3-azure-storage)
  [ -z "$long" ] || command -v az || packages+=(azure-cli)
  if [ ${#packages[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    local patience=(-o Acquire::Retries=0 -o Acquire::http::Timeout=10 -o Acquire::https::Timeout=10) # there may be no network
    apt-get "${patience[@]}" update -qq
    for package in "${packages[@]}"; do
      apt-get "${patience[@]}" install -qq --no-install-recommends "$package"
    done
  fi
}

# browser prints the path of Chromium.
browser() { command -v chromium || command -v chromium-browser || command -v google-chrome; }

start_azurite() {
  local binary=scripts/azurite/node_modules/.bin/azurite
  if [ ! -x "$binary" ]; then
    skip "everything that compares with Azurite: npm did not install it"
    return
  fi
  say azurite
  local port=$((20000 + RANDOM % 20000))
  "$binary" --inMemoryPersistence --skipApiVersionCheck --disableTelemetry --silent \
    --blobPort "$port" --queuePort $((port + 1)) --tablePort $((port + 2)) >scripts/azurite/log 2>&1 &
  for _ in $(seq 150); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$((port + 2))") 2>/dev/null; then
      # This is the key of every storage emulator, so it is not a secret.
      local key='Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='
      export TABLESWEEP_AZURITE="DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=$key;TableEndpoint=http://127.0.0.1:$((port + 2))/devstoreaccount1;QueueEndpoint=http://127.0.0.1:$((port + 1))/devstoreaccount1;BlobEndpoint=http://127.0.0.1:$port/devstoreaccount1"
      return
    fi
    sleep 0.2
  done
  echo "azurite does not answer; its log:" >&2
  cat scripts/azurite/log >&2
  exit 1
}

# Clients of other projects do not share our client's mistakes.
check_sdks() {
  say "Microsoft's JavaScript and Python clients against embedded storage"
  local connection=""
  touch "$bin/connection"
  "$bin/tablesweep" emulator --table-addr 127.0.0.1:0 --queue-addr 127.0.0.1:0 --blob-addr 127.0.0.1:0 >"$bin/connection" &
  local emulator=$!
  for _ in $(seq 100); do
    connection=$(head -n 1 "$bin/connection")
    [ -z "$connection" ] || break
    sleep 0.1
  done
  # An export that both programs list and read.
  seq 3000 | sed 's/.*/{"PartitionKey":"p","RowKey":"r&","n":&}/' >"$bin/rows.jsonl"
  AzureWebJobsStorage=$connection "$bin/tablesweep" import --from "$bin/rows.jsonl" --to exported --progress none
  AzureWebJobsStorage=$connection "$bin/tablesweep" export --from exported --to blob:exports/of/exported --compress gzip --progress none
  if [ -d scripts/jssdk/node_modules ]; then
    node --no-deprecation scripts/jssdk/check.mjs "$connection"
  else
    skip "Microsoft's JavaScript SDKs: npm did not install them"
  fi
  if pysdk; then
    /usr/bin/python3 scripts/pysdk/check.py "$connection"
  else
    weaken "embedded storage was checked without Microsoft's Python clients, which Debian alone has"
  fi
  kill "$emulator"
}

# pysdk reports whether Debian's packages of the Python clients are installed.
pysdk() { /usr/bin/python3 -c 'import azure.cosmosdb.table, azure.storage.queue' 2>/dev/null; }

# The description of the HTTP calls is linted, and a client is generated from it.
check_openapi() {
  if [ ! -d scripts/openapi/node_modules ]; then
    skip "the client made from docs/openapi.json: npm did not install its tools"
    return
  fi
  say "docs/openapi.json"
  node scripts/openapi/check.mjs "$bin/tablesweep"
}

# Another program reads the files of an export.
check_export() {
  if [ ! -d scripts/duckdb/node_modules ]; then
    skip "the files of exports in DuckDB: npm did not install it"
    return
  fi
  say "the files of exports in DuckDB"
  node scripts/duckdb/check.mjs "$bin/tablesweep"
}

# The console in a browser.
check_console() {
  local executable
  if ! executable=$(browser) || [ ! -d scripts/browser/node_modules ]; then
    skip "the console in a browser: Chromium or playwright-core is not installed"
    return
  fi
  say "the console in $executable"
  twice node scripts/browser/check.mjs "$bin/tablesweep" "$executable"
}

# The deployment scripts. The tests of internal/proof/deploy run az if it is installed.
check_infra() {
  command -v az >/dev/null || weaken "no az command of the documents was parsed: Azure CLI is not installed, which --long does for root on Debian"
  command -v bicep >/dev/null || weaken "the Bicep files were not compiled: bicep is not on PATH"
  if [ ! -d scripts/infra/node_modules ]; then
    skip "the Bicep files and the Dockerfiles: npm did not install their parsers"
    return
  fi
  say "infra"
  node scripts/infra/check.mjs
}

# go_test runs tests of packages, with the flags before a --. Failed tests are repeated once, separately, unless there are many or the race detector
# found a race. The end lists those that passed when repeated, because such a test has a defect nevertheless.
go_test() {
  local flags=()
  while [ "$1" != -- ]; do
    flags+=("$1")
    shift
  done
  shift
  local report events again failed=
  report=$(mktemp) events=$(mktemp)
  go tool gotestsum --rerun-fails=1 --rerun-fails-max-failures=5 --rerun-fails-run-root-test --rerun-fails-abort-on-data-race \
    --rerun-fails-report="$report" --jsonfile="$events" --packages="$*" -- -vet=off -count=1 "${flags[@]}" || failed=yes
  while read -r again; do
    weaken "a test failed, and passed when it ran alone: $again"
  done <"$report"
  if [ -n "$failed" ]; then
    for package in "$@"; do
      after_panic "$package" "$events" "${flags[@]}"
    done
    exit 1
  fi
  rm "$report" "$events"
}

# after_panic runs the tests of a package that did not run because another test panicked, each separately. Its arguments are the package, the events of
# the run (go test -json), and the flags of the run. Without a panic, there are none.
after_panic() {
  local package=$1 events=$2 path
  shift 2
  path=$(go list "$package")
  # A data race, a test's deadline and a panic all end a package, but only the latter two end it before its other tests have run.
  grep -qE "\"Package\":\"$path\".*\"Output\":\"(panic: |fatal error: )" "$events" || return 0
  comm -23 <(go test "$@" -vet=off -list . "$package" | grep '^Test' | sort) \
    <(grep -E '"Action":"(pass|fail|skip)"' "$events" | grep -F "\"Package\":\"$path\"" | sed -nE 's/.*"Test":"([^"/]+)".*/\1/p' | sort -u) >"$notes/unfinished"
  say "$package: a panic hid $(wc -l <"$notes/unfinished") other tests; each by itself"
  while read -r name; do
    go test "$@" -vet=off -run "^$name\$" "$package" </dev/null || true
  done <"$notes/unfinished"
}

# fuzz runs a fuzz test of a package for fuzz_time. Go keeps interesting inputs in its cache. It keeps an input that fails in the package's testdata,
# for every later run. Sometimes Go reports the end of the time as a failure, but then it has written no input.
fuzz() {
  local report
  report=$(mktemp)
  if go test -vet=off -run '^$' -fuzz "^$2\$" -fuzztime "$fuzz_time" -fuzzminimizetime 1x -parallel 1 "$1" >"$report" 2>&1 ||
    { grep -q 'context deadline exceeded' "$report" && ! grep -q 'Failing input' "$report"; }; then
    echo "$1 $2: $(grep -o 'execs: [0-9]*' "$report" | tail -n 1)"
    rm "$report"
    return
  fi
  cat "$report" >&2
  rm "$report"
  return 1
}
export -f fuzz

# twice runs a command, and repeats it once if it fails.
twice() {
  "$@" && return
  weaken "this failed, and then passed: $*"
  "$@"
}

# packages lists the directories of Go files that match a pattern.
packages() { grep -rlE "$1" --include="$2" handler internal | xargs -n1 dirname | sort -u | sed 's|^|./|'; }

fetch_log=$notes/fetched
fetch_tools >"$fetch_log" 2>&1 &
fetching=$!

bin=$(mktemp -d)
go build -o "$bin/tablesweep" ./handler

say "the source: format, vet, staticcheck, dead code, this project's own rules"
scripts/lint.sh

wait "$fetching" || true
cat "$fetch_log"
start_azurite

# Programs of other projects mostly wait, so they run concurrently with the race detector's tests, which measure nothing. The browser's measurements
# need the machine alone.
(
  trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
  check_sdks
  check_openapi
  check_export
  check_infra
) >"$notes/clients" 2>&1 &
clients=$!

# Under the race detector, tests take ten times as long. So it runs them in their small sizes, with one crash point in 25 and without models. It skips
# tests that take long and start only goroutines that other tests start as well (testsize.WithoutRace), and packages that start no goroutine, because
# the packages that they call are tested themselves.
concurrent=$(packages '^\s+go |\.Go\(|^\s+"(testing/synctest|'"$(go list -m)"'/internal/task)' '*.go' | grep -v internal/proof/lab)
say "tests under the race detector, of the packages with goroutines"
GORACE=atexit_sleep_ms=50 go_test -race -timeout=30m -- $concurrent

wait "$clients" || {
  cat "$notes/clients" >&2
  exit 1
}
cat "$notes/clients"
check_console

# Tests with two sizes use package testsize. They include the seeds and, with --long, the planted bugs.
sized=$(packages 'testsize\.' '*_test.go')
sequential=$(comm -23 <(packages '' '*_test.go' | grep -v internal/proof/lint) <(echo "$concurrent"))

# benchmarks runs the benchmarks with matching names once, one package after the other.
benchmarks() {
  local names=$1
  shift
  go test -vet=off -run '^$' -bench "$names" -benchtime 1x "$@"
}
measured=$(packages '^func Benchmark' '*_test.go')
say "tests in full, of the packages where some are small by default, and those without goroutines"
TABLESWEEP_TESTS=${long:-more} go_test -timeout=45m -- $(printf '%s\n' $sized $sequential | sort -ru) # the last one, handler, uses all processors

if [ -z "$long" ]; then
  # A test of lab/split checks the same figures for small tables. CopyBound, CopyMemory, InstanceMemory and PageOfMillions take minutes.
  say "the benchmarks that documents name, but for the longest: they fail where a claim does not hold"
  named=$(grep -ohE '(-bench |Benchmark)[A-Z][A-Za-z]+' README.md DESIGN.md docs/*.md | sed -E 's/^(-bench |Benchmark)//' | sort -u | grep -vxE 'CopyBound|CopyMemory|InstanceMemory|PageOfMillions' | paste -sd'|')
  twice benchmarks "^Benchmark($named)\$" $(grep -v lab/split <<<"$measured")
else
  say "fuzz tests, $fuzz_time each, one a processor"
  grep -roE '^func Fuzz[A-Za-z0-9_]*' --include='*_test.go' handler internal | sed -E 's|^(.*)/[^/]*:func |./\1 |' |
    xargs -P "$(getconf _NPROCESSORS_ONLN)" -n 2 bash -c 'fuzz "$@"' fuzz
  say "all benchmarks: they fail where a claim does not hold"
  benchmarks . $measured
fi

[ ! -s "$notes/weaker" ] || sed 's/^/!! WEAKER: /' "$notes/weaker"
if [ -s "$notes/skipped" ]; then
  sed 's/^/!! SKIPPED: /' "$notes/skipped"
  [ -z "${CI:-}" ] || exit 1
else
  printf '\nall checks passed, nothing skipped\n'
fi
