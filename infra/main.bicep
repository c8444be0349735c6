// Everything that Tablesweep needs in Azure, for "azd up" (azure.yaml) or for
//   az deployment sub create --location LOCATION --template-file infra/main.bicep \
//     --parameters environmentName=NAME location=LOCATION
// The order is the point: ground (storage, identity), access (roles), then the app, so that
// the roles have spread when the first package is read.
//
// NEVER RUN in Azure. Bicep 0.49.2 compiles, lints and evaluates these four files without a
// warning: every type, API version, property and role id exists. The option blobs and its roles are
// younger than that.
targetScope = 'subscription'

import { dataAccount } from 'app.bicep'

@minLength(1)
@maxLength(40)
@description('Name of the environment; the resource group is rg-NAME')
param environmentName string

@description('Region of all resources; it must have Flex Consumption')
param location string

@description('At most so many instances: 40 to 1000. Each runs up to 12 steps of a function at once')
@minValue(40)
@maxValue(1000)
param maximumInstanceCount int = 100

@description('Memory of an instance in MB')
@allowed([512, 2048, 4096])
param instanceMemoryMB int = 2048

@description('Accounts whose tables, and blobs if wanted, scans may use, beside the app\'s own: all in this subscription, each once')
param dataAccounts dataAccount[] = []

var tags = { 'azd-env-name': environmentName }

resource group 'Microsoft.Resources/resourceGroups@2024-03-01' = {
  name: 'rg-${environmentName}'
  location: location
  tags: tags
}

module ground 'ground.bicep' = {
  name: 'ground'
  scope: group
  params: {
    location: location
    tags: tags
    suffix: toLower(uniqueString(subscription().id, environmentName, location))
  }
}

module ownAccess 'access.bicep' = {
  name: 'access-own'
  scope: group
  params: {
    accountName: ground.outputs.storageName
    principalId: ground.outputs.principalId
    roles: ['blobOwner', 'queueContributor', 'tableContributor']
  }
}

module dataAccess 'access.bicep' = [
  for account in dataAccounts: {
    name: 'access-${account.name}'
    scope: resourceGroup(account.resourceGroup)
    params: {
      accountName: account.name
      principalId: ground.outputs.principalId
      roles: concat(
        [account.write ? 'tableContributor' : 'tableReader'],
        (account.?blobs ?? false) ? [account.write ? 'blobContributor' : 'blobReader'] : []
      )
    }
  }
]

module app 'app.bicep' = {
  name: 'app'
  scope: group
  dependsOn: [ownAccess, dataAccess]
  params: {
    location: location
    tags: tags
    ground: ground.outputs.names
    principalId: ground.outputs.principalId
    maximumInstanceCount: maximumInstanceCount
    instanceMemoryMB: instanceMemoryMB
    dataAccounts: dataAccounts
  }
}

output FUNCTION_APP string = app.outputs.name
output FUNCTION_APP_URL string = app.outputs.url
