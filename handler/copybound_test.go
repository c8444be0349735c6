package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// boundCopier is the minimal program that copies a table: it reads one page after the other with net/http, and 128 writers send the rows' JSON unchanged. It
// assumes one service's form of JSON, trusts every key, retries nothing, and checks only statuses. The command copy is compared with this program.
type boundCopier struct {
	client   http.Client
	endpoint *url.URL
	account  string
	key      []byte
}

const boundWriters = 128

// boundMain runs the minimal program. The connection is in AzureWebJobsStorage, and the tables' names are its arguments.
func boundMain() {
	c := boundCopier{client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: boundWriters}}}
	for field := range strings.SplitSeq(os.Getenv("AzureWebJobsStorage"), ";") {
		switch name, value, _ := strings.Cut(field, "="); name {
		case "TableEndpoint":
			c.endpoint, _ = url.Parse(value)
		case "AccountName":
			c.account = value
		case "AccountKey":
			c.key, _ = base64.StdEncoding.DecodeString(value)
		}
	}
	if err := c.copy(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (c *boundCopier) copy(from, to string) error {
	units := make(chan []boundRow, boundWriters)
	failed := make(chan error, boundWriters)
	var writers sync.WaitGroup
	for range boundWriters {
		writers.Go(func() {
			var body, answer bytes.Buffer
			for u := range units {
				if err := c.write(to, u, &body, &answer); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	err := c.read(from, units, failed)
	close(units)
	writers.Wait()
	close(failed)
	return errors.Join(err, <-failed)
}

// read sends the rows of one partition to units, up to a hundred at a time.
func (c *boundCopier) read(table string, units chan<- []boundRow, failed <-chan error) error {
	for query := "?$top=1000"; ; {
		resp, err := c.send("GET", "/"+table+"()"+query, "", nil)
		if err != nil {
			return err
		}
		page, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("query: %s, %w", resp.Status, err)
		}
		rows := boundRows(page)
		for len(rows) > 0 {
			n := 1
			for n < min(len(rows), 100) && string(rows[n].partition) == string(rows[0].partition) {
				n++
			}
			select {
			case units <- rows[:n]:
			case err := <-failed:
				return err
			}
			rows = rows[n:]
		}
		next := resp.Header.Get("x-ms-continuation-NextPartitionKey")
		if next == "" {
			return nil
		}
		query = "?$top=1000&NextPartitionKey=" + url.QueryEscape(next) + "&NextRowKey=" + url.QueryEscape(resp.Header.Get("x-ms-continuation-NextRowKey"))
	}
}

// boundRow is a row's JSON, and its keys without quotes.
type boundRow struct{ json, partition, row []byte }

// boundRows splits a page into rows.
func boundRows(page []byte) []boundRow {
	var rows []boundRow
	page = page[bytes.Index(page, []byte(`"value":[`))+len(`"value":[`):]
	start, quoted := 0, false
	for i := 0; i < len(page); i++ {
		switch ch := page[i]; {
		case ch == '\\':
			i++
		case ch == '"':
			quoted = !quoted
		case quoted:
		case ch == '{':
			start = i
		case ch == '}':
			row := page[start : i+1]
			rows = append(rows, boundRow{row, boundValue(row, `"PartitionKey":"`), boundValue(row, `"RowKey":"`)})
		case ch == ']':
			return rows
		}
	}
	return rows
}

func boundValue(row []byte, name string) []byte {
	v := row[bytes.Index(row, []byte(name))+len(name):]
	return v[:bytes.IndexByte(v, '"')]
}

func (c *boundCopier) write(table string, rows []boundRow, body, answer *bytes.Buffer) error {
	path := func(r boundRow) string {
		return "/" + table + "(PartitionKey='" + url.PathEscape(string(r.partition)) + "',RowKey='" + url.PathEscape(string(r.row)) + "')"
	}
	method, target, kind, payload := "PUT", path(rows[0]), "application/json", rows[0].json
	if len(rows) > 1 {
		method, target, kind = "POST", "/$batch", "multipart/mixed; boundary=b"
		body.Reset()
		body.WriteString("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n")
		for _, r := range rows {
			body.WriteString("--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nPUT ")
			body.WriteString(c.endpoint.String())
			body.WriteString(path(r))
			body.WriteString(" HTTP/1.1\r\nContent-Type: application/json\r\n\r\n")
			body.Write(r.json)
			body.WriteString("\r\n")
		}
		body.WriteString("--c--\r\n--b--\r\n")
		payload = body.Bytes()
	}
	resp, err := c.send(method, target, kind, payload)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer.Reset()
	if _, err := answer.ReadFrom(resp.Body); err != nil {
		return err
	}
	if resp.StatusCode > 299 || bytes.Contains(answer.Bytes(), []byte("HTTP/1.1 4")) || bytes.Contains(answer.Bytes(), []byte("HTTP/1.1 5")) {
		return fmt.Errorf("write: %s", resp.Status)
	}
	return nil
}

func (c *boundCopier) send(method, target, contentType string, body []byte) (*http.Response, error) {
	req, err := http.NewRequest(method, c.endpoint.String()+target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	date := time.Now().UTC().Format(http.TimeFormat)
	mac := hmac.New(sha256.New, c.key)
	io.WriteString(mac, date+"\n/"+c.account+req.URL.EscapedPath())
	req.Header.Set("Authorization", "SharedKeyLite "+c.account+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	req.Header.Set("x-ms-date", date)
	req.Header.Set("x-ms-version", "2019-02-02")
	req.Header.Set("Accept", "application/json;odata=minimalmetadata")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	return c.client.Do(req)
}
