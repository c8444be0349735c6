// Package host replaces the Azure Functions host on one machine. It starts handler processes, polls queues for them, forwards HTTP requests to them, and runs
// timers. It reads the app's host.json.
//
// An instance stands for one machine of the app. It has one handler process and, for every queue function, a listener.
// All instances share the HTTP server and the timers.
//
// As with the real host, no handler gets a signal, and the messages of a killed host stay hidden for ten minutes. If
// several hosts use the same storage account, each timer runs in only one of them. Unlike the real host, this host has
// a fixed number of instances, and restarts a handler that ends. It supports only HTTP, queue and timer triggers, and
// only the functions that package function lists. A test of package function checks that this list agrees with the
// function.json files.
package host
