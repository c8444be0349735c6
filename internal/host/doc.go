// Package host plays the Azure Functions host on one machine: it starts handler
// processes, polls queues for them, forwards HTTP requests and keeps timers, from
// the same host.json and function.json files that run in the cloud.
//
// The nouns: an instance stands for one machine of the app, with one handler
// process and, for every queue function, a listener. The front is the HTTP server
// before all instances. A timer fires once for all of them.
//
// What the handler sees is what the real host sends, and a handler that would fail
// there fails here: see packages app and envelope. No handler gets a signal; what a lost
// instance had taken stays hidden for ten minutes; one host of all on a storage account
// keeps a timer. The package does not scale by load, and plays no triggers but these
// three and no output bindings but http.
package host
