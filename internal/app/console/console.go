// Package console contains the files of the console, a web page to start and watch scans, look up records and follow logs. The
// files are served as they are, but without comments. There is no build step, and nothing is loaded from elsewhere.
//
// The page consists of plain modules without a library, 125,000 bytes at most. A view is loaded when it is opened. Its data comes from
// the API, with a key that the user enters. The tab's session storage stores the key, which is sent only in a header. The page
// shows the content of tables as text: it creates elements and never markup. Its Content-Security-Policy, with Trusted Types,
// refuses markup and inline script.
//
// A list costs one call per refresh, however many scans there are. A refresh happens every 3 s while a scan runs, and once a
// minute while the page is hidden. While the app does not answer, the pauses between refreshes double up to a minute.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"path"
	"regexp"
	"sync"
)

//go:embed page
var files embed.FS

// kinds are the media types of files, by extension.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// File is one file of the page.
type File struct {
	Content []byte
	Packed  []byte // the content, compressed with gzip
	Kind    string // the media type
	ETag    string // weak, because it is shared by both forms of the content
}

// Named returns the file with a name. The name "" means the page itself. found is false if there is no such file.
func Named(name string) (f File, found bool) {
	if name == "" {
		name = "index.html"
	}
	f, found = packed()[name]
	return f, found
}

// comments matches the lines of a script that have only a comment.
var comments = regexp.MustCompile(`(?m)^ *//.*$`)

// packed compresses the files at its first call, once per process. It leaves out comments, which are a tenth of the bytes.
// Their lines stay as empty lines, so that an error in the browser names the right line of the source.
var packed = sync.OnceValue(func() map[string]File {
	entries, err := files.ReadDir("page")
	if err != nil {
		panic("console: internal error: " + err.Error()) // the files are embedded
	}
	all := make(map[string]File, len(entries))
	for _, e := range entries {
		content, err := files.ReadFile("page/" + e.Name())
		if err != nil {
			panic("console: internal error: " + err.Error())
		}
		if path.Ext(e.Name()) == ".js" {
			content = comments.ReplaceAll(content, nil)
		}
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid
		_, _ = w.Write(content)                               // a buffer accepts everything
		_ = w.Close()
		all[e.Name()] = File{Content: content, Packed: b.Bytes(), Kind: kinds[path.Ext(e.Name())], ETag: fmt.Sprintf(`W/"%.8x"`, sha256.Sum256(content))}
	}
	return all
})
