package scans

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

// Hints. Each step notes where its pages ended. When a scan has ended, these ends become hints for the next scan of the
// same rows. Scans with a filter neither make nor use hints, because their pages show only the rows that match.

// HintsName returns the name under which the hints for the scan's rows are stored, or "" for a scan that makes no
// hints.
func (o *RunnableScan) HintsName() string {
	r := o.Request
	// If a scan filters rows or lists keys, its pages do not show all rows. If a scan verifies, its pages mix the rows of the
	// source and the destination. A scan of an export needs no stored hints, because the export's files show where the rows are.
	if r.Filter != "" || r.Action.Type == Keys || r.Action.Type == Verify || o.Table() == nil {
		return ""
	}
	sum := sha256.Sum256(JSON([]any{strings.ToLower(o.Source.Address()), r.Range, r.PageRows()}))
	return hex.EncodeToString(sum[:16])
}

// HintsOf turns the ends of pages into hints for a request. It returns the packed hints, or nil if there are no
// hints.
func HintsOf(r Request, ends []scan.PageEnd) []byte {
	hints := scan.NewHints(r.Range, ends, r.PageRows())
	for len(hints.Keys) > 0 {
		if b, ok := packHints(hints); ok {
			return b
		}
		// Too big for one row: keep every second hint.
		odd := false
		hints.Keys = slices.DeleteFunc(hints.Keys, func(key.Key) bool { odd = !odd; return odd })
		hints.Weigh(ends, r.PageRows())
	}
	return nil
}

// UseHints takes the hints from a source that knows where its rows are, sets them in o, and returns the packed hints.
func (o *RunnableScan) UseHints(source storage.Hinted) []byte {
	if o.Request.Action.Type == Keys {
		return nil
	}
	within := o.Request.Range.Range()
	var ends []scan.PageEnd
	source.Hints(func(last key.Key, rows int64) {
		if within.Contains(last) {
			ends = append(ends, scan.PageEnd{Last: last, Rows: int(rows)})
		}
	})
	packed := HintsOf(o.Request, ends)
	if o.Use(packed) != nil {
		return nil
	}
	return packed
}

type packedHints struct {
	Version int `json:"version"`
	scan.Hints
}

const hintsVersion = 1

// packHints returns the stored form of hints. If this form is too big for one row, ok is false.
func packHints(h scan.Hints) (packed []byte, ok bool) {
	text := JSON(packedHints{hintsVersion, h})
	packed = Pack(text)
	return packed, len(text) <= maxText && len(packed) <= ledger.MaxHints
}

// Use gives the scan a strategy that uses packed hints. If `packed` is empty, Use does nothing. For unusable
// hints, Use returns an error, because a scan with wrong hints would miss rows. For hints of a newer version, the error
// is [problem.Stale].
func (o *RunnableScan) Use(packed []byte) error {
	if len(packed) == 0 {
		return nil
	}
	h, err := unpackHints(packed)
	if err == nil {
		err = h.Check(o.Request.Range)
	}
	if err != nil {
		return err
	}
	o.Strategy = strategyOf(o.Request, &h)
	return nil
}

// ownHints makes o use the hints that are stored with the scan. The scan's steps refer to these hints. So if a newer
// version of the program stored the hints, the steps must not run in this process, and the error is [problem.Stale].
func (ss *Scans) ownHints(ctx context.Context, id ledger.ScanID, o *RunnableScan) error {
	packed, err := ss.Ledger.Hints(ctx, id)
	if err != nil {
		return err
	}
	if err = o.Use(packed); problem.FateOf(err) == problem.Done {
		return err
	}
	WarnOfHints(ctx, err)
	return nil
}

// WarnOfHints logs why hints are not used.
func WarnOfHints(ctx context.Context, err error) {
	zerolog.Ctx(ctx).Warn().Err(err).Msg("hints cannot be used; the scan divides its range without them")
}

func unpackHints(packed []byte) (scan.Hints, error) {
	text, err := Unpack(packed)
	if err != nil {
		return scan.Hints{}, fmt.Errorf("unpack hints: %w", err)
	}
	var format struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(text, &format) == nil && format.Version > hintsVersion {
		return scan.Hints{}, problem.Stalef("", "the hints have version %d, but this version of the program knows only version %d", format.Version, hintsVersion)
	}
	var h packedHints
	if err := json.Unmarshal(text, &h); err != nil {
		return scan.Hints{}, fmt.Errorf("unpack hints: %w", err)
	}
	if h.Version != hintsVersion {
		return scan.Hints{}, fmt.Errorf("the hints have version %d, but this version of the program knows only version %d", h.Version, hintsVersion)
	}
	return h.Hints, nil
}
