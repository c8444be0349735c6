// Package host plays the Azure Functions host on one machine: it starts handler
// processes, polls queues for them, proxies HTTP requests and keeps timers, from
// the same host.json that runs in the cloud.
//
// The nouns: an instance stands for one machine of the app, with one handler
// process and, for every queue function, a listener. The front is the HTTP server
// before all instances. A timer fires once for all of them.
//
// The handler gets what the real host sends, and a handler that would fail
// there fails here: see packages app and envelope. As there, no handler gets a signal, the messages of a
// lost instance stay hidden for ten minutes, and only one of the hosts on a storage account
// keeps a timer. The package does not scale by load. It plays only these
// three triggers, of the functions that package function lists: a test there holds function.json against the list.
package host
