// Package hostjson reads a function app's host.json and local.settings.json as the Functions host does.
//
// It supports the parts of host.json on which the app depends: the settings of the queue extension, functionTimeout and the
// custom handler. An unsupported setting that would change how the app runs is an error.
//
// (Microsoft Learn: "host.json reference for Azure Functions", "Azure Functions
// custom handlers", "Azure Queue storage trigger", "Timer trigger", "HTTP trigger")
package hostjson

import "time"

// App is a function app.
type App struct {
	// Queues contains the settings of the queue extension, for all queue triggers.
	Queues Queues
	// FunctionTimeout is the maximum time of an invocation, after which the host ends the handler process. 0 means no
	// limit.
	FunctionTimeout time.Duration
	Handler         Handler
	// OnlyFunctions lists the functions to which the app is restricted. nil means all functions.
	OnlyFunctions []string
}

// Queues contains the settings in extensions.queues of host.json.
type Queues struct {
	BatchSize         int           // messages per get, 1 to 32
	NewBatchThreshold int           // the host gets no further messages while it processes more than this number
	MaxPolling        time.Duration // maximum wait between polls of an empty queue
	Visibility        time.Duration // wait before the retry of a failed message
	MaxDequeue        int           // failed deliveries before the host moves a message to the poison queue
	Base64            bool          // messages are base64
}

// Handler is the section customHandler of host.json.
type Handler struct {
	Executable string   // as in the file, with settings expanded
	Arguments  []string // with settings expanded
	Directory  string   // working directory below the app's root, "" for the root itself
	// If Proxy is true, HTTP requests reach the handler unchanged.
	Proxy bool
	// InitTimeout is the maximum time until a handler first answers.
	InitTimeout time.Duration
}
