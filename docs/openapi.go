// Package docs holds those documents that the app serves itself.
package docs

import _ "embed" // for OpenAPI

// OpenAPI describes the app's HTTP calls, in OpenAPI 3.1.
//
//go:embed openapi.json
var OpenAPI []byte
