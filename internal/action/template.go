package action

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/template"
	"text/template/parse"

	"tablesweep/internal/problem/secret"
	"tablesweep/internal/storage"
)

// WholeRow is the template of a message that contains the whole row as a JSON object.
const WholeRow = "{{json .}}"

// maxWork is how many bytes of text a template may produce for one row, including intermediate text.
const maxWork = 2 << 20

// Template makes messages from rows. It is safe for concurrent use.
//
// The work for every row is limited: a template has no loops and no recursion, and its functions produce at most maxWork
// bytes of text.
type Template struct{ parsed *template.Template }

// ParseTemplate parses a message's template, in the syntax of text/template, but without the actions {{range}},
// {{template}} and {{block}}. {{.PartitionKey}} and {{.Name}} write a property's text. {{json .Name}} writes a
// property's JSON. {{json .}} writes the whole row as JSON with type annotations. If a row lacks the property Name,
// {{.Name}} and {{json .Name}} are errors, but {{with index . "Name"}}…{{end}} writes nothing.
func ParseTemplate(text string) (*Template, error) {
	if secret.In(text) {
		return nil, errors.New("seems to contain a key, a signature or a token; remove it, because others can read stored templates and messages. The program that reads the messages must get the secret in another way")
	}
	t, err := template.New("message").Option("missingkey=error").Funcs((&budget{}).functions(storage.Entity{})).Parse(text)
	if err != nil {
		return nil, err
	}
	if t.Tree == nil {
		return nil, errors.New("the template is empty")
	}
	return &Template{t}, checkFlow(t.Root)
}

// checkFlow returns an error if the template contains a loop or calls a template.
func checkFlow(list *parse.ListNode) error {
	if list == nil {
		return nil
	}
	for _, n := range list.Nodes {
		var branch *parse.BranchNode
		switch n := n.(type) {
		case *parse.RangeNode:
			return fmt.Errorf("%q is a loop, but a row is not a list; to write all properties, use {{json .}}", n)
		case *parse.TemplateNode:
			return fmt.Errorf("%q calls another template, which is not supported; write that template's text here instead", n)
		case *parse.IfNode:
			branch = &n.BranchNode
		case *parse.WithNode:
			branch = &n.BranchNode
		default:
			continue
		}
		if err := errors.Join(checkFlow(branch.List), checkFlow(branch.ElseList)); err != nil {
			return err
		}
	}
	return nil
}

func (t *Template) text(e storage.Entity) (string, error) {
	b := &budget{left: maxWork}
	one, err := t.parsed.Clone() // each row needs a clone, whose functions count the work for this row
	if err != nil {
		return "", err
	}
	var out message
	if err := one.Funcs(b.functions(e)).Execute(&out, rowOf(e)); err != nil {
		return "", nameMissing(err)
	}
	return out.text.String(), nil
}

// message collects a template's output, up to the maximum size of a queue's message.
type message struct{ text bytes.Buffer }

func (m *message) Write(p []byte) (int, error) {
	if m.text.Len()+len(p) > storage.MaxMessageBytes {
		return 0, fmt.Errorf("the message has more than %d bytes, the maximum that a queue accepts", storage.MaxMessageBytes)
	}
	return m.text.Write(p)
}

// value is a property as a template uses it.
type value struct {
	p    storage.Property
	text string // empty until String is called
	read bool
}

// String makes the text only once, because a template may use the value often.
func (v *value) String() string {
	if !v.read {
		v.text, v.read = v.p.Text(), true
	}
	return v.text
}

// row is an entity as a template uses it.
type row map[string]any // of *value

func rowOf(e storage.Entity) row {
	r := row{
		"PartitionKey": &value{p: storage.StringProperty("PartitionKey", e.Key.Partition)},
		"RowKey":       &value{p: storage.StringProperty("RowKey", e.Key.Row)},
	}
	for _, p := range e.Properties {
		r[p.Name] = &value{p: p}
	}
	return r
}

// noEntry matches the error of text/template for a missing map key.
var noEntry = regexp.MustCompile(`map has no entry for key ("[^"]*")$`)

// nameMissing replaces the error of a missing map key with an error that names the property. Other
// errors are unchanged.
func nameMissing(err error) error {
	if m := noEntry.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("the row has no property %s", m[1])
	}
	return err
}

// budget is the number of bytes of text that the functions of one execution may still produce.
type budget struct{ left int }

var errWork = fmt.Errorf("the template makes more than %d bytes of text for one row", maxWork)

// spend reduces the budget before a function runs. The function can produce at most `factor` bytes for each byte of its
// arguments.
func (b *budget) spend(factor int, args ...any) error {
	for _, a := range args {
		b.left -= factor * weight(a)
	}
	if b.left < 0 {
		return errWork
	}
	return nil
}

// weight returns the approximate length of an argument's text.
func weight(a any) int {
	switch a := a.(type) {
	case string:
		return len(a) + 1
	case *value:
		return len(a.p.Value) + 1
	case row:
		n := 0
		for name, v := range a {
			n += len(name) + weight(v)
		}
		return n
	}
	return 32 // a number, for example
}

// functions returns a template's functions that make text for the row e: the text functions of text/template, and "json".
// When their texts together exceed the budget, the functions return an error.
func (b *budget) functions(e storage.Entity) template.FuncMap {
	bounded := func(times int, fn func(...any) string) func(...any) (string, error) {
		return func(args ...any) (string, error) {
			if err := b.spend(times, args...); err != nil {
				return "", err
			}
			return fn(args...), nil
		}
	}
	return template.FuncMap{
		"print":    bounded(1, fmt.Sprint),
		"println":  bounded(1, fmt.Sprintln),
		"html":     bounded(6, template.HTMLEscaper), // ' becomes &#39;
		"js":       bounded(6, template.JSEscaper),   // < becomes \u003C
		"urlquery": bounded(3, template.URLQueryEscaper),
		"printf":   b.printf,
		"json":     func(v any) (string, error) { return b.json(e, v) },
	}
}

// wideFormat matches a width of four digits, or "*", in a format. With such a width, printf may write much more text
// than its arguments contain.
var wideFormat = regexp.MustCompile(`[0-9]{4}|\*`)

func (b *budget) printf(format string, args ...any) (string, error) {
	if wideFormat.MatchString(format) {
		return "", errors.New("in printf, a width must be written as digits, and must be at most 999")
	}
	// Each verb of the format can write any of the arguments. For each byte of an argument, a verb writes at most 12 bytes.
	longest := 1000
	for _, a := range args {
		longest = max(longest, 12*weight(a))
	}
	b.left -= strings.Count(format, "%") * longest
	if err := b.spend(1, format); err != nil {
		return "", err
	}
	return fmt.Sprintf(format, args...), nil
}

func (b *budget) json(e storage.Entity, v any) (string, error) {
	if err := b.spend(1, v); err != nil {
		return "", err
	}
	switch v := v.(type) {
	case *value:
		return string(v.p.Value), nil
	case row:
		return string(e.AppendJSON(nil)), nil
	}
	if err := b.spend(5, v); err != nil { // 6 with the call above, because a byte may become an escape of six bytes
		return "", err
	}
	text, err := json.Marshal(v)
	return string(text), err
}
