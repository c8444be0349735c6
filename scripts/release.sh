#!/usr/bin/env bash
# Makes a release's archives, the list of their contents, and their checksums, in dist/: scripts/release.sh v1.2.3
# The same commit always gives the same bytes. Needs GNU tar, zip and sha256sum.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:-}
if ! [[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]]; then
  echo "usage: scripts/release.sh vMAJOR.MINOR.PATCH" >&2
  exit 2
fi
if ! grep -q "^## ${version#v}\b" CHANGELOG.md; then
  echo "CHANGELOG.md has no section ${version#v}" >&2
  exit 1
fi
if [ -n "$(git status --porcelain)" ]; then
  echo "there are changes that are not committed" >&2
  exit 1
fi
export TZ=UTC VERSION=$version
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH # the man pages' date
rm -rf dist
mkdir -p dist/docs/man dist/docs/completions
trap 'rm -f handler/licenses/notices.txt' EXIT

# pack makes an archive of dist/$name, as zip for Windows.
pack() {
  find "dist/$name" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  if [ "${1:-}" = zip ]; then
    (cd dist && find "$name" -type f | sort | zip -q -X -@ "$name.zip")
  else
    tar -C dist --sort=name --owner=0 --group=0 --numeric-owner -cf - "$name" | gzip -n >"dist/$name.tar.gz"
  fi
  rm -r "dist/$name"
}

OUT=dist/docs/tablesweep scripts/build.sh
for shell in bash zsh fish powershell; do
  dist/docs/tablesweep completion "$shell" >"dist/docs/completions/tablesweep.$shell"
done
dist/docs/tablesweep man dist/docs/man
rm dist/docs/tablesweep

for target in linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64 linux/amd64; do
  name=tablesweep_${version#v}_${target/\//_}
  mkdir "dist/$name"
  suffix=
  [ "${target%/*}" != windows ] || suffix=.exe
  scripts/notices.sh "$target"
  OUT=dist/$name/tablesweep$suffix scripts/build.sh "$target"
  cp handler/licenses/notices.txt "dist/$name/NOTICES.txt"
  cp -r LICENSE README.md CHANGELOG.md dist/docs/man dist/docs/completions "dist/$name/"
  pack ${suffix:+zip}
done
rm -r dist/docs

# The function app with its deployment scripts, for users without Go. It is for linux/amd64, whose notices were made last.
name=tablesweep_${version#v}_app
scripts/stage.sh "dist/$name"
mkdir "dist/$name/scripts" "dist/$name/docs"
cp scripts/publish.sh scripts/stage.sh "dist/$name/scripts/"
cp docs/deploy.md "dist/$name/docs/"
cp -r LICENSE azure.yaml infra "dist/$name/"
cp handler/licenses/notices.txt "dist/$name/NOTICES.txt"
rm "dist/$name/infra/Dockerfile"
pack
scripts/spdx.sh "$version" >"dist/tablesweep_${version#v}.spdx"
(cd dist && sha256sum -- *.tar.gz *.zip *.spdx >SHA256SUMS && cat SHA256SUMS)
