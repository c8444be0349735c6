package ledger

import (
	"context"
	"crypto/rand"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// Folding replaces several done rows by one row, which contains their sums. One transaction inserts this folded row and
// deletes the done rows. If one of them is gone, the transaction fails. So at every moment, a step is counted once, in
// its own row or in one folded row.
//
// The key of a folded row begins with "d|-L|", where L is the row's level. Rows of one level are folded into one row of
// the next level, so the number of rows grows with the logarithm of the number of steps. Folded rows sort before other
// done rows, and have the same properties.

// maxFold is the maximum number of rows that a fold replaces. The fold's transaction has one more operation, which
// inserts the folded row.
const maxFold = storage.MaxBatchRows - 1

const maxLevel = 9

// Join merges several notes into one, which may have fewer details.
type Join func(notes [][]byte) []byte

func isFolded(e storage.Entity) bool { return strings.HasPrefix(e.Key.Row, foldedPrefix) }

func levelPrefix(level int) string { return fmt.Sprintf("%s%d|", foldedPrefix, level) }

// level returns the range of a scan's done rows of level n. Rows of single steps have level 0.
func level(id ScanID, n int) key.Range {
	if n == 0 {
		return key.Range{Partition: id.partition(), Low: &key.Bound{Key: donePrefix + "0"}, High: &key.Bound{Key: donePrefix + ":", Open: true}}
	}
	return id.rows(levelPrefix(n))
}

// Folds replaces the ledger's rows of done steps by fewer rows.
type Folds struct{ rows }

// FoldEvery is the average number of steps that a fold replaces. A fold costs two requests.
const FoldEvery = 48

// FoldAfter is called after each step's commit. On average, it folds after one in N commits, where N is the value
// of the argument `every`. The processes have no common counter of commits, so a hash of the step's id decides whether
// FoldAfter folds. Each level is folded N times less often than the level below it, so each fold replaces about N rows.
func (l Folds) FoldAfter(ctx context.Context, id ScanID, step StepID, every int, join Join) error {
	h := fnv.New64a()
	h.Write([]byte(step))
	for n, level := h.Sum64(), 0; n%uint64(every) == 0 && level < maxLevel; n, level = n/uint64(every), level+1 {
		if _, err := l.Fold(ctx, id, level, max(2, every/4), join); err != nil {
			return err
		}
	}
	return nil
}

// Fold folds the scan's done rows of level n, and returns how many rows it has folded. If there are fewer rows than
// `minimum`, it folds none. Several processes may fold at the same time. If a row is missing, another process has folded it,
// and Fold stops.
func (l Folds) Fold(ctx context.Context, id ScanID, n, minimum int, join Join) (int, error) {
	p, err := l.query(ctx, "fold steps of scan "+string(id), storage.Query{Range: level(id, n)})
	if err != nil {
		return 0, err
	}
	return l.foldRows(ctx, id, p.Entities(), min(n+1, maxLevel), minimum, join)
}

// FoldAll folds at most one page of the scan's done rows, of any level. It reports true if the scan had at most one
// done row.
func (l Folds) FoldAll(ctx context.Context, id ScanID, join Join) (whole bool, err error) {
	p, err := l.query(ctx, "fold steps of scan "+string(id), storage.Query{Range: id.rows(donePrefix)})
	if err != nil {
		return false, err
	}
	if p.Next == nil && len(p.Rows) <= 1 {
		return true, nil
	}
	_, err = l.foldRows(ctx, id, p.Entities(), maxLevel, 2, join)
	return false, err
}

func (l Folds) foldRows(ctx context.Context, id ScanID, rows []storage.Entity, into, minimum int, join Join) (int, error) {
	folded := 0
	for some := range slices.Chunk(rows, maxFold) {
		if len(some) < min(minimum, maxFold) {
			break
		}
		err := l.write(ctx, "fold steps of scan "+string(id), fold(id, some, into, join)...)
		if storage.NotFound(err) {
			return folded, nil // another process, or this call's first try, has folded the rows
		}
		if err != nil {
			return folded, err
		}
		folded += len(some)
	}
	return folded, nil
}

func fold(id ScanID, rows []storage.Entity, into int, join Join) []storage.Op {
	var ops []storage.Op
	var sums Sums
	var notes [][]byte
	for _, e := range rows {
		ops = append(ops, op(storage.Delete, id, e.Key.Row))
		sums.add(sumsOf(e))
		if note := e.Bytes("Note"); note != nil {
			notes = append(notes, note)
		}
	}
	folded := append(properties(sums.counts()), storage.BinaryProperty("Times", sums.Times.pack()))
	if !sums.Last.IsZero() {
		folded = append(folded, storage.TimeProperty("LastAt", sums.Last))
	}
	if note := join(notes); len(note) > 0 {
		folded = append(folded, storage.BinaryProperty("Note", note))
	}
	return append(ops, op(storage.Insert, id, levelPrefix(into)+rand.Text(), folded...))
}

// Notes calls fn with the note of each done row. If another process folds rows at the same time, fn may miss notes,
// or get notes twice.
func (l Folds) Notes(ctx context.Context, id ScanID, fn func(note []byte)) error {
	q := storage.Query{Range: id.rows(donePrefix), Select: []string{"Note"}}
	for p, err := range l.pages(ctx, "read notes of scan "+string(id), q) {
		if err != nil {
			return err
		}
		for _, e := range p.Entities() {
			if note := e.Bytes("Note"); note != nil {
				fn(note)
			}
		}
	}
	return nil
}
