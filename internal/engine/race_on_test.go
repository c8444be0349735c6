//go:build race

package engine_test

// everyRequest is how far apart the requests are at which something dies: the race
// detector takes ten times as long, and looks for what few runs show.
const everyRequest = 7
