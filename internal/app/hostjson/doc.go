// Package hostjson reads a function app's files in the same way as the Functions host: host.json and local.settings.json.
//
// The package supports the parts of host.json on which the app depends: the settings of the queue extension, functionTimeout
// and the custom handler. If an unsupported setting would change how the app runs, the package returns an error with the
// setting's name. It opens only host.json and local.settings.json, and starts no process.
//
// (Microsoft Learn: "host.json reference for Azure Functions", "Azure Functions
// custom handlers", "Azure Queue storage trigger", "Timer trigger", "HTTP trigger")
package hostjson

import "time"

// App is a function app.
type App struct {
	// Queues contains the settings of the queue extension, for all queue triggers of the app.
	Queues Queues
	// FunctionTimeout is the maximum time of an invocation. After that time, the host ends the handler process. 0 means no
	// limit.
	FunctionTimeout time.Duration
	// Handler is the custom handler.
	Handler Handler
	// OnlyFunctions lists the functions to which the app is restricted. nil means all functions.
	OnlyFunctions []string
}

// Queues contains the settings in extensions.queues of host.json.
type Queues struct {
	BatchSize         int           // messages per get, 1 to 32
	NewBatchThreshold int           // while more messages than this are in progress, there is no further get
	MaxPolling        time.Duration // maximum wait between polls of an empty queue
	Visibility        time.Duration // wait before the retry of a failed message
	MaxDequeue        int           // after this number of failed deliveries, the host moves a message to the poison queue
	Base64            bool          // messages are base64
}

// Handler is the section customHandler of host.json.
type Handler struct {
	Executable string   // as in the file, with settings expanded
	Arguments  []string // with settings expanded
	Directory  string   // working directory below the app's root, "" for the root itself
	// If Proxy is true, the host passes HTTP requests to the handler unchanged.
	Proxy bool
	// InitTimeout is the maximum time until a handler first answers.
	InitTimeout time.Duration
}
