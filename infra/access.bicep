// Roles of the app's identity on one storage account. An assignment's name has the principal
// in it, so that an identity which was deleted and made again gets its own. See main.bicep.
param accountName string
param principalId string
param roles ('blobOwner' | 'blobContributor' | 'blobReader' | 'queueContributor' | 'tableContributor' | 'tableReader')[]

// (Microsoft Learn, "Azure built-in roles", Storage)
var ids = {
  blobOwner: 'b7e6dc6d-f1e8-4753-8033-0f276bb0955b' // the host's keys and locks, and the package
  blobContributor: 'ba92f5b4-2d11-453d-a403-e96b0029c9fe' // exports to be made
  blobReader: '2a2b9908-6ea1-4ae2-8e65-a410df84e7d1'
  queueContributor: '974c5e8b-45b9-4653-ba55-5f855dd0fb88' // the steps' messages
  tableContributor: '0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3' // the ledger, logs, catalogs; tables to be changed
  tableReader: '76199698-9eea-4c19-bc75-cec21354c6b6'
}

resource account 'Microsoft.Storage/storageAccounts@2023-05-01' existing = {
  name: accountName
}

resource assignments 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for role in roles: {
    name: guid(account.id, principalId, ids[role])
    scope: account
    properties: {
      principalId: principalId
      principalType: 'ServicePrincipal'
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', ids[role])
    }
  }
]
