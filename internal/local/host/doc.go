// Package host plays the Azure Functions host on one machine: it starts handler
// processes, polls queues for them, proxies HTTP requests and keeps timers, from
// the same host.json that runs in the cloud.
//
// The nouns: an instance stands for one machine of the app, with one handler
// process and, for every queue function, a listener. The front is the HTTP server
// before all instances. A timer fires once for all of them.
//
// As with the real host, no handler gets a signal, the messages of a
// host that was killed stay hidden for ten minutes, and only one of the hosts on a storage account
// keeps a timer. The package does not scale by load, and ends for nothing: a handler that ends is started again. It plays only these
// three triggers, of the functions that package function lists: a test there holds function.json against the list.
package host
