package catalog_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tablesweep/internal/proof"
)

// TestCallsGoDown: the package comment lists the package's files from the first that a
// caller meets down to the last, and no function calls one of a file further up.
func TestCallsGoDown(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	proof.Must(t, err)
	var order []string
	for _, m := range regexp.MustCompile(`(?m)^//\t(\w+\.go) `).FindAllSubmatch(doc, -1) {
		order = append(order, string(m[1]))
	}
	fset := token.NewFileSet()
	var files []*ast.File
	paths, err := filepath.Glob("*.go")
	proof.Must(t, err)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") || path == "doc.go" {
			continue
		}
		if !slices.Contains(order, path) {
			t.Errorf("the package comment does not list %s", path)
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		proof.Must(t, err)
		files = append(files, f)
	}
	if len(files) != len(order) {
		t.Errorf("the package comment lists %d files, there are %d", len(order), len(files))
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	// Other packages need not be known: calls within this one are resolved without them.
	config := types.Config{Error: func(error) {}}
	pkg, _ := config.Check("catalog", fset, files, info)
	calls := 0
	for id, o := range info.Uses {
		f, ok := o.(*types.Func)
		if !ok || f.Pkg() != pkg {
			continue
		}
		calls++
		from, to := fset.Position(id.Pos()), fset.Position(f.Pos())
		if slices.Index(order, filepath.Base(from.Filename)) > slices.Index(order, filepath.Base(to.Filename)) {
			t.Errorf("%s: %s calls up: %s is in %s", from, id.Name, id.Name, to.Filename)
		}
	}
	if calls < 150 {
		t.Errorf("only %d calls within the package were found", calls)
	}
}
