package rowmap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/itchyny/gojq"
)

// The limits of a program's work for a row. The limits are counts and not times, so the program has the same result whenever a
// step is repeated.
const (
	maxProgram   = 16 << 10  // bytes of a program
	maxSteps     = 1 << 20   // instructions; a call counts as several, depending on the size of its arguments and result
	maxText      = 1 << 18   // bytes of a string
	maxSearched  = 100 << 10 // bytes of a string that is searched with a regular expression; enough for any property
	maxSeparator = 1 << 10   // bytes of a separator between joined strings
	maxDigits    = 1 << 10   // digits of a number
	maxParts     = 1 << 15   // values within a value, counted at all depths; also the highest index of an array
	maxValue     = 2 << 20   // bytes of a value
	maxRows      = 100       // rows that a program may return for one row
	perSearch    = 1 << 8    // a search counts as at least this number of instructions
	maxSearches  = 1 << 10   // number of searches after which a program is compiled again, because a compiled program keeps all regular expressions
)

// impure contains the functions whose result depends on more than the row, and the functions that would stop the program
// for later rows.
var impure = strings.Fields("now localtime strflocaltime input inputs env $ENV halt halt_error debug stderr input_filename input_line_number modulemeta get_search_list builtins")

// unbounded contains the functions that can take too much memory or time in one instruction, even for small values.
var unbounded = strings.Fields("transpose fromstream truncate_stream jn yn")

// searches contains the functions that use a regular expression.
var searches = strings.Fields("test match capture scan split splits sub gsub")

// cheap contains the functions that need no guard. Their instructions take constant time, and create no values.
var cheap = strings.Fields("empty error select first limit skip until while repeat nulls values strings numbers booleans arrays objects iterables scalars " +
	"finites normals range type has in not isempty toboolean floor ceil round sqrt pow log abs fabs")

// parse parses a program, and adds the checks of [budget] to the instructions that create values. If the program does something
// that a map must not do, parse returns an error.
func parse(text string) (*gojq.Query, error) {
	if len(text) > maxProgram {
		return nil, fmt.Errorf("has %d bytes, but at most %d are allowed", len(text), maxProgram)
	}
	q, err := gojq.Parse(text)
	if err != nil {
		var at *gojq.ParseError
		if errors.As(err, &at) {
			err = fmt.Errorf("%w, at byte %d", err, at.Offset)
		}
		return nil, fmt.Errorf("is not a jq program: %w", err)
	}
	var g guard
	g.walk(reflect.ValueOf(q))
	return q, errors.Join(g.refused...)
}

// guard adds checks, called guards, to the parts of a program. Each guard calls one of the functions of [budget] that check
// values.
type guard struct{ refused []error }

// walk adds guards to all parts of a program, inner parts first.
func (g *guard) walk(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			g.walk(v.Elem())
			g.visit(v.Interface())
		}
	case reflect.Slice:
		for i := range v.Len() {
			g.walk(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			g.walk(v.Field(i))
		}
	}
}

func (g *guard) refuse(format string, args ...any) {
	g.refused = append(g.refused, fmt.Errorf(format, args...))
}

func (g *guard) visit(node any) {
	switch n := node.(type) {
	case *gojq.Query:
		if n.Meta != nil || n.Imports != nil {
			g.refuse("uses modules, which a map cannot use; put the definitions into the program itself")
		}
		guardOperator(n)
	case *gojq.FuncDef:
		for _, name := range append(slices.Clone(n.Args), n.Name) {
			if name[0] == '_' {
				g.refuse("defines %s; names that begin with _ are reserved for the library", name)
			}
		}
	case *gojq.Term:
		before := *n
		before.SuffixList = nil
		if made := g.guardCreation(&before); made != nil {
			*n = gojq.Term{Type: gojq.TermTypeQuery, Query: made, SuffixList: n.SuffixList}
		}
	case *gojq.Index:
		if n.Start != nil && !n.IsSlice {
			n.Start = guardIndex(n.Start)
		}
	}
}

// guardOperator adds a guard to an operator that creates a value. In the comments below, l is the operator's left operand, and
// r is its right operand.
func guardOperator(q *gojq.Query) {
	inner := *q
	switch q.Op {
	case gojq.OpAdd, gojq.OpDiv, gojq.OpAssign, gojq.OpModify, gojq.OpUpdateAlt, gojq.OpUpdateAdd, gojq.OpUpdateDiv:
		*q = *checked(&inner)
	case gojq.OpMul, gojq.OpSub: // l * r becomes: r as $b | l as $a | check | $a * $b
		*q = *bind(inner.Right, second, bind(inner.Left, first, pipe(call("_pair", variable(first), variable(second)),
			checked(&gojq.Query{Left: variable(first), Op: q.Op, Right: variable(second)}))))
		q.FuncDefs = inner.FuncDefs
	case gojq.OpUpdateMul, gojq.OpUpdateSub: // l *= r becomes: r as $c | l |= . * $c
		does := &gojq.Query{Left: identity(), Op: gojq.OpAdd + q.Op - gojq.OpUpdateAdd, Right: variable(operand)}
		guardOperator(does)
		*q = *bind(inner.Right, operand, checked(&gojq.Query{Left: inner.Left, Op: gojq.OpModify, Right: does}))
		q.FuncDefs = inner.FuncDefs
	}
}

// guardCreation returns the term with a guard for the value that the term creates. If the term needs no guard or is refused,
// guardCreation returns nil.
func (g *guard) guardCreation(t *gojq.Term) *gojq.Query {
	does := &gojq.Query{Term: t}
	switch {
	case t.Type == gojq.TermTypeArray, t.Type == gojq.TermTypeObject:
		return checked(does)
	case t.Type == gojq.TermTypeFunc:
		return g.guardCall(t.Func, does)
	case t.Str != nil && t.Str.Queries != nil:
		for i, q := range t.Str.Queries {
			if q.Term.Str == nil { // a part without Str inserts a value; the other parts are literal text
				t.Str.Queries[i] = inParentheses(checked(q))
			}
		}
		return checked(does)
	case t.Type == gojq.TermTypeFormat && t.Str == nil:
		return pipe(call("_check"), checked(does))
	}
	return nil
}

// guardCall returns a guarded call of the function, or nil if the call needs no guard or is refused.
func (g *guard) guardCall(f *gojq.Func, does *gojq.Query) *gojq.Query {
	switch {
	case slices.Contains(impure, f.Name):
		g.refuse("uses %s, but a map must give the same result for the same row each time", f.Name)
		return nil
	case slices.Contains(unbounded, f.Name):
		g.refuse("uses %s, whose work cannot be limited; leave out this function", f.Name)
		return nil
	case strings.HasPrefix(f.Name, "_"), strings.HasPrefix(f.Name, "$__"):
		g.refuse("uses %s; names that begin with _ or $__ are reserved for the library", f.Name)
		return nil
	case f.Name[0] == '$', slices.Contains(cheap, f.Name):
		return nil
	}
	for i := range f.Args {
		f.Args[i] = checked(f.Args[i])
	}
	switch {
	case len(f.Args) == 0:
	case f.Name == "setpath", f.Name == "getpath", f.Name == "nth":
		f.Args[0] = guardIndex(f.Args[0])
	case f.Name == "strptime":
		f.Args[0] = pipe(f.Args[0], call("_format"))
	case f.Name == "join":
		f.Args[0] = pipe(f.Args[0], call("_separator"))
	case slices.Contains(searches, f.Name) && !(f.Name == "split" && len(f.Args) == 1):
		return pipe(call("_search"), checked(does))
	}
	return pipe(call("_check"), checked(does))
}

func guardIndex(q *gojq.Query) *gojq.Query {
	if t := q.Term; t != nil && t.Type == gojq.TermTypeNumber && t.SuffixList == nil {
		if n, err := strconv.ParseFloat(t.Number, 64); err == nil && n <= maxParts {
			return q
		}
	}
	return pipe(q, call("_at"))
}

// These variables occur in guards (see [guard]). A program cannot use their names, because parse refuses such names.
const first, second, operand = "$__a", "$__b", "$__c"

func checked(q *gojq.Query) *gojq.Query { return pipe(q, call("_check")) }

func pipe(l, r *gojq.Query) *gojq.Query { return &gojq.Query{Left: l, Op: gojq.OpPipe, Right: r} }

func bind(l *gojq.Query, name string, r *gojq.Query) *gojq.Query {
	q := pipe(inParentheses(l), r)
	q.Patterns = []*gojq.Pattern{{Name: name}}
	return inParentheses(q)
}

// inParentheses puts a query into parentheses, so that its definitions are visible only there.
func inParentheses(q *gojq.Query) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeQuery, Query: q}}
}

func call(name string, args ...*gojq.Query) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: name, Args: args}}}
}

func variable(name string) *gojq.Query { return call(name) }

func identity() *gojq.Query { return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeIdentity}} }

// budget counts the work for a row, and ends a program's run at a limit. The budget is also the context of the run: before
// each instruction, gojq calls the method Done, which counts the instruction. gojq creates new stacks for each run, so one
// run handles many rows.
type budget struct {
	context.Context
	code     *gojq.Code
	out      gojq.Iter      // the output of the current run; nil if the next row needs a new run
	in       map[string]any // the row, until the run reads it
	ended    bool           // the run has returned all output for the row
	steps    int
	over     error // the exceeded limit, or another reason why the run ended
	calls    int
	searches int // number of searches, for all rows
}

// Deadline implements [context.Context].
func (*budget) Deadline() (at time.Time, ok bool) { return at, false }

var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done implements [context.Context].
func (b *budget) Done() <-chan struct{} {
	b.steps--
	if b.calls++; b.calls%256 == 0 && b.over == nil {
		b.over = b.Context.Err()
	}
	if b.steps >= 0 && b.over == nil {
		return nil
	}
	b.exceed("takes more than %d instructions with this row; each 64 bytes of a value count as one", maxSteps)
	return closedChannel
}

// Err implements [context.Context].
func (b *budget) Err() error { return b.over }

// exceed ends the run with an error that the program cannot catch.
func (b *budget) exceed(format string, args ...any) {
	if b.over == nil {
		b.over = fmt.Errorf("the program "+format, args...)
	}
}

// newBudget compiles a program. The result handles one run at a time.
func newBudget(q *gojq.Query) (*budget, error) {
	b := &budget{Context: context.Background()}
	each, err := gojq.Parse("_row | if . then . else . end")
	if err != nil {
		return nil, err
	}
	each.Right.Term.If.Then = q
	guards := func(name string, arguments int, does func(v any, args []any)) gojq.CompilerOption {
		return gojq.WithFunction(name, arguments, arguments, func(v any, args []any) any {
			does(v, args)
			return v
		})
	}
	b.code, err = gojq.Compile(each,
		gojq.WithIterFunction("_row", 0, 0, func(any, []any) gojq.Iter { return rowsOf{b} }),
		guards("_check", 0, func(v any, _ []any) { b.check(v) }),
		guards("_at", 0, func(v any, _ []any) { b.checkIndex(v) }),
		guards("_pair", 2, func(_ any, args []any) { b.checkPair(args[0], args[1]) }),
		guards("_search", 0, func(v any, _ []any) { b.countSearch(v) }),
		guards("_separator", 0, func(v any, _ []any) { b.checkText(v, maxSeparator, "joins with") }),
		guards("_format", 0, func(v any, _ []any) { b.checkFormat(v) }))
	return b, err
}

// begin passes a row to the existing run, or to a new run.
func (b *budget) begin(ctx context.Context, in map[string]any) gojq.Iter {
	b.Context, b.in, b.ended, b.steps, b.over = ctx, in, false, maxSteps, nil
	out := b.out
	if b.out = nil; out == nil {
		out = b.code.RunWithContext(b, nil)
	}
	return out
}

// rowsOf is the input of a program's run. Next returns the row in budget.in once. After that, Next returns
// null until budget.in contains the next row.
type rowsOf struct{ *budget }

// Next implements [gojq.Iter].
func (r rowsOf) Next() (any, bool) {
	if r.ended = r.in == nil; r.ended {
		return nil, true
	}
	in := r.in
	r.in, r.steps = nil, maxSteps // each row may use maxSteps instructions, even if its run has handled other rows
	return in, true
}

// check counts a value that is read or created. If the value is too large, check ends the run.
func (b *budget) check(v any) {
	s := sizeOf(v)
	if b.steps -= s.parts / 4; s.parts == 1 {
		b.steps -= s.bytes / 64
	}
	switch {
	case s.parts > maxParts || s.bytes > maxValue:
		b.exceed("creates a value with more than %d values or %d MiB", maxParts, maxValue>>20)
	case s.text > maxText:
		b.exceed("creates a text of more than %d KiB", maxText>>10)
	case s.digits > maxDigits:
		b.exceed("creates a number of more than %d digits", maxDigits)
	}
}

type size struct{ parts, bytes, text, digits int }

func sizeOf(v any) (s size) {
	s.add(v)
	return s
}

// add adds a value's size. It stops when the size exceeds the limits of [budget.check].
func (s *size) add(v any) {
	s.parts++
	switch v := v.(type) {
	case string:
		s.bytes, s.text = s.bytes+len(v), max(s.text, len(v))
	case *big.Int:
		s.bytes, s.digits = s.bytes+v.BitLen()/3, max(s.digits, v.BitLen()/3)
	case json.Number:
		s.bytes, s.digits = s.bytes+len(v), max(s.digits, len(v))
	case []any:
		for i := 0; i < len(v) && s.parts <= maxParts; i++ {
			s.add(v[i])
		}
	case map[string]any:
		for name, one := range v {
			if s.bytes += len(name); s.parts > maxParts {
				return
			}
			s.add(one)
		}
	}
}

// zoned matches time formats that read time zones by name.
var zoned = regexp.MustCompile(`%[^A-Za-z%]*[Z+]`)

// If a time format reads time zones by name, checkFormat ends the run, because the meaning of a name like CET depends on this
// machine.
func (b *budget) checkFormat(v any) {
	if text, _ := v.(string); zoned.MatchString(strings.ReplaceAll(text, "%%", "")) {
		b.exceed("reads a time by %%Z or %%+, whose time zones depend on this machine; use %%z, which reads +01:00")
	}
}

// checkText ends the run if a text is longer than limit. The error begins with the argument `action`, such as "joins with".
func (b *budget) checkText(v any, limit int, action string) {
	if text, _ := v.(string); len(text) > limit {
		b.exceed("%s a text of more than %d KiB", action, limit>>10)
	}
}

// countSearch counts a search as at least perSearch instructions. A long text counts as more instructions, because gojq
// reads the text again for each match. countSearch also counts the searches, because gojq keeps the regular expression of
// each search in memory.
func (b *budget) countSearch(v any) {
	b.checkText(v, maxSearched, "searches by a regular expression in")
	text, _ := v.(string)
	b.steps -= perSearch + (len(text)>>9)*(len(text)>>9)
	b.searches++
	b.check(v)
}

// checkPair checks the operands of * and -. It ends the run if a text would be repeated too often. If both operands are arrays,
// it counts the comparisons of their elements.
func (b *budget) checkPair(x, y any) {
	l, _ := x.([]any)
	r, _ := y.([]any)
	b.steps -= len(l) * len(r) >> 6
	for range 2 {
		text, isText := x.(string)
		if n, isNumber := gojq.ToFloat64(y); isText && isNumber && n*float64(len(text)) > maxText {
			b.exceed("creates a text of more than %d KiB", maxText>>10)
		}
		x, y = y, x
	}
}

// checkIndex ends the run if an index or a path would create an array that is too large.
func (b *budget) checkIndex(v any) {
	b.check(v)
	if n, ok := gojq.ToFloat64(v); ok && n > maxParts {
		b.exceed("has an index of more than %d", maxParts)
	}
	if all, ok := v.([]any); ok {
		for _, one := range all {
			b.checkIndex(one)
		}
	}
}
