// Everything that Tablesweep needs in Azure, for "azd up" (azure.yaml) or for
//   az deployment sub create --location LOCATION --template-file infra/main.bicep \
//     --parameters environmentName=NAME location=LOCATION
// A Flex Consumption app with a custom runtime and an identity of its own, its storage
// account, its roles, and Application Insights. No key is stored anywhere.
//
// NEVER RUN: neither az nor bicep nor an Azure account was at hand when this was written.
// Resource types, API versions and role ids were compared with published templates; the
// first deployment is the first test. "az bicep build --file infra/main.bicep" and
// "az deployment sub what-if" tell more, and change nothing.
targetScope = 'subscription'

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

@description('Accounts whose tables scans may use, beside the app\'s own: each {setting, name, resourceGroup, write}. The setting is the name by which requests mean it; write: true lets the app change tables')
param dataAccounts array = []

var tags = { 'azd-env-name': environmentName }

resource group 'Microsoft.Resources/resourceGroups@2024-03-01' = {
  name: 'rg-${environmentName}'
  location: location
  tags: tags
}

module app 'app.bicep' = {
  name: 'app'
  scope: group
  params: {
    location: location
    tags: tags
    suffix: toLower(uniqueString(subscription().id, environmentName, location))
    maximumInstanceCount: maximumInstanceCount
    instanceMemoryMB: instanceMemoryMB
    dataAccounts: dataAccounts
  }
}

module access 'access.bicep' = [
  for account in dataAccounts: {
    name: 'access-${account.name}'
    scope: resourceGroup(account.resourceGroup)
    params: {
      accountName: account.name
      principalId: app.outputs.principalId
      write: account.write
    }
  }
]

output FUNCTION_APP string = app.outputs.name
output FUNCTION_APP_URL string = app.outputs.url
