// Package console holds the files of the console, the web page by which people watch and
// start scans, look records up and follow logs. They are served as they stand here: there is
// no build step, and nothing comes from elsewhere.
package console

import (
	"embed"
	"path"
)

//go:embed page
var files embed.FS

// kinds are the types of the files by the ends of their names.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// File returns the contents and the media type of a file, "" being the page itself, and
// whether there is such a file.
func File(name string) (content []byte, kind string, found bool) {
	if name == "" {
		name = "index.html"
	}
	content, err := files.ReadFile("page/" + name)
	return content, kinds[path.Ext(name)], err == nil
}
