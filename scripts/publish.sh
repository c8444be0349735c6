#!/usr/bin/env bash
# Publishes the function app, and waits until it works: scripts/publish.sh APP
# Lists what is missing for this and for "azd provision": scripts/publish.sh --check
#
# Core Tools find a new app with Azure Resource Graph, which is minutes behind. The app's identity can use the app's storage only after its roles have
# spread, which takes up to ten minutes. So a failure for one of these reasons is repeated for 15 minutes. Any other failure ends the script
# immediately.
#
# Needs bash; on Windows, run it in Git Bash. The subscription is AZURE_SUBSCRIPTION_ID, which azd sets, or else the current subscription of az. No key
# and no token is printed or passed as an argument.
set -euo pipefail

die() {
  printf 'publish.sh: %s\n' "$@" >&2
  exit 1
}

# azure runs az. Otherwise, Git Bash would convert an id such as /subscriptions/… to a file's path.
azure() { MSYS_NO_PATHCONV=1 az "$@" --only-show-errors --output tsv | tr -d '\r'; }

missing=()
need() { missing+=("$1"); }

# check determines the subscription, and lists everything that is missing.
check() {
  command -v curl >/dev/null || need "curl"
  [[ $(func --version 2>/dev/null) =~ (^|$'\n')4\. ]] ||
    need "Azure Functions Core Tools 4: npm install --global azure-functions-core-tools@4"
  if [ -d handler ] && ! command -v go >/dev/null; then
    need "Go, to build the app: https://go.dev/dl (a release's app archive needs none)"
  fi
  if ! command -v az >/dev/null; then
    need "Azure CLI: https://aka.ms/azure-cli"
  elif ! subscription=$(azure account get-access-token ${AZURE_SUBSCRIPTION_ID:+--subscription "$AZURE_SUBSCRIPTION_ID"} --query subscription 2>/dev/null); then
    need "az login${AZURE_SUBSCRIPTION_ID:+, to an account with the subscription $AZURE_SUBSCRIPTION_ID}: Core Tools sign in with az; azd auth login is not enough"
  elif [ "$1" = --check ] && [ "$(azure rest --method get --query "$may_assign" \
    --url "/subscriptions/$subscription/providers/Microsoft.Authorization/permissions?api-version=2022-04-01" 2>/dev/null)" = 0 ]; then
    need "the right to assign roles in the subscription $subscription: be its Owner, or Contributor and User Access Administrator"
  fi
  # Older versions delete more than they created.
  if [[ $(azd version 2>/dev/null) =~ ([0-9]+)\.([0-9]+)\.([0-9]+) ]] &&
    ((BASH_REMATCH[1] * 1000000 + BASH_REMATCH[2] * 1000 + BASH_REMATCH[3] < 1024001)); then
    need "azd 1.24.1 or later, not ${BASH_REMATCH[0]}: in older versions, azd down also deletes the resource groups of your data accounts"
  fi
  if [ ${#missing[@]} -gt 0 ]; then
    die "this is missing:" "${missing[@]/#/  }"
  fi
}

# may_assign prints the number of the caller's roles that allow the assignment of roles.
may_assign="length(value[?(contains(actions, '*') || contains(actions, 'Microsoft.Authorization/*') \
|| contains(actions, 'Microsoft.Authorization/roleAssignments/*') || contains(actions, 'Microsoft.Authorization/roleAssignments/write')) \
&& !contains(notActions, 'Microsoft.Authorization/*/Write')])"

patience() { deadline=$(($(date +%s) + 15 * 60)); }

# again waits before the next attempt. It ends the script when the time is over.
again() {
  [ "$(date +%s)" -lt "$deadline" ] || die "gave up after 15 minutes: $1"
  echo "waiting: $1"
  sleep 30
}

cd "$(dirname "$0")/.."
if [ $# -ne 1 ]; then
  die "usage: scripts/publish.sh APP, APP being the function app's name, or --check"
fi
if [ "$1" = --check ]; then
  check --check
  exit
fi
app=$1
if ! [[ $app =~ ^[A-Za-z0-9][A-Za-z0-9-]*$ ]]; then
  die "'$app' is no function app's name; azd has it in FUNCTION_APP after azd provision"
fi
check ""

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
scripts/stage.sh "$work/app"

patience
while :; do
  id=$(azure resource list --subscription "$subscription" --resource-type Microsoft.Web/sites --name "$app" --query '[].id')
  [ -z "$id" ] || break
  again "there is no function app $app in the subscription $subscription; a new one shows up in a few minutes"
done
group=${id#*/resourceGroups/}
group=${group%%/*}
host=$(azure rest --method get --url "$id?api-version=2024-04-01" --query properties.defaultHostName)

patience
until (cd "$work/app" && func azure functionapp publish "$app" --custom --subscription "$subscription" </dev/null) 2>&1 | tee "$work/log"; do
  if grep -q "Can't find app with name" "$work/log"; then
    again "Core Tools do not find $app yet; Azure Resource Graph, which they ask, is some minutes behind"
  elif grep -q 'This request is not authorized to perform this operation' "$work/log"; then
    again "the identity of $app may not use the package's container yet; new roles take up to ten minutes"
  elif grep -q 'Deployment was successful but the app appears to be unhealthy' "$work/log"; then
    break # Core Tools could not read the host's keys, which needs the same role. The checks below decide.
  else
    die "Core Tools failed, for the reason above"
  fi
done

patience
while :; do
  if ! key=$(azure functionapp keys list --subscription "$subscription" --resource-group "$group" --name "$app" --query functionKeys.default 2>"$work/log"); then
    why="the host of $app returns no keys yet: $(tail -n 1 "$work/log")"
    ! grep -q AuthorizationFailed "$work/log" || die "you may not list the keys of $app; it is published. $why"
  elif status=$(printf 'x-functions-key: %s\n' "$key" |
    curl --silent --max-time 60 --header @- --output "$work/log" --write-out '%{http_code}' "https://$host/api/health") &&
    [ "$status" = 200 ] && grep -q '^{"status":"[a-z]*","at":' "$work/log"; then
    break
  else
    why="https://$host/api/health does not confirm that scans work, but answers ${status/000/nothing} $(grep -oE '"name":"[^"]*","state":"failed","detail":"[^"]*"' "$work/log" || grep -o '"detail":"[^"]*"' "$work/log" || true)"
    why=${why//"${key:-no key}"/…}
  fi
  again "$why"
done

cat <<END

$app works. Its calls need a key, which this gets:
  KEY=\$(az functionapp keys list --subscription $subscription --resource-group $group --name $app --query functionKeys.default --output tsv)
The console asks for it: https://$host/api/console/
What works, and what is missing: curl -H "x-functions-key: \$KEY" https://$host/api/health
A first scan, which counts the rows of a table:
  curl -X POST https://$host/api/scans -H "x-functions-key: \$KEY" -d '{"source":{"table":"TABLE"},"action":{"type":"count"}}'
END
if storage=$(azure functionapp config appsettings list --subscription "$subscription" --resource-group "$group" --name "$app" \
  --query "[?name=='AzureWebJobsStorage__accountName'].value") && [ -n "$storage" ] &&
  account=$(azure storage account show --subscription "$subscription" --name "$storage" --query '[[id, primaryEndpoints.table]]'); then
  read -r scope tables <<<"$account"
  cat <<END
The app's storage takes no account keys. This gives you the roles for the command line; they take up to ten minutes:
  for service in Table Queue Blob; do az role assignment create --assignee-object-id "\$(az ad signed-in-user show --query id --output tsv)" --assignee-principal-type User --role "Storage \$service Data Contributor" --scope $scope; done
  tablesweep tables list --connection $tables
END
fi
