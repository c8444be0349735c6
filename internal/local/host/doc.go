// Package host replaces the Azure Functions host on one machine. It starts handler processes, polls queues for them, forwards HTTP requests to them, and runs
// timers. It uses the same host.json as the app in the cloud.
//
// An instance represents one machine of the app. It has one handler process and, for every queue function, a listener. The front is the HTTP server for all
// instances. A timer fires once for all instances.
//
// As with the real host, no handler gets a signal, the messages of a killed host stay hidden for ten minutes, and only one of the hosts on a storage account
// runs a timer. The number of instances does not depend on the load. If a handler ends, the host does not end, but starts the handler again. The host
// supports only HTTP, queue and timer triggers, and only the functions in the list of package function. A test of that package compares the function.json
// files with the list.
package host
