package odata

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxDepth is the maximum nesting depth of parentheses and operators "not". Without a limit, a hostile filter could exhaust the stack.
const maxDepth = 100

// Parse parses a $filter expression. The error contains the position of the mistake, and what Parse expected there.
func Parse(s string) (*Filter, error) {
	if !utf8.ValidString(s) {
		return nil, errors.New("filter is not valid UTF-8")
	}
	p := &parser{rest: s, length: len(s)}
	root, err := p.or()
	if err == nil && p.skipSpace() != "" {
		err = errors.New("expected \"and\", \"or\" or the end of the filter")
	}
	if err != nil {
		return nil, fmt.Errorf("filter at character %d: %w", p.length-len(p.rest)+1, err)
	}
	return &Filter{root: root, comparisons: p.comparisons}, nil
}

// parser is a recursive descent parser. The field `rest` is the unread text.
type parser struct {
	rest        string
	length      int
	depth       int
	comparisons int
}

func (p *parser) or() (node, error) {
	left, err := p.and()
	for err == nil && p.keyword("or") {
		var right node
		right, err = p.and()
		left = or{left, right}
	}
	return left, err
}

func (p *parser) and() (node, error) {
	left, err := p.unary()
	for err == nil && p.keyword("and") {
		var right node
		right, err = p.unary()
		left = and{left, right}
	}
	return left, err
}

func (p *parser) unary() (node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, errors.New(`too many nested parentheses and "not" operators`)
	}
	defer func() { p.depth-- }()
	if p.keyword("not") {
		of, err := p.unary()
		return not{of}, err
	}
	if strings.HasPrefix(p.skipSpace(), "(") {
		p.rest = p.rest[1:]
		inner, err := p.or()
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(p.skipSpace(), ")") {
			return nil, errors.New("expected )")
		}
		p.rest = p.rest[1:]
		return inner, nil
	}
	return p.comparison()
}

// comparison parses "property op literal", "literal op property", or "property" as a short form of "property eq true". It also
// parses "true" and "false", which health checks send.
func (p *parser) comparison() (node, error) {
	left, err := p.operand()
	if err != nil {
		return nil, err
	}
	word := p.peekWord()
	op, ok := parseOperator(word)
	switch {
	case !ok && left.property == "" && left.literal.Type == Boolean:
		return constant(left.literal.Int != 0), nil
	case !ok && left.property == "":
		return nil, errors.New(`expected one of "eq", "ne", "gt", "ge", "lt" and "le"`)
	}
	p.comparisons++
	if !ok {
		return comparison{left.property, eq, Value{Type: Boolean, Int: 1}}, nil
	}
	p.rest = p.rest[len(word):]
	right, err := p.operand()
	switch {
	case err != nil:
		return nil, err
	case left.property != "" && right.property == "":
		return comparison{left.property, op, right.literal}, nil
	case left.property == "" && right.property != "":
		return comparison{right.property, op.flip(), left.literal}, nil
	}
	return nil, errors.New("a comparison needs a property on one side and a literal on the other")
}

// ParseBoolean parses true or false, in upper or lower case.
func ParseBoolean(s string) (v Value, ok bool) {
	switch {
	case strings.EqualFold(s, "true"):
		return Value{Type: Boolean, Int: 1}, true
	case strings.EqualFold(s, "false"):
		return Value{Type: Boolean}, true
	}
	return Value{}, false
}

// operand is a property or a literal. If the field `property` is "", the operand is a literal.
type operand struct {
	property string
	literal  Value
}

func (p *parser) operand() (operand, error) {
	rest := p.skipSpace()
	if rest == "" {
		return operand{}, errors.New("expected a property or a literal")
	}
	if c := rest[0]; c == '\'' {
		text, err := p.quoted()
		return operand{literal: Value{Type: String, Text: text}}, err
	} else if c == '-' || c >= '0' && c <= '9' {
		v, err := p.number()
		return operand{literal: v}, err
	}
	word := p.peekWord()
	if word == "" {
		return operand{}, errors.New("expected a property or a literal")
	}
	p.rest = p.rest[len(word):]
	if strings.HasPrefix(p.rest, "'") {
		v, err := p.typed(word)
		return operand{literal: v}, err
	}
	if b, ok := ParseBoolean(word); ok {
		return operand{literal: b}, nil
	}
	switch word {
	case "NaN":
		return operand{literal: Value{Type: Double, Float: math.NaN()}}, nil
	case "INF", "Infinity":
		return operand{literal: Value{Type: Double, Float: math.Inf(1)}}, nil
	case "and", "or", "not", "null":
		return operand{}, fmt.Errorf("unexpected %s", word)
	}
	if _, isOperator := parseOperator(word); isOperator {
		return operand{}, fmt.Errorf("unexpected %s", word)
	}
	return operand{property: word}, nil
}

// quoted parses a string in single quotes. Within the string, two consecutive quotes mean one quote.
func (p *parser) quoted() (string, error) {
	text, rest, ok := CutQuoted(p.rest)
	if !ok {
		return "", errors.New("a string has no closing quote")
	}
	p.rest = rest
	return text, nil
}

// CutQuoted splits s after the string literal at its start, and unquotes the literal. If s does not start with a complete
// string literal, ok is false.
func CutQuoted(s string) (text, rest string, ok bool) {
	if !strings.HasPrefix(s, "'") {
		return "", s, false
	}
	for i := 1; i < len(s); i++ {
		if s[i] != '\'' {
			continue
		}
		if i+1 < len(s) && s[i+1] == '\'' {
			i++
			continue
		}
		return strings.ReplaceAll(s[1:i], "''", "'"), s[i+1:], true
	}
	return "", s, false
}

// typed parses the quoted part of a literal such as datetime'…'.
func (p *parser) typed(prefix string) (Value, error) {
	text, err := p.quoted()
	if err != nil {
		return Value{}, err
	}
	switch prefix {
	case "datetime":
		if ticks, ok := ParseDateTime(text); ok {
			return Value{Type: DateTime, Int: ticks}, nil
		}
	case "guid":
		if guid, ok := ParseGuid(text); ok {
			return Value{Type: Guid, Text: guid}, nil
		}
	case "X", "binary":
		if b, err := hex.DecodeString(text); err == nil {
			return Value{Type: Binary, Text: string(b)}, nil
		}
	default:
		return Value{}, fmt.Errorf("unknown literal type %q; use \"datetime\", \"guid\", \"X\" or \"binary\"", prefix)
	}
	return Value{}, fmt.Errorf("%q is not a %s", text, prefix)
}

func (p *parser) number() (Value, error) {
	for _, infinity := range [...]string{"-INF", "-Infinity"} {
		if rest, ok := strings.CutPrefix(p.rest, infinity); ok {
			p.rest = rest
			return Value{Type: Double, Float: math.Inf(-1)}, nil
		}
	}
	end := 0
	for end < len(p.rest) && strings.IndexByte("0123456789.+-eE", p.rest[end]) >= 0 {
		end++
	}
	text := p.rest[:end]
	p.rest = p.rest[end:]
	suffix := leadingWord(p.rest)
	p.rest = p.rest[len(suffix):]
	return parseNumber(text, suffix)
}

// parseNumber parses a number, whose form and suffix determine its type.
func parseNumber(text, suffix string) (Value, error) {
	switch suffix {
	case "L", "l":
		i, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return Value{}, fmt.Errorf("%sL is not an Int64", text)
		}
		return Value{Type: Int64, Int: i}, nil
	case "", "D", "d":
	default:
		return Value{}, fmt.Errorf("unknown number suffix %s", suffix)
	}
	if i, err := strconv.ParseInt(text, 10, 32); err == nil && suffix == "" {
		return Value{Type: Int32, Int: i}, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return Value{}, fmt.Errorf("%s is not a number", text)
	}
	return Value{Type: Double, Float: f}, nil
}

// keyword reports whether the given word comes next. If so, keyword reads it.
func (p *parser) keyword(word string) bool {
	p.skipSpace()
	if p.peekWord() != word {
		return false
	}
	p.rest = p.rest[len(word):]
	return true
}

// peekWord skips spaces, and returns the next word without reading it.
func (p *parser) peekWord() string { return leadingWord(p.skipSpace()) }

// leadingWord returns the letters, digits and underscores at the start of s.
func leadingWord(s string) string {
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return s[:i]
		}
	}
	return s
}

func (p *parser) skipSpace() string {
	p.rest = strings.TrimLeft(p.rest, " \t")
	return p.rest
}

// ValueOf converts a text to a value of the type t. The text must be a valid value of this type.
func ValueOf(t Type, text string) (v Value) {
	switch t {
	case Boolean:
		v, _ = ParseBoolean(text)
	case Int32, Int64:
		v.Int, _ = strconv.ParseInt(text, 10, 64)
	case Double:
		v.Float, _ = strconv.ParseFloat(text, 64)
	case DateTime:
		v.Int, _ = ParseDateTime(text)
	case Guid:
		v.Text, _ = ParseGuid(text)
	case Binary:
		v.Text, _ = ParseBinary(text)
	default:
		v.Text = text
	}
	v.Type = t
	return v
}

// ParseGuid checks the 8-4-4-4-12 form of a Guid, and returns it in lower case.
func ParseGuid(s string) (string, bool) {
	if len(s) != 36 {
		return "", false
	}
	for i := range len(s) {
		c := s[i]
		switch dash := i == 8 || i == 13 || i == 18 || i == 23; {
		case dash && c != '-':
			return "", false
		case !dash && !(c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'):
			return "", false
		}
	}
	return strings.ToLower(s), true
}

// ParseBinary decodes the wire form of a Binary.
func ParseBinary(s string) (string, bool) {
	b, err := base64.StdEncoding.DecodeString(s)
	return string(b), err == nil
}
