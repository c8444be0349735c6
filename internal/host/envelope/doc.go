// Package envelope holds the bytes that the Functions host and a custom handler
// exchange: the JSON document of an invocation, as the host writes it, and the
// answer, as the host reads it.
//
// The host is a .NET program whose values pass through Newtonsoft.Json, twice for
// strings; the documents here are what comes out of that, quirks included, because
// a handler that works with anything simpler fails in the cloud. The sources are
// ScriptInvocationContextExtensions, DefaultHttpWorkerService, HttpRequestExtensions,
// Utility.ApplyBindingData and HttpScriptInvocationResultExtensions of
// azure-functions-host, QueueTriggerBinding of the queue extension and TimerListener
// of azure-webjobs-sdk-extensions. The package sends nothing.
package envelope
