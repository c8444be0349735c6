package step

import (
	"context"
	"time"
	"unsafe"

	"tablesweep/internal/action"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/job/verify"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

// maxDifferences is the maximum number of differences that a scan lists. If several steps end at the same time, the
// scan may list more.
const maxDifferences = 1000

// compared is the work of a verification's step. It keeps the differences in memory, but no rows.
type compared struct {
	scans.Comparing
	done        ledger.Totals
	differences []action.Failure
	bytes       int64 // memory that the differences use
}

func (c *compared) add(_ context.Context, _ scan.Step, _ time.Time, rows []storage.Row) ([]storage.Row, error) {
	ofSource, differences := verify.Differences(rows, c.AllowExtra)
	c.done.Rows += ofSource
	for _, d := range differences {
		reason := string(d.Kind)
		switch d.Kind {
		case sweep.Missing:
			c.done.Missing++
		case sweep.Extra:
			c.done.Extra++
		default:
			c.done.Different++
			reason += ": " + d.Detail
		}
		f := action.Failure{Key: d.Key.Clone(), Reason: reason}
		c.differences = append(c.differences, f)
		c.bytes += int64(unsafe.Sizeof(f)) + int64(len(f.Key.Partition)+len(f.Key.Row)+len(f.Reason))
	}
	return nil, nil
}

func (*compared) parallel() bool { return false }

func (c *compared) uses() int64 { return c.bytes }

func (*compared) room(read int) int { return readBytes - read }

// end counts each page's differences as failed rows, so pages with differences are shown as failed ranges. Later,
// listDifferences limits how many of the differences are listed.
func (c *compared) end(_ context.Context, _ *stepScan, m scans.Message, _ int, found *readResult, out *stepResult) error {
	out.differences = c.differences
	out.done.Rows, out.done.Missing, out.done.Extra, out.done.Different = c.done.Rows, c.done.Missing, c.done.Extra, c.done.Different
	found.countFailed(out.differences, m.HandedOver)
	return nil
}

// listDifferences adds a step's differences to the step's commit, but only as many as the scan may still list.
func (s *Steps) listDifferences(ctx context.Context, scan ledger.ScanID, out *stepResult) error {
	if len(out.differences) == 0 {
		return nil
	}
	found, err := s.ledger.Snapshot(ctx, scan)
	if err != nil {
		return err
	}
	most := max(0, maxDifferences-int(found.Sums.Kept))
	scans.KeepFailed(&out.done, out.differences[:min(most, len(out.differences))], scans.KeptRows{})
	return nil
}
