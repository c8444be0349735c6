// The app itself, when its ground and its roles are there. See main.bicep.
import { names } from 'ground.bicep'

param location string
param tags object
param ground names
param principalId string
param maximumInstanceCount int
param instanceMemoryMB int
param dataAccounts dataAccount[]

@export()
type dataAccount = {
  @description('The name by which requests mean the account')
  setting: string
  @minLength(3)
  @maxLength(24)
  name: string
  resourceGroup: string
  @description('Lets the app change tables')
  write: bool
  @description('Lets the app read exports in containers, and with write make them')
  blobs: bool?
}

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31' existing = {
  name: ground.identity
}

resource insights 'Microsoft.Insights/components@2020-02-02' existing = {
  name: ground.insights
}

// (Microsoft Learn, "Azure built-in roles", Monitor) To send telemetry without a key.
var monitoringMetricsPublisher = '3913510d-42f4-4e42-8a64-420c390055eb'

resource telemetry 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(insights.id, principalId, monitoringMetricsPublisher)
  scope: insights
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', monitoringMetricsPublisher)
  }
}

resource plan 'Microsoft.Web/serverfarms@2024-04-01' = {
  name: 'plan-${ground.suffix}'
  location: location
  tags: tags
  kind: 'functionapp'
  sku: { tier: 'FlexConsumption', name: 'FC1' }
  properties: { reserved: true }
}

var connections = reduce(dataAccounts, {}, (all, a) => union(all, {
  '${a.setting}__tableServiceUri': 'https://${a.name}.table.${environment().suffixes.storage}'
  '${a.setting}__queueServiceUri': 'https://${a.name}.queue.${environment().suffixes.storage}'
  '${a.setting}__credential': 'managedidentity'
  '${a.setting}__clientId': identity.properties.clientId
}))

resource app 'Microsoft.Web/sites@2024-04-01' = {
  name: 'func-${ground.suffix}'
  location: location
  tags: tags
  kind: 'functionapp,linux'
  identity: { type: 'UserAssigned', userAssignedIdentities: { '${identity.id}': {} } }
  properties: {
    serverFarmId: plan.id
    httpsOnly: true
    functionAppConfig: {
      deployment: {
        storage: {
          type: 'blobContainer'
          value: ground.packages
          authentication: { type: 'UserAssignedIdentity', userAssignedIdentityResourceId: identity.id }
        }
      }
      scaleAndConcurrency: { maximumInstanceCount: maximumInstanceCount, instanceMemoryMB: instanceMemoryMB }
      runtime: { name: 'custom', version: '1.0' }
    }
    siteConfig: { minTlsVersion: '1.2' }
  }

  resource settings 'config' = {
    name: 'appsettings'
    properties: union({
      AzureWebJobsStorage__accountName: ground.storage
      AzureWebJobsStorage__credential: 'managedidentity'
      AzureWebJobsStorage__clientId: identity.properties.clientId
      APPLICATIONINSIGHTS_CONNECTION_STRING: insights.properties.ConnectionString
      APPLICATIONINSIGHTS_AUTHENTICATION_STRING: 'ClientId=${identity.properties.clientId};Authorization=AAD'
      TABLESWEEP_DEPLOYMENT_CONTAINER: ground.packages
      TABLESWEEP_CONNECTIONS: join(concat(['AzureWebJobsStorage'], map(dataAccounts, a => a.setting)), ',')
    }, connections)
  }
}

output name string = app.name
output url string = 'https://${app.properties.defaultHostName}'
