// Package console contains the files of the console, a web page to start and watch scans, look up records and follow logs. Except
// for comments, the files are served unchanged. There is no build step, and the page loads nothing from other sites.
//
// The page consists of JavaScript modules without a library. All files together have at most 125,000 bytes. A view's module is
// loaded when the view is opened. The page gets its data from the API, with a key that the user enters. The key is stored in the
// tab's session storage, and sent only in a header. The page shows the content of tables as text and never creates markup. Its
// Content-Security-Policy, with Trusted Types, refuses markup and inline script.
//
// A list of scans costs one call per refresh, for any number of scans. The page refreshes every 3 s while a scan runs, and once
// a minute while the page is hidden. While the app does not answer, each pause is twice the previous one, up to a minute.
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

// kinds contains the media types of files, by extension.
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
	ETag    string // weak, because the compressed and the uncompressed content share it
}

// Named returns the file with the given name, or the page itself for the name "".
func Named(name string) (f File, found bool) {
	if name == "" {
		name = "index.html"
	}
	f, found = packed()[name]
	return f, found
}

// commentLine matches a line of a script that contains only a comment.
var commentLine = regexp.MustCompile(`(?m)^ *//.*$`)

// packed compresses the files once per process. It replaces comments, which are a tenth of the bytes, by empty lines. So the browser's errors name
// the right line.
var packed = sync.OnceValue(func() map[string]File {
	entries, err := files.ReadDir("page")
	if err != nil {
		panic("console: internal error: " + err.Error()) // impossible for embedded files
	}
	all := make(map[string]File, len(entries))
	for _, e := range entries {
		content, err := files.ReadFile("page/" + e.Name())
		if err != nil {
			panic("console: internal error: " + err.Error())
		}
		if path.Ext(e.Name()) == ".js" {
			content = commentLine.ReplaceAll(content, nil)
		}
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid
		_, _ = w.Write(content)                               // never fails
		_ = w.Close()
		all[e.Name()] = File{Content: content, Packed: b.Bytes(), Kind: kinds[path.Ext(e.Name())], ETag: fmt.Sprintf(`W/"%.8x"`, sha256.Sum256(content))}
	}
	return all
})
