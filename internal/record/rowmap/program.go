package rowmap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/itchyny/gojq"
)

// The bounds of a program's work with a row. They count, and look at no clock, so that each delivery of a step ends alike.
const (
	maxProgram = 16 << 10 // bytes of its text
	maxSteps   = 1 << 20  // instructions; a function takes some more for the size of what it gets and makes
	maxText    = 1 << 18  // bytes of a string
	maxDigits  = 1 << 10  // of a number
	maxParts   = 1 << 15  // values in a value, nested ones included, and the highest index of an array
	maxValue   = 2 << 20  // bytes of a value
	maxPairs   = 1 << 26  // comparisons of a single instruction
	maxRows    = 100      // out of one row
	maxKept    = 1 << 16  // instructions of regular expressions that are kept
)

// unlike are functions whose answer follows from more than the row, or that end more than the row's turn.
var unlike = strings.Fields("now localtime strflocaltime input inputs env $ENV halt halt_error debug stderr input_filename input_line_number modulemeta get_search_list builtins")

// unbounded are functions that take more than a row's share of memory or time for small values, in one instruction.
var unbounded = strings.Fields("transpose fromstream truncate_stream jn yn")

// paired are functions that compare each part of their input with each part of their argument, or put the argument between all parts.
var paired = strings.Fields("index rindex indices contains inside join")

// searches are functions that look for a regular expression, with the place of the argument that has flags.
var searches = map[string]int{"test": 1, "match": 1, "capture": 1, "scan": 1, "split": 1, "splits": 1, "sub": 2, "gsub": 2}

// global are those of them that find all matches without a flag.
var global = strings.Fields("scan split splits gsub")

// small are functions whose single instructions take no longer for a large value.
var small = strings.Fields("empty error select first limit skip until while repeat nulls values strings numbers booleans arrays objects iterables scalars " +
	"finites normals range type has in not isempty toboolean floor ceil round sqrt pow log abs fabs")

// parse reads a program, and refuses what a map must not do. The result has the checks of [budget] in it.
func parse(text string) (*gojq.Query, error) {
	if len(text) > maxProgram {
		return nil, fmt.Errorf("has %d bytes; %d are the most", len(text), maxProgram)
	}
	q, err := gojq.Parse(text)
	if err != nil {
		var at *gojq.ParseError
		if errors.As(err, &at) {
			err = fmt.Errorf("%w, at byte %d", err, at.Offset)
		}
		return nil, fmt.Errorf("is no jq program: %w", err)
	}
	g := guard{own: map[string]bool{}}
	g.walk(reflect.ValueOf(q), func(node any) {
		if def, ok := node.(*gojq.FuncDef); ok {
			for _, name := range append(slices.Clone(def.Args), def.Name) {
				if g.own[name] = true; name[0] == '_' || inLibrary(name) {
					g.refuse("defines %s, which is a name of the library; choose another one", name)
				}
			}
		}
	})
	g.walk(reflect.ValueOf(q), g.visit)
	return q, errors.Join(g.refused...)
}

// inLibrary reports whether the library has functions of a name.
func inLibrary(name string) bool {
	var args []*gojq.Query
	for range 5 {
		if _, err := gojq.Compile(call(name, args...)); err == nil {
			return true
		}
		args = append(args, identity())
	}
	return false
}

// guard puts calls of [budget]'s functions into a program.
type guard struct {
	own     map[string]bool // names of functions that the program defines, and of their arguments
	refused []error
}

// walk visits all parts of a program, the inner ones first.
func (g *guard) walk(v reflect.Value, visit func(node any)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			g.walk(v.Elem(), visit)
			visit(v.Interface())
		}
	case reflect.Slice:
		for i := range v.Len() {
			g.walk(v.Index(i), visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			g.walk(v.Field(i), visit)
		}
	}
}

func (g *guard) refuse(format string, args ...any) {
	g.refused = append(g.refused, fmt.Errorf(format, args...))
}

// visit guards a part of the program, whose own parts are guarded.
func (g *guard) visit(node any) {
	switch n := node.(type) {
	case *gojq.Query:
		if n.Meta != nil || n.Imports != nil {
			g.refuse("uses modules, which maps don't have")
		}
		g.operator(n)
	case *gojq.Term:
		g.term(n)
	case *gojq.Index:
		if n.Start != nil && !n.IsSlice {
			n.Start = g.at(n.Start)
		}
	}
}

// operator guards an operator.
func (g *guard) operator(q *gojq.Query) {
	inner := *q
	switch q.Op {
	case gojq.OpAdd, gojq.OpDiv, gojq.OpAssign, gojq.OpModify, gojq.OpUpdateAlt:
		*q = *checked(&inner)
	case gojq.OpEq, gojq.OpNe, gojq.OpGt, gojq.OpLt, gojq.OpGe, gojq.OpLe, gojq.OpSub, gojq.OpMul: // r as $b | l as $a | check | $a - $b
		if q.Op != gojq.OpMul && (literal(q.Left) || literal(q.Right)) {
			return
		}
		*q = *bind(inner.Right, second, bind(inner.Left, first, pipe(call("_pair", variable(first), variable(second), number(int(q.Op))),
			checked(&gojq.Query{Left: variable(first), Op: q.Op, Right: variable(second)}))))
		q.FuncDefs = inner.FuncDefs
	case gojq.OpUpdateAdd, gojq.OpUpdateSub, gojq.OpUpdateMul, gojq.OpUpdateDiv, gojq.OpUpdateMod: // r as $b | l |= . - $b
		does := &gojq.Query{Left: identity(), Op: gojq.OpAdd + q.Op - gojq.OpUpdateAdd, Right: variable(operand)}
		g.operator(does)
		*q = *bind(inner.Right, operand, checked(&gojq.Query{Left: inner.Left, Op: gojq.OpModify, Right: does}))
		q.FuncDefs = inner.FuncDefs
	}
}

// literal reports whether a query is a small value.
func literal(q *gojq.Query) bool {
	t := q.Term
	return t != nil && t.SuffixList == nil && (t.Type == gojq.TermTypeString && t.Str.Queries == nil || slices.Contains([]gojq.TermType{gojq.TermTypeNumber, gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse}, t.Type))
}

// term guards a term: what goes through all of a value is charged for it, and so is what makes one.
func (g *guard) term(t *gojq.Term) {
	all := t.SuffixList
	t.SuffixList = nil
	g.value(t)
	for _, s := range all {
		if s.Iter || s.Index != nil && s.Index.IsSlice {
			before := *t
			*t = gojq.Term{Type: gojq.TermTypeQuery, Query: checked(&gojq.Query{Term: &before})}
		}
		t.SuffixList = append(t.SuffixList, s)
	}
}

// value guards a term that has no suffixes.
func (g *guard) value(t *gojq.Term) {
	inner := *t
	made := &gojq.Query{Term: &inner}
	switch t.Type {
	case gojq.TermTypeArray, gojq.TermTypeObject:
		made = checked(made)
	case gojq.TermTypeIndex, gojq.TermTypeRecurse:
		if t.Index != nil && !t.Index.IsSlice {
			return
		}
		made = pipe(call("_check"), made)
	case gojq.TermTypeString, gojq.TermTypeFormat:
		if t.Str == nil {
			made = pipe(call("_check"), made)
		} else {
			for i, q := range t.Str.Queries {
				if q.Term.Str == nil { // or else it is what stands between values
					t.Str.Queries[i] = nested(checked(q))
				}
			}
			if t.Str.Queries == nil {
				return
			}
		}
		made = checked(made)
	case gojq.TermTypeFunc:
		made = g.function(t.Func)
		if made == nil {
			return
		}
	default:
		return
	}
	*t = gojq.Term{Type: gojq.TermTypeQuery, Query: made}
}

// function guards a call; nil if it needs no guard.
func (g *guard) function(f *gojq.Func) *gojq.Query {
	flags, looks := searches[f.Name]
	args := slices.Clone(f.Args)
	does := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: f.Name, Args: args}}}
	switch {
	case slices.Contains(unlike, f.Name):
		g.refuse("uses %s: the same row must become the same each time", f.Name)
		return nil
	case slices.Contains(unbounded, f.Name):
		g.refuse("uses %s, whose work a map can't bound", f.Name)
		return nil
	case strings.HasPrefix(f.Name, "_"), strings.HasPrefix(f.Name, "$__"):
		g.refuse("uses %s; names that begin with _ or $__ are those of the library", f.Name)
		return nil
	case g.own[f.Name], f.Name[0] == '$', slices.Contains(small, f.Name):
		return nil
	}
	for i := range args {
		args[i] = checked(args[i])
	}
	switch {
	case len(args) == 0:
	case f.Name == "setpath", f.Name == "getpath", f.Name == "nth":
		args[0] = g.at(f.Args[0])
	case f.Name == "strptime":
		args[0] = pipe(f.Args[0], call("_format"))
	case looks && (f.Name != "split" || len(args) > flags):
		every := 0
		if slices.Contains(global, f.Name) {
			every = 1
		}
		re, mode := args[0], &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeNull}}
		if args[0] = variable(operand); len(args) > flags {
			mode, args[flags] = args[flags], variable(first)
		}
		if f.Name == "sub" || f.Name == "gsub" {
			args[1] = pipe(f.Args[1], call("_replacement"))
		}
		return bind(re, operand, bind(mode, first, pipe(call("_search", variable(operand), variable(first), number(every)), checked(does))))
	case slices.Contains(paired, f.Name):
		arg := args[0]
		args[0] = variable(operand)
		return bind(arg, operand, pipe(call("_pair", identity(), variable(operand), number(int(gojq.OpSub))), checked(does)))
	}
	if f.Name == "tonumber" {
		return pipe(call("_digits"), does)
	}
	return pipe(call("_check"), checked(does))
}

// at guards an index, or a path.
func (g *guard) at(q *gojq.Query) *gojq.Query {
	if t := q.Term; t != nil && t.Type == gojq.TermTypeNumber && t.SuffixList == nil {
		if n, err := strconv.ParseFloat(t.Number, 64); err == nil && n <= maxParts {
			return q
		}
	}
	return pipe(q, call("_at"))
}

// Variables of the calls. A program can't use such names.
const first, second, operand = "$__a", "$__b", "$__c"

func checked(q *gojq.Query) *gojq.Query { return pipe(q, call("_check")) }

func pipe(l, r *gojq.Query) *gojq.Query { return &gojq.Query{Left: l, Op: gojq.OpPipe, Right: r} }

func bind(l *gojq.Query, name string, r *gojq.Query) *gojq.Query {
	q := pipe(nested(l), r)
	q.Patterns = []*gojq.Pattern{{Name: name}}
	return nested(q)
}

// nested keeps what a query defines to itself.
func nested(q *gojq.Query) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeQuery, Query: q}}
}

func call(name string, args ...*gojq.Query) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: name, Args: args}}}
}

func variable(name string) *gojq.Query { return call(name) }

func identity() *gojq.Query { return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeIdentity}} }

func number(n int) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeNumber, Number: strconv.Itoa(n)}}
}

// budget is what a row has left. It is the context of a program's run, which asks for Done ahead of each instruction. A run goes on from row
// to row, since the library makes new stacks for each.
type budget struct {
	context.Context
	code        *gojq.Code
	out         gojq.Iter      // of a run that goes on; nil if there is none
	row         int            // which row it is
	in          map[string]any // the row, until the run takes it
	ended       bool           // the run has put out all of the row
	steps       int
	over        error // what was exceeded, or who ended the run
	calls       int   // of Done
	expressions map[string]*expression
	kept        int // instructions of expressions, for all rows
}

// expression is a regular expression that a program has used.
type expression struct {
	*regexp.Regexp     // nil if it is none
	size           int // instructions
	row            int // that it was last used for
}

// Deadline implements [context.Context].
func (*budget) Deadline() (at time.Time, ok bool) { return at, false }

var closed = func() chan struct{} {
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
	return closed
}

// Err implements [context.Context].
func (b *budget) Err() error { return b.over }

// exceed ends the run: the program can't catch that.
func (b *budget) exceed(format string, args ...any) {
	if b.over == nil {
		b.over = fmt.Errorf("the program "+format, args...)
	}
}

// newBudget compiles a program, for one run at a time.
func newBudget(q *gojq.Query) (*budget, error) {
	b := &budget{Context: context.Background(), expressions: map[string]*expression{}}
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
		guards("_at", 0, func(v any, _ []any) { b.index(v) }),
		guards("_replacement", 0, func(v any, _ []any) { b.replacement(v) }),
		guards("_format", 0, func(v any, _ []any) { b.format(v) }),
		guards("_digits", 0, func(v any, _ []any) { b.digits(v) }),
		guards("_search", 3, func(v any, args []any) { b.search(v, args[0], args[1], args[2] == 1) }),
		guards("_pair", 3, func(_ any, args []any) { b.pair(args[0], args[1], gojq.Operator(args[2].(int))) }))
	return b, err
}

// begin gives a row to the run that goes on, or to a new one.
func (b *budget) begin(ctx context.Context, in map[string]any) gojq.Iter {
	b.Context, b.in, b.ended, b.steps, b.over = ctx, in, false, maxSteps, nil
	b.row++
	out := b.out
	if b.out = nil; out == nil {
		out = b.code.RunWithContext(b, nil)
	}
	return out
}

// rowsOf are the rows that a run gets, with a null behind each.
type rowsOf struct{ *budget }

// Next implements [gojq.Iter].
func (r rowsOf) Next() (any, bool) {
	if r.ended = r.in == nil; r.ended {
		return nil, true
	}
	in := r.in
	r.in, r.steps = nil, maxSteps // however the run came to it
	return in, true
}

// check charges for a value that is gone through or made, and ends the run if it is too large.
func (b *budget) check(v any) {
	s := sizeOf(v)
	if b.steps -= s.parts / 4; s.parts == 1 {
		b.steps -= s.bytes / 64
	}
	switch {
	case s.parts > maxParts || s.bytes > maxValue:
		b.exceed("makes a value of more than %d values or %d MiB", maxParts, maxValue>>20)
	case s.text > maxText:
		b.exceed("makes a text of more than %d KiB", maxText>>10)
	case s.digits > maxDigits:
		b.exceed("makes a number of more than %d digits", maxDigits)
	}
}

// size is what a value takes.
type size struct{ parts, bytes, text, digits int }

func sizeOf(v any) (s size) {
	s.add(v)
	return s
}

// add adds a value. It goes no further than [budget.check] takes.
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

// zoned matches formats that read zones by their names.
var zoned = regexp.MustCompile(`%[^A-Za-z%]*[Z+]`)

// format ends the run at such a format: what a name like CET means follows from the zone that this machine is in.
func (b *budget) format(v any) {
	if text, _ := v.(string); zoned.MatchString(strings.ReplaceAll(text, "%%", "")) {
		b.exceed("reads a time by %%Z or %%+, whose zones are those of this machine; %%z reads +01:00")
	}
	b.check(v)
}

// digits ends the run if a text has so many digits that a number of it takes too long.
func (b *budget) digits(v any) {
	if text, _ := v.(string); len(text) > maxDigits && strings.Trim(text, "+-0123456789.eE") == "" {
		b.exceed("makes a number of more than %d digits", maxDigits)
	}
	b.check(v)
}

// replacement charges for a part of a text that the library puts together: it copies what it has for each part.
func (b *budget) replacement(v any) {
	text, _ := v.(string)
	b.steps -= 4 * len(text)
	b.check(v)
}

// pair ends the run if an operator takes too much with two values: it compares them, each part of one with each part of the other, or repeats a
// text.
func (b *budget) pair(x, y any, op gojq.Operator) {
	l, r := sizeOf(x), sizeOf(y)
	switch pairs := (l.bytes + l.parts) * (r.bytes + r.parts); {
	case op != gojq.OpSub && op != gojq.OpMul:
		b.steps -= min(l.parts, r.parts)/4 + min(l.bytes, r.bytes)/64
	case pairs > maxPairs:
		b.exceed("compares or joins two values that are too large for that")
	default:
		b.steps -= pairs >> 10
	}
	for range 2 {
		text, isText := x.(string)
		n, isNumber := gojq.ToFloat64(y)
		if op == gojq.OpMul && isText && isNumber && n*float64(len(text)) > maxText {
			b.exceed("makes a text of more than %d KiB", maxText>>10)
		}
		x, y = y, x
	}
}

// search charges for a search, and ends the run if a text has too many matches: the library goes through the text again for each of them.
func (b *budget) search(v, re, flags any, every bool) {
	text, _ := v.(string)
	pattern, _ := re.(string)
	mode, _ := flags.(string)
	if pair, ok := re.([]any); ok && len(pair) > 0 {
		pattern, _ = pair[0].(string)
		if len(pair) > 1 {
			mode, _ = pair[1].(string)
		}
	}
	if strings.Contains(mode, "i") {
		pattern = "(?i)" + pattern
	}
	if strings.Contains(mode, "m") {
		pattern = "(?s)" + pattern
	}
	e := b.expression(pattern)
	if b.steps -= len(text) * e.size >> 6; b.steps < 0 || e.Regexp == nil || len(text) <= 4<<10 || !every && !strings.Contains(mode, "g") {
		return
	}
	each := len(text) * (1 + e.NumSubexp())
	most := b.steps << 11 / each
	n := len(e.FindAllStringIndex(text, most+1))
	if b.steps -= n * each >> 11; n > most {
		b.exceed("finds more than %d matches in a text of %d KiB; split and join replace a text with less work", most, len(text)>>10)
	}
}

// expression returns a regular expression; the library keeps each one, too.
func (b *budget) expression(pattern string) *expression {
	e, known := b.expressions[pattern]
	if !known {
		e = &expression{}
		if tree, err := syntax.Parse(pattern, syntax.Perl); err == nil {
			if code, err := syntax.Compile(tree.Simplify()); err == nil {
				e.size = len(code.Inst)
			}
			e.Regexp, _ = regexp.Compile(pattern)
		}
		b.expressions[pattern] = e
		b.kept += 16 + e.size + len(pattern)
	}
	if e.row != b.row { // so that a row takes the same, whatever rows were before it
		e.row = b.row
		b.steps -= 4*e.size + len(pattern)
	}
	return e
}

// index ends the run at an index, or a path, that would make too large an array.
func (b *budget) index(v any) {
	b.check(v)
	if n, ok := gojq.ToFloat64(v); ok && n > maxParts {
		b.exceed("has an index of more than %d", maxParts)
	}
	if all, ok := v.([]any); ok {
		for _, one := range all {
			b.index(one)
		}
	}
}
