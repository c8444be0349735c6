package emulator

import (
	"cmp"
	"encoding/xml"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tablesweep/internal/local/emulator/entity"
	"tablesweep/internal/local/emulator/fault"
	"tablesweep/internal/local/emulator/queue"
	"tablesweep/internal/local/emulator/refusal"
)

// queueService is the part of the pipeline for the Queue service.
type queueService struct{ *Emulator }

// The service's limits on messages.
// https://learn.microsoft.com/rest/api/storageservices/put-message
const (
	maxMessageBytes = 64 << 10 // bytes of decoded text
	maxQueueBody    = 131_584  // bytes; measured on the live service, because the limit is not documented
	maxMessages     = 32       // per get or peek
	maxQueues       = 5000     // per list
	maxVisibility   = 7 * 24 * 60 * 60
	defaultTTL      = 7 * 24 * 60 * 60
	defaultHidden   = 30
	endlessTTL      = 1 << 33 // seconds, about 270 years; longer times overflow

	// https://learn.microsoft.com/rest/api/storageservices/setting-and-retrieving-properties-and-metadata-for-queue-resources
	maxMetadataBytes = 8 << 10
)

func (s queueService) maxBody() int64 { return maxQueueBody }

func (s queueService) headers(h http.Header, c *call, status int) {
	if c.Method == http.MethodGet && status == http.StatusOK {
		h.Set("Cache-Control", "no-cache")
	}
}

func (s queueService) failure(c *call, p *refusal.Error) response {
	details := append([][2]string{{"Code", p.Code}, {"Message", p.Message + c.trace(time.Now())}}, p.Details...)
	return xmlResponse(p.Status(), errorXML(details))
}

// parse handles /, /queue, /queue/messages and /queue/messages/id.
func (s queueService) parse(c *call) (operation, error) {
	parts := strings.Split(strings.TrimPrefix(c.path, "/"), "/")
	op := operation{Request: fault.Request{Queue: parts[0], Confined: parts[0] != "", Entities: 1}}
	switch {
	case len(parts) == 1 && parts[0] == "":
		return s.parseList(c, op)
	case len(parts) == 1:
		return s.parseQueue(c, op)
	case len(parts) == 2 && parts[1] == "messages":
		return s.parseMessages(c, op)
	case len(parts) == 3 && parts[1] == "messages":
		return s.parseMessage(c, op, parts[2])
	}
	return op, notImplemented()
}

func (s queueService) parseList(c *call, op operation) (operation, error) {
	if c.Method != http.MethodGet || c.query.Get("comp") != "list" {
		return op, notImplemented()
	}
	most, err := number(c.query, "maxresults", 0, 1, math.MaxInt)
	if err != nil {
		return op, err
	}
	limit := min(cmp.Or(most, maxQueues), maxQueues)
	tokens := "/" + s.account + "/" // every marker of the list begins with this text
	from := strings.TrimPrefix(c.query.Get("marker"), tokens)
	withMetadata := slices.Contains(strings.Split(c.query.Get("include"), ","), "metadata")
	op.Kind, op.Identity = fault.Queues, "queues?"+c.URL.RawQuery
	op.run = func(now time.Time, _ fault.Plan) (response, error) {
		type entry struct {
			Name     string
			Metadata *elements
		}
		list := struct {
			XMLName         xml.Name `xml:"EnumerationResults"`
			ServiceEndpoint string   `xml:",attr"`
			Prefix          string   `xml:",omitempty"`
			Marker          string   `xml:",omitempty"`
			MaxResults      int      `xml:",omitempty"`
			Queues          []entry  `xml:"Queues>Queue"`
			NextMarker      string
		}{ServiceEndpoint: s.base(c) + "/", Prefix: c.query.Get("prefix"), Marker: c.query.Get("marker"), MaxResults: most}
		for _, name := range s.queues.Names() {
			switch {
			case !strings.HasPrefix(name, list.Prefix) || name < from:
			case len(list.Queues) < limit:
				next := entry{Name: name}
				if withMetadata {
					if q, err := s.queues.Get(name, now); err == nil { // the queue may have been deleted just now
						next.Metadata = sortedElements(q.Metadata())
					}
				}
				list.Queues = append(list.Queues, next)
			case list.NextMarker == "":
				list.NextMarker = tokens + name
			}
		}
		return xmlResponse(http.StatusOK, list), nil
	}
	return op, nil
}

func (s queueService) parseQueue(c *call, op operation) (operation, error) {
	op.Kind, op.Identity = fault.Queues, c.Method+" queue "+op.Queue
	metadata, err := parseMetadata(c.Header)
	if err != nil {
		return op, err
	}
	switch method, comp := c.Method, c.query.Get("comp"); {
	case method == http.MethodPut && comp == "":
		op.run = func(now time.Time, _ fault.Plan) (response, error) {
			created, err := s.queues.Create(op.Queue, metadata, now)
			if created {
				return response{status: http.StatusCreated}, err
			}
			return response{status: http.StatusNoContent}, err
		}
	case method == http.MethodDelete && comp == "":
		op.run = func(now time.Time, plan fault.Plan) (response, error) {
			if err := s.queues.Delete(op.Queue, now, plan.Deletion); err != nil {
				return response{}, err
			}
			s.deleting(plan)
			return response{status: http.StatusNoContent}, nil
		}
	case method == http.MethodPut && comp == "metadata":
		op.run = s.onQueue(op.Queue, func(q *queue.Queue, _ time.Time, _ fault.Plan) (response, error) {
			q.SetMetadata(metadata)
			return response{status: http.StatusNoContent}, nil
		})
	case (method == http.MethodGet || method == http.MethodHead) && comp == "metadata":
		op.run = s.onQueue(op.Queue, func(q *queue.Queue, now time.Time, _ fault.Plan) (response, error) {
			r := response{status: http.StatusOK}
			r.set("X-Ms-Approximate-Messages-Count", strconv.Itoa(q.Count(now)))
			for name, value := range q.Metadata() {
				r.set(metadataPrefix+name, value)
			}
			return r, nil
		})
	default:
		return op, notImplemented()
	}
	return op, nil
}

const metadataPrefix = "x-ms-meta-"

// parseMetadata reads the name-value pairs in a request's header. The services keep the case of the names. But
// net/http changes the case, so the emulator uses lower case.
func parseMetadata(h http.Header) (map[string]string, error) {
	metadata := make(map[string]string)
	size := 0
	for header, values := range h {
		name, is := strings.CutPrefix(strings.ToLower(header), metadataPrefix)
		switch {
		case !is:
			continue
		case name == "":
			return nil, refusal.New("EmptyMetadataKey", "The key for one of the metadata key-value pairs is empty.")
		case !entity.IsIdentifier(name):
			return nil, invalidMetadata("The name has characters that are not permitted: " + name)
		case len(values) > 1:
			return nil, invalidMetadata("A name occurs twice: " + name)
		}
		metadata[name] = values[0]
		size += len(name) + len(values[0])
	}
	if size > maxMetadataBytes {
		return nil, refusal.New("MetadataTooLarge", "The size of the specified metadata exceeds the maximum size permitted.")
	}
	return metadata, nil
}

func invalidMetadata(why string) error {
	return refusal.New("InvalidMetadata", "The metadata specified is invalid. "+why+".")
}

// onQueue returns a function that finds the queue and passes it to `do`.
func (s queueService) onQueue(name string, do func(*queue.Queue, time.Time, fault.Plan) (response, error)) run {
	return func(now time.Time, plan fault.Plan) (response, error) {
		q, err := s.queues.Get(name, now)
		if err != nil {
			return response{}, err
		}
		return do(q, now, plan)
	}
}

func (s queueService) parseMessages(c *call, op operation) (operation, error) {
	switch c.Method {
	case http.MethodPost:
		return s.parsePut(c, op)
	case http.MethodDelete:
		op.Kind, op.Identity = fault.Clear, "clear "+op.Queue
		op.run = s.onQueue(op.Queue, func(q *queue.Queue, _ time.Time, _ fault.Plan) (response, error) {
			q.Clear()
			return response{status: http.StatusNoContent}, nil
		})
		return op, nil
	case http.MethodGet:
	default:
		return op, wrongVerb(c)
	}
	n, err := number(c.query, "numofmessages", 1, 1, maxMessages)
	if err != nil {
		return op, err
	}
	if strings.EqualFold(c.query.Get("peekonly"), "true") {
		op.Kind, op.Identity = fault.Peek, "peek "+op.Queue
		op.run = s.onQueue(op.Queue, func(q *queue.Queue, now time.Time, _ fault.Plan) (response, error) {
			return messageList(q.Peek(now, n), (*messageXML).peeked), nil
		})
		return op, nil
	}
	hidden, err := number(c.query, "visibilitytimeout", defaultHidden, 1, maxVisibility)
	op.Kind, op.Identity = fault.Get, "get "+op.Queue
	op.run = s.onQueue(op.Queue, func(q *queue.Queue, now time.Time, _ fault.Plan) (response, error) {
		messages := q.Get(now, n, now.Add(seconds(hidden)))
		s.counts.results(0, len(messages))
		s.injector.Load().Charge(now, op.Request, len(messages)-1) // for the rate limits, the request has already counted as one message
		r := messageList(messages, (*messageXML).received)
		r.found = len(messages)
		return r, nil
	})
	return op, err
}

func (s queueService) parsePut(c *call, op operation) (operation, error) {
	ttl, err := number(c.query, "messagettl", defaultTTL, -1, math.MaxInt)
	if err != nil {
		return op, err
	}
	hidden, err := number(c.query, "visibilitytimeout", 0, 0, maxVisibility)
	if err != nil {
		return op, err
	}
	if ttl >= 0 && hidden >= ttl {
		return op, invalidParameter("visibilitytimeout", c.query.Get("visibilitytimeout"), "messagettl must be greater than visibilitytimeout")
	}
	text, err := messageText(c.body)
	if err != nil {
		return op, err
	}
	op.Kind, op.Identity = fault.Put, "put "+op.Queue+"\x00"+text
	op.run = s.onQueue(op.Queue, func(q *queue.Queue, now time.Time, plan fault.Plan) (response, error) {
		expires := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) // the service's expiration time for messages that never expire
		if ttl > 0 && ttl < endlessTTL {
			expires = now.Add(seconds(ttl))
		}
		if plan.Copies > 1 {
			s.injector.Load().Fired(fault.Duplicate)
		}
		if plan.Delay > 0 {
			s.injector.Load().Fired(fault.Delay)
		}
		m := q.Put(now, text, now.Add(seconds(hidden)+plan.Delay), expires, plan.Copies)
		r := messageList([]queue.Message{m}, (*messageXML).put)
		r.status = http.StatusCreated
		return r, nil
	})
	return op, nil
}

func (s queueService) parseMessage(c *call, op operation, id string) (operation, error) {
	receipt := c.query.Get("popreceipt")
	if receipt == "" {
		return op, missingParameter("popreceipt")
	}
	switch c.Method {
	case http.MethodDelete:
		op.Kind, op.Identity = fault.DeleteMessage, "delete "+op.Queue+" "+id
		op.run = s.onQueue(op.Queue, func(q *queue.Queue, now time.Time, _ fault.Plan) (response, error) {
			return response{status: http.StatusNoContent}, q.Delete(now, id, receipt)
		})
		return op, nil
	case http.MethodPut:
	default:
		return op, wrongVerb(c)
	}
	if !c.query.Has("visibilitytimeout") {
		return op, missingParameter("visibilitytimeout")
	}
	hidden, err := number(c.query, "visibilitytimeout", 0, 0, maxVisibility)
	if err != nil {
		return op, err
	}
	var text *string
	if len(c.body) > 0 {
		content, err := messageText(c.body)
		if err != nil {
			return op, err
		}
		text = &content
	}
	op.Kind, op.Identity = fault.UpdateMessage, "update "+op.Queue+" "+id
	op.run = s.onQueue(op.Queue, func(q *queue.Queue, now time.Time, _ fault.Plan) (response, error) {
		m, err := q.Update(now, id, receipt, now.Add(seconds(hidden)), text)
		if err != nil {
			return response{}, err
		}
		r := response{status: http.StatusNoContent}
		r.set("X-Ms-Popreceipt", m.PopReceipt)
		r.set("X-Ms-Time-Next-Visible", m.Visible.UTC().Format(http.TimeFormat))
		return r, nil
	})
	return op, nil
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// number returns the integer in a parameter of the URL's query, or `absent` if the parameter is missing.
func number(query url.Values, name string, absent, low, high int) (int, error) {
	text := query.Get(name)
	if text == "" {
		return absent, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, invalidParameter(name, text, "not a whole number")
	}
	if n < low || n > high {
		return 0, refusal.New("OutOfRangeQueryParameterValue", "One of the query parameters specified in the request URI is outside the permissible range.",
			[2]string{"QueryParameterName", name}, [2]string{"QueryParameterValue", text},
			[2]string{"MinimumAllowed", strconv.Itoa(low)}, [2]string{"MaximumAllowed", strconv.Itoa(high)})
	}
	return n, nil
}

func invalidParameter(name, value, why string) error {
	return refusal.New("InvalidQueryParameterValue", "Value for one of the query parameters specified in the request URI is invalid.",
		[2]string{"QueryParameterName", name}, [2]string{"QueryParameterValue", value}, [2]string{"Reason", why})
}

func missingParameter(name string) error {
	return refusal.New("MissingRequiredQueryParameter", "A query parameter that's mandatory for this request is not specified.",
		[2]string{"QueryParameterName", name})
}
