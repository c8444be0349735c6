// Package hostjson reads a function app's files as the Functions host reads them: host.json and local.settings.json.
//
// It knows the parts of these files on which the app depends: the settings of the queue extension, functionTimeout and the
// custom handler. It refuses, by name, every setting that would change how the app runs and that it does not know.
// It starts nothing and opens only these files.
//
// (Microsoft Learn: "host.json reference for Azure Functions", "Azure Functions
// custom handlers", "Azure Queue storage trigger", "Timer trigger", "HTTP trigger")
package hostjson

import "time"

// App is a function app.
type App struct {
	// Queues are the settings of the queue extension. They apply to every queue
	// trigger of the app.
	Queues Queues
	// FunctionTimeout ends an invocation, and the handler process with it. 0
	// means never.
	FunctionTimeout time.Duration
	// Handler is the custom handler.
	Handler Handler
	// Only are the functions that the app is restricted to; nil means all.
	Only []string
}

// Queues are the settings extensions.queues of host.json.
type Queues struct {
	BatchSize         int           // messages got at once, 1 to 32
	NewBatchThreshold int           // gets again when no more than this many run
	MaxPolling        time.Duration // longest wait between polls of an empty queue
	Visibility        time.Duration // wait before the retry of a failed message
	MaxDequeue        int           // deliveries before a message goes to the poison queue
	Base64            bool          // messages are base64
}

// Handler is the section customHandler of host.json.
type Handler struct {
	Executable string   // as written, with settings expanded
	Arguments  []string // with settings expanded
	Directory  string   // working directory below the app's root, "" for the root itself
	// Proxy passes HTTP requests to the handler as they were sent.
	Proxy bool
	// InitTimeout is how long a handler may take until it answers.
	InitTimeout time.Duration
}
