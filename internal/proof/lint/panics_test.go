//go:build lint

package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
	"testing"
)

// panics that say something else than that this program has a bug, and why they may.
var panics = map[string]string{
	"http.ErrAbortHandler": "net/http's own way to break off an answer",
	"aborted":              "the same, through a reverse proxy",
}

// TestPanics: a panic is for what only a bug in this program can bring about, and says so.
func TestPanics(t *testing.T) {
	sources(t, func(path string, set *token.FileSet, f *ast.File) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		ast.Inspect(f, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || types.ExprString(call.Fun) != "panic" {
				return true
			}
			if arg := call.Args[0]; panics[types.ExprString(arg)] == "" && !strings.Contains(types.ExprString(arg), ": internal error: ") {
				t.Errorf("%s: return an error; a panic is for what can't happen, and says so", set.Position(call.Pos()))
			}
			return true
		})
	})
}
