//go:build lint

package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
	"testing"
)

// panics lists the panics that do not report a bug in this program, and why they are allowed.
var panics = map[string]string{
	"http.ErrAbortHandler": "net/http's own way to abort an answer",
	"aborted":              "the same, through a reverse proxy",
}

// TestPanics: only a bug in this program may cause a panic, and the panic's text must say so.
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
				t.Errorf("%s: return an error; a panic is only for impossible cases, and its text must contain internal error", set.Position(call.Pos()))
			}
			return true
		})
	})
}
