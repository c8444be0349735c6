package place_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
)

// Open refuses a place without an export of this program, and incomplete or changed exports. The error names the defect.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	rows := oddRows(t, 30)
	whole := content(t, write(t, rows, place.Options{Compress: place.Zstd}, 100))
	huge, err := place.NewCodec(place.Zstd)
	proof.Must(t, err)
	data := ""
	for name := range whole {
		if strings.HasPrefix(name, place.DataPrefix) {
			data = name
		}
	}
	for want, change := range map[string]func(map[string]string){
		"is not a complete export: it has no manifest.json": func(f map[string]string) { delete(f, place.ManifestName) },
		"has version 2, but this program knows only version 1": func(f map[string]string) {
			f[place.ManifestName] = strings.Replace(f[place.ManifestName], `"version":1`, `"version":2`, 1)
		},
		"does not belong to an export": func(f map[string]string) { f[place.ManifestName] = `{"version":1,"entries":[]}` },
		"does not match files.jsonl: manifest.json records 1 files with 31 rows": func(f map[string]string) {
			f[place.ManifestName] = withChecksum(strings.Replace(f[place.ManifestName], `"rows":30`, `"rows":31`, 1))
		},
		"manifest.json has changed since it was written": func(f map[string]string) {
			f[place.ManifestName] = strings.Replace(f[place.ManifestName], `"files"`, `"filter":"A eq 1","files"`, 1)
		},
		`its last field, "proof", does not match the text before it`: func(f map[string]string) { // a manifest without a proof
			f[place.ManifestName], _, _ = strings.Cut(f[place.ManifestName], `,"proof":`)
			f[place.ManifestName] += "}\n"
		},
		"its hash differs from the hash in manifest.json": func(f map[string]string) { f[place.FilesName] = "" },
		"its number of rows or bytes does not match its pages": func(f map[string]string) {
			f[place.FilesName] = strings.Replace(f[place.FilesName], `"rows":30`, `"rows":3000`, 1)
		},
		"is not the path of a data file": func(f map[string]string) {
			f[place.FilesName] = strings.Replace(f[place.FilesName], `"path":"data/`, `"path":"data/../../`, 1)
		},
		"has more than 65536 bytes":                  func(f map[string]string) { f[place.ManifestName] += strings.Repeat(" ", 65536) },
		"no such file or directory":                  func(f map[string]string) { delete(f, data) },
		"this page has changed since it was written": func(f map[string]string) { f[data] = f[data][:100] },
		"bytes 0 to": func(f map[string]string) { f[data] = string(huge.Encode(make([]byte, 17<<20))) },
		`this program does not know the format "jsonl" with the compression "lz4"`: func(f map[string]string) {
			f[place.ManifestName] = withChecksum(strings.Replace(f[place.ManifestName], `"zstd"`, `"lz4"`, 1))
		},
	} {
		files := maps.Clone(whole)
		change(files)
		dir := directory(t, files)
		e, err := place.Open(t.Context(), dir)
		if err == nil {
			_, err = emulatortest.All(t.Context(), e, storage.Query{})
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), string(dir)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := place.Open(t.Context(), place.Directory(t.TempDir())); !errors.Is(err, place.ErrNoExport) {
		t.Errorf("got %v", err)
	}
}

// withChecksum returns the JSON with the right proof for its content.
func withChecksum(text string) string {
	text, _, _ = strings.Cut(text, `,"proof":`)
	text = strings.TrimSuffix(strings.TrimSpace(text), "}")
	return fmt.Sprintf("%s,\"proof\":\"%x\"}\n", text, sha256.Sum256([]byte(text)))
}

// forge makes an export of one encoded page, in which all hashes are right.
func forge(t *testing.T, c place.Compress, page []byte, rows int64, first, last place.Key) stored {
	t.Helper()
	codec, err := place.NewCodec(c)
	proof.Must(t, err)
	var seal place.Seal
	f, _ := place.NewFile(codec).End("000000") // describes an empty file
	sum := sha256.Sum256(page)
	f.SHA256, f.Bytes, f.Rows, f.First, f.Last = hex.EncodeToString(sum[:]), int64(len(page)), rows, first, last
	f.Pages = []place.PageMark{{Bytes: f.Bytes, Hash: f.SHA256[:16]}}
	line, err := seal.Add(f)
	proof.Must(t, err)
	m := seal.Manifest(manifest(place.Options{Compress: c}))
	return stored{f.Path: string(page), place.FilesName: string(line), place.ManifestName: string(m.JSON("id"))}
}

// For an export with right hashes but wrong content, no row of the bad page is used, and memory is bounded.
func TestForgedExports(t *testing.T) {
	t.Parallel()
	a, b := `{"PartitionKey":"a","RowKey":"1"}`+"\n", `{"PartitionKey":"b","RowKey":"2"}`+"\n"
	first, last := place.Key{PartitionKey: "a", RowKey: "1"}, place.Key{PartitionKey: "b", RowKey: "2"}
	for _, test := range []struct {
		c    place.Compress
		text string
		rows int64
		want string
	}{
		{place.None, a + b, 3, "the file has 2 rows, but must have 3 according to files.jsonl"},
		{place.None, a + a + b, 3, "is not greater than the key before it"},
		{place.None, b + a, 2, "the first or the last key of this page differs"},
		{place.None, a + "x" + b, 2, "line 2"},
		{place.None, a + `{"PartitionKey":"b"}`, 2, "line 2: a row lacks a key"},
		{place.Zstd, a + strings.Repeat("\n", 16<<20) + b, 2, "it decompresses to more than 16 MiB"},
		{place.Gzip, a + strings.Repeat("\n", 16<<20) + b, 2, "it decompresses to more than 16 MiB"},
		{place.None, a + strings.Repeat(a, 1000) + b, 1000, "this page has 1002 rows"},
	} {
		codec, err := place.NewCodec(test.c)
		proof.Must(t, err)
		e, err := place.Open(t.Context(), forge(t, test.c, codec.Encode([]byte(test.text)), test.rows, first, last))
		proof.Must(t, err)
		got, err := emulatortest.All(t.Context(), e, storage.Query{})
		if err == nil || !strings.Contains(err.Error(), test.want) || len(got) > 0 {
			t.Errorf("got %d rows, %v, want %q", len(got), err, test.want)
		}
	}
}

// A process that was killed while it claimed a directory does not block other exports in this directory.
func TestRemainsOfAClaimDoNotBlock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{place.JournalName + ".lock", place.JournalName + ".abcdefghijklmnop.part", place.ClaimName + ".abcdefghijklmnop.part"} {
		proof.Must(t, os.WriteFile(filepath.Join(dir, name), []byte("{"), 0o600))
	}
	w, err := place.Create(t.Context(), place.Directory(dir), newClaim(), place.Options{})
	proof.Must(t, err)
	proof.Must(t, completeExport(t, w, nil, place.Manifest{}))
	if _, err := os.Stat(filepath.Join(dir, place.ClaimName+".abcdefghijklmnop.part")); err == nil {
		t.Error("remains of the killed process still exist")
	}
}
