//go:build lint

// Package lint contains the project's own rules as tests: which package may import which, how large files and functions may be, how many methods a type may
// have, and that every exported name is documented and used. An exception is a line here, with its reason. Because of the build tag, go test ./... does not
// check the rules. scripts/test.sh and make lint check them.
package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/go/packages"

	"tablesweep/internal/proof"
)

const (
	root             = "../../.."
	maxFileLines     = 600
	maxFunctionLines = 90
	maxMethods       = 40
)

// pure packages only make decisions. They use no network, no SDK and no storage.
var pure = []string{"key", "job/jobrecord", "input", "storage/pace", "key/odata", "split/scan", "scans/calendar", "split/adaptive", "proof/keysets", "proof/lab/split", "split/strategy", "local/demo/debian", "catalog/index", "catalog/wal"}

// floors is the order of the packages. A package imports only packages on lower floors, so a reader of the package needs to know only these.
var floors = [][]string{
	{"key", "problem", "problem/secret", "task", "storage/pace", "input/loopback", "app/console", "proof", "task/memory", "job/jobrecord", "proof/testsize", "proof/deploy", "app/envelope", "local/emulator/fault", "local/emulator/refusal", "proof/outagetest"},
	{"input", "input/lines", "file", "app/gate", "key/odata", "split/scan", "scans/calendar", "catalog/index", "local/demo/debian", "local/emulator/queue", "proof/bugtest"},
	{"split/adaptive", "storage", "file/journal", "catalog/wal", "local/emulator/entity", "proof/scantest", "proof/keysets"},
	{"action", "place", "split/strategy", "scans/ledger", "record", "record/rowmap", "proof/lab/split", "local/emulator/table", "app/hostjson"},
	{"job/sweep", "stream/claim", "local/emulator"},
	{"job/estimate", "job/verify"},
	{"scans"},
	{"scans/status"},
	{"scans/life"},
	{"scans/step", "scans/schedule"},
	{"scans/engine", "stream/logtail", "job/progress", "job/rowlist", "proof/emulatortest"},
	{"catalog/store", "app/config", "job"},
	{"catalog", "app/health"},
	{"catalog/check", "catalog/migrate", "catalog/load"},
	{"app/function"},
	{"app/server", "local/host"},
	{"proof/sim", "proof/lab/scale", "local/demo"},
	{"proof/lab"},
}

// forbidden lists the imports between rooms that the floors allow but that are forbidden, with the reasons. A room is a directory with everything below it.
var forbidden = []struct{ from, but, to, why string }{
	{"internal", "internal/local", "internal/local", "only handler may start the local storage and host, which do not run in the cloud"},
	{"handler", "", "internal/proof", "code that only contributors use must not be shipped"},
	{"internal", "", "internal/proof", "code that only contributors use must not be shipped"},
	{"internal/local/emulator", "", "internal/storage", "the emulator must not share its client's mistakes"},
}

// in reports whether a package is in a room.
func in(room, pkg string) bool { return pkg == room || strings.HasPrefix(pkg, room+"/") }

// virtual packages run in virtual time, which only testing/synctest provides.
var virtual = []string{"internal/proof/lab/scale", "internal/proof/lab"}

// module returns this module's path from go.mod, followed by a slash.
var module = sync.OnceValue(func() (path string) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if _, scanned := fmt.Sscanf(string(text), "module %s\n", &path); err != nil || scanned != nil {
		panic(fmt.Sprint("go.mod: ", err, scanned))
	}
	return path + "/"
})

// shipped returns all packages without their tests.
func shipped(t *testing.T) []*packages.Package {
	t.Helper()
	return slices.DeleteFunc(slices.Clone(typed(t)), func(p *packages.Package) bool {
		return p.ID != p.PkgPath || strings.HasSuffix(p.ID, ".test")
	})
}

// depsOf returns the paths of all packages that p needs, and of p itself.
func depsOf(p *packages.Package) []string {
	var deps []string
	packages.Visit([]*packages.Package{p}, nil, func(d *packages.Package) { deps = append(deps, d.PkgPath) })
	return deps
}

func TestImportsPointOneWay(t *testing.T) {
	all := shipped(t)
	if len(all) < 10 {
		t.Fatalf("found only %d packages", len(all))
	}
	for _, p := range all {
		name, deps := strings.TrimPrefix(p.PkgPath, module()), depsOf(p)
		if slices.Contains(pure, strings.TrimPrefix(name, "internal/")) {
			for _, d := range deps {
				if d == "net/http" || strings.Contains(d, "azure-sdk") || d == module()+"internal/storage" {
					t.Errorf("%s imports %s; it must stay pure", name, d)
				}
			}
		}
		for _, f := range forbidden {
			for _, d := range deps {
				if in(f.from, name) && !in("internal/proof", name) && !in(f.but, name) && in(module()+f.to, d) {
					t.Errorf("%s imports %s: %s", name, d, f.why)
				}
			}
		}
		if slices.Contains(deps, "testing") && !strings.HasSuffix(name, "test") && !slices.Contains(virtual, name) {
			t.Errorf("%s imports testing outside of tests", name)
		}
	}
}

// TestFloors: each package is on a floor, imports only packages from lower floors, and has its line in DESIGN.md.
func TestFloors(t *testing.T) {
	floor := map[string]int{}
	for i, names := range floors {
		for _, n := range names {
			if _, twice := floor[n]; twice {
				t.Errorf("%s has two floors", n)
			}
			floor[n] = i
		}
	}
	design, err := os.ReadFile(filepath.Join(root, "DESIGN.md"))
	proof.Must(t, err)
	for _, p := range shipped(t) {
		name, ok := strings.CutPrefix(p.PkgPath, module()+"internal/")
		if !ok {
			continue
		}
		own, ok := floor[name]
		if !ok {
			t.Errorf("%s has no floor; add it to the floor above all packages that it imports", name)
			continue
		}
		delete(floor, name)
		for i := range p.Imports {
			if i, ok := strings.CutPrefix(i, module()+"internal/"); ok && !slices.ContainsFunc(floors[:own], func(f []string) bool { return slices.Contains(f, i) }) {
				t.Errorf("%s imports %s, which is not on a floor below it", name, i)
			}
		}
		if !strings.Contains(string(design), "`internal/"+name+"`") && !strings.Contains(string(design), "`"+filepath.Base(name)+"`") {
			t.Errorf("DESIGN.md has no line about %s", name)
		}
	}
	for n := range floor {
		t.Errorf("there is no package %s", n)
	}
}

// TestGoroutinesRecover: a panic in a goroutine ends the process with all its invocations. Therefore packages that functions use start goroutines only with
// package task.
func TestGoroutinesRecover(t *testing.T) {
	var served []string
	for _, p := range shipped(t) {
		if p.PkgPath == module()+"internal/app/function" {
			for _, d := range depsOf(p) {
				served = append(served, strings.TrimPrefix(d, module()))
			}
		}
	}
	if len(served) < 10 {
		t.Fatalf("the functions use only %d packages", len(served))
	}
	sources(t, func(path string, set *token.FileSet, f *ast.File) {
		dir := filepath.Dir(path)
		if strings.HasSuffix(path, "_test.go") || dir == "internal/task" || !slices.Contains(served, dir) {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: a go statement; use package task", set.Position(n.Pos()))
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && (x.Name == "errgroup" || x.Name == "sync" && n.Sel.Name == "WaitGroup") {
					t.Errorf("%s: %s.%s; use package task", set.Position(n.Pos()), x.Name, n.Sel.Name)
				}
			}
			return true
		})
	})
}

// TestProblemsAreConstructed: each kind of error is made by one constructor, whose name contains the kind.
func TestProblemsAreConstructed(t *testing.T) {
	sources(t, func(path string, set *token.FileSet, f *ast.File) {
		if strings.HasSuffix(path, "_test.go") || filepath.Dir(path) == "internal/problem" {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if l, ok := n.(*ast.CompositeLit); ok {
				if s, ok := l.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Error" {
					if x, ok := s.X.(*ast.Ident); ok && x.Name == "problem" {
						t.Errorf("%s: a literal problem.Error; use the constructor of its kind", set.Position(l.Pos()))
					}
				}
			}
			return true
		})
	})
}

// sources parses each Go file, and calls fn with it.
func sources(t *testing.T, fn func(path string, set *token.FileSet, f *ast.File)) {
	t.Helper()
	n := 0
	for _, dir := range []string{"handler", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			n++
			fn(strings.TrimPrefix(filepath.ToSlash(path), root+"/"), set, f)
			return nil
		})
		proof.Must(t, err)
	}
	if n < 50 {
		t.Fatalf("found only %d files", n)
	}
}

func TestSizes(t *testing.T) {
	sources(t, func(path string, set *token.FileSet, f *ast.File) {
		if lines := set.File(f.Pos()).LineCount(); lines > maxFileLines {
			t.Errorf("%s has %d lines, want at most %d", path, lines, maxFileLines)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				if lines := set.Position(fn.End()).Line - set.Position(fn.Pos()).Line + 1; lines > maxFunctionLines {
					t.Errorf("%s: %s has %d lines, want at most %d", path, fn.Name, lines, maxFunctionLines)
				}
				if fn.Name.Name == "init" && fn.Recv == nil {
					t.Errorf("%s has an init function; wire in main", path)
				}
			}
		}
	})
}

// TestMethods: a type that does one thing has few methods. If many belong together, some of them belong to a part of the type.
func TestMethods(t *testing.T) {
	for _, p := range shipped(t) {
		for _, n := range p.Types.Scope().Names() {
			o, ok := p.Types.Scope().Lookup(n).(*types.TypeName)
			if !ok || o.IsAlias() {
				continue
			}
			if named := o.Type().(*types.Named); named.NumMethods() > maxMethods {
				t.Errorf("%s.%s has %d methods, want at most %d", strings.TrimPrefix(p.PkgPath, module()), n, named.NumMethods(), maxMethods)
			}
		}
	}
}

func TestExportedNamesAreDocumented(t *testing.T) {
	documented := map[string]bool{} // directories with a package comment
	// A comment begins with the name, but the name may have been changed since.
	begins := func(path, name string, doc *ast.CommentGroup) {
		words := strings.Fields(doc.Text())
		if ast.IsExported(name) && len(words) > 1 && strings.TrimRight(words[0], ",:") != name && words[1] != name {
			t.Errorf("%s: the comment of %s begins with the other name %s", path, name, words[0])
		}
	}
	sources(t, func(path string, _ *token.FileSet, f *ast.File) {
		dir := filepath.Dir(path)
		documented[dir] = documented[dir] || f.Doc != nil
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) && !trivial[d.Name.Name] {
					t.Errorf("%s: %s has no comment", path, d.Name)
				}
				begins(path, d.Name.Name, d.Doc)
			case *ast.GenDecl:
				for _, s := range d.Specs {
					s, ok := s.(*ast.TypeSpec)
					if !ok {
						continue
					}
					if s.Name.IsExported() && s.Doc == nil && d.Doc == nil {
						t.Errorf("%s: %s has no comment", path, s.Name)
					}
					if !d.Lparen.IsValid() {
						begins(path, s.Name.Name, d.Doc)
					}
				}
			}
		}
	})
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no comment", dir)
		}
	}
}

// trivial methods need no comment, because the standard library defines their meaning.
var trivial = map[string]bool{"Error": true, "Unwrap": true, "String": true, "ServeHTTP": true, "Header": true, "Write": true, "WriteHeader": true, "Len": true, "Less": true, "Swap": true, "UnmarshalJSON": true, "MarshalJSON": true}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	name, ok := t.(*ast.Ident)
	return ok && name.IsExported()
}
