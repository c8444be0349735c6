// Package envelope holds the bytes that the Functions host and a custom handler
// exchange: the JSON document of an invocation, as the host writes it, and the
// answer, as the host reads it.
//
// The host is a .NET program. Its values pass through Newtonsoft.Json, strings even
// twice. The documents here equal the result, quirks included: a handler
// that only works with simpler ones would fail in the cloud. The sources are
// ScriptInvocationContextExtensions, DefaultHttpWorkerService, HttpRequestExtensions,
// Utility.ApplyBindingData and HttpScriptInvocationResultExtensions of
// azure-functions-host, QueueTriggerBinding of the queue extension and TimerListener
// of azure-webjobs-sdk-extensions. The package sends nothing.
package envelope
