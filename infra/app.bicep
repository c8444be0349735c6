// The app and what it lives on. See main.bicep.
param location string
param tags object
param suffix string
param maximumInstanceCount int
param instanceMemoryMB int
param dataAccounts array

// Ids of built-in roles. (Microsoft Learn, "Azure built-in roles", Storage and Monitor)
var roles = {
  storageBlobDataOwner: 'b7e6dc6d-f1e8-4753-8033-0f276bb0955b' // the host's keys and locks, and the package
  storageQueueDataContributor: '974c5e8b-45b9-4653-ba55-5f855dd0fb88' // the steps' messages
  storageTableDataContributor: '0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3' // the ledger, logs and catalogs
}
var monitoringMetricsPublisher = '3913510d-42f4-4e42-8a64-420c390055eb' // to send telemetry without a key

var packages = 'packages'

resource storage 'Microsoft.Storage/storageAccounts@2023-05-01' = {
  name: 'st${suffix}'
  location: location
  tags: tags
  kind: 'StorageV2'
  sku: { name: 'Standard_LRS' }
  properties: {
    allowBlobPublicAccess: false
    allowSharedKeyAccess: false
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
  }

  resource blobs 'blobServices' = {
    name: 'default'

    resource container 'containers' = {
      name: packages
    }
  }
}

resource logs 'Microsoft.OperationalInsights/workspaces@2023-09-01' = {
  name: 'log-${suffix}'
  location: location
  tags: tags
  properties: { sku: { name: 'PerGB2018' }, retentionInDays: 30 }
}

resource insights 'Microsoft.Insights/components@2020-02-02' = {
  name: 'appi-${suffix}'
  location: location
  tags: tags
  kind: 'web'
  properties: { Application_Type: 'web', WorkspaceResourceId: logs.id, DisableLocalAuth: true }
}

resource plan 'Microsoft.Web/serverfarms@2024-04-01' = {
  name: 'plan-${suffix}'
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
}))

resource app 'Microsoft.Web/sites@2024-04-01' = {
  name: 'func-${suffix}'
  location: location
  tags: tags
  kind: 'functionapp,linux'
  identity: { type: 'SystemAssigned' }
  properties: {
    serverFarmId: plan.id
    httpsOnly: true
    functionAppConfig: {
      deployment: {
        storage: {
          type: 'blobContainer'
          value: '${storage.properties.primaryEndpoints.blob}${packages}'
          authentication: { type: 'SystemAssignedIdentity' }
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
      AzureWebJobsStorage__accountName: storage.name
      AzureWebJobsStorage__credential: 'managedidentity'
      APPLICATIONINSIGHTS_CONNECTION_STRING: insights.properties.ConnectionString
      APPLICATIONINSIGHTS_AUTHENTICATION_STRING: 'Authorization=AAD'
      TABLESWEEP_CONNECTIONS: join(concat(['AzureWebJobsStorage'], map(dataAccounts, a => a.setting)), ',')
    }, connections)
  }
}

resource storageRoles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for role in items(roles): {
    name: guid(storage.id, app.id, role.value)
    scope: storage
    properties: {
      principalId: app.identity.principalId
      principalType: 'ServicePrincipal'
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role.value)
    }
  }
]

resource insightsRole 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(insights.id, app.id, monitoringMetricsPublisher)
  scope: insights
  properties: {
    principalId: app.identity.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', monitoringMetricsPublisher)
  }
}

output name string = app.name
output url string = 'https://${app.properties.defaultHostName}'
output principalId string = app.identity.principalId
