// The app's role on one account with data. See main.bicep.
param accountName string
param principalId string
param write bool

// (Microsoft Learn, "Azure built-in roles", Storage)
var storageTableDataReader = '76199698-9eea-4c19-bc75-cec21354c6b6'
var storageTableDataContributor = '0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3'
var role = write ? storageTableDataContributor : storageTableDataReader

resource account 'Microsoft.Storage/storageAccounts@2023-05-01' existing = {
  name: accountName
}

resource assignment 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(account.id, principalId, role)
  scope: account
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role)
  }
}
