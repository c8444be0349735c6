#!/usr/bin/env bash
# Lists the contents of a release's programs, as SPDX 2.3: scripts/spdx.sh v1.2.3
# These are the modules that any of the programs links, and Go's own library. The same commit always gives the same list.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1
commit=$(git rev-parse HEAD)
cat <<END
SPDXVersion: SPDX-2.3
DataLicense: CC0-1.0
SPDXID: SPDXRef-DOCUMENT
DocumentName: tablesweep-$version
DocumentNamespace: https://spdx.org/spdxdocs/tablesweep-$version-$commit
Creator: Tool: scripts/spdx.sh
Created: $(date -u -d "@$(git log -1 --format=%ct)" +%Y-%m-%dT%H:%M:%SZ)

PackageName: tablesweep
SPDXID: SPDXRef-tablesweep
PackageVersion: $version
PackageDownloadLocation: NOASSERTION
FilesAnalyzed: false
PackageComment: commit $commit
Relationship: SPDXRef-DOCUMENT DESCRIBES SPDXRef-tablesweep
END
{
  echo "std $(go env GOVERSION)"
  for os in linux darwin windows; do
    GOOS=$os go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}' ./handler
  done
} | sort -u | while read -r path version; do
  [ -n "$path" ] || continue
  id=SPDXRef-$(tr -c 'A-Za-z0-9.\n' - <<<"$path")
  cat <<END

PackageName: $path
SPDXID: $id
PackageVersion: $version
PackageDownloadLocation: NOASSERTION
FilesAnalyzed: false
ExternalRef: PACKAGE-MANAGER purl pkg:golang/$path@$version
Relationship: SPDXRef-tablesweep DEPENDS_ON $id
END
done
