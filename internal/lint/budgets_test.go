package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
)

// The budgets. Whoever needs more, thinks first about what can go.
const (
	maxRooms    = 22 // packages right below internal
	maxPackages = 48
	maxExports  = 58 // functions, types, variables and constants of a package
	maxPanics   = 22
)

// panics that say something else than that this program has a bug, and why they may.
var panics = map[string]string{
	"http.ErrAbortHandler": "net/http's own way to break off an answer",
	"aborted":              "the same, through a reverse proxy",
}

func TestBudgets(t *testing.T) {
	rooms, exports := map[string]bool{}, map[string]int{}
	sources(t, func(path string, _ *token.FileSet, f *ast.File) {
		dir := filepath.Dir(path)
		if room, ok := strings.CutPrefix(dir, "internal/"); ok && !strings.Contains(room, "/") {
			rooms[room] = true
		}
		exports[dir] += 0
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.IsExported() {
					exports[dir]++
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						if s.Name.IsExported() {
							exports[dir]++
						}
					case *ast.ValueSpec:
						for _, n := range s.Names {
							if n.IsExported() {
								exports[dir]++
							}
						}
					}
				}
			}
		}
	})
	if len(rooms) > maxRooms {
		t.Errorf("internal has %d packages, want at most %d", len(rooms), maxRooms)
	}
	if len(exports) > maxPackages {
		t.Errorf("there are %d packages, want at most %d", len(exports), maxPackages)
	}
	for dir, n := range exports {
		if n > maxExports {
			t.Errorf("%s exports %d names, want at most %d", dir, n, maxExports)
		}
	}
}

func TestPanics(t *testing.T) {
	n := 0
	sources(t, func(path string, set *token.FileSet, f *ast.File) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		ast.Inspect(f, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || types.ExprString(call.Fun) != "panic" {
				return true
			}
			n++
			if arg := call.Args[0]; panics[types.ExprString(arg)] == "" && !strings.Contains(types.ExprString(arg), ": internal error: ") {
				t.Errorf("%s: return an error; a panic is for what can't happen, and says so", set.Position(call.Pos()))
			}
			return true
		})
	})
	if n > maxPanics {
		t.Errorf("%d panics, want at most %d", n, maxPanics)
	}
}
