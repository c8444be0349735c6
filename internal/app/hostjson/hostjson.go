package hostjson

import (
	"fmt"
	"math"
	"path"
	"strings"
	"time"
)

const day = 24 * time.Hour

func (a *App) readHost(data []byte, x expander, p *problems) {
	o := parseObject("host.json", data, p)
	o.setting = x.setting
	if v := o.text("version", ""); v != "2.0" {
		p.addf(`host.json: version must be "2.0", not %q`, v)
	}
	a.FunctionTimeout = functionTimeout(o)
	extensions := o.object("extensions")
	a.readQueues(extensions.object("queues"))
	a.readHTTP(extensions.object("http"))
	a.readHandler(o, x)
	// The ignored sections, and extensions other than queues and http, do not affect triggers.
	a.OnlyFunctions = o.texts("functions")
	o.ignore("$schema", "aggregator", "applicationInsights", "concurrency", "extensionBundle", "healthMonitor",
		"logging", "managedDependency", "singleton", "telemetryMode", "watchDirectories", "watchFiles")
	o.done()
}

// functionTimeout reads the field functionTimeout. The default is 30 minutes on every plan except Consumption, and -1 means no
// limit.
func functionTimeout(o *object) time.Duration {
	raw := strings.Trim(string(o.fields["functiontimeout"]), `"`)
	if raw == "-1" || raw == "-00:00:01" {
		o.ignore("functionTimeout")
		return 0
	}
	return o.span("functionTimeout", 30*time.Minute, time.Second, math.MaxInt64)
}

// readQueues uses the defaults and limits of QueuesOptions in Microsoft.Azure.WebJobs.Extensions.Storage.Queues.
func (a *App) readQueues(o *object) {
	q := Queues{
		BatchSize:  o.number("batchSize", 16, 1, 32),
		MaxPolling: o.span("maxPollingInterval", time.Minute, 100*time.Millisecond, day),
		Visibility: o.span("visibilityTimeout", 0, 0, 7*day),
		MaxDequeue: o.number("maxDequeueCount", 5, 1, math.MaxInt32),
	}
	q.NewBatchThreshold = o.number("newBatchThreshold", q.BatchSize/2, 0, math.MaxInt32)
	switch v := o.text("messageEncoding", "base64"); strings.ToLower(v) {
	case "base64":
		q.Base64 = true
	case "none":
	default:
		o.problems.addf(`%s must be "base64" or "none", not %q`, o.at("messageEncoding"), v)
	}
	o.done()
	a.Queues = q
}

func (a *App) readHTTP(o *object) {
	if v := o.text("routePrefix", "api"); strings.Trim(v, "/") != "api" {
		o.problems.addf(`%s must be "api", not %q, because the app's routes are there`, o.at("routePrefix"), v)
	}
	o.ignore("maxOutstandingRequests", "maxConcurrentRequests", "dynamicThrottlesEnabled", "hsts", "customHeaders")
	o.done()
}

func (a *App) readHandler(host *object, x expander) {
	if _, ok := host.fields["customhandler"]; !ok {
		host.problems.addf("host.json: customHandler is missing, but the local host runs only custom handlers")
		return
	}
	o := host.object("customHandler")
	a.Handler = Handler{
		Proxy:       o.flag("enableProxyingHttpRequest", false),
		InitTimeout: o.span("initializationTimeout", 30*time.Second, time.Millisecond, day),
	}
	o.ignore("enableForwardingHttpRequest") // if this and enableProxyingHttpRequest are true, the host proxies requests
	d := o.object("description")
	a.Handler.Executable = x.expand(d.at("defaultExecutablePath"), d.text("defaultExecutablePath", ""))
	a.Handler.Directory = d.text("workingDirectory", "")
	for i, arg := range d.texts("arguments") {
		a.Handler.Arguments = append(a.Handler.Arguments, x.expand(fmt.Sprintf("%s[%d]", d.at("arguments"), i), arg))
	}
	if a.Handler.Executable == "" {
		d.problems.addf("%s is missing", d.at("defaultExecutablePath"))
	}
	if strings.HasPrefix(path.Clean(strings.ReplaceAll(a.Handler.Directory, `\`, "/")), "..") {
		d.problems.addf("%s must lie inside the app", d.at("workingDirectory"))
	}
	d.done()
	o.done()
}
