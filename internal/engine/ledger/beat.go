package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// A process with steps in hand writes a beat every few seconds: a row of its own in the
// partition "beats". It has Version; Steps, the ids of the steps with spaces between them; and Scans,
// the ids of their scans in the same order.
const (
	beatsPartition = "beats"
	beatVersion    = 1
	maxBeatSteps   = 1000 // a string takes 32 K characters, an id has 24
)

// Beat names the steps that a process had in hand when it wrote the beat.
type Beat struct {
	Process string
	Steps   []string      // ids
	scans   []string      // of the steps; none if an earlier version of the program wrote it
	At      time.Time     // by the service's clock
	Age     time.Duration // by the service's clock

	etag string
}

// Scan returns the id of the i-th step's scan, "" if it isn't known.
func (b Beat) Scan(i int) string {
	if i >= len(b.scans) {
		return ""
	}
	return b.scans[i]
}

// Beat writes a process's beat: the ids of the steps in hand, and of their scans.
func (l *Ledger) Beat(ctx context.Context, process string, steps, scans []string) error {
	steps, scans = steps[:min(len(steps), maxBeatSteps)], scans[:min(len(scans), maxBeatSteps)]
	err := l.table.Write(ctx, storage.Op{Kind: storage.Replace, Entity: storage.Entity{
		Key: key.Key{Partition: beatsPartition, Row: process},
		Properties: []storage.Property{
			storage.Int64Property("Version", beatVersion),
			storage.StringProperty("Steps", strings.Join(steps, " ")),
			storage.StringProperty("Scans", strings.Join(scans, " ")),
		},
	}})
	if err != nil {
		return fmt.Errorf("record what is in hand: %w", err)
	}
	return nil
}

// Beats returns the last beat of each process. A beat of another version names no steps.
func (l *Ledger) Beats(ctx context.Context) ([]Beat, error) {
	var beats []Beat
	err := l.table.All(ctx, storage.Query{Range: key.WithPrefix(beatsPartition, "")}, func(p storage.Page) error {
		for _, e := range p.Entities {
			b := Beat{Process: e.Key.Row, At: e.Timestamp, Age: p.Date.Sub(e.Timestamp), etag: e.ETag}
			if e.Int("Version") == beatVersion {
				b.Steps, b.scans = strings.Fields(e.Get("Steps")), strings.Fields(e.Get("Scans"))
			}
			beats = append(beats, b)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what is in hand: %w", err)
	}
	return beats, nil
}

// ForgetBeat removes a beat, unless its process has written another since.
func (l *Ledger) ForgetBeat(ctx context.Context, b Beat) error {
	err := l.table.Write(ctx, storage.Op{Kind: storage.Delete, IfMatch: b.etag, Entity: storage.Entity{Key: key.Key{Partition: beatsPartition, Row: b.Process}}})
	if storage.NotFound(err) || storage.HasCode(err, "UpdateConditionNotSatisfied") {
		return nil
	}
	if err != nil {
		return fmt.Errorf("forget process %s: %w", b.Process, err)
	}
	return nil
}
