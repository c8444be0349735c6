package rowmap

import (
	"context"
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

// The bounds of a program's work with a row. They count, and look at no clock, so that each delivery of a step ends alike.
const (
	maxProgram = 16 << 10 // bytes of its text
	maxSteps   = 1 << 20  // instructions
	maxMade    = 64 << 20 // bytes of all values that it makes, about
	maxText    = 1 << 18  // bytes of a string, and of a number's digits
	maxParts   = 1 << 15  // values in a value, nested ones included, and the highest index of an array
	maxValue   = 2 << 20  // bytes of a value
	maxPairs   = 1 << 26  // comparisons of a single instruction
	maxRows    = 100      // out of one row
	maxRuns    = 10_000   // of what is compiled
)

// unlike are functions whose answer follows from more than the row, or that end more than the row's turn.
const unlike = "now localtime strflocaltime input inputs env $ENV halt halt_error debug stderr input_filename input_line_number modulemeta get_search_list builtins"

// unbounded are functions that make of small values more than a row's share of memory, in one instruction.
const unbounded = "transpose fromstream truncate_stream"

// paired are functions that compare each part of their input with each part of their argument, or put the argument between all parts.
var paired = strings.Fields("index rindex indices contains inside join")

// global are functions that find all matches of an expression in a text, and which argument has flags.
var global = map[string]int{"match": 1, "capture": 1, "scan": 1, "split": 1, "splits": 1, "sub": 2, "gsub": 2}

// always are those of them that need no flag for that.
var always = strings.Fields("scan split splits gsub")

// plain are functions that make nothing, or only numbers, and those that a path may lead through, which a check of the result would cut.
var plain = strings.Fields("empty error select recurse first last limit skip until while repeat nth getpath nulls values strings numbers booleans arrays objects " +
	"iterables scalars finites normals range length utf8bytelength type has in not any all test startswith endswith isempty tonumber toboolean floor ceil round sqrt pow log abs fabs")

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
			g.own[def.Name] = true
			for _, arg := range def.Args {
				g.own[arg] = true
			}
		}
	})
	g.walk(reflect.ValueOf(q), g.visit)
	return q, errors.Join(g.refused...)
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
	case gojq.OpAdd, gojq.OpAssign, gojq.OpModify, gojq.OpUpdateAlt:
		*q = *checked(&inner)
	case gojq.OpSub, gojq.OpMul: // r as $b | l as $a | check | $a - $b
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

// term guards what makes a value.
func (g *guard) term(t *gojq.Term) {
	inner := *t
	inner.SuffixList = nil
	made := &gojq.Query{Term: &inner}
	switch t.Type {
	case gojq.TermTypeArray, gojq.TermTypeObject, gojq.TermTypeFormat:
		made = checked(made)
	case gojq.TermTypeString:
		if t.Str.Queries == nil {
			return
		}
		made = checked(made)
	case gojq.TermTypeFunc:
		f := t.Func
		switch {
		case slices.Contains(strings.Fields(unlike), f.Name):
			g.refuse("uses %s: the same row must become the same each time", f.Name)
			return
		case slices.Contains(strings.Fields(unbounded), f.Name):
			g.refuse("uses %s, whose memory a map can't bound", f.Name)
			return
		case strings.HasPrefix(f.Name, "_"):
			g.refuse("uses %s; names that begin with _ are those of the library", f.Name)
			return
		case g.own[f.Name] || f.Name[0] == '$':
			return
		case f.Name == "setpath" || f.Name == "getpath":
			f.Args[0] = g.at(f.Args[0])
		}
		flags, searches := global[f.Name]
		switch {
		case slices.Contains(plain, f.Name):
			return
		case searches && (len(f.Args) > flags || f.Name != "split" && slices.Contains(always, f.Name)):
			mode, every := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeNull}}, 0
			if slices.Contains(always, f.Name) {
				every = 1
			}
			args := slices.Clone(f.Args)
			if args[0] = variable(operand); len(args) > flags {
				mode, args[flags] = f.Args[flags], variable(first)
			}
			inner.Func = &gojq.Func{Name: f.Name, Args: args}
			made = bind(f.Args[0], operand, bind(mode, first, pipe(call("_matches", variable(operand), variable(first), number(every)), checked(made))))
		case slices.Contains(paired, f.Name) && len(f.Args) == 1:
			inner.Func = &gojq.Func{Name: f.Name, Args: []*gojq.Query{variable(operand)}}
			made = bind(f.Args[0], operand, pipe(call("_pair", identity(), variable(operand), number(int(gojq.OpSub))), checked(made)))
		default:
			made = checked(made)
		}
	default:
		return
	}
	*t = gojq.Term{Type: gojq.TermTypeQuery, Query: made, SuffixList: t.SuffixList}
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

// Variables of the calls. A program that uses the same names has them in scopes of its own.
const first, second, operand = "$__a", "$__b", "$__c"

func checked(q *gojq.Query) *gojq.Query { return pipe(q, call("_made")) }

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

// budget is what a row has left. It is the context of a program's run, which asks for Done ahead of each instruction.
type budget struct {
	context.Context
	code        *gojq.Code
	steps, made int
	runs        int
	over        error // what was exceeded
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
	if b.steps--; b.steps >= 0 && b.over == nil {
		return nil
	}
	if b.over == nil {
		b.over = fmt.Errorf("the program took more than %d instructions", maxSteps)
	}
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
	b := &budget{Context: context.Background()}
	var err error
	b.code, err = gojq.Compile(q,
		gojq.WithFunction("_made", 0, 0, func(v any, _ []any) any {
			b.check(v)
			return v
		}),
		gojq.WithFunction("_at", 0, 0, func(v any, _ []any) any {
			b.index(v)
			return v
		}),
		gojq.WithFunction("_matches", 3, 3, func(v any, args []any) any {
			b.matches(v, args[0], args[1], args[2] == 1)
			return v
		}),
		gojq.WithFunction("_pair", 3, 3, func(v any, args []any) any {
			b.pair(args[0], args[1], args[2] == int(gojq.OpMul))
			return v
		}))
	return b, err
}

// check charges for a value that was made, and ends the run if it is too large.
func (b *budget) check(v any) {
	var s size
	s.add(v)
	b.steps -= s.parts / 16
	if s.parts == 1 {
		b.made -= s.bytes
	}
	if b.made -= 16 * s.parts; b.made < 0 {
		b.exceed("made values of more than %d MiB", maxMade>>20)
	}
	s.bound(b)
}

// size is what a value takes.
type size struct{ parts, bytes, text int }

// add adds a value. It goes no further than [size.bound] takes.
func (s *size) add(v any) {
	s.parts++
	switch v := v.(type) {
	case string:
		s.bytes, s.text = s.bytes+len(v), max(s.text, len(v))
	case *big.Int:
		s.bytes, s.text = s.bytes+v.BitLen()/3, max(s.text, v.BitLen()/3)
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

// bound ends the run if the size is too large.
func (s *size) bound(b *budget) {
	switch {
	case s.text > maxText:
		b.exceed("made a text of more than %d KiB", maxText>>10)
	case s.parts > maxParts || s.bytes > maxValue:
		b.exceed("made a value of more than %d values or %d MiB", maxParts, maxValue>>20)
	}
}

// pair ends the run if work with each part of two values, or with one as often as the other says, takes too much.
func (b *budget) pair(x, y any, times bool) {
	if _, merges := x.(map[string]any); !times || !merges {
		var l, r size
		l.add(x)
		r.add(y)
		pairs := (l.bytes + l.parts) * (r.bytes + r.parts)
		if b.steps -= pairs >> 10; pairs > maxPairs {
			b.exceed("compares or joins two values that are too large for that")
		}
	}
	for range 2 {
		text, isText := x.(string)
		n, isNumber := gojq.ToFloat64(y)
		if times && isText && isNumber && n*float64(len(text)) > maxText {
			b.exceed("made a text of more than %d KiB", maxText>>10)
		}
		x, y = y, x
	}
}

// matches ends the run if an expression matches too often in a large text: the library goes through the text again for each match.
func (b *budget) matches(v, re, flags any, every bool) {
	text, _ := v.(string)
	expression, _ := re.(string)
	mode, _ := flags.(string)
	if len(text) <= 4<<10 || !every && !strings.Contains(mode, "g") {
		return
	}
	for flag, prefix := range map[string]string{"i": "(?i)", "m": "(?s)"} {
		if strings.Contains(mode, flag) {
			expression = prefix + expression
		}
	}
	r, err := regexp.Compile(expression)
	if err != nil {
		return // the call says so
	}
	each := len(text) * (1 + r.NumSubexp())
	most := maxPairs / each
	n := len(r.FindAllStringIndex(text, most+1))
	if b.steps -= n * each >> 10; n > most {
		b.exceed("finds more than %d matches in a text of %d KiB", most, len(text)>>10)
	}
}

// index ends the run at an index that would make too large an array.
func (b *budget) index(v any) {
	if n, ok := gojq.ToFloat64(v); ok && n > maxParts {
		b.exceed("has an index of more than %d", maxParts)
	}
	if all, ok := v.([]any); ok {
		for _, one := range all {
			b.index(one)
		}
	}
}
