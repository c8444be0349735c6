// Package console holds the files of the console, a web page to start and watch scans, look up
// records and follow logs. The files are served as they are: there is no build step, and
// nothing is loaded from elsewhere.
package console

import (
	"embed"
	"path"
)

//go:embed page
var files embed.FS

// kinds are the media types of files by their extensions.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// File returns the content and the media type of a file. The name "" is the page itself. found
// is false if there is no such file.
func File(name string) (content []byte, kind string, found bool) {
	if name == "" {
		name = "index.html"
	}
	content, err := files.ReadFile("page/" + name)
	return content, kinds[path.Ext(name)], err == nil
}
