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

// TestCallsGoDown checks that functions call only functions of their own file, or of files that come later in the list in the
// package comment.
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
		t.Errorf("the package comment lists %d files, but there are %d", len(order), len(files))
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	// Errors about other packages do not matter, because calls within this package are resolved without them.
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
			t.Errorf("%s: the call of %s is not allowed, because %s is in %s", from, id.Name, id.Name, to.Filename)
		}
	}
	if calls < 150 {
		t.Errorf("the test found only %d calls within the package", calls)
	}
}
