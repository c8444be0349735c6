package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// dataPiece is how many bytes of a long value one property contains. The service's limit is 64 KiB.
const dataPiece = 60 << 10

// dataProperties divides a long value into the Binary properties Data00, Data01, ….
func dataProperties(data []byte) (properties []storage.Property) {
	for piece := range slices.Chunk(data, dataPiece) {
		properties = append(properties, storage.BinaryProperty(fmt.Sprintf("Data%02d", len(properties)), piece))
	}
	return properties
}

func dataOf(e storage.Entity) []byte {
	var data []byte
	for i := range e.Properties {
		data = append(data, e.Bytes(fmt.Sprintf("Data%02d", i))...)
	}
	return data
}

// MaxFailed is the maximum number of bytes in [Done.FailedRows]. It leaves room in the transaction for a step's
// children.
const MaxFailed = 4 * dataPiece

// failedPerQuery is the number of rows that a query of [ScanData.FailedRows] reads.
const failedPerQuery = 10

// ScanData is the part of the ledger that stores a scan's failed rows, files and hints, and how
// much of the scan's limits is used.
type ScanData struct{ rows }

// FailedRows calls fn with [Done.FailedRows] of each step, newest commit first, until fn returns false. The function fn
// also gets the step's position in this order. FailedRows begins at the position in the argument `from`. If `from` is "",
// it begins with the newest commit.
func (l ScanData) FailedRows(ctx context.Context, id ScanID, from string, fn func(position string, failed []byte) bool) error {
	r := id.rows(failedPrefix)
	r.Low = &key.Bound{Key: failedPrefix + from}
	for p, err := range l.pages(ctx, readFailed+string(id), storage.Query{Range: r, Top: failedPerQuery}) {
		if err != nil {
			return err
		}
		for _, e := range p.Entities() {
			if !fn(strings.TrimPrefix(e.Key.Row, failedPrefix), dataOf(e)) {
				return nil
			}
		}
	}
	return nil
}

const readFailed = "read failed rows of scan "

// FailedAt returns the failed rows at a position. If a retry has processed these rows, the second result is false.
func (l ScanData) FailedAt(ctx context.Context, id ScanID, position string) ([]byte, bool, error) {
	e, found, err := l.get(ctx, readFailed+string(id), string(id), failedPrefix+position)
	return dataOf(e), found, err
}

// FailedBefore returns positions of rows that failed before an attempt. It begins after the position `previous`, and reads
// pages of n positions until a page contains a row that failed before the attempt. The result `last` is the last position
// on this page, or "" if all positions were read.
func (l ScanData) FailedBefore(ctx context.Context, id ScanID, previous string, attempt int64, n int) (positions []string, last string, err error) {
	r := id.rows(failedPrefix)
	r.Low = &key.Bound{Key: failedPrefix + previous, Open: previous != ""}
	for p, err := range l.pages(ctx, readFailed+string(id), storage.Query{Range: r, Select: []string{"Attempt"}, Top: n}) {
		if err != nil {
			return nil, "", err
		}
		for _, e := range p.Entities() {
			last = strings.TrimPrefix(e.Key.Row, failedPrefix)
			if e.Int("Attempt") < attempt {
				positions = append(positions, last)
			}
		}
		if p.Next != nil && len(positions) > 0 {
			return positions, last, nil
		}
	}
	return positions, "", nil
}

func (l ScanData) firstFailed(ctx context.Context, id ScanID) (string, error) {
	for p, err := range l.pages(ctx, readFailed+string(id), storage.Query{Range: id.rows(failedPrefix), Select: []string{"First"}, Top: 1}) {
		if err != nil {
			return "", err
		}
		for _, e := range p.Entities() {
			return e.Get("First"), nil
		}
	}
	return "", nil
}

// MaxFile is the maximum number of bytes in [Done.File]. The file is stored in one row, and a row has at most 1 MiB.
const MaxFile = 14 * dataPiece

// Files calls fn with the [Done.File] of each done step that has one. If no step is pending, these are all files of the
// scan.
func (l ScanData) Files(ctx context.Context, id ScanID, fn func(file []byte) error) error {
	for p, err := range l.pages(ctx, "read files of scan "+string(id), storage.Query{Range: id.rows(filePrefix)}) {
		if err != nil {
			return err
		}
		for _, e := range p.Entities() {
			if err := fn(dataOf(e)); err != nil {
				return err
			}
		}
	}
	return nil
}

// A scan stores hints for the next scan of the same rows. They are in the partition "hints", under a name that
// identifies the rows. Each scan keeps a copy of the hints with which it was started, because a running scan's hints
// must not change.
const (
	hintsPartition = "hints"
	scanHintsRow   = "h"

	// MaxHints is the maximum number of bytes in hints. The hints are stored in one row, and a row has at most 1 MiB.
	MaxHints = 14 * dataPiece
)

// SaveHints replaces the hints under a name. The argument `hints` has at most MaxHints bytes.
func (l ScanData) SaveHints(ctx context.Context, name string, hints []byte) error {
	return l.write(ctx, "save hints", op(storage.Replace, hintsPartition, name, dataProperties(hints)...))
}

// SavedHints returns the hints under a name, or nil if there are none or the name is "".
func (l ScanData) SavedHints(ctx context.Context, name string) ([]byte, error) {
	if name == "" {
		return nil, nil
	}
	return l.hints(ctx, hintsPartition, name)
}

// Hints returns the hints with which the scan was created, or nil.
func (l ScanData) Hints(ctx context.Context, id ScanID) ([]byte, error) {
	return l.hints(ctx, string(id), scanHintsRow)
}

func (l ScanData) hints(ctx context.Context, partition, row string) ([]byte, error) {
	e, _, err := l.get(ctx, "read hints", partition, row)
	return dataOf(e), err
}
