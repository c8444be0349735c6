// Package fault decides which requests to an emulated service fail, and how.
//
// A spec is a list of rules, such as
//
//	seed=7; latency=2ms..20ms; busy p=0.01 retry-after=1s; timeout-after p=0.01 on=batch,insert
//
// An [Injector] applies a spec. For a [Request], it returns a [Plan], which the caller carries out. A random draw depends only on the seed, the rule,
// the request's identity (such as table and keys) and the number of earlier requests with this identity. So the order of
// requests with different identities does not matter. Rate limits depend on the time, which the caller passes.
//
// # Rules
//
// Semicolons separate rules, and spaces separate a rule's options.
//
//	seed=N                       the seed of all random draws; 0 if absent
//	latency=A or latency=A..B    every request takes this long, or a random time in this range
//	busy p=P [retry-after=D]     503 ServerBusy, not carried out
//	timeout-before p=P           500 OperationTimedOut, not carried out
//	timeout-after p=P            500 OperationTimedOut, but carried out
//	reset-before p=P             connection reset, not carried out
//	reset-after p=P              connection reset, but carried out
//	html p=P                     200 with a proxy's page, not carried out
//	empty p=P                    200 with an empty body, not carried out
//	braces p=P                   200 with {}, not carried out
//	half p=P                     carried out; the answer ends halfway, and its header fits this half
//	short-page p=P [rows=N]      a page of a query or of a list of blobs ends early, with a token;
//	                             after N rows if it would have more
//	empty-page p=P               a query's page has no rows, but a token; with P=1 and
//	                             without times= a query never ends
//	duplicate p=P                a queue message is stored twice, and therefore delivered twice
//	delay p=P by=D               a queue message is delivered later, and therefore out of order
//	account-rate=N [retry-after=D]    503 above N requests per second
//	partition-rate=N [retry-after=D]  503 above N entities (messages) per second in a
//	                             partition (queue); a query counts if it is
//	                             confined to one partition
//	deletion=D                   for this time, uses of the name of a deleted table, queue
//	                             or container get TableBeingDeleted or a similar error
//
// Every rule accepts options that restrict it: on=KIND,KIND… (see [Kinds]), table=NAME, queue=NAME, and times=N, which
// restricts the rule to the first N requests with the same identity.
package fault

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Name is a rule's name, in specs and in counts.
type Name string

// The rules' names.
const (
	Latency       Name = "latency"
	Busy          Name = "busy"
	TimeoutBefore Name = "timeout-before"
	TimeoutAfter  Name = "timeout-after"
	ResetBefore   Name = "reset-before"
	ResetAfter    Name = "reset-after"
	HTML          Name = "html"
	Empty         Name = "empty"
	Braces        Name = "braces"
	Half          Name = "half"
	ShortPage     Name = "short-page"
	EmptyPage     Name = "empty-page"
	Duplicate     Name = "duplicate"
	Delay         Name = "delay"
	AccountRate   Name = "account-rate"
	PartitionRate Name = "partition-rate"
	Deletion      Name = "deletion"
)

// Kind is a kind of request.
type Kind string

// The kinds of requests to the Table, Queue and Blob services, in this order.
const (
	Query  Kind = "query"  // of entities
	Point  Kind = "point"  // one entity, by key
	Insert Kind = "insert" // one entity
	Update Kind = "update" // replace or upsert one entity
	Merge  Kind = "merge"  // merge one entity
	Delete Kind = "delete" // one entity
	Batch  Kind = "batch"  // an entity group transaction
	Tables Kind = "tables" // create, delete and list tables

	Put           Kind = "put"
	Get           Kind = "get"
	Peek          Kind = "peek"
	UpdateMessage Kind = "update-message"
	DeleteMessage Kind = "delete-message"
	Clear         Kind = "clear"
	Queues        Kind = "queues" // create, delete and list queues; read and set their metadata

	PutBlob    Kind = "put-blob"
	GetBlob    Kind = "get-blob"
	ListBlobs  Kind = "list-blobs"
	DeleteBlob Kind = "delete-blob"
	Containers Kind = "containers" // create containers
)

// Kinds returns all kinds of requests.
func Kinds() []Kind {
	return []Kind{Query, Point, Insert, Update, Merge, Delete, Batch, Tables,
		Put, Get, Peek, UpdateMessage, DeleteMessage, Clear, Queues,
		PutBlob, GetBlob, ListBlobs, DeleteBlob, Containers}
}

// Applied reports whether a request with this fault is carried out before it fails.
func (n Name) Applied() bool { return n == TimeoutAfter || n == ResetAfter || n == Half }

// rule describes one fault, and the requests to which the fault applies.
type rule struct {
	name       Name
	p          float64       // probability, for the rules that have one
	rate       float64       // for the rate limits: requests per second, or entities and messages per second
	min, max   time.Duration // for latency
	by         time.Duration // for delay and deletion
	retryAfter time.Duration // for the header Retry-After of answers with status 503; 0 for no header
	rows       int           // for short-page: the page's length, or 0 for a random one

	on    []Kind // empty for every kind
	table string // "" for every table
	queue string // "" for every queue
	times int    // 0 for no limit
}

// shape is the form of a rule's value.
type shape uint8

const (
	unknown  shape = iota
	chance         // p=P
	interval       // =A..B
	rate           // =N
	duration       // =D
)

func (n Name) shape() shape {
	switch n {
	case Busy, TimeoutBefore, TimeoutAfter, ResetBefore, ResetAfter, HTML, Empty, Braces, Half, ShortPage, EmptyPage, Duplicate, Delay:
		return chance
	case Latency:
		return interval
	case AccountRate, PartitionRate:
		return rate
	case Deletion:
		return duration
	}
	return unknown
}

// parse parses a spec, and stores its rules in the injector. The error names the invalid word.
func (in *Injector) parse(spec string) error {
	var read []string
	for part := range strings.SplitSeq(spec, ";") {
		words := strings.Fields(part)
		if len(words) == 0 {
			continue
		}
		read = append(read, strings.Join(words, " "))
		if value, ok := strings.CutPrefix(words[0], "seed="); ok {
			seed, err := strconv.ParseUint(value, 10, 64)
			if err != nil || len(words) > 1 {
				return wrong(part, "seed takes one whole number")
			}
			in.seed = seed
			continue
		}
		r, err := parseRule(words)
		if err != nil {
			return err
		}
		in.rules = append(in.rules, r)
	}
	in.spec = strings.Join(read, "; ")
	return nil
}

func wrong(word, why string) error {
	return fmt.Errorf("fault spec: %q: %s", strings.TrimSpace(word), why)
}

func parseRule(words []string) (rule, error) {
	name, value, hasValue := strings.Cut(words[0], "=")
	r := rule{name: Name(name), p: -1}
	kind := r.name.shape()
	if kind == unknown {
		return r, wrong(words[0], "unknown fault")
	}
	if hasValue == (kind == chance) {
		return r, wrong(words[0], "write a probability as name p=0.1, and a value as name=value")
	}
	if kind != chance {
		r.p = 1
		if err := r.parseValue(kind, value); err != nil {
			return r, wrong(words[0], err.Error())
		}
	}
	for _, word := range words[1:] {
		if err := r.parseOption(word); err != nil {
			return r, wrong(word, err.Error())
		}
	}
	switch {
	case r.p < 0:
		return r, wrong(words[0], "needs p=")
	case r.name == Delay && r.by == 0:
		return r, wrong(words[0], "needs by=")
	}
	return r, nil
}

func (r *rule) parseValue(kind shape, value string) (err error) {
	switch kind {
	case interval:
		low, high, isRange := strings.Cut(value, "..")
		if !isRange {
			high = low
		}
		if r.min, err = parseDuration(low); err == nil {
			r.max, err = parseDuration(high)
		}
		if err == nil && r.max < r.min {
			err = fmt.Errorf("the end of the range is less than its start")
		}
	case rate:
		if r.rate, err = strconv.ParseFloat(value, 64); err != nil || !(r.rate > 0) {
			err = fmt.Errorf("a rate is a number above 0")
		}
	case duration:
		r.by, err = parseDuration(value)
	}
	return err
}

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a duration such as 20ms", s)
	}
	return d, nil
}

func (r *rule) parseOption(word string) (err error) {
	name, value, _ := strings.Cut(word, "=")
	switch {
	case name == "p" && r.name.shape() == chance:
		if r.p, err = strconv.ParseFloat(value, 64); err != nil || !(r.p >= 0 && r.p <= 1) {
			err = fmt.Errorf("a probability is a number from 0 to 1")
		}
	case name == "rows" && r.name == ShortPage:
		if r.rows, err = strconv.Atoi(value); err != nil || r.rows < 1 {
			err = fmt.Errorf("rows is a whole number above 0")
		}
	case name == "by" && r.name == Delay:
		r.by, err = parseDuration(value)
	case name == "retry-after" && (r.name == Busy || r.name.shape() == rate):
		r.retryAfter, err = parseDuration(value)
	case name == "table" && value != "":
		r.table = value
	case name == "queue" && value != "":
		r.queue = value
	case name == "times":
		if r.times, err = strconv.Atoi(value); err != nil || r.times < 1 {
			err = fmt.Errorf("times is a whole number above 0")
		}
	case name == "on":
		for kind := range strings.SplitSeq(value, ",") {
			if !slices.Contains(Kinds(), Kind(kind)) {
				return fmt.Errorf("%q is not a kind of request; there are %v", kind, Kinds())
			}
			r.on = append(r.on, Kind(kind))
		}
	default:
		err = fmt.Errorf("not an option of %s", r.name)
	}
	return err
}
