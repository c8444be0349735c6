//go:build lint

package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/go/packages"

	"tablesweep/internal/proof"
)

var load = sync.OnceValues(func() ([]*packages.Package, error) {
	return packages.Load(&packages.Config{
		Mode:  packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps,
		Dir:   root,
		Tests: true,
	}, "./...")
})

// typed returns all packages and their tests, with type information.
func typed(t *testing.T) []*packages.Package {
	t.Helper()
	all, err := load()
	proof.Must(t, err)
	for _, p := range all {
		for _, e := range p.Errors {
			t.Fatal(e)
		}
	}
	return all
}

// name is the name of an exported function, type, variable, constant, or method (Type.Method).
type name struct{ pkg, name string }

// nameOf returns an object's name if the object is exported and other packages can use it by name. Fields have no name here: they are as public as their
// struct.
func nameOf(o types.Object) (name, bool) {
	if o == nil || o.Pkg() == nil || !o.Exported() || !strings.HasPrefix(o.Pkg().Path(), module()+"internal/") {
		return name{}, false
	}
	n := name{o.Pkg().Path(), o.Name()}
	if f, ok := o.(*types.Func); ok && f.Signature().Recv() != nil {
		t := f.Signature().Recv().Type()
		if p, ok := t.(*types.Pointer); ok {
			t = p.Elem()
		}
		named, ok := t.(*types.Named)
		if !ok || !named.Obj().Exported() || types.IsInterface(named) {
			return name{}, false
		}
		n.name = named.Obj().Name() + "." + n.name
		return n, true
	}
	return n, o.Parent() == o.Pkg().Scope()
}

// usage records which exported names are used outside their package.
type usage struct {
	used     map[name]bool
	promised map[string]bool // the names of methods that some interface requires
}

// use marks an object, and the types of its fields, parameters and results, which its users see.
func (u usage) use(o types.Object) {
	n, ok := nameOf(o)
	if !ok || u.used[n] {
		return
	}
	u.used[n] = true
	u.see(o.Type())
	if t, ok := o.(*types.TypeName); ok {
		u.see(t.Type().Underlying())
	}
}

func (u usage) see(t types.Type) {
	switch t := t.(type) {
	case *types.Named:
		u.use(t.Obj())
		for a := range t.TypeArgs().Types() {
			u.see(a)
		}
	case *types.Alias:
		u.use(t.Obj())
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels and maps
		u.see(t.Elem())
		if m, ok := t.(*types.Map); ok {
			u.see(m.Key())
		}
	case *types.Signature:
		u.see(t.Params())
		u.see(t.Results())
	case *types.Tuple:
		for v := range t.Variables() {
			u.see(v.Type())
		}
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				u.see(f.Type())
			}
		}
	case *types.Interface:
		for m := range t.Methods() {
			u.see(m.Type())
		}
	}
}

// read marks the objects that a package uses from other packages. The package's external tests count as another package.
func (u usage) read(p *packages.Package) {
	for _, o := range p.TypesInfo.Uses {
		if o.Pkg() != nil && o.Pkg().Path() != p.PkgPath {
			u.use(o)
		}
	}
	for _, e := range p.TypesInfo.Types { // interfaces without a name
		if i, ok := e.Type.(*types.Interface); ok && e.IsType() {
			u.promise(i)
		}
	}
	for _, s := range p.TypesInfo.Selections { // the path to a promoted field or method has only the last name
		if s.Obj().Pkg() != nil && s.Obj().Pkg().Path() != p.PkgPath {
			u.see(s.Recv())
		}
	}
}

func (u usage) promise(i *types.Interface) {
	for m := range i.Methods() {
		u.promised[m.Name()] = true
	}
}

// collect records the methods of a package's interfaces, and of the interfaces in the packages that it imports.
func (u usage) collect(p *types.Package, collected map[*types.Package]bool) {
	if collected[p] {
		return
	}
	collected[p] = true
	for _, n := range p.Scope().Names() {
		if i, ok := p.Scope().Lookup(n).Type().Underlying().(*types.Interface); ok {
			u.promise(i)
		}
	}
	for _, i := range p.Imports() {
		u.collect(i, collected)
	}
}

// TestExportsAreUsed: names that only their own package uses are not exported. Constants count as used with their type, and so do methods that an interface
// requires.
func TestExportsAreUsed(t *testing.T) {
	all := typed(t)
	u := usage{map[name]bool{}, map[string]bool{}}
	collected := map[*types.Package]bool{}
	for _, p := range all {
		u.read(p)
		u.collect(p.Types, collected)
	}
	seen, exports := map[name]bool{}, 0
	for _, p := range all {
		for id, o := range p.TypesInfo.Defs {
			n, ok := nameOf(o)
			where := p.Fset.Position(id.Pos())
			if !ok || seen[n] || strings.HasSuffix(where.Filename, "_test.go") {
				continue
			}
			seen[n] = true
			exports++
			_, method, _ := strings.Cut(n.name, ".")
			if c, ok := o.(*types.Const); ok {
				if named, ok := c.Type().(*types.Named); ok {
					if of, ok := nameOf(named.Obj()); ok && u.used[of] {
						continue
					}
				}
			}
			if !u.used[n] && !u.promised[method] {
				t.Errorf("%s: only its own package uses %s; do not export it", where, n.name)
			}
		}
	}
	if exports < 500 {
		t.Fatalf("found only %d exported names", exports)
	}
}

// TestVariablesAreConstant: a package's variables are set only in their declaration, so two apps in one process share no state. Pools and caches are allowed,
// because they guard themselves and are not assigned to.
func TestVariablesAreConstant(t *testing.T) {
	for _, p := range typed(t) {
		for _, f := range p.Syntax {
			if strings.HasSuffix(p.Fset.Position(f.Pos()).Filename, "_test.go") {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				var changed []ast.Expr
				switch n := n.(type) {
				case *ast.AssignStmt:
					if n.Tok != token.DEFINE {
						changed = n.Lhs
					}
				case *ast.IncDecStmt:
					changed = []ast.Expr{n.X}
				}
				for _, e := range changed {
					if v, ok := p.TypesInfo.Uses[variable(e, p.TypesInfo)].(*types.Var); ok && v.Pkg() == p.Types && v.Parent() == v.Pkg().Scope() {
						t.Errorf("%s: changes the variable %s of a package", p.Fset.Position(n.Pos()), v.Name())
					}
				}
				return true
			})
		}
	}
}

// variable returns the variable that an assignment changes as a whole or in part.
func variable(e ast.Expr, known *types.Info) *ast.Ident {
	switch e := e.(type) {
	case *ast.Ident:
		return e
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			if _, ok := known.Uses[x].(*types.PkgName); ok {
				return e.Sel
			}
		}
		return variable(e.X, known)
	case *ast.IndexExpr:
		return variable(e.X, known)
	case *ast.StarExpr:
		return variable(e.X, known)
	}
	return nil
}
